//! What every use case needs, in one value that is its first argument.

use std::{future::Future, sync::Arc};

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::{clock::Clock, ids::Ids, intent::waiters::Waiters, limits::Limits, pool::Pool, provider::Provider};

/// Database, provider, time, names, bounds, and the tasks that outlive their callers. Cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    /// The primary. Payments are never decided from a standby.
    pub pool: Pool,
    /// Who moves the money.
    pub provider: Arc<dyn Provider>,
    /// Time for answers and ids.
    pub clock: Clock,
    /// New names.
    pub ids: Ids,
    /// Bounds.
    pub limits: Limits,
    /// Work that goes on when its caller is gone. Shutdown closes and waits for it.
    pub tasks: TaskTracker,
    /// Who waits for which intent on this replica.
    pub waiters: Arc<Waiters>,
}

impl Ctx {
    /// A context with no tasks and no waiters yet.
    pub fn new(pool: impl Into<Pool>, provider: Arc<dyn Provider>, clock: Clock, ids: Ids, limits: Limits) -> Self {
        Self {
            pool: pool.into(),
            provider,
            clock,
            ids,
            limits,
            tasks: TaskTracker::new(),
            waiters: Arc::new(Waiters::default()),
        }
    }

    /// The same, with the connections that are kept free for settling what may have been charged.
    pub(crate) fn settling(&self) -> Self {
        Self { pool: self.pool.reserved(), ..self.clone() }
    }

    /// Runs `work` to its end, whatever becomes of the caller. Shutdown waits for it.
    pub(crate) fn detach<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.tasks.spawn(work)
    }
}
