//! Orders that nobody pays: the provider is asked, then they close and give their stock back, once; money is never passed over.

use std::{sync::Arc, time::Duration};

use payments::{
    Ctx,
    expire::{self, Expired},
    ids::IntentId,
    limits::Limits,
    notice::{self, Notice},
    order::{self, Order, OrderState},
    pay::PayError,
    provider::ProviderPaymentIntentId,
    recover,
};
use sqlx::PgPool;

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{count, eventually, lamp, new_order, pay_with, replica, replica_with, state_of},
};

/// A replica whose hold time is over at once, and its deadline at the bank in half an hour.
pub fn hasty(pool: &PgPool, provider: &Arc<Fake>) -> Ctx {
    replica_with(pool, provider, hasty_limits())
}

fn hasty_limits() -> Limits {
    Limits {
        first_pause: Duration::from_millis(5),
        order_hold: Duration::ZERO,
        expire_pause: Duration::ZERO,
        ..Limits::default()
    }
}

pub const CLOSED: Expired = Expired { closed: 1, paid: 0, held: 0 };
const PAID: Expired = Expired { closed: 0, paid: 1, held: 0 };
pub const HELD: Expired = Expired { closed: 0, paid: 0, held: 1 };

pub async fn state(ctx: &Ctx, order: &Order) -> OrderState {
    order::find_by_id(ctx, order.id).await.unwrap().unwrap().state
}

/// Lamps on the shelf, and lamps that were paid for and are not there.
pub async fn lamps(pool: &PgPool) -> (i32, i32) {
    sqlx::query_as("select stock, owed from products where sku = 'lamp'").fetch_one(pool).await.unwrap()
}

fn payment_intent(order: &Order) -> &ProviderPaymentIntentId {
    order.provider_payment_intent.as_ref().unwrap()
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_order_keeps_its_stock_for_the_hold_time(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    lamp(&ctx).await;
    assert_eq!(expire::run(&ctx).await.unwrap(), Expired::default());
    sqlx::query("update orders set hold_from = hold_from - interval '59 minutes'").execute(&pool).await.unwrap();
    assert_eq!(expire::run(&ctx).await.unwrap(), Expired::default());
    assert_eq!((lamps(&pool).await, provider.probes()), ((499, 0), 0));
    sqlx::query("update orders set hold_from = hold_from - interval '1 minute'").execute(&pool).await.unwrap();
    assert_eq!(expire::run(&ctx).await.unwrap(), CLOSED);
    assert_eq!(lamps(&pool).await, (500, 0));
    assert_books_balance(&pool, &provider).await;
}

/// The customer approved at the bank and closed the browser; the event that would tell it never comes.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b109_a_paid_order_whose_news_were_lost_becomes_paid_and_keeps_its_stock(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = hasty(&pool, &provider);
    let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
    provider.next([Mood::BankStep]);
    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer.status, 202);
    provider.end_bank_step(true);

    assert_eq!(expire::run(&ctx).await.unwrap(), PAID);

    assert!(matches!(state(&ctx, &order).await, OrderState::Paid(payment) if payment.intent == intent));
    assert_eq!((lamps(&pool).await, provider.cancels()), ((499, 0), 0));
    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer.status, 200);
    assert_eq!(expire::run(&ctx).await.unwrap(), Expired::default());
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_paid_order_is_left_alone_for_ever(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = hasty(&pool, &provider);
    let order = lamp(&ctx).await;
    pay_with(&ctx, &order, ctx.ids.intent()).await.unwrap();
    assert_eq!(expire::run(&ctx).await.unwrap(), Expired::default());
    assert_eq!(count(&pool, "select count(*) from orders where hold_from is not null").await, 0);
    assert_eq!((provider.probes(), provider.cancels()), (0, 0));
    assert_books_balance(&pool, &provider).await;
}

/// While the provider cannot tell, nothing closes. When it can, the same order does.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn while_the_provider_is_silent_nothing_closes(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = hasty(&pool, &provider);
    let order = lamp(&ctx).await;
    for (blind, deaf) in [(true, false), (false, true), (true, true)] {
        provider.set_blind(blind);
        provider.set_deaf(deaf);
        assert_eq!(expire::run(&ctx).await.unwrap(), HELD);
        assert_eq!((state(&ctx, &order).await, lamps(&pool).await), (OrderState::Open, (499, 0)));
    }
    provider.set_blind(false);
    provider.set_deaf(false);
    assert_eq!(expire::run(&ctx).await.unwrap(), CLOSED);
    assert_eq!(lamps(&pool).await, (500, 0));
    assert_books_balance(&pool, &provider).await;
}

/// The pause keeps a batch of orders that cannot be decided from being asked for again at once.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn what_cannot_be_decided_comes_again_after_a_pause(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica_with(&pool, &provider, Limits { expire_pause: Duration::from_mins(1), ..hasty_limits() });
    let order = lamp(&ctx).await;
    provider.set_blind(true);
    assert_eq!(expire::run(&ctx).await.unwrap(), HELD);
    provider.set_blind(false);
    assert_eq!(expire::run(&ctx).await.unwrap(), Expired::default());
    sqlx::query("update orders set hold_from = hold_from - interval '1 minute'").execute(&pool).await.unwrap();
    assert_eq!(expire::run(&ctx).await.unwrap(), CLOSED);
    assert_eq!(state(&ctx, &order).await, OrderState::Closed);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_order_without_a_payment_intent_closes_without_asking(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = hasty(&pool, &provider);
    let order = order::create(&ctx, new_order(ctx.ids.cart(), &[("lamp", 2), ("mug", 3)])).await.unwrap();
    provider.set_blind(true);
    provider.set_deaf(true);
    assert_eq!(expire::run(&ctx).await.unwrap(), CLOSED);
    assert_eq!((provider.probes(), provider.cancels()), (0, 0));
    assert_eq!(state(&ctx, &order).await, OrderState::Closed);
    assert_books_balance(&pool, &provider).await;
}

/// The bank's step has a deadline of its own: until then the order is held, whatever its age.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_customer_at_the_bank_holds_the_order_until_the_deadline_of_the_bank_step(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = hasty(&pool, &provider);
    let impatient = replica_with(&pool, &provider, Limits { bank_deadline: Duration::ZERO, ..hasty_limits() });
    let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
    provider.next([Mood::BankStep]);
    pay_with(&ctx, &order, intent).await.unwrap();

    assert_eq!(expire::run(&ctx).await.unwrap(), HELD);
    assert_eq!(state_of(&pool, intent).await.as_deref(), Some("action_required"));
    assert_eq!((provider.cancels(), lamps(&pool).await), (0, (499, 0)));

    assert_eq!(expire::run(&impatient).await.unwrap(), CLOSED);
    assert_eq!(state_of(&pool, intent).await.as_deref(), Some("failed"));
    assert_eq!((provider.cancels(), lamps(&pool).await), (1, (500, 0)));
    assert!(matches!(pay_with(&ctx, &order, ctx.ids.intent()).await, Err(PayError::OrderClosed)));
    assert_books_balance(&pool, &provider).await;
}

/// Recovery ends an abandoned bank step too, long before the order closes, so that it can be paid with another card.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_abandoned_bank_step_is_cancelled_and_the_order_can_be_paid_again(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let limits =
        Limits { order_hold: Duration::from_hours(1), bank_deadline: Duration::from_millis(200), ..hasty_limits() };
    let ctx = replica_with(&pool, &provider, limits);
    let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
    provider.next([Mood::BankStep]);
    pay_with(&ctx, &order, intent).await.unwrap();

    eventually("recovery cancels it", || async {
        recover::run_once(&ctx).await.unwrap();
        state_of(&pool, intent).await.filter(|state| state == "failed")
    })
    .await;
    assert_eq!(count(&pool, "select count(*) from intents where decline = 'not_charged'").await, 1);
    assert_eq!((state(&ctx, &order).await, lamps(&pool).await), (OrderState::Open, (499, 0)));
    let paid = eventually("paid", || async { pay_with(&ctx, &order, ctx.ids.intent()).await.ok() }).await;
    assert_eq!(paid.answer.status, 200);
    assert_eq!(provider.charges().len(), 1);
    assert_books_balance(&pool, &provider).await;
}

/// A declined try, an order that closes, and a provider that charges a cancelled payment intent all the same.
async fn charged_after_closing(ctx: &Ctx, provider: &Fake) -> (Order, IntentId) {
    let (order, intent) = (lamp(ctx).await, ctx.ids.intent());
    provider.next([Mood::Decline]);
    assert_eq!(pay_with(ctx, &order, intent).await.unwrap().answer.status, 402);
    assert_eq!(expire::run(ctx).await.unwrap(), CLOSED);
    let charge = provider.charge_cancelled(payment_intent(&order));
    // Told twice, as everything may be.
    for _ in 0..2 {
        notice::take(ctx, payment_intent(&order), Notice::Charged(charge.clone()), None).await.unwrap().unwrap();
    }
    (order, intent)
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn money_that_comes_after_closing_pays_the_order_and_takes_the_stock_again(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = hasty(&pool, &provider);
    let (order, intent) = charged_after_closing(&ctx, &provider).await;
    assert!(matches!(state(&ctx, &order).await, OrderState::Paid(payment) if payment.intent == intent));
    assert_eq!(lamps(&pool).await, (499, 0));
    assert_eq!(count(&pool, "select count(*) from discrepancies where kind = 'charge_of_failed_intent'").await, 1);
    assert_eq!(count(&pool, "select count(*) from outbox_events where kind = 'order_paid_late'").await, 1);
    assert_eq!(expire::run(&ctx).await.unwrap(), Expired::default());
    assert_books_balance(&pool, &provider).await;
}

/// Somebody else bought the last piece meanwhile: it is owed, nothing is oversold, and what comes back pays it off first.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pieces_that_were_sold_meanwhile_are_owed_and_paid_off_first(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = hasty(&pool, &provider);
    let rest = order::create(&ctx, new_order(ctx.ids.cart(), &[("lamp", 99)])).await.unwrap();
    for _ in 0..4 {
        order::create(&ctx, new_order(ctx.ids.cart(), &[("lamp", 99)])).await.unwrap();
    }
    // These stay: somebody holds them for ever.
    sqlx::query("update orders set hold_from = null where id <> $1")
        .bind(rest.id.as_uuid())
        .execute(&pool)
        .await
        .unwrap();
    sqlx::query("update orders set hold_from = null").execute(&pool).await.unwrap();
    assert_eq!(lamps(&pool).await, (5, 0));
    let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
    provider.next([Mood::Decline]);
    pay_with(&ctx, &order, intent).await.unwrap();
    assert_eq!(expire::run(&ctx).await.unwrap(), CLOSED);
    order::create(&ctx, new_order(ctx.ids.cart(), &[("lamp", 5)])).await.unwrap();
    sqlx::query("update orders set hold_from = null").execute(&pool).await.unwrap();
    assert_eq!(lamps(&pool).await, (0, 0));

    let charge = provider.charge_cancelled(payment_intent(&order));
    notice::take(&ctx, payment_intent(&order), Notice::Charged(charge), None).await.unwrap().unwrap();
    assert_eq!(lamps(&pool).await, (0, 1));
    assert_books_balance(&pool, &provider).await;

    sqlx::query("update orders set hold_from = now() where id = $1")
        .bind(rest.id.as_uuid())
        .execute(&pool)
        .await
        .unwrap();
    assert_eq!(expire::run(&ctx).await.unwrap(), CLOSED);
    assert_eq!(lamps(&pool).await, (98, 0));
    assert_books_balance(&pool, &provider).await;
}

/// The charge is there and no event told it; the timer finds it where it asks.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_charge_of_a_failed_intent_that_the_timer_finds_pays_the_order(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = hasty(&pool, &provider);
    let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
    provider.next([Mood::Decline]);
    pay_with(&ctx, &order, intent).await.unwrap();
    provider.cancel_all();
    provider.charge_cancelled(payment_intent(&order));

    assert_eq!(expire::run(&ctx).await.unwrap(), PAID);

    assert_eq!(lamps(&pool).await, (499, 0));
    assert_eq!(count(&pool, "select count(*) from discrepancies where kind = 'charge_of_failed_intent'").await, 1);
    assert_books_balance(&pool, &provider).await;
}
