//! What a payment costs the database, counted by the database.

use std::{sync::Arc, time::Duration};

use payments::{limits::Limits, pool::connect};
use sqlx::{
    Connection as _, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use crate::{
    books::assert_books_balance,
    fake::Fake,
    support::{eventually, lamp, pay_with, replica, replica_with},
};

const PAYMENTS: i64 = 20;

/// Commits in this database, once all its connections are gone and have reported.
async fn commits(observer: &mut PgConnection, database: &str) -> i64 {
    let observer = tokio::sync::Mutex::new(observer);
    eventually("all connections are gone", || async {
        let mut observer = observer.lock().await;
        let open: i64 = sqlx::query_scalar("select count(*) from pg_stat_activity where datname = $1")
            .bind(database)
            .fetch_one(&mut **observer)
            .await
            .unwrap();
        (open == 0).then_some(())
    })
    .await;
    sqlx::query_scalar("select xact_commit from pg_stat_database where datname = $1")
        .bind(database)
        .fetch_one(&mut **observer.lock().await)
        .await
        .unwrap()
}

/// Every statement of this crate commits by itself, so that two commits are two statements. What a connection costs once
/// (its start, and a prepare of each statement) is the same in both rounds and falls out; what the database's own housekeeping
/// commits meanwhile does not, so three tries are allowed to be undisturbed.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_payment_costs_two_statements_and_two_commits(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let options = pool.connect_options().as_ref().clone();
    pool.close().await;
    let mut differences = Vec::new();
    while differences.len() < 3 && !differences.contains(&(2 * PAYMENTS)) {
        let many = commits_of(&options, &provider, PAYMENTS + 1).await;
        let one = commits_of(&options, &provider, 1).await;
        differences.push(many - one);
    }
    assert!(differences.contains(&(2 * PAYMENTS)), "commits of {PAYMENTS} payments: {differences:?}");
    let reading = PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    assert_books_balance(&reading, &provider).await;
}

/// Commits of a fresh connection that pays this many orders, which were made before.
async fn commits_of(options: &PgConnectOptions, provider: &Arc<Fake>, payments: i64) -> i64 {
    let database = options.get_database().unwrap();
    let mut observer = PgConnection::connect_with(&options.clone().database("postgres")).await.unwrap();
    let pool = || PgPoolOptions::new().max_connections(1).connect_with(options.clone());

    let ordering = pool().await.unwrap();
    let ctx = replica(&ordering, provider);
    let mut orders = Vec::new();
    for _ in 0..payments {
        orders.push(lamp(&ctx).await);
    }
    ordering.close().await;

    let before = commits(&mut observer, database).await;
    let paying = pool().await.unwrap();
    // A tick this short would show any query for an intent that this replica runs itself.
    let ctx = replica_with(&paying, provider, Limits { waiters_tick: Duration::from_millis(1), ..Limits::default() });
    for order in &orders {
        assert_eq!(pay_with(&ctx, order, ctx.ids.intent()).await.unwrap().answer.status, 200);
    }
    paying.close().await;
    commits(&mut observer, database).await - before
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_unreachable_database_sends_nothing_to_the_provider(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    pool.close().await;

    let refused = pay_with(&ctx, &order, ctx.ids.intent()).await;

    assert!(matches!(refused, Err(payments::pay::PayError::Unavailable(_))));
    assert!(provider.confirms().is_empty());
    let nobody_there = "postgres://nobody@127.0.0.1:1/nothing";
    assert!(tokio::time::timeout(Duration::from_secs(10), connect(nobody_there, 1)).await.unwrap().is_err());
}
