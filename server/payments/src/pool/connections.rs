//! The connections to the primary: what all of a replica's statements share, and what is concluded from their faults.

use std::{fmt, sync::Arc, time::Duration};

use sqlx::{
    PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::{
    sync::{Mutex, Semaphore, watch},
    time::{Instant, timeout_at},
};
use tokio_util::task::TaskTracker;

use super::{
    ConnectError,
    address::Address,
    broken,
    fault::Fault,
    freshness::Freshness,
    primary::{self, Found, NoPrimary, Searching},
    store,
};

/// How long a caller waits for a free connection, or for a primary. Statements take milliseconds, so a longer queue means a
/// fault.
pub(super) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// Longest statement; ours are keyed look-ups and writes. The server gives up before we do, so that an answer comes.
const STATEMENT_TIMEOUT: &str = "3s";

/// Longest wait for a row or a unique key that a rival holds, who holds it for one statement.
const LOCK_TIMEOUT: &str = "2s";

/// Longest open transaction without a statement. We open none; this ends those that a fault might.
const IDLE_IN_TRANSACTION_TIMEOUT: &str = "5s";

/// Of the connections, the part that is kept free for settling what was charged and for recovery: one in this many.
const RESERVED_ONE_IN: u32 = 4;

/// For how long the answer to "does it take writes?" holds. Supervisors and balancers ask every few seconds, all at once.
const CHECK_HOLDS: Duration = Duration::from_millis(250);

/// How long the last answer to a statement speaks against a fault when no connection was to be had.
const ANSWERED_RECENTLY: Duration = Duration::from_secs(1);

/// Opens a pool of at most `size` connections to the one of the named servers that takes writes.
///
/// # Errors
/// When the address is malformed, or no server takes writes for some seconds; the error names each and its reason.
pub async fn connect(url: &str, size: u32) -> Result<Pool, ConnectError> {
    let mut address: Address = url.parse()?;
    for parameter in &address.without_effect {
        tracing::warn!(parameter, "this parameter of DATABASE_URL has no effect here");
    }
    for host in &mut address.hosts {
        host.options = std::mem::take(&mut host.options).application_name("payonce").options([
            ("statement_timeout", STATEMENT_TIMEOUT),
            ("lock_timeout", LOCK_TIMEOUT),
            ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION_TIMEOUT),
        ]);
    }
    let found = primary::find_at_start(&address).await?;
    let freshness = Arc::new(Freshness::new());
    let old_ones = Arc::clone(&freshness);
    let connections = PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A ping before each statement would double the round trips; a dead connection shows when it is used, and the keyed
        // statement is run again on another.
        .test_before_acquire(false)
        .before_acquire(move |_connection, meta| {
            let is_fresh = old_ones.is_fresh(meta.age);
            Box::pin(async move { Ok(is_fresh) })
        })
        .after_connect(|connection, _meta| {
            Box::pin(async move {
                let role = store::role(connection).await?;
                let writes = !role.standby && !role.read_only;
                writes.then_some(()).ok_or_else(|| broken("this server takes no writes"))
            })
        })
        .connect_lazy_with(found.options.clone());
    let pool = Pool::new(address, connections, freshness);
    tracing::info!(server = found.name, "the database takes writes");
    pool.shared.check.lock().await.connection = Some(found.connection);
    Ok(pool)
}

/// Connections to the primary. Cheap to clone; statements take a reference to it where the driver takes one to its pool.
#[derive(Clone)]
pub struct Pool {
    pub(super) shared: Arc<Shared>,
    pub(super) lane: Lane,
}

/// Who gets the last connections.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lane {
    /// Everybody.
    Front,
    /// Those who settle what was charged.
    Reserved,
}

/// What all clones of a pool share.
pub(super) struct Shared {
    pub(super) address: Address,
    pub(super) connections: PgPool,
    /// One place for each connection that new work may hold at once.
    pub(super) front: Arc<Semaphore>,
    standing: watch::Sender<Standing>,
    pub(super) searching: Searching,
    pub(super) freshness: Arc<Freshness>,
    /// A connection beside the pool, to ask whether the server is well while all others are in use.
    check: Mutex<Check>,
    /// Searches, and connections on their way back.
    pub(super) tasks: TaskTracker,
}

/// Whether there is a primary.
#[derive(Clone, Debug)]
enum Standing {
    Found,
    Lost { since: Instant, why: NoPrimary },
}

#[derive(Default)]
struct Check {
    connection: Option<PgConnection>,
    last: Option<(Instant, bool)>,
}

impl Pool {
    fn new(address: Address, connections: PgPool, freshness: Arc<Freshness>) -> Self {
        let size = connections.options().get_max_connections();
        let front = size - (size / RESERVED_ONE_IN).max(u32::from(size > 1));
        let shared = Shared {
            address,
            connections,
            front: Arc::new(Semaphore::new(usize::try_from(front).unwrap_or(Semaphore::MAX_PERMITS))),
            standing: watch::Sender::new(Standing::Found),
            searching: Searching::default(),
            freshness,
            check: Mutex::default(),
            tasks: TaskTracker::new(),
        };
        Self { shared: Arc::new(shared), lane: Lane::Front }
    }

    /// The same connections, for work that must not starve behind new work: it settles what may have been charged.
    #[must_use]
    pub fn reserved(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), lane: Lane::Reserved }
    }

    /// Whether the primary answers and takes writes, asked on a connection of its own, so that a busy pool is not taken for a
    /// dead database.
    pub async fn takes_writes(&self) -> bool {
        let shared = &self.shared;
        if matches!(*shared.standing.borrow(), Standing::Lost { .. }) {
            return false;
        }
        let mut check = shared.check.lock().await;
        if let Some((when, well)) = check.last
            && when.elapsed() < CHECK_HOLDS
        {
            return well;
        }
        let mut connection = check.connection.take();
        let mut well = match &mut connection {
            Some(connection) => primary::still_takes_writes(connection).await,
            None => false,
        };
        if !well {
            // The old connection may have died with a server that is back since.
            connection = primary::open(&shared.connections.connect_options()).await;
            well = connection.is_some();
        }
        if !well {
            Searching::begin(shared);
        }
        *check = Check { connection, last: Some((Instant::now(), well)) };
        well
    }

    /// How the present primary is reached, for a connection of one's own.
    pub(crate) fn primary(&self) -> PgConnectOptions {
        self.shared.connections.connect_options().as_ref().clone()
    }

    /// Closes every connection. What is under way ends first.
    pub async fn close(&self) {
        self.shared.connections.close().await;
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

/// A pool over connections that were configured elsewhere, to one server.
impl From<PgPool> for Pool {
    fn from(connections: PgPool) -> Self {
        let address = Address::of(&connections.connect_options());
        Self::new(address, connections, Arc::new(Freshness::new()))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Pool")
            .field("address", &self.shared.address)
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Concludes from a fault what there is to conclude about the server. Returns whether the connection is of no more use.
    pub(super) fn hear(self: &Arc<Self>, error: &sqlx::Error) -> bool {
        match Fault::of(error) {
            Fault::Request => false,
            Fault::ReadOnly => {
                // All its connections lead to a server that was demoted, or cut off from the others.
                self.lose(NoPrimary::only_reads(&self.connections.connect_options()));
                self.freshness.forget_older();
                Searching::begin(self);
                true
            }
            Fault::Connection => {
                Searching::begin(self);
                true
            }
            Fault::NoAnswer => {
                Searching::begin(self);
                false
            }
            Fault::NoConnection => {
                if !self.freshness.answered_within(ANSWERED_RECENTLY) {
                    Searching::begin(self);
                }
                false
            }
        }
    }

    /// Waits until there is a primary: until `until`, and no longer than a statement would have been waited for when it was
    /// lost. Whoever comes long after that learns at once.
    pub(super) async fn primary_is_known(&self, until: Instant) -> Result<(), sqlx::Error> {
        let Standing::Lost { since, .. } = *self.standing.borrow() else { return Ok(()) };
        let until = until.min(since + ACQUIRE_TIMEOUT);
        let mut standing = self.standing.subscribe();
        // Bound, since a search may fail in new ways and begin anew for ever.
        let found = timeout_at(until, standing.wait_for(|standing| matches!(standing, Standing::Found))).await.is_ok();
        match &*self.standing.borrow() {
            Standing::Lost { why, .. } if !found => {
                Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::NotConnected, why.clone())))
            }
            Standing::Lost { .. } | Standing::Found => Ok(()),
        }
    }

    pub(super) fn lose(&self, why: NoPrimary) {
        self.standing.send_if_modified(|standing| {
            let (since, is_news) = match standing {
                Standing::Lost { since, .. } => (*since, false),
                Standing::Found => (Instant::now(), true),
            };
            if is_news {
                tracing::error!(%why, "the database is lost; nothing is charged until it is back");
            }
            *standing = Standing::Lost { since, why };
            is_news
        });
    }

    /// Turns to the primary that was found. Connections to another, or from before an outage, are not used again.
    pub(super) async fn adopt(&self, found: Found) {
        let Found { name, options, connection } = found;
        let present = self.connections.connect_options();
        let is_the_same = (present.get_host(), present.get_port(), present.get_socket())
            == (options.get_host(), options.get_port(), options.get_socket());
        let was_lost = matches!(*self.standing.borrow(), Standing::Lost { .. });
        if !is_the_same {
            self.connections.set_connect_options(options);
        }
        if was_lost || !is_the_same {
            self.freshness.forget_older();
            tracing::warn!(server = name, "the database takes writes again");
        }
        self.standing.send_replace(Standing::Found);
        let old = std::mem::replace(&mut *self.check.lock().await, Check { connection: Some(connection), last: None });
        if let Some(old) = old.connection {
            primary::part_from(old).await;
        }
    }
}
