//! A shop in a few words: replicas, orders, and Pay.

use std::{future::Future, sync::Arc, time::Duration};

use payments::{
    Ctx,
    clock::Clock,
    ids::{CartId, Email, Ids, IntentId, Sku},
    limits::Limits,
    money::Currency,
    order::{self, NewLine, NewOrder, Order},
    pay::{PayAnswer, PayError, PayRequest, pay},
    provider::PaymentMethodToken,
};
use sqlx::PgPool;
use tokio::time::{Instant, sleep};
use url::Url;

use crate::fake::Fake;

/// One replica of the shop. Leases end at once where a test says so.
pub fn replica(pool: &PgPool, provider: &Arc<Fake>) -> Ctx {
    replica_with(pool, provider, Limits { first_pause: Duration::from_millis(5), ..Limits::default() })
}

pub fn replica_with(pool: &PgPool, provider: &Arc<Fake>, limits: Limits) -> Ctx {
    let provider: Arc<Fake> = Arc::clone(provider);
    Ctx::new(pool.clone(), provider, Clock::System, Ids::secure(), limits)
}

pub fn eur() -> Currency {
    Currency::parse("EUR").unwrap()
}

pub fn lines(wanted: &[(&str, i32)]) -> Vec<NewLine> {
    wanted.iter().map(|(sku, quantity)| NewLine { sku: Sku::parse(sku).unwrap(), quantity: *quantity }).collect()
}

pub fn new_order(cart: CartId, wanted: &[(&str, i32)]) -> NewOrder {
    NewOrder { cart, currency: eur(), lines: lines(wanted) }
}

/// An order of one lamp for €49.90, ready to be paid.
pub async fn lamp(ctx: &Ctx) -> Order {
    let order = order::create(ctx, new_order(ctx.ids.cart(), &[("lamp", 1)])).await.unwrap();
    order::ensure_payment_intent(ctx, &order).await.unwrap();
    order::find_by_token(ctx, &order.token).await.unwrap().unwrap()
}

pub fn request(order: &Order, intent: IntentId) -> PayRequest {
    PayRequest {
        order: order.token.clone(),
        intent,
        replaces: None,
        payment_method: PaymentMethodToken::parse("pm_card_visa").unwrap(),
        email: Some(Email::parse("ana@example.org").unwrap()),
        shown: order.total,
        return_url: Url::parse("https://shop.example/orders/x").unwrap(),
    }
}

pub async fn pay_with(ctx: &Ctx, order: &Order, intent: IntentId) -> Result<PayAnswer, PayError> {
    pay(ctx, request(order, intent)).await
}

/// Pays, and asks again while the wait is over too early: on a busy machine a short one may end before the provider answered.
pub async fn pay_until_answered(ctx: &Ctx, order: &Order, intent: IntentId) -> PayAnswer {
    eventually("there is an answer", || async {
        match pay_with(ctx, order, intent).await {
            Err(PayError::InProgress) => None,
            answer => Some(answer.unwrap()),
        }
    })
    .await
}

pub fn body(answer: &PayAnswer) -> String {
    String::from_utf8(answer.answer.body.to_vec()).unwrap()
}

/// Asks until the answer is there; fails after ten seconds.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, ask: impl Fn() -> F) -> T {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(Instant::now() < until, "did not happen in ten seconds: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

pub async fn state_of(pool: &PgPool, intent: IntentId) -> Option<String> {
    sqlx::query_scalar("select state from intents where id = $1")
        .bind(intent.as_uuid())
        .fetch_optional(pool)
        .await
        .unwrap()
}

pub async fn count(pool: &PgPool, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
}
