//! The sandbox's own accept loop. It exists because a misbehaving provider must do on the wire what a web framework never
//! does: end a connection without an answer or in the middle of one, and close its port so that the kernel refuses
//! whoever knocks. It never touches what a call did.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Response;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::faults::Hangup;
use crate::{READ_SECONDS, SandboxError};

/// How long a port that should open again may be held by somebody else.
const REOPEN_SECONDS: Duration = Duration::from_secs(10);
const REOPEN_PAUSE: Duration = Duration::from_millis(20);

/// Lets a call end its own connection.
#[derive(Clone, Default)]
pub struct Wire(Arc<Mutex<Option<End>>>);

struct End {
    bytes: Vec<u8>,
    sent: usize,
    how: Hangup,
}

impl Wire {
    /// Instead of an answer, sends these raw bytes (or none) and ends the connection. The response that it returns only
    /// wakes the connection up; nothing of it is sent.
    pub fn end_with(&self, bytes: Vec<u8>, how: Hangup) -> Response<Body> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(End { bytes, sent: 0, how });
        Response::new(Body::empty())
    }
}

/// A connection that obeys its wire.
struct Connection {
    stream: TcpStream,
    wire: Wire,
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, wire } = &mut *self;
        let mut guard = wire.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(end) = guard.as_mut() else { return Pin::new(stream).poll_write(cx, bytes) };
        while let Some(rest) = end.bytes.get(end.sent..).filter(|rest| !rest.is_empty()) {
            match Pin::new(&mut *stream).poll_write(cx, rest) {
                Poll::Ready(Ok(count)) if count > 0 => end.sent += count,
                Poll::Ready(_) => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        if end.how == Hangup::Reset {
            // With nothing left to linger for, closing the socket resets the connection.
            stream.set_zero_linger().ok();
        }
        Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Closes the port for a while.
pub struct Door(mpsc::Sender<Closing>);

/// The accept loop's side of the door.
pub struct Closings(mpsc::Receiver<Closing>);

struct Closing {
    duration: Duration,
    closed: oneshot::Sender<()>,
}

impl Door {
    pub fn new() -> (Self, Closings) {
        let (sender, receiver) = mpsc::channel(16);
        (Self(sender), Closings(receiver))
    }

    /// Returns when the port is closed. It opens again by itself.
    pub async fn close(&self, ms: u64) {
        let (closed, told) = oneshot::channel();
        if self.0.send(Closing { duration: Duration::from_millis(ms), closed }).await.is_ok() {
            told.await.ok();
        }
    }
}

/// The open connections. Those of one opening of the port are told together to finish.
struct Connections {
    running: JoinSet<()>,
    finish: CancellationToken,
    router: Router,
}

impl Connections {
    fn serve(&mut self, stream: TcpStream) {
        stream.set_nodelay(true).ok();
        let wire = Wire::default();
        let router = self.router.clone();
        let marked = wire.clone();
        let service = router.map_request(move |request: hyper::Request<hyper::body::Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(marked.clone());
            request
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(READ_SECONDS)
            .serve_connection(TokioIo::new(Connection { stream, wire }), TowerToHyperService::new(service));
        let finish = self.finish.clone();
        self.running.spawn(async move {
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                // Errors are broken connections, which are the clients' affair.
                ended = connection.as_mut() => return drop(ended),
                () = finish.cancelled() => connection.as_mut().graceful_shutdown(),
            }
            drop(connection.await);
        });
    }

    /// Idle connections end at once, the others after their answer.
    fn finish(&mut self) {
        std::mem::take(&mut self.finish).cancel();
    }
}

/// Accepts until `stop` is cancelled, then gives open connections until `deadline_after` and returns.
pub async fn accept(
    mut listener: TcpListener,
    router: Router,
    mut closings: Closings,
    stop: CancellationToken,
    deadline_after: Duration,
) -> Result<(), SandboxError> {
    let address = listener.local_addr().map_err(SandboxError::Listen)?;
    let mut connections = Connections { running: JoinSet::new(), finish: CancellationToken::new(), router };
    let still_open = loop {
        tokio::select! {
            () = stop.cancelled() => break Some(listener),
            Some(_) = connections.running.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => connections.serve(stream),
                // Most often the process has no file descriptors left; a moment later some connection has ended.
                Err(_) => sleep(REOPEN_PAUSE).await,
            },
            Some(closing) = closings.0.recv() => {
                drop(listener);
                connections.finish();
                closing.closed.send(()).ok();
                match reopen_after(address, closing.duration, &stop).await? {
                    Some(reopened) => listener = reopened,
                    None => break None,
                }
            }
        }
    };
    drop(still_open);
    drop(closings);
    connections.finish();
    let deadline = Instant::now() + deadline_after;
    while let Ok(Some(_)) = timeout_at(deadline, connections.running.join_next()).await {}
    connections.running.shutdown().await;
    Ok(())
}

/// The same port again after a while; `None` if the sandbox stops meanwhile.
async fn reopen_after(
    address: SocketAddr,
    closed_for: Duration,
    stop: &CancellationToken,
) -> Result<Option<TcpListener>, SandboxError> {
    if stop.run_until_cancelled(sleep(closed_for)).await.is_none() {
        return Ok(None);
    }
    let give_up = Instant::now() + REOPEN_SECONDS;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(Some(listener)),
            Err(error) if Instant::now() >= give_up => return Err(SandboxError::Listen(error)),
            // Somebody's outgoing connection may have got the port for a moment.
            Err(_) => sleep(REOPEN_PAUSE).await,
        }
    }
}
