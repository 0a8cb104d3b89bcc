//! The schema, and how a starting replica brings it up to date.
//!
//! Any number of replicas may start at once, also of two releases. One migrates while the others look again and again; they never
//! wait inside a statement, since an index that is built concurrently waits for every statement there is, and so for them.

use sqlx::{
    Connection as _, Either, PgConnection,
    migrate::{MigrateError, Migrator},
    postgres::PgAdvisoryLock,
};
use tokio::time::{Instant, sleep};

use crate::{
    limits::{MIGRATION_LOOK_PAUSE, MIGRATION_PATIENCE},
    pool::Pool,
};

/// The migrations, as `migrations/` at the root of the repository lays them down.
pub static MIGRATOR: Migrator = sqlx::migrate!("../../migrations");

/// What replicas of every release call the right to migrate.
const LOCK: &str = "payonce schema";

/// Applies what is missing. What a later release has applied stays: that release is written so that this one can go on.
///
/// # Errors
/// When the database cannot be reached or refuses a migration, or another replica is at it for too long.
pub async fn migrate(pool: &Pool) -> Result<(), MigrateError> {
    // Of its own, since reading or filling a large table takes longer than any statement of a payment may. The limit on waiting
    // for locks stays: payments would queue behind a migration that waits.
    let options = pool.primary().options([("statement_timeout", "0")]);
    let connection = PgConnection::connect_with(&options).await?;
    let mut connection = alone(connection).await?;

    let mut migrator = Migrator::with_migrations(MIGRATOR.iter().cloned().collect());
    migrator.set_locking(false);
    migrator.set_ignore_missing(true);
    migrator.run(&mut connection).await?;

    // The end of the connection is the end of its lock.
    connection.close().await?;
    Ok(())
}

/// The connection, once it holds the lock.
async fn alone(mut connection: PgConnection) -> Result<PgConnection, MigrateError> {
    let lock = PgAdvisoryLock::new(LOCK);
    let until = Instant::now() + MIGRATION_PATIENCE;
    loop {
        connection = match lock.try_acquire(connection).await? {
            Either::Left(guard) => return Ok(guard.leak()),
            Either::Right(connection) if Instant::now() < until => connection,
            Either::Right(_) => return Err(sqlx::Error::PoolTimedOut.into()),
        };
        sleep(MIGRATION_LOOK_PAUSE).await;
    }
}
