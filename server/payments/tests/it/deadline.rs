//! The deadline of an unknown outcome: only what the provider says decides, and the customer can pay again at once.

use std::{sync::Arc, time::Duration};

use payments::{
    Ctx,
    ids::IntentId,
    intent::{IntentKey, State},
    limits::Limits,
    order::{self, Order, OrderState},
    outcome,
    pay::PayError,
    recover,
};
use sqlx::PgPool;

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{body, count, eventually, lamp, pay_until_answered, pay_with, replica_with, request, state_of},
};

/// A replica whose customers wait 300 ms for certainty.
fn impatient(pool: &PgPool, provider: &Arc<Fake>) -> Ctx {
    let limits = Limits {
        pay_wait: Duration::from_millis(20),
        first_pause: Duration::from_millis(5),
        longest_look_pause: Duration::from_millis(20),
        unknown_deadline: Duration::from_millis(300),
        ..Limits::default()
    };
    replica_with(pool, provider, limits)
}

async fn recovered(ctx: &Ctx, pool: &PgPool, intent: IntentId, end: &str) {
    eventually(end, || async {
        recover::run_once(ctx).await.unwrap();
        state_of(pool, intent).await.filter(|state| state == end)
    })
    .await;
}

async fn reread(ctx: &Ctx, order: &Order) -> Order {
    order::find_by_token(ctx, &order.token).await.unwrap().unwrap()
}

/// A provider whose key remembers a fault answers each re-send with that fault, so that nothing but a cancelled payment intent
/// can tell. The order then gets its next payment intent, and the customer pays with the next intent at once.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b53_at_the_deadline_the_cancelled_payment_intent_proves_not_charged(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = impatient(&pool, &provider);
    let order = lamp(&ctx).await;
    let (intent, next) = (ctx.ids.intent(), ctx.ids.intent());
    provider.next(vec![Mood::LoseBefore; 1_000]);

    assert!(matches!(pay_with(&ctx, &order, intent).await, Err(PayError::InProgress) | Ok(_)));
    assert!(matches!(pay_with(&ctx, &order, next).await, Err(PayError::OrderTaken(by)) if by == intent));
    recovered(&ctx, &pool, intent, "failed").await;

    let answer = pay_until_answered(&ctx, &order, intent).await;
    assert_eq!(answer.answer.status, 402);
    assert!(body(&answer).contains(r#""decline":"not_charged""#), "{}", body(&answer));
    assert_eq!(reread(&ctx, &order).await.provider_payment_intent, None, "the cancelled one is let go");
    assert_eq!(provider.charges(), []);
    let sent = provider.confirms().len();

    provider.forget_moods();
    let again = request(&order, next);
    let paid = payments::pay::pay(&ctx, payments::pay::PayRequest { replaces: Some(intent), ..again }).await;
    assert!(matches!(paid, Ok(ref answer) if answer.answer.status == 200) || matches!(paid, Err(PayError::InProgress)));
    recovered(&ctx, &pool, next, "succeeded").await;
    let confirms = provider.confirms();
    assert_eq!(confirms.len(), sent + 1);
    assert_ne!(confirms[sent].payment_intent, confirms[0].payment_intent);
    assert!(confirms[..sent].iter().all(|confirm| *confirm == confirms[0]), "I9: always the identical bytes");
    assert_books_balance(&pool, &provider).await;
}

/// The clock alone decides nothing: while the provider says nothing, the deadline passes and the outcome stays unknown.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn after_the_deadline_silence_is_still_no_outcome(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = impatient(&pool, &provider);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    provider.set_blind(true);
    provider.set_deaf(true);
    provider.next([Mood::ChargeThenLose]);
    assert!(matches!(pay_with(&ctx, &order, intent).await, Err(PayError::InProgress) | Ok(_)));

    eventually("cancelling was tried", || async {
        recover::run_once(&ctx).await.unwrap();
        (provider.cancels() > 2).then_some(())
    })
    .await;
    assert_eq!(state_of(&pool, intent).await.as_deref(), Some("unknown"));

    provider.set_blind(false);
    recovered(&ctx, &pool, intent, "succeeded").await;
    assert_books_balance(&pool, &provider).await;
}

/// A charge that was made although nobody could see it is found by the cancelling itself.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_cancel_that_comes_too_late_finds_the_charge(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = impatient(&pool, &provider);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    provider.set_blind(true);
    provider.next([Mood::ChargeThenLose]);
    assert!(matches!(pay_with(&ctx, &order, intent).await, Err(PayError::InProgress) | Ok(_)));
    eventually("the deadline is over", || async {
        recover::run_once(&ctx).await.unwrap();
        (provider.cancels() > 0).then_some(())
    })
    .await;

    provider.set_blind(false);
    recovered(&ctx, &pool, intent, "succeeded").await;
    assert!(matches!(reread(&ctx, &order).await.state, OrderState::Paid(payment) if payment.intent == intent));
    assert_books_balance(&pool, &provider).await;
}

/// The original request that was believed lost reaches the provider after everybody was told "not charged": the payment intent
/// that it confirms is cancelled, and the next one has another name.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_late_original_meets_a_cancelled_payment_intent(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = impatient(&pool, &provider);
    let order = lamp(&ctx).await;
    let (intent, next) = (ctx.ids.intent(), ctx.ids.intent());
    provider.next(vec![Mood::LoseBefore; 1_000]);
    assert!(matches!(pay_with(&ctx, &order, intent).await, Err(PayError::InProgress) | Ok(_)));
    recovered(&ctx, &pool, intent, "failed").await;
    provider.forget_moods();
    let original = provider.confirms()[0].clone();

    let late = payments::provider::Provider::confirm(&*provider, &original).await;
    assert!(matches!(late, payments::provider::ConfirmOutcome::Unknown(_)), "{late:?}");
    pay_until_answered(&ctx, &order, next).await;
    recovered(&ctx, &pool, next, "succeeded").await;
    let later = payments::provider::Provider::confirm(&*provider, &original).await;
    assert!(matches!(later, payments::provider::ConfirmOutcome::Unknown(_)), "{later:?}");

    assert_eq!(provider.charges().len(), 1);
    assert_books_balance(&pool, &provider).await;
}

/// What waits for the customer at the bank has no deadline of ours.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_bank_step_is_not_cancelled_at_the_deadline(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = impatient(&pool, &provider);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    provider.next([Mood::BankStep]);
    assert_eq!(pay_until_answered(&ctx, &order, intent).await.answer.status, 202);
    let probed = provider.probes();
    eventually("it was looked at long after the deadline", || async {
        recover::run_once(&ctx).await.unwrap();
        let age = "select count(*) from intents where created_at < now() - interval '600 ms'";
        (count(&pool, age).await == 1 && provider.probes() > probed + 1).then_some(())
    })
    .await;

    assert_eq!(provider.cancels(), 0);
    let seen = outcome::ask(&ctx, &order.token, Some(intent)).await.unwrap().unwrap().intent.unwrap();
    assert_eq!((seen.key, seen.standing.state()), (IntentKey::pay(order.id, intent), State::ActionRequired));
    assert_books_balance(&pool, &provider).await;
}
