//! Finds the server that takes writes, among those that the address names, and finds it again after it was lost.
//!
//! It never trusts a standby, never prefers the first in the list to the heir of a failover, and never gives up: a search
//! that was begun ends when a primary is found or the pool is gone.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, postgres::PgConnectOptions};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{address::Address, connections::Shared, store};

/// How long one server may take to say who it is. A connection and one question take milliseconds; one that needs longer
/// cannot take payments.
const HOST_PATIENCE: Duration = Duration::from_secs(2);

/// Once one has said that it takes writes, how long the others get to say the same. After a failover the old primary may
/// have come back by itself, and then the list alone would not tell which is the heir.
const RIVAL_PATIENCE: Duration = Duration::from_millis(300);

/// Pause between two rounds of a search: every replica asks every server this often.
const SEARCH_PAUSE: Duration = Duration::from_millis(200);

/// For how long a search at the start goes on while the servers may be about to come up.
const STARTUP_PATIENCE: Duration = Duration::from_secs(5);

/// The primary, and the connection by which it was found.
pub(super) struct Found {
    pub(super) name: String,
    pub(super) options: PgConnectOptions,
    pub(super) connection: PgConnection,
}

/// No server takes writes: why not, of each.
#[derive(Clone, Debug, thiserror::Error)]
pub struct NoPrimary {
    refusals: Vec<(String, Refusal)>,
}

/// Why a server is not the one.
#[derive(Clone, Debug)]
enum Refusal {
    /// Nobody answers within the patience.
    Silent,
    /// It follows another server.
    Standby,
    /// It takes no writes.
    ReadOnly,
    /// It runs, and has no room for one more connection.
    Full,
    /// It says no, or the way to it does.
    Error {
        text: String,
        /// Waiting cures it: a server that starts, a refused connection.
        passing: bool,
    },
}

impl fmt::Display for NoPrimary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("no server takes writes")?;
        for (n, (host, refusal)) in self.refusals.iter().enumerate() {
            write!(formatter, "{}{host} ", if n == 0 { ": " } else { "; " })?;
            match refusal {
                Refusal::Silent => write!(formatter, "does not answer within {} s", HOST_PATIENCE.as_secs())?,
                Refusal::Standby => formatter.write_str("is a standby")?,
                Refusal::ReadOnly => formatter.write_str("only reads (default_transaction_read_only)")?,
                Refusal::Full => formatter.write_str("has no connection left")?,
                Refusal::Error { text, .. } => write!(formatter, "says: {text}")?,
            }
        }
        Ok(())
    }
}

impl NoPrimary {
    /// What a statement learned that was refused since it writes.
    pub(super) fn only_reads(server: &PgConnectOptions) -> Self {
        let refusals = Address::of(server).hosts.into_iter().map(|host| (host.name, Refusal::ReadOnly)).collect();
        Self { refusals }
    }

    /// One of them runs and is merely full: its connections that are open still work.
    fn is_full(&self) -> bool {
        self.refusals.iter().any(|(_, refusal)| matches!(refusal, Refusal::Full))
    }

    /// Whether waiting may help.
    fn is_passing(&self) -> bool {
        self.refusals.iter().any(|(_, refusal)| match refusal {
            Refusal::Silent | Refusal::Standby | Refusal::ReadOnly | Refusal::Full => true,
            Refusal::Error { passing, .. } => *passing,
        })
    }
}

/// Asks all servers at once, one round.
pub(super) async fn find(address: &Address) -> Result<Found, NoPrimary> {
    let mut asking: FuturesUnordered<_> = address
        .hosts
        .iter()
        .map(async |host| {
            let answer = timeout(HOST_PATIENCE, ask(&host.options)).await.unwrap_or(Err(Refusal::Silent));
            (host, answer)
        })
        .collect();
    let mut willing = Vec::new();
    let mut refusals = Vec::new();
    let mut until = Instant::now() + HOST_PATIENCE * 2;
    while let Ok(Some((host, answer))) = timeout_at(until, asking.next()).await {
        match answer {
            Ok(connection) => {
                until = until.min(Instant::now() + RIVAL_PATIENCE);
                willing.push(Found { name: host.name.clone(), options: host.options.clone(), connection });
            }
            Err(refusal) => refusals.push((host.name.clone(), refusal)),
        }
    }
    heir(willing).await.ok_or(NoPrimary { refusals })
}

/// A connection to a server, if it takes writes.
async fn ask(options: &PgConnectOptions) -> Result<PgConnection, Refusal> {
    let mut connection = options.connect().await.map_err(|error| refusal(&error))?;
    let role = store::role(&mut connection).await.map_err(|error| refusal(&error))?;
    if role.forgetful {
        tracing::warn!("fsync or full_page_writes is off: a crash of the database's machine can lose payments");
    }
    match (role.standby, role.read_only) {
        (true, _) => Err(Refusal::Standby),
        (false, true) => Err(Refusal::ReadOnly),
        (false, false) => Ok(connection),
    }
}

fn refusal(error: &sqlx::Error) -> Refusal {
    let Some(said) = error.as_database_error() else {
        let passing = matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_));
        let text = if let sqlx::Error::Io(error) = error { error.to_string() } else { error.to_string() };
        return Refusal::Error { text, passing };
    };
    match said.code().as_deref() {
        Some("53300") => Refusal::Full,
        code => Refusal::Error {
            text: said.message().to_owned(),
            passing: code.is_some_and(|code| code.starts_with("57P")),
        },
    }
}

/// The one on the highest timeline. More than one is a split brain, which only its operator can mend.
async fn heir(mut willing: Vec<Found>) -> Option<Found> {
    if willing.len() < 2 {
        return willing.pop();
    }
    let mut ranked = Vec::new();
    for mut found in willing {
        let timeline = timeout(HOST_PATIENCE, store::timeline(&mut found.connection)).await;
        ranked.push((timeline.ok().and_then(Result::ok), found));
    }
    let names: Vec<&str> = ranked.iter().map(|(_, found)| found.name.as_str()).collect();
    tracing::error!(servers = ?names, "more than one server takes writes; the one on the latest timeline is used");
    ranked.into_iter().max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, found)| found)
}

/// Finds the primary for a pool that is being opened: goes on for a while where waiting may help.
pub(super) async fn find_at_start(address: &Address) -> Result<Found, NoPrimary> {
    let until = Instant::now() + STARTUP_PATIENCE;
    loop {
        match find(address).await {
            Err(none) if none.is_passing() && Instant::now() + SEARCH_PAUSE < until => {
                tracing::info!(%none, "waiting for the database");
                sleep(SEARCH_PAUSE).await;
            }
            end => return end,
        }
    }
}

/// Whether a search is under way: one at a time.
#[derive(Debug, Default)]
pub(super) struct Searching(AtomicBool);

impl Searching {
    /// Begins a search in the background, unless there is one.
    pub(super) fn begin(shared: &Arc<Shared>) {
        if !shared.searching.0.swap(true, Ordering::AcqRel) {
            let pool = Arc::downgrade(shared);
            drop(shared.tasks.spawn(search(pool)));
        }
    }
}

/// Ends the mark of a search, also when it panics, so that the next fault begins another.
struct Search(Weak<Shared>);

impl Drop for Search {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.searching.0.store(false, Ordering::Release);
        }
    }
}

/// Searches until there is a primary, or nobody wants one any more.
async fn search(pool: Weak<Shared>) {
    let search = Search(pool);
    loop {
        let Some(shared) = search.0.upgrade().filter(|shared| !shared.connections.is_closed()) else { return };
        let began = Instant::now();
        match find(&shared.address).await {
            Ok(found) => {
                // Before the news, so that whoever meets the next fault begins the next search.
                drop(search);
                return shared.adopt(found).await;
            }
            // It runs, and what is open works: it only had no room or no time for a stranger.
            Err(none) if none.is_full() || shared.freshness.answered_since(began) => {
                return tracing::warn!(%none, "the database is busy");
            }
            Err(none) => shared.lose(none),
        }
        drop(shared);
        sleep(SEARCH_PAUSE).await;
    }
}

/// A connection to this server, if it takes writes.
pub(super) async fn open(options: &PgConnectOptions) -> Option<PgConnection> {
    timeout(HOST_PATIENCE / 2, ask(options)).await.ok()?.ok()
}

/// Whether the server at the other end of a connection still takes writes, within the patience for one server.
pub(super) async fn still_takes_writes(connection: &mut PgConnection) -> bool {
    match timeout(HOST_PATIENCE / 2, store::role(connection)).await {
        Ok(Ok(role)) => !role.standby && !role.read_only,
        Ok(Err(_)) | Err(_) => false,
    }
}

/// Says goodbye, for a bounded time.
pub(super) async fn part_from(connection: PgConnection) {
    if timeout(HOST_PATIENCE, connection.close()).await.is_err() {
        tracing::debug!("a connection to the database did not close in time");
    }
}
