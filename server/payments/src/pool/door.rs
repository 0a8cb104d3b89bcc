//! The door to the connections: every statement goes through here, for a bounded time, on a server that takes writes.
//!
//! A connection never goes back with an answer pending, and one whose fate is not known never goes back at all. What is given
//! up is drained in the background, so that a database that stands still is not flooded with connections.

use std::{sync::Arc, time::Duration};

use futures::{
    StreamExt as _, TryStreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use sqlx::{
    Describe, Either, Error, Execute, Executor, PgConnection, Postgres, SqlStr,
    pool::PoolConnection,
    postgres::{PgQueryResult, PgRow, PgStatement, PgTypeInfo},
};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Pool, RUN_PATIENCE,
    connections::{ACQUIRE_TIMEOUT, Lane, Shared},
    fault::of_sent,
    within,
};

/// How long a connection whose statement was given up may take to become idle again before it is closed. Longer than a pause
/// of the database that it should survive; while it lasts, the connection counts, so that a pool never has more than its size
/// at the server.
const DRAIN_PATIENCE: Duration = Duration::from_secs(15);

impl<'p> Executor<'p> for &'_ Pool {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        let whole = async move {
            let mut held = pool.acquire().await?;
            let rows =
                within(Instant::now() + RUN_PATIENCE, held.connection()?.fetch_many(query).try_collect::<Vec<_>>())
                    .await;
            held.end(rows)
        };
        // Every result of ours fits in memory; whoever reads it slowly holds no connection.
        stream::once(whole).map_ok(|rows| stream::iter(rows).map(Ok)).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        Box::pin(async move {
            let mut held = pool.acquire().await?;
            let row = within(Instant::now() + RUN_PATIENCE, held.connection()?.fetch_optional(query)).await;
            held.end(row)
        })
    }

    fn prepare_with<'e>(self, sql: SqlStr, parameters: &'e [PgTypeInfo]) -> BoxFuture<'e, Result<PgStatement, Error>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        Box::pin(async move {
            let mut held = pool.acquire().await?;
            let prepared =
                within(Instant::now() + RUN_PATIENCE, held.connection()?.prepare_with(sql, parameters)).await;
            held.end(prepared)
        })
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Postgres>, Error>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        Box::pin(async move {
            let mut held = pool.acquire().await?;
            let described = within(Instant::now() + RUN_PATIENCE, held.connection()?.describe(sql)).await;
            held.end(described)
        })
    }
}

impl Pool {
    /// A connection to the primary: waits while it is being searched, while the front is full, while all are in use; for all
    /// of it together at most [`ACQUIRE_TIMEOUT`].
    async fn acquire(&self) -> Result<Held, Error> {
        let shared = &self.shared;
        let until = Instant::now() + ACQUIRE_TIMEOUT;
        shared.primary_is_known(until).await?;
        let place = match self.lane {
            Lane::Front => {
                let place = timeout_at(until, Arc::clone(&shared.front).acquire_owned()).await;
                Some(place.or(Err(Error::PoolTimedOut))?.or(Err(Error::PoolClosed))?)
            }
            Lane::Reserved => None,
        };
        match timeout_at(until, shared.connections.acquire()).await.unwrap_or(Err(Error::PoolTimedOut)) {
            Ok(connection) => Ok(Held { connection: Some(connection), place, shared: Arc::clone(shared) }),
            Err(error) => {
                shared.hear(&error);
                Err(error)
            }
        }
    }
}

/// A connection in use. Dropped, also in the middle of a statement, it finds its way back or is closed.
struct Held {
    connection: Option<PoolConnection<Postgres>>,
    /// Its place in the front, given back together with it.
    place: Option<OwnedSemaphorePermit>,
    shared: Arc<Shared>,
}

impl Held {
    fn connection(&mut self) -> Result<&mut PgConnection, Error> {
        self.connection.as_deref_mut().ok_or(Error::WorkerCrashed)
    }

    /// The end of a statement: keeps what is heard of the server by it.
    fn end<T>(mut self, result: Result<T, Error>) -> Result<T, Error> {
        let result = result.map_err(of_sent);
        match &result {
            Ok(_) => self.shared.freshness.answered(),
            Err(error) => {
                let spoiled = self.shared.hear(error);
                if let Some(connection) = self.connection.as_mut().filter(|_| spoiled) {
                    connection.close_on_drop();
                    self.connection = None;
                }
            }
        }
        result
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let (Some(mut connection), place) = (self.connection.take(), self.place.take()) else { return };
        // The driver's own way back, which drains what is pending and asks for a sign of life; the driver would wait for
        // that without a bound. Dropped before its end, it closes the connection.
        let back = connection.return_to_pool();
        let mut aged = self.shared.freshness.listener();
        if tokio::runtime::Handle::try_current().is_ok() {
            drop(self.shared.tasks.spawn(async move {
                tokio::select! {
                    back = timeout(DRAIN_PATIENCE, back) => if back.is_err() {
                        tracing::warn!("a connection to the database did not become idle in time and was closed");
                    },
                    // It would be closed at its next use; and what it waits for may never come.
                    _ = aged.changed() => {}
                }
                drop(place);
            }));
        }
    }
}
