//! Lost answers, locks, bank steps: nothing of that is ever a second charge, and none is an end.

use std::{sync::Arc, time::Duration};

use payments::{
    Ctx,
    ids::IntentId,
    intent::State,
    limits::Limits,
    order::{Order, OrderState},
    outcome,
    pay::PayError,
    recover,
};
use sqlx::PgPool;

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{body, count, eventually, lamp, pay_until_answered, pay_with, replica, replica_with, state_of},
};

async fn state(ctx: &Ctx, order: &Order, intent: IntentId) -> State {
    outcome::ask(ctx, &order.token, Some(intent)).await.unwrap().unwrap().intent.unwrap().standing.state()
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b03_a_lost_answer_never_becomes_a_second_charge(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    for mood in [Mood::ChargeThenLose, Mood::LoseBefore] {
        let order = lamp(&ctx).await;
        let intent = ctx.ids.intent();
        provider.next([mood]);

        let answer = pay_with(&ctx, &order, intent).await.unwrap();

        assert_eq!(answer.answer.status, 200);
        assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer, answer.answer);
    }
    let confirms = provider.confirms();
    assert_eq!(confirms.len(), 3, "only the one that never arrived is sent again");
    assert_eq!(confirms[1], confirms[2], "I9: with the same key and the same bytes");
    assert_books_balance(&pool, &provider).await;
}

/// "No money was taken" is only said of a repeat's decline if the payment intent agrees.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_declined_repeat_does_not_hide_that_the_first_send_was_charged(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    provider.next([Mood::LoseBefore, Mood::ChargeThenDecline]);

    let answer = pay_until_answered(&ctx, &order, intent).await;

    assert_eq!(answer.answer.status, 200, "{}", body(&answer));
    assert_eq!(state(&ctx, &order, intent).await, State::Succeeded);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b49_while_nobody_can_tell_it_is_unknown_and_never_failed(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let limits = Limits {
        pay_wait: Duration::from_millis(200),
        first_pause: Duration::from_millis(5),
        longest_look_pause: Duration::from_millis(20),
        ..Limits::default()
    };
    let ctx = replica_with(&pool, &provider, limits);
    let order = lamp(&ctx).await;
    let (intent, other) = (ctx.ids.intent(), ctx.ids.intent());
    provider.set_blind(true);
    provider.next([Mood::ChargeThenLose]);

    let answer = pay_until_answered(&ctx, &order, intent).await;
    assert_eq!(answer.answer.status, 202);
    assert!(body(&answer).ends_with(r#""state":"PENDING","amount":4990,"currency":"EUR","detail":"unknown"}"#));
    assert_eq!(state(&ctx, &order, intent).await, State::Unknown);
    assert!(matches!(pay_with(&ctx, &order, other).await, Err(PayError::OrderTaken(by)) if by == intent));

    provider.set_blind(false);
    eventually("recovery finds the charge", || async {
        recover::run_once(&ctx).await.unwrap();
        state_of(&pool, intent).await.filter(|state| state == "succeeded")
    })
    .await;
    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer.status, 200);
    assert_eq!(provider.confirms().len(), 1);
    assert_books_balance(&pool, &provider).await;
}

/// As after a process stood still, perhaps for longer than the provider remembers keys: its lease is over when it comes to send.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn nothing_is_sent_when_the_lease_is_over(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let late = Limits {
        pay_wait: Duration::from_millis(200),
        lease: Duration::ZERO,
        first_pause: Duration::from_millis(5),
        longest_look_pause: Duration::from_millis(20),
        chase_looks: 3,
        ..Limits::default()
    };
    let (late, healthy) = (replica_with(&pool, &provider, late), replica(&pool, &provider));
    let order = lamp(&late).await;
    let intent = late.ids.intent();

    let answer = pay_until_answered(&late, &order, intent).await;
    assert_eq!(answer.answer.status, 202, "{}", body(&answer));
    recover::run_once(&late).await.unwrap();
    assert_eq!(provider.confirms().len(), 0);

    eventually("a replica in time pays it", || async {
        recover::run_once(&healthy).await.unwrap();
        state_of(&pool, intent).await.filter(|state| state == "succeeded")
    })
    .await;
    assert_eq!(provider.confirms().len(), 1);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b33_the_lock_of_the_provider_is_waited_for_and_is_no_decline(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    provider.next([Mood::Busy, Mood::Busy]);

    let answer = pay_with(&ctx, &order, ctx.ids.intent()).await.unwrap();

    assert_eq!(answer.answer.status, 200);
    assert_eq!(count(&pool, "select count(*) from intents where state = 'failed'").await, 0);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn not_sent_after_something_may_have_been_sent_is_unknown(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    provider.next([Mood::LoseBefore, Mood::NotSent, Mood::NotSent]);

    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer.status, 200);
    assert_eq!(provider.confirms().len(), 4);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_bank_step_ends_paid_when_the_customer_comes_back(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    provider.next([Mood::BankStep]);

    let answer = pay_with(&ctx, &order, intent).await.unwrap();
    assert_eq!(answer.answer.status, 202);
    assert!(body(&answer).contains(r#""detail":"action_required","continue_url":"https://bank.example/step""#));
    assert_eq!(state(&ctx, &order, intent).await, State::ActionRequired);

    provider.end_bank_step(true);
    let seen = outcome::ask(&ctx, &order.token, Some(intent)).await.unwrap().unwrap();
    assert!(matches!(&seen.order.state, OrderState::Paid(payment) if payment.intent == intent));
    assert_eq!(seen.order.email.unwrap().as_str(), "ana@example.org");
    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer.status, 200);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_failed_bank_step_frees_the_order(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    provider.next([Mood::BankStep]);
    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer.status, 202);

    provider.end_bank_step(false);
    assert_eq!(state(&ctx, &order, intent).await, State::Failed);
    assert!(body(&pay_with(&ctx, &order, intent).await.unwrap()).contains("bank_check_failed"));

    assert_eq!(pay_with(&ctx, &order, ctx.ids.intent()).await.unwrap().answer.status, 200);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_cancelled_payment_intent_proves_that_nothing_was_charged(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    provider.cancel_all();
    provider.next([Mood::LoseBefore]);

    let answer = pay_with(&ctx, &order, intent).await.unwrap();

    assert!(body(&answer).contains(r#""state":"FAILED","amount":4990,"currency":"EUR","decline":"not_charged""#));
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_intent_that_never_arrived_is_said_to_be_not_received(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;

    let seen = outcome::ask(&ctx, &order.token, Some(ctx.ids.intent())).await.unwrap().unwrap();

    assert!(!seen.received);
    assert!(seen.intent.is_none());
    assert_eq!(seen.order.state, OrderState::Open);
}
