//! One connection: its requests one after the other, and the clocks that run while the client has to do something.
//!
//! A connection is *busy* from a request's whole head to the last byte of its answer. While it is busy only the reader's
//! clock runs here; while it is not, the head's.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Body, extract::ConnectInfo};
use bytes::Bytes;
use http::{Request, Response};
use hyper::{
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::{Bounds, Stopping};

/// What the accept loop knows of one connection.
pub(super) struct Client {
    peer: SocketAddr,
    busy: AtomicBool,
    /// How many whole heads have come.
    heads: AtomicU64,
    /// Cancelled when it has to give way.
    pub(super) close: CancellationToken,
}

impl Client {
    pub(super) fn new(peer: SocketAddr) -> Self {
        let (busy, heads) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { peer, busy, heads, close: CancellationToken::new() }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst)
    }
}

/// Serves one connection to its end. After the stop, a request that is under way is answered, one that is half there has a
/// moment to become whole, and everything else ends.
pub(super) async fn run(
    stream: TcpStream,
    client: Arc<Client>,
    router: Router,
    bounds: Bounds,
    stop: CancellationToken,
) {
    let service = {
        let (client, stop) = (Arc::clone(&client), stop.clone());
        service_fn(move |request| answer(request, router.clone(), Busy::begin(Arc::clone(&client)), stop.clone()))
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.idle_wait)
        .max_header_size(bounds.max_head_bytes)
        .max_buf_size(bounds.max_buffer_bytes)
        .serve_connection(TokioIo::new(Patient::new(stream, Arc::clone(&client), bounds)), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // Errors are broken connections and late clients, which are the clients' affair.
        ended = connection.as_mut() => return drop(ended),
        () = client.close.cancelled() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        ended = connection.as_mut() => return drop(ended),
        () = sleep(bounds.half_sent_wait) => {}
    }
    if client.is_busy() {
        drop(connection.await);
    }
}

async fn answer(
    request: Request<Incoming>,
    router: Router,
    busy: Busy,
    stop: CancellationToken,
) -> Result<Response<Answering>, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(busy.0.peer));
    request.extensions_mut().insert(Stopping(stop));
    let response = router.oneshot(request).await?;
    Ok(response.map(|body| Answering { body, _busy: busy }))
}

/// Held while a request is answered, also when its answering is dropped.
struct Busy(Arc<Client>);

impl Busy {
    fn begin(client: Arc<Client>) -> Self {
        client.heads.fetch_add(1, Ordering::SeqCst);
        client.busy.store(true, Ordering::SeqCst);
        Self(client)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::SeqCst);
    }
}

/// An answer's body, which keeps the connection busy until all of it was handed over.
struct Answering {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that is given up when its client is too slow.
struct Patient {
    stream: TcpStream,
    client: Arc<Client>,
    head: Clock,
    /// The whole heads that had come when the head's clock was last looked at.
    heads_seen: u64,
    write: Clock,
}

impl Patient {
    fn new(stream: TcpStream, client: Arc<Client>, bounds: Bounds) -> Self {
        let mut head = Clock::new(bounds.head_wait);
        head.start();
        Self { stream, client, head, heads_seen: 0, write: Clock::new(bounds.write_wait) }
    }

    /// `offered` bytes were to be written. The clock runs from the first time that not all of them could be to the first time
    /// that they could, so that taking them one by one gains nothing.
    fn watch_write(
        &mut self,
        cx: &mut Context<'_>,
        offered: usize,
        wrote: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(count)) if count >= offered => self.write.stop(),
            Poll::Ready(Ok(_)) | Poll::Pending => self.write.start(),
            Poll::Ready(Err(_)) => return wrote,
        }
        if self.write.is_over(cx) { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { wrote }
    }
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let heads = self.client.heads.load(Ordering::SeqCst);
        if heads != self.heads_seen {
            self.heads_seen = heads;
            self.head.stop();
        }
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buffer) {
            if buffer.filled().len() > before && !self.client.is_busy() {
                self.head.start();
            }
            return Poll::Ready(read);
        }
        if self.head.is_over(cx) { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { Poll::Pending }
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch_write(cx, bytes.len(), wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.watch_write(cx, pieces.iter().map(|piece| piece.len()).sum(), wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A wait with an end, started and stopped as the connection goes.
struct Clock {
    wait: Duration,
    runs: bool,
    /// Made when it is needed for the first time: most connections never wait for a reader.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Clock {
    fn new(wait: Duration) -> Self {
        Self { wait, runs: false, sleep: None }
    }

    /// Starts; goes on if it runs already.
    fn start(&mut self) {
        if !self.runs {
            self.runs = true;
            let end = Instant::now() + self.wait;
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(end),
                None => self.sleep = Some(Box::pin(tokio::time::sleep_until(end))),
            }
        }
    }

    fn stop(&mut self) {
        self.runs = false;
    }

    /// Whether its time is over; if not, the task is woken when it is.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.runs && self.sleep.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready())
    }
}
