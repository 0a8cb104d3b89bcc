//! What stands between a replica and its Postgres or its provider: reads along, and shows every message to a [`Gate`].
//!
//! Promise: bytes arrive as they were sent, or the connection ends. What was handed to the other side is executed there also
//! when its sender has died meanwhile, as on a real network.

mod http;
mod postgres;

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixStream},
    sync::watch,
    task::JoinSet,
};

use crate::{cluster::Place, gate::Gate};

/// A proxy on a free port of this machine. It ends with all its connections when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens on 127.0.0.1.
    pub port: u16,
    /// Where its messages can be held.
    pub gate: Gate,
    behind: Arc<Mutex<Place>>,
    open: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

/// Both directions of a connection to a server.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Proxy {
    /// Before a Postgres, which must be reached without encryption.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn postgres(behind: Place) -> anyhow::Result<Self> {
        Self::before(behind, postgres::pass).await
    }

    /// Before an HTTP/1.1 server.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn http(behind: Place) -> anyhow::Result<Self> {
        Self::before(behind, http::pass).await
    }

    /// Its address for HTTP.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// New connections lead there from now on.
    pub fn lead_to(&self, place: Place) {
        *self.behind.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// Ends all connections, and every new one at once, until [`Proxy::open`].
    pub fn close(&self) {
        self.open.send_replace(false);
    }

    /// Lets connections through again.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    async fn before<Pass, Done>(behind: Place, pass: Pass) -> anyhow::Result<Self>
    where
        Pass: Fn(TcpStream, Box<dyn Stream>, Gate) -> Done + Copy + Send + Sync + 'static,
        Done: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for a proxy")?;
        let port = listener.local_addr()?.port();
        let (gate, open) = (Gate::default(), watch::Sender::new(true));
        let behind = Arc::new(Mutex::new(behind));
        let (shown, doors, to) = (gate.clone(), open.clone(), Arc::clone(&behind));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                let (gate, mut doors) = (shown.clone(), doors.subscribe());
                let place = to.lock().unwrap_or_else(PoisonError::into_inner).clone();
                connections.spawn(async move {
                    let passing = async {
                        // A server that does not listen ends the client's connection.
                        if let Ok(server) = connect(&place).await {
                            let _ = client.set_nodelay(true);
                            pass(client, server, gate).await;
                        }
                    };
                    tokio::select! {
                        () = passing => {}
                        _ = doors.wait_for(|open| !open) => {}
                    }
                });
            }
        });
        Ok(Self { port, gate, behind, open, _tasks: tasks })
    }
}

async fn connect(place: &Place) -> std::io::Result<Box<dyn Stream>> {
    match place {
        Place::Socket(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        Place::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
    }
}
