//! The accept loop: every connection within bounds, so that no client, slow, silent or numerous, keeps another from paying.
//!
//! It never dies of an accept that fails, and it never waits for a connection without an end. It knows no route: what a
//! request means is the router's affair.

mod connection;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use axum::Router;
use futures::FutureExt as _;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinError, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use self::connection::Client;

/// Every bound on what a client may take of time and room.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How long a request's head may take, from the connection's begin or from the head's first byte to its end. A head is
    /// one packet or two; 10 s are enough for the worst mobile network, and short enough that half-open connections in their
    /// thousands come to nothing.
    pub head_wait: Duration,
    /// How long a connection may lie idle between two requests. Longer than the 60 s after which common proxies give up
    /// their own idle connections, so that it is they who close, and no request runs into a closing connection.
    pub idle_wait: Duration,
    /// How long a request's body may take as a whole. Bodies are at most 16 KiB: this is 1.6 kB/s, what a phone at the edge of
    /// its network still does. Together with the wait for an outcome it stays below the 30 s that proxies wait.
    pub body_wait: Duration,
    /// How long one buffer of an answer may wait for its reader to take all of it. The largest file, about 100 kB, is a
    /// few buffers: over a bad mobile network it takes half a minute.
    pub write_wait: Duration,
    /// How long a request that is only half there when the server stops may take for the other half. It was on its way; one
    /// round trip around the world is 0.3 s.
    pub half_sent_wait: Duration,
    /// Connections at once. Each costs about 20 kB in memory when it is idle, so these are below half a gigabyte; two
    /// replicas hold 10,000 payments, each sent three times, with some room.
    pub max_connections: usize,
    /// Bytes of a request's head. Ours have less than 2 kB with the largest cart; the rest is for what proxies and other shops
    /// on the same host name add. More than 100 headers are refused as well; that is hyper's own bound.
    pub max_head_bytes: usize,
    /// Bytes that one connection buffers. Four heads, of which a client may send several at once.
    pub max_buffer_bytes: usize,
    /// Pause after an accept that failed: most often no file descriptor was left, and a moment later some connection has ended.
    pub accept_pause: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            head_wait: Duration::from_secs(10),
            idle_wait: Duration::from_secs(75),
            body_wait: Duration::from_secs(10),
            write_wait: Duration::from_mins(1),
            half_sent_wait: Duration::from_secs(1),
            max_connections: 20_000,
            max_head_bytes: 16 * 1024,
            max_buffer_bytes: 64 * 1024,
            accept_pause: Duration::from_millis(50),
        }
    }
}

/// Travels with every request: cancelled when the server stops, so that what is only half there is not waited for.
#[derive(Clone, Debug)]
pub struct Stopping(pub CancellationToken);

/// Accepts until `stop`; then refuses newcomers at once, closes what is idle, and ends when the last request is answered.
/// Dropping it ends every connection.
pub async fn serve(listener: TcpListener, router: Router, bounds: Bounds, stop: CancellationToken) {
    let mut connections = Connections::new(router, bounds, stop.clone());
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = connections.running.join_next() => connections.forget(ended),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => connections.open(stream, peer).await,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(bounds.accept_pause).await;
                }
            },
        }
    }

    // Who had come before the stop is served, and everybody after it is refused by the kernel.
    while let Some(Ok((stream, peer))) = listener.accept().now_or_never() {
        connections.open(stream, peer).await;
    }
    drop(listener);
    while let Some(ended) = connections.running.join_next().await {
        connections.forget(ended);
    }
}

/// The open connections.
struct Connections {
    running: JoinSet<u64>,
    /// By number, so that the oldest come first.
    clients: BTreeMap<u64, Weak<Client>>,
    opened: u64,
    router: Router,
    bounds: Bounds,
    stop: CancellationToken,
}

impl Connections {
    fn new(router: Router, bounds: Bounds, stop: CancellationToken) -> Self {
        Self { running: JoinSet::new(), clients: BTreeMap::new(), opened: 0, router, bounds, stop }
    }

    async fn open(&mut self, stream: TcpStream, peer: SocketAddr) {
        self.make_room().await;
        // Answers are small and whole; nothing is gained by waiting for more of them.
        stream.set_nodelay(true).ok();
        self.opened += 1;
        let number = self.opened;
        let client = Arc::new(Client::new(peer));
        self.clients.insert(number, Arc::downgrade(&client));
        let running = connection::run(stream, client, self.router.clone(), self.bounds, self.stop.clone());
        self.running.spawn(async move {
            running.await;
            number
        });
    }

    /// At the cap, the oldest connection without a request gives way: an idle one, or one whose head does not come. While all
    /// of them have requests, newcomers wait in the kernel's queue; every request has an end.
    async fn make_room(&mut self) {
        while self.running.len() >= self.bounds.max_connections {
            let idle = self.clients.iter().find_map(|(number, client)| {
                let client = client.upgrade().filter(|client| !client.is_busy())?;
                Some((*number, client))
            });
            if let Some((number, client)) = idle {
                client.close.cancel();
                self.clients.remove(&number);
            }
            if let Some(ended) = self.running.join_next().await {
                self.forget(ended);
            }
        }
    }

    fn forget(&mut self, ended: Result<u64, JoinError>) {
        match ended {
            Ok(number) => drop(self.clients.remove(&number)),
            Err(error) => {
                tracing::error!(%error, "a connection's task panicked");
                self.clients.retain(|_, client| client.strong_count() > 0);
            }
        }
    }
}
