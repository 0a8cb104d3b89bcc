//! Notices: what the provider says unasked may come before its answer, after it, twice, or out of order.

use std::{sync::Arc, time::Duration};

use payments::{
    intent::Standing,
    limits::Limits,
    notice::{self, Notice},
    order::{self, OrderState},
    provider::{ProviderCharge, ProviderPaymentIntentId},
};
use sqlx::PgPool;
use tokio::sync::Semaphore;

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{count, eventually, lamp, pay_with, replica, replica_with, state_of},
};

async fn charge_of(provider: &Fake) -> ProviderCharge {
    eventually("the provider has charged", || async { provider.charges().first().map(|(_, charge)| charge.clone()) })
        .await
}

/// The provider charges and tells of it, while its answer to the confirm is still on the way. Whoever waits, on the replica that
/// runs the payment and on the one that took the notice, gets the archived bytes at once; the late answer changes nothing.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b63_a_notice_that_overtakes_the_answer_settles_and_wakes_who_waits(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let limits =
        Limits { waiters_tick: Duration::from_millis(5), pay_wait: Duration::from_secs(20), ..Limits::default() };
    let (runs, hears) = (replica_with(&pool, &provider, limits.clone()), replica_with(&pool, &provider, limits));
    let order = lamp(&runs).await;
    let intent = runs.ids.intent();
    let gate = Arc::new(Semaphore::new(0));
    provider.next([Mood::ChargeThenGate(Arc::clone(&gate))]);

    let (first, second) = (runs.clone(), hears.clone());
    let (of_first, of_second) = (order.clone(), order.clone());
    let first = runs.tasks.spawn(async move { pay_with(&first, &of_first, intent).await });
    let charge = charge_of(&provider).await;
    let second = runs.tasks.spawn(async move { pay_with(&second, &of_second, intent).await });

    let standing = notice::take(&hears, payment_intent(&order), Notice::Charged(charge.clone()), None).await.unwrap();
    let archived = standing.unwrap().archive().unwrap().kept().unwrap().answer().clone();
    let first = first.await.unwrap().unwrap();
    let second = second.await.unwrap().unwrap();
    assert_eq!((&first.answer, &second.answer), (&archived, &archived));
    assert_eq!(archived.status, 200);

    gate.add_permits(1);
    eventually("the executor has ended", || async { runs.waiters.is_empty().then_some(()) }).await;
    assert_eq!(pay_with(&runs, &order, intent).await.unwrap().answer, archived);
    assert_eq!(provider.charges().len(), 1);
    assert_books_balance(&pool, &provider).await;
}

fn payment_intent(order: &order::Order) -> &ProviderPaymentIntentId {
    order.provider_payment_intent.as_ref().unwrap()
}

/// B64: the news that an earlier try was declined come when a later one has been paid, or is under way.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b64_old_news_of_a_failed_try_lower_nothing(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    let (declined, paid) = (ctx.ids.intent(), ctx.ids.intent());
    provider.next([Mood::Decline]);
    assert_eq!(pay_with(&ctx, &order, declined).await.unwrap().answer.status, 402);
    assert_eq!(pay_with(&ctx, &order, paid).await.unwrap().answer.status, 200);

    for _ in 0..3 {
        let standing = notice::take(&ctx, payment_intent(&order), Notice::Changed, None).await.unwrap().unwrap();
        assert!(matches!(standing, Standing::Succeeded { .. }));
    }
    assert_eq!(state_of(&pool, declined).await.as_deref(), Some("failed"));
    let order = order::find_by_token(&ctx, &order.token).await.unwrap().unwrap();
    assert!(matches!(order.state, OrderState::Paid(payment) if payment.intent == paid));
    assert_books_balance(&pool, &provider).await;
}

/// The same news fifty times at once, over two replicas: one effect.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_w2_fifty_copies_of_a_notice_have_one_effect(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let replicas = [replica(&pool, &provider), replica(&pool, &provider)];
    let order = lamp(&replicas[0]).await;
    let intent = replicas[0].ids.intent();
    provider.set_blind(true);
    provider.next([Mood::ChargeThenLose]);
    let waiting = replicas[0].tasks.spawn({
        let (ctx, order) = (replicas[0].clone(), order.clone());
        async move { pay_with(&ctx, &order, intent).await }
    });
    let charge = charge_of(&provider).await;

    let copies = (0..50).map(|copy| {
        let (ctx, charge) = (&replicas[copy % 2], charge.clone());
        notice::take(ctx, payment_intent(&order), Notice::Charged(charge), None)
    });
    for standing in futures::future::join_all(copies).await {
        assert!(matches!(standing.unwrap(), Some(Standing::Succeeded { .. })));
    }
    assert_eq!(waiting.await.unwrap().unwrap().answer.status, 200);
    assert_eq!(count(&pool, "select count(*) from ledger_entries").await, 2);
    assert_eq!(count(&pool, "select count(*) from outbox_events").await, 1);
    assert_eq!(count(&pool, "select count(*) from discrepancies").await, 0);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_notice_about_nothing_of_ours_changes_nothing(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let stranger = ProviderPaymentIntentId::parse("pi_of_somebody_else").unwrap();

    assert_eq!(notice::take(&ctx, &stranger, Notice::Cancelled, None).await.unwrap(), None);
    assert_eq!(count(&pool, "select count(*) from intents").await, 0);
}
