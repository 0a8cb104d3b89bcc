//! Replicas that start together, and replicas of two releases.

use futures::future::join_all;
use payments::{MIGRATOR, pool::Pool, schema::migrate};
use sqlx::{
    PgPool, SqlSafeStr as _,
    migrate::{Migration, MigrationType, Migrator},
};

use crate::support::count;

/// One of the files builds an index concurrently, which waits for every statement under way: also for that of a replica which
/// waits for its turn to migrate, if that waiting were a statement. Postgres then ends one of the two as a deadlock.
#[sqlx::test(migrations = false)]
async fn replicas_that_start_at_once_all_start(pool: PgPool) {
    let replicas = Pool::from(pool.clone());
    let started = join_all((0..8).map(|_| migrate(&replicas))).await;

    for replica in started {
        replica.unwrap();
    }
    let applied = count(&pool, "select count(*) from _sqlx_migrations where success").await;
    assert_eq!(usize::try_from(applied).unwrap(), MIGRATOR.iter().count());
    assert_eq!(count(&pool, "select count(*) from pg_index where not indisvalid").await, 0);
}

/// A replica of this release that is started again in the middle of the next deploy, or a deploy that is taken back.
#[sqlx::test(migrator = "MIGRATOR")]
async fn fault_k3_this_release_starts_on_the_schema_of_a_later_one(pool: PgPool) {
    let later = Migration::new(
        29_991_231_235_959,
        "add intents later".into(),
        MigrationType::Simple,
        "alter table intents add column later text".into_sql_str(),
        false,
    );
    let next_release = Migrator::with_migrations(MIGRATOR.iter().cloned().chain([later]).collect());
    next_release.run(&pool).await.unwrap();

    migrate(&Pool::from(pool.clone())).await.unwrap();

    let added =
        "select count(*) from information_schema.columns where table_name = 'intents' and column_name = 'later'";
    assert_eq!(count(&pool, added).await, 1);
}
