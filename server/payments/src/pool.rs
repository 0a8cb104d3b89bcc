//! The way to Postgres: how connections are made, what may be tried again, and what a failure means.
//!
//! Every write of this crate is one keyed statement, so running it again after a lost answer is safe. There is no `begin()`:
//! a transaction that a dropped future leaves open would swallow other customers' payments. Nothing here waits without a
//! bound, and nothing is decided by a server that only reads.
//!
//! Reading order: [`Pool`] in `connections` (what is shared, and what is concluded from a fault) → `door` (how a statement gets
//! a connection) → `primary` (how the server is found) → `address` (which servers there are).

use std::{future::Future, time::Duration};

use tokio::time::{Instant, timeout, timeout_at};

use crate::limits::Limits;

mod address;
mod connections;
mod door;
mod fault;
mod freshness;
mod primary;
mod store;

pub use address::{Address, AddressError};
pub use connections::{Pool, connect};
use fault::{Fault, is_passing, may_be_in_effect};
pub use primary::NoPrimary;

/// How long we wait for the answer to one statement: a server that is paused, or behind a line that swallows everything, or
/// that waits for its standby, keeps no time limit of its own. Longer than the server's own limit, so that mostly it answers.
const RUN_PATIENCE: Duration = Duration::from_secs(4);

/// What an answer gets that came while this process stood still: the clock is looked at before the network then.
const AFTER_A_STANDSTILL: Duration = Duration::from_millis(200);

/// The database did not do what was asked. Nothing of the statement is in effect, or it will be found when it is run again.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No connection, no answer, or a fault that outlasted the repeats.
    #[error("the database cannot answer")]
    Unavailable(#[from] sqlx::Error),
    /// A row breaks a rule that its constraints should keep.
    #[error("the database holds an impossible {0}")]
    Impossible(&'static str),
}

impl StoreError {
    /// Whether the statement may be in effect all the same: it had left, and no answer came. Then nothing may be said of what it
    /// did, only asked.
    pub fn may_be_in_effect(&self) -> bool {
        matches!(self, Self::Unavailable(error) if may_be_in_effect(error))
    }
}

/// Why a pool could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is malformed.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// No server behind it takes writes.
    #[error(transparent)]
    NoPrimary(#[from] NoPrimary),
}

/// Runs a keyed statement, again where the fault was the connection's or a rival's, within the patience of `limits`;
/// all runs together take at most that and [`RUN_PATIENCE`]. If any run's answer was lost, and none came after it, that is the
/// error: the statement may be in effect.
pub(crate) async fn keyed<T, F, Run>(limits: &Limits, run: Run) -> Result<T, sqlx::Error>
where
    F: Future<Output = Result<T, sqlx::Error>>,
    Run: Fn() -> F,
{
    let started = Instant::now();
    let until = started + limits.statement_patience + RUN_PATIENCE;
    let mut pause = Duration::from_millis(2);
    let mut lost = None;
    // The first fault is met again also when the time is over, unless it was the silence that took it: then it is this process
    // that stood still.
    let may_repeat = |error: &sqlx::Error, n: u32| {
        n < limits.statement_tries
            && (started.elapsed() < limits.statement_patience || (n == 1 && Fault::of(error) != Fault::NoAnswer))
    };
    for n in 1.. {
        match within(until, run()).await {
            Err(error) if is_passing(&error) && may_repeat(&error, n) => {
                tracing::debug!(%error, "running a keyed statement again");
                lost = lost.or(may_be_in_effect(&error).then_some(error));
            }
            // The server has said what became of it.
            Err(error) if error.as_database_error().is_some() => return Err(error),
            Err(error) => return Err(lost.unwrap_or(error)),
            answered @ Ok(_) => return answered,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(200));
    }
    Err(timed_out())
}

/// The result of a run, if there is one by then.
async fn within<T>(until: Instant, run: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let mut run = std::pin::pin!(run);
    match timeout_at(until, &mut run).await {
        Ok(result) => result,
        Err(_) => timeout(AFTER_A_STANDSTILL, run).await.unwrap_or_else(|_elapsed| Err(timed_out())),
    }
}

/// An answer that did not come, to a statement that may have left.
fn timed_out() -> sqlx::Error {
    fault::of_sent(sqlx::Error::Io(std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        "no answer from the database in time",
    )))
}

/// A connection that is of no use.
fn broken(why: &'static str) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::NotConnected, why))
}

/// The name of the constraint that refused the statement, if one did.
pub(crate) fn refused_by(error: &sqlx::Error) -> Option<&str> {
    error.as_database_error().and_then(sqlx::error::DatabaseError::constraint)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, io, time::Duration};

    use super::{StoreError, keyed};
    use crate::limits::Limits;

    fn broken() -> sqlx::Error {
        sqlx::Error::Io(io::ErrorKind::ConnectionReset.into())
    }

    #[tokio::test]
    async fn a_broken_connection_is_left_for_another() {
        let runs = Cell::new(0);
        let result = keyed(&Limits::default(), async || {
            runs.set(runs.get() + 1);
            if runs.get() < 6 { Err(broken()) } else { Ok(runs.get()) }
        })
        .await;
        assert_eq!(result.expect("the sixth run succeeds"), 6);
    }

    /// A reserve whose answer was lost may be committed, whatever its repeats meet.
    #[tokio::test]
    async fn a_lost_answer_is_not_forgotten_over_later_faults() {
        let runs = Cell::new(0);
        let result: Result<(), _> = keyed(&Limits::default(), async || {
            runs.set(runs.get() + 1);
            Err(if runs.get() == 1 { super::fault::of_sent(broken()) } else { sqlx::Error::PoolTimedOut })
        })
        .await;
        assert_eq!(runs.get(), 2);
        assert!(StoreError::from(result.expect_err("no answer came")).may_be_in_effect());

        let never_sent: Result<(), _> = keyed(&Limits::default(), async || Err(sqlx::Error::PoolTimedOut)).await;
        assert!(!StoreError::from(never_sent.expect_err("no connection")).may_be_in_effect());
    }

    #[tokio::test]
    async fn patience_ends() {
        let limits = Limits { statement_patience: Duration::from_millis(20), ..Limits::default() };
        let runs = Cell::new(0);
        let result: Result<(), _> = keyed(&limits, async || {
            runs.set(runs.get() + 1);
            Err(broken())
        })
        .await;
        assert!(result.is_err());
        assert!((2..10).contains(&runs.get()));
    }

    /// The time is over when the process goes on after a standstill, and its connections were cut meanwhile.
    #[tokio::test]
    async fn after_a_standstill_the_statement_is_run_once_more() {
        let limits = Limits { statement_patience: Duration::ZERO, ..Limits::default() };
        let runs = Cell::new(0);
        let result = keyed(&limits, async || {
            runs.set(runs.get() + 1);
            if runs.get() == 1 { Err(broken()) } else { Ok(runs.get()) }
        })
        .await;
        assert_eq!(result.expect("the second run succeeds"), 2);
    }

    #[tokio::test]
    async fn a_refusal_is_reported_at_once() {
        let runs = Cell::new(0);
        let result: Result<(), _> = keyed(&Limits::default(), async || {
            runs.set(runs.get() + 1);
            Err(sqlx::Error::PoolTimedOut)
        })
        .await;
        assert!(result.is_err());
        assert_eq!(runs.get(), 1);
    }
}
