//! The customer goes to the bank and does not come back: whoever learns how it ended settles it, once.

use std::{sync::Arc, time::Duration};

use payments::{
    Ctx,
    ids::IntentId,
    limits::Limits,
    notice::{self, Notice},
    order::{self, Order, OrderState},
    recover,
};
use sqlx::PgPool;
use tokio::sync::Semaphore;

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{body, eventually, lamp, pay_with, replica_with, state_of},
};

/// An intent that waits for its customer at the bank, at a replica that looks after it every few milliseconds.
async fn at_the_bank(pool: &PgPool, provider: &Arc<Fake>, bank_deadline: Duration) -> (Ctx, Order, IntentId) {
    let limits = Limits {
        first_pause: Duration::from_millis(5),
        longest_look_pause: Duration::from_millis(20),
        bank_deadline,
        ..Limits::default()
    };
    let ctx = replica_with(pool, provider, limits);
    let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
    provider.next([Mood::BankStep]);
    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer.status, 202);
    (ctx, order, intent)
}

async fn recovered(ctx: &Ctx, pool: &PgPool, intent: IntentId, end: &str) {
    eventually(end, || async {
        recover::run_once(ctx).await.unwrap();
        state_of(pool, intent).await.filter(|state| state == end)
    })
    .await;
}

const HOUR: Duration = Duration::from_hours(1);

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_event_alone_settles_a_bank_step(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let (ctx, order, intent) = at_the_bank(&pool, &provider, HOUR).await;
    provider.end_bank_step(true);
    let charge = provider.charges()[0].1.clone();
    let payment_intent = order.provider_payment_intent.as_ref().unwrap();
    provider.set_blind(true);

    notice::take(&ctx, payment_intent, Notice::Charged(charge), None).await.unwrap().unwrap();

    assert_eq!(state_of(&pool, intent).await.as_deref(), Some("succeeded"));
    let paid = order::find_by_id(&ctx, order.id).await.unwrap().unwrap();
    assert!(matches!(paid.state, OrderState::Paid(payment) if payment.intent == intent));
    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer.status, 200);
    assert_eq!((provider.probes(), provider.confirms().len()), (0, 1));
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn recovery_settles_a_bank_step_of_which_no_event_comes(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    for (approved, end) in [(true, "succeeded"), (false, "failed")] {
        let (ctx, order, intent) = at_the_bank(&pool, &provider, HOUR).await;
        recover::run_once(&ctx).await.unwrap();
        assert_eq!(state_of(&pool, intent).await.as_deref(), Some("action_required"), "it is the customer's turn");
        provider.end_bank_step(approved);
        recovered(&ctx, &pool, intent, end).await;
        let answer = pay_with(&ctx, &order, intent).await.unwrap();
        assert_eq!(answer.answer.status, if approved { 200 } else { 402 });
        assert_eq!(body(&answer).contains("bank_check_failed"), !approved);
    }
    assert_eq!((provider.charges().len(), provider.cancels(), provider.confirms().len()), (1, 0, 2));
    assert_books_balance(&pool, &provider).await;
}

/// The provider is silent beyond the deadline: at the bank it stays, since the clock proves nothing.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn past_the_deadline_of_the_bank_silence_is_no_outcome(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let (ctx, order, intent) = at_the_bank(&pool, &provider, Duration::ZERO).await;
    provider.set_blind(true);
    provider.set_deaf(true);
    eventually("cancelling was tried", || async {
        recover::run_once(&ctx).await.unwrap();
        (provider.cancels() > 2).then_some(())
    })
    .await;
    assert_eq!(state_of(&pool, intent).await.as_deref(), Some("action_required"));
    provider.set_blind(false);
    provider.set_deaf(false);
    recovered(&ctx, &pool, intent, "failed").await;
    assert!(body(&pay_with(&ctx, &order, intent).await.unwrap()).contains("not_charged"));
    assert_eq!(provider.charges(), []);
    assert_books_balance(&pool, &provider).await;
}

/// The customer approves while the deadline is being enforced: the cancelling finds the charge.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_approval_that_is_faster_than_the_cancelling_is_paid(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let (ctx, order, intent) = at_the_bank(&pool, &provider, Duration::ZERO).await;
    let gate = Arc::new(Semaphore::new(0));
    provider.hold_cancels(Some(Arc::clone(&gate)));
    provider.set_blind(true);
    provider.end_bank_step(true);
    let recovering = ctx.clone();
    let recovery = ctx.tasks.spawn(async move {
        eventually("it is due", || async { (recover::run_once(&recovering).await.unwrap() > 0).then_some(()) }).await;
    });
    eventually("it is being cancelled", || async { (provider.cancels() == 1).then_some(()) }).await;
    provider.set_blind(false);
    gate.add_permits(1);
    recovery.await.unwrap();
    assert_eq!(state_of(&pool, intent).await.as_deref(), Some("succeeded"));
    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer.status, 200);
    assert_books_balance(&pool, &provider).await;
}
