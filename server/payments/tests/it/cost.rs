//! What a payment costs the database, counted by the database.

use std::{sync::Arc, time::Duration};

use payments::{limits::Limits, pool::connect};
use sqlx::{Connection as _, PgConnection, PgPool, postgres::PgPoolOptions};

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
/// (its start, and a prepare of each statement) is the same in both rounds and falls out.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_payment_costs_two_statements_and_two_commits(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let options = pool.connect_options().as_ref().clone();
    let database = options.get_database().unwrap().to_owned();
    let ctx = replica(&pool, &provider);
    let mut orders = Vec::new();
    for _ in 0..PAYMENTS + 2 {
        orders.push(lamp(&ctx).await);
    }
    pool.close().await;
    let mut observer = PgConnection::connect_with(&options.clone().database("postgres")).await.unwrap();

    let mut costs = Vec::new();
    let mut before = commits(&mut observer, &database).await;
    for round in [orders.split_off(1), orders] {
        let paying = PgPoolOptions::new().max_connections(1).connect_with(options.clone()).await.unwrap();
        // A tick this short would show any query for an intent that this replica runs itself.
        let limits = Limits { waiters_tick: Duration::from_millis(1), ..Limits::default() };
        let ctx = replica_with(&paying, &provider, limits);
        for order in &round {
            assert_eq!(pay_with(&ctx, order, ctx.ids.intent()).await.unwrap().answer.status, 200);
        }
        paying.close().await;
        let after = commits(&mut observer, &database).await;
        costs.push(after - before);
        before = after;
    }

    assert_eq!(costs[0] - costs[1], 2 * PAYMENTS);
    let reading = PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    assert_books_balance(&reading, &provider).await;
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
