//! What stands between a replica and its Postgres or its provider: reads along, and shows every message to a [`Gate`].
//!
//! Promise: bytes arrive as they were sent, or the connection ends. What was handed to the other side is executed there also
//! when its sender has died meanwhile, as on a real network.

mod http;
mod postgres;

use std::future::Future;

use anyhow::Context as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixStream},
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

    async fn before<Pass, Done>(behind: Place, pass: Pass) -> anyhow::Result<Self>
    where
        Pass: Fn(TcpStream, Box<dyn Stream>, Gate) -> Done + Copy + Send + Sync + 'static,
        Done: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for a proxy")?;
        let port = listener.local_addr()?.port();
        let gate = Gate::default();
        let shown = gate.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                let (gate, place) = (shown.clone(), behind.clone());
                connections.spawn(async move {
                    // A server that does not listen ends the client's connection.
                    if let Ok(server) = connect(&place).await {
                        let _ = client.set_nodelay(true);
                        pass(client, server, gate).await;
                    }
                });
            }
        });
        Ok(Self { port, gate, _tasks: tasks })
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
