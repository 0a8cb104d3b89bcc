//! Many at once: repeats, second intents, callers who leave, replicas.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use payments::{limits::Limits, outcome, pay::PayError};
use sqlx::{PgPool, postgres::PgPoolOptions};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{count, eventually, lamp, pay_with, replica, replica_with, state_of},
};

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fifty_at_once_over_two_replicas_are_one_charge_and_the_same_bytes(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let replicas = [replica(&pool, &provider), replica(&pool, &provider)];
    let order = lamp(&replicas[0]).await;
    let intent = replicas[0].ids.intent();

    let answers = join_all((0..50).map(|n| pay_with(&replicas[n % 2], &order, intent))).await;

    let answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().answer).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.status == 200));
    assert_eq!(provider.confirms().len(), 1);
    for replica in &replicas {
        replica.tasks.close();
        timeout(Duration::from_secs(5), replica.tasks.wait()).await.unwrap();
        assert!(replica.waiters.is_empty());
    }
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b46_a_second_intent_of_an_order_that_is_being_paid_or_is_paid_starts_nothing(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    let (first, second) = (ctx.ids.intent(), ctx.ids.intent());
    let gate = Arc::new(Semaphore::new(0));
    provider.next([Mood::Gate(Arc::clone(&gate))]);

    let paying = ctx.tasks.spawn({
        let (ctx, order) = (ctx.clone(), order.clone());
        async move { pay_with(&ctx, &order, first).await }
    });
    eventually("the first is reserved", || async { state_of(&pool, first).await }).await;
    let taken = pay_with(&ctx, &order, second).await;
    assert!(matches!(taken, Err(PayError::OrderTaken(by)) if by == first));
    gate.add_permits(1);
    assert_eq!(paying.await.unwrap().unwrap().answer.status, 200);
    let taken = pay_with(&ctx, &order, second).await;
    assert!(matches!(taken, Err(PayError::OrderTaken(by)) if by == first));
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn many_intents_at_once_for_one_order_are_one_charge(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let replicas = [replica(&pool, &provider), replica(&pool, &provider)];
    let order = lamp(&replicas[0]).await;

    let answers = join_all((0..40).map(|n| pay_with(&replicas[n % 2], &order, replicas[0].ids.intent()))).await;

    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(PayError::OrderTaken(_)))));
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_20_callers_who_leave_at_any_moment_stop_no_payment(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    for wait in [0, 1, 2, 3, 4, 6, 8, 12, 20] {
        let order = lamp(&ctx).await;
        let intent = ctx.ids.intent();
        let left = timeout(Duration::from_millis(wait), pay_with(&ctx, &order, intent)).await;
        drop(left);
        // Whoever left before the first poll has sent nothing; everybody else's payment ends by itself.
        if wait > 0 {
            let paid = || async { state_of(&pool, intent).await.filter(|state| state == "succeeded") };
            eventually("the payment ends", paid).await;
        }
    }
    assert_eq!(
        count(
            &pool,
            "select count(*) from pg_stat_activity where state like 'idle in transaction%'
        and datname = current_database()"
        )
        .await,
        0
    );
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_09_those_who_wait_hold_no_connection(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let options = pool.connect_options().as_ref().clone();
    let narrow = PgPoolOptions::new().max_connections(2).connect_with(options).await.unwrap();
    let replicas = [replica(&narrow, &provider), replica(&narrow, &provider)];
    let order = lamp(&replicas[0]).await;
    let intent = replicas[0].ids.intent();
    let gate = Arc::new(Semaphore::new(0));
    provider.next([Mood::Gate(Arc::clone(&gate))]);

    let waiting = replicas[0].tasks.spawn({
        let (replicas, order) = (replicas.clone(), order.clone());
        async move { join_all((0..60).map(|n| pay_with(&replicas[n % 2], &order, intent))).await }
    });
    eventually("all wait", || async {
        let waiting = replicas.iter().all(|replica| replica.waiters.len() == 1);
        (waiting && narrow.num_idle() == 2).then_some(())
    })
    .await;
    let (one, two) = (narrow.acquire().await.unwrap(), narrow.acquire().await.unwrap());
    drop((one, two));
    gate.add_permits(1);

    for answer in waiting.await.unwrap() {
        assert_eq!(answer.unwrap().answer.status, 200);
    }
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_33_a_wait_that_is_over_tells_that_the_payment_is_under_way(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica_with(&pool, &provider, Limits { pay_wait: Duration::from_millis(50), ..Limits::default() });
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    let gate = Arc::new(Semaphore::new(0));
    provider.next([Mood::Gate(Arc::clone(&gate))]);

    assert!(matches!(pay_with(&ctx, &order, intent).await, Err(PayError::InProgress)));
    let seen = outcome::ask(&ctx, &order.token, Some(intent)).await.unwrap().unwrap();
    assert!(seen.received);
    assert_eq!(seen.intent.unwrap().standing.state().as_str(), "pending");
    assert_eq!(provider.probes(), 0, "nobody looks while the executor is at work");

    gate.add_permits(1);
    eventually("it is paid", || async {
        outcome::ask(&ctx, &order.token, None)
            .await
            .unwrap()
            .unwrap()
            .intent
            .filter(|intent| intent.standing.state().is_final())
    })
    .await;
    assert_books_balance(&pool, &provider).await;
}
