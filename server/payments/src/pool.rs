//! The way to Postgres: how connections are made, what may be tried again, and what a failure means.
//!
//! Every write of this crate is one keyed statement, so running it again after a lost answer is safe. There is no `begin()`:
//! a transaction that a dropped future leaves open would swallow other customers' payments.

use std::{future::Future, str::FromStr, time::Duration};

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use crate::limits::Limits;

/// How long a caller waits for a free connection. Statements take milliseconds, so a longer queue means a fault.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// Longest statement; ours are keyed look-ups and writes.
const STATEMENT_TIMEOUT: &str = "5s";

/// Longest wait for a row or a unique key that a rival holds, who holds it for one statement.
const LOCK_TIMEOUT: &str = "2s";

/// Longest open transaction without a statement. We open none; this ends those that a fault might.
const IDLE_IN_TRANSACTION_TIMEOUT: &str = "5s";

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

/// Opens a pool of at most `size` connections.
///
/// # Errors
/// When the address is malformed or nobody answers there.
pub async fn connect(url: &str, size: u32) -> Result<PgPool, sqlx::Error> {
    let options = PgConnectOptions::from_str(url)?.application_name("payonce").options([
        ("statement_timeout", STATEMENT_TIMEOUT),
        ("lock_timeout", LOCK_TIMEOUT),
        ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION_TIMEOUT),
    ]);
    PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A ping before each statement would double the round trips; a dead connection shows when it is used, and the keyed
        // statement is run again on another.
        .test_before_acquire(false)
        .connect_with(options)
        .await
}

/// Runs a keyed statement, again where the fault was the connection's or a rival's, within the patience of `limits`.
pub(crate) async fn keyed<T, F, Run>(limits: &Limits, run: Run) -> Result<T, sqlx::Error>
where
    F: Future<Output = Result<T, sqlx::Error>>,
    Run: Fn() -> F,
{
    let started = tokio::time::Instant::now();
    let mut pause = Duration::from_millis(2);
    for _ in 1..limits.statement_tries {
        match run().await {
            Err(error) if is_passing(&error) && started.elapsed() < limits.statement_patience => {
                tracing::debug!(%error, "running a keyed statement again");
            }
            result => return result,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(200));
    }
    run().await
}

/// Whether the same statement may well succeed when it is run again.
fn is_passing(error: &sqlx::Error) -> bool {
    if let Some(code) = error.as_database_error().and_then(sqlx::error::DatabaseError::code) {
        return is_passing_code(&code);
    }
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed)
}

/// Serialization failure, deadlock, lock timeout, a primary that became read-only, too many connections, and the shutdown and
/// connection classes.
fn is_passing_code(code: &str) -> bool {
    matches!(code, "40001" | "40P01" | "55P03" | "25006" | "53300" | "57P01" | "57P02" | "57P03")
        || code.starts_with("08")
}

/// The name of the constraint that refused the statement, if one did.
pub(crate) fn refused_by(error: &sqlx::Error) -> Option<&str> {
    error.as_database_error().and_then(sqlx::error::DatabaseError::constraint)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, io, time::Duration};

    use super::{is_passing_code, keyed};
    use crate::limits::Limits;

    fn broken() -> sqlx::Error {
        sqlx::Error::Io(io::ErrorKind::ConnectionReset.into())
    }

    #[test]
    fn b44_what_passes_by_itself_is_tried_again_and_a_refusal_is_not() {
        for passing in ["40001", "40P01", "55P03", "25006", "57P01", "57P03", "53300", "08006"] {
            assert!(is_passing_code(passing), "{passing}");
        }
        // Unique, foreign key, check, failed transaction, statement timeout, syntax.
        for lasting in ["23505", "23503", "23514", "25P02", "57014", "42601"] {
            assert!(!is_passing_code(lasting), "{lasting}");
        }
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
