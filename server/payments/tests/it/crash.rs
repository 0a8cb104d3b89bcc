//! Executors that die or come back too late.

use std::{sync::Arc, time::Duration};

use payments::{limits::Limits, recover};
use sqlx::PgPool;
use tokio::sync::Semaphore;

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{count, eventually, lamp, pay_with, replica, replica_with, state_of},
};

fn short_lease() -> Limits {
    Limits { lease: Duration::from_millis(30), pay_wait: Duration::from_millis(20), ..Limits::default() }
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_50_51_what_a_dead_executor_left_is_finished_with_one_charge(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let doomed = replica_with(&pool, &provider, short_lease());
    let survivor = replica(&pool, &provider);
    for mood in [Mood::PanicBefore, Mood::ChargeThenPanic] {
        let order = lamp(&doomed).await;
        let intent = doomed.ids.intent();
        provider.next([mood]);
        pay_with(&doomed, &order, intent).await.unwrap_err();

        eventually("the lease ends and recovery settles", || async {
            recover::run_once(&survivor).await.unwrap();
            state_of(&pool, intent).await.filter(|state| state == "succeeded")
        })
        .await;
        assert_eq!(pay_with(&survivor, &order, intent).await.unwrap().answer.status, 200);
    }
    assert_eq!(recover::run_once(&survivor).await.unwrap(), 0);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_23_an_executor_that_lost_its_lease_changes_nothing(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let slow = replica_with(&pool, &provider, short_lease());
    let other = replica(&pool, &provider);
    let order = lamp(&slow).await;
    let intent = slow.ids.intent();
    let gate = Arc::new(Semaphore::new(0));
    provider.next([Mood::Gate(Arc::clone(&gate)), Mood::Decline]);
    pay_with(&slow, &order, intent).await.unwrap_err();

    eventually("recovery re-sends and is declined", || async {
        recover::run_once(&other).await.unwrap();
        state_of(&pool, intent).await.filter(|state| state == "failed")
    })
    .await;
    let archived = pay_with(&other, &order, intent).await.unwrap();
    gate.add_permits(1);
    slow.tasks.close();
    slow.tasks.wait().await;

    // The provider answered the late confirm from its memory of the key, so that there is no charge either.
    assert_eq!(provider.charges().len(), 0);
    assert_eq!(pay_with(&other, &order, intent).await.unwrap().answer, archived.answer);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn two_recoveries_at_once_take_each_intent_once(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let doomed = replica_with(&pool, &provider, short_lease());
    let survivors = [replica(&pool, &provider), replica(&pool, &provider)];
    for _ in 0..6 {
        let order = lamp(&doomed).await;
        provider.next([Mood::PanicBefore]);
        pay_with(&doomed, &order, doomed.ids.intent()).await.unwrap_err();
    }

    eventually("all are paid", || async {
        let (one, two) = tokio::join!(recover::run_once(&survivors[0]), recover::run_once(&survivors[1]));
        one.unwrap();
        two.unwrap();
        (count(&pool, "select count(*) from intents where state = 'succeeded'").await == 6).then_some(())
    })
    .await;
    assert_eq!(provider.confirms().len(), 12, "each is sent again once");
    assert_books_balance(&pool, &provider).await;
}
