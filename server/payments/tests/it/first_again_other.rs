//! The trio of every idempotent thing: first time, again, other request.

use std::sync::Arc;

use payments::{ids::IntentId, money::Money, order, pay::PayError, pay::pay};
use sqlx::PgPool;

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{body, count, lamp, pay_with, replica, request, state_of},
};

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b40_same_key_same_request_replays_the_archive(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();

    let first = pay_with(&ctx, &order, intent).await.unwrap();
    let again = pay_with(&replica(&pool, &provider), &order, intent).await.unwrap();

    assert_eq!(first.answer, again.answer);
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(first.answer.status, 200);
    assert!(body(&first).starts_with(&format!(r#"{{"intent":"{intent}","state":"SUCCEEDED","amount":4990,"#)));
    assert_eq!(provider.confirms().len(), 1);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b28_same_key_other_request_is_refused_and_the_archive_stays(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    let first = pay_with(&ctx, &order, intent).await.unwrap();

    let mut other = request(&order, intent);
    other.shown = Money::new(4991, order.total.currency);
    assert!(matches!(pay(&ctx, other).await, Err(PayError::Reused)));
    let mut other = request(&order, intent);
    other.email = Some(payments::ids::Email::parse("ben@example.org").unwrap());
    assert!(matches!(pay(&ctx, other).await, Err(PayError::Reused)));

    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer, first.answer);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b35_b36_one_uuid_under_two_orders_is_two_keys(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let (one, two) = (lamp(&ctx).await, lamp(&ctx).await);
    let intent = ctx.ids.intent();

    let first = pay_with(&ctx, &one, intent).await.unwrap();
    let second = pay_with(&ctx, &two, intent).await.unwrap();

    assert_ne!(first.answer.body, second.answer.body);
    assert!(!second.replayed);
    assert_eq!(provider.charges().len(), 2);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn nothing_is_reserved_for_a_request_that_does_not_fit_the_order(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;

    let mut stale = request(&order, ctx.ids.intent());
    stale.shown = Money::new(4590, order.total.currency);
    let refused = pay(&ctx, stale).await;
    assert!(matches!(refused, Err(PayError::PriceChanged { now, .. }) if now == order.total));

    let mut stranger = request(&order, ctx.ids.intent());
    stranger.order = payments::ids::OrderToken::parse("0000000000000000000000").unwrap();
    assert!(matches!(pay(&ctx, stranger).await, Err(PayError::NotFound)));

    let mut orphan = request(&order, ctx.ids.intent());
    orphan.replaces = Some(ctx.ids.intent());
    assert!(matches!(pay(&ctx, orphan).await, Err(PayError::ReplacesUnfinished)));

    assert_eq!(count(&pool, "select count(*) from intents").await, 0);
    assert!(provider.confirms().is_empty());
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b30_a_decline_stays_the_answer_of_its_key_and_another_card_pays(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    let bad = ctx.ids.intent();

    provider.next([Mood::Decline]);
    let declined = pay_with(&ctx, &order, bad).await.unwrap();
    assert_eq!(declined.answer.status, 402);
    assert!(
        body(&declined).contains(r#""state":"FAILED","amount":4990,"currency":"EUR","decline":"insufficient_funds""#)
    );
    let offered = order::find_by_token(&ctx, &order.token).await.unwrap().unwrap().offered_intent;
    assert_ne!(offered, order.offered_intent, "a failed intent makes the order offer another");

    let good = request_replacing(&order, offered, bad);
    let paid = pay(&ctx, good.clone()).await.unwrap();
    assert_eq!(paid.answer.status, 200);
    assert_eq!(pay(&ctx, good).await.unwrap().answer, paid.answer);
    assert_eq!(pay_with(&ctx, &order, bad).await.unwrap().answer, declined.answer);

    let status = order::status(&ctx, &order.token).await.unwrap().unwrap();
    assert_eq!(status.live.unwrap().key.intent, offered);
    assert_eq!(status.newest_failed.unwrap().key.intent, bad);
    assert_eq!(provider.charges().len(), 1);
    assert_books_balance(&pool, &provider).await;
}

fn request_replacing(order: &payments::order::Order, intent: IntentId, bad: IntentId) -> payments::pay::PayRequest {
    payments::pay::PayRequest { replaces: Some(bad), ..request(order, intent) }
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b29_nothing_sent_is_released_and_never_archived(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();

    provider.next([Mood::NotSent]);
    assert!(matches!(pay_with(&ctx, &order, intent).await, Err(PayError::NotSent)));
    assert_eq!(state_of(&pool, intent).await, None);

    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer.status, 200);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_order_without_a_payment_intent_gets_one_when_it_is_paid(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let new = crate::support::new_order(ctx.ids.cart(), &[("mug", 2)]);
    let order = order::create(&ctx, new).await.unwrap();
    assert_eq!(order.total.minor, 1640);

    assert_eq!(pay_with(&ctx, &order, ctx.ids.intent()).await.unwrap().answer.status, 200);
    assert_books_balance(&pool, &provider).await;
}
