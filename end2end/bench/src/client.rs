//! One HTTP/1.1 connection that is kept: what a load generator needs, and no more.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use axum::http::{Request, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpSocket;

/// Longest wait for one answer; the longest honest one waits for a provider that takes ten seconds.
const ANSWER_SECONDS_MAX: u64 = 90;

/// A connection. Dropping it closes it.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

/// An answer, and how long it took.
pub struct Answer {
    pub status: u16,
    /// Whether it says that it was archived before.
    pub replayed: bool,
    pub body: Bytes,
    pub took: Duration,
}

impl Connection {
    /// Connects; `from` is the address to come from, since one address has only so many ports.
    pub async fn open(to: SocketAddr, from: Option<IpAddr>) -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        if let Some(from) = from {
            socket.bind(SocketAddr::new(from, 0))?;
        }
        let stream = socket.connect(to).await.with_context(|| format!("cannot connect to {to}"))?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        #[expect(clippy::disallowed_methods, reason = "its end is seen by the sender's next request")]
        drop(tokio::spawn(connection));
        sender.ready().await?;
        Ok(Self { sender, host: to.to_string() })
    }

    pub async fn post(&mut self, path: &str, body: Bytes) -> anyhow::Result<Answer> {
        let request = Request::post(path)
            .header(header::HOST, &self.host)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))?;
        self.send(request).await
    }

    pub async fn get(&mut self, path: &str) -> anyhow::Result<Answer> {
        self.send(Request::get(path).header(header::HOST, &self.host).body(Full::default())?).await
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        let started = Instant::now();
        let exchange = async {
            self.sender.ready().await?;
            let answer = self.sender.send_request(request).await?;
            let status = answer.status().as_u16();
            let replayed = answer.headers().contains_key("idempotent-replayed");
            let body = answer.into_body().collect().await?.to_bytes();
            Ok(Answer { status, replayed, body, took: started.elapsed() })
        };
        tokio::time::timeout(Duration::from_secs(ANSWER_SECONDS_MAX), exchange).await.context("no answer in time")?
    }
}
