//! Money is never dropped, and never believed without a look at its amount.

use std::{sync::Arc, time::Duration};

use payments::{
    intent::{Fact, Standing},
    limits::Limits,
    money::{Currency, Money},
    order::{self, OrderState},
    outcome,
    provider::{ProviderCharge, ProviderChargeId},
    settle::{self, Target},
};
use sqlx::PgPool;

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{count, lamp, pay_until_answered, pay_with, replica, replica_with, state_of},
};

fn charge(id: &str, minor: i64, currency: &str) -> ProviderCharge {
    let money = Money::new(minor, Currency::parse(currency).unwrap());
    ProviderCharge { id: ProviderChargeId::parse(id).unwrap(), money, created: None }
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b78_another_amount_than_agreed_is_a_discrepancy_and_no_payment(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let limits = Limits { pay_wait: Duration::from_millis(200), chase_looks: 2, ..Limits::default() };
    let ctx = replica_with(&pool, &provider, limits);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    provider.next([Mood::ChargeMinor(4989)]);

    let answer = pay_until_answered(&ctx, &order, intent).await;

    assert_eq!(answer.answer.status, 202);
    assert_eq!(state_of(&pool, intent).await.unwrap(), "unknown");
    let told = "select count(*) from discrepancies where kind = 'amount_mismatch'
        and expected_minor = 4990 and reported_minor = 4989 and resolved_at is null";
    assert_eq!(count(&pool, told).await, 1);
    let found = outcome::ask(&ctx, &order.token, Some(intent)).await.unwrap().unwrap();
    assert_eq!(found.order.state, OrderState::Open);
    assert_books_balance(&pool, &provider).await;

    let target = Target::from(&found.intent.unwrap());
    for wrong in [charge("ch_a", 100, "EUR"), charge("ch_b", 4990, "USD")] {
        let standing = settle::apply(&ctx, &target, &Fact::Charged(wrong)).await.unwrap();
        assert_eq!(standing, Standing::Unknown);
    }
    assert_eq!(count(&pool, "select count(*) from discrepancies").await, 3);
    assert_eq!(count(&pool, "select count(*) from ledger_entries").await, 0);
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn money_for_a_failed_intent_pays_the_order_and_is_told(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    provider.next([Mood::Decline]);
    let declined = pay_with(&ctx, &order, intent).await.unwrap();
    let target = Target::from(&outcome::ask(&ctx, &order.token, Some(intent)).await.unwrap().unwrap().intent.unwrap());

    for _ in 0..3 {
        let late = Fact::Charged(charge("ch_late", 4990, "EUR"));
        let standing = settle::apply(&ctx, &target, &late).await.unwrap();
        assert!(matches!(standing, Standing::Failed { .. }), "I4: nobody sees another end");
    }

    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer, declined.answer);
    let order = order::find_by_token(&ctx, &order.token).await.unwrap().unwrap();
    assert!(matches!(&order.state, OrderState::Paid(payment) if payment.charge.as_str() == "ch_late"));
    assert_eq!(count(&pool, "select count(*) from discrepancies where kind = 'charge_of_failed_intent'").await, 1);
    assert_eq!(count(&pool, "select count(*) from ledger_entries").await, 2);
    assert_eq!(count(&pool, "select count(*) from outbox_events where kind = 'order_paid_late'").await, 1);
    assert!(pay_with(&ctx, &order, ctx.ids.intent()).await.is_err(), "a paid order takes no other intent");
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn facts_may_come_again_and_late(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    let paid = pay_with(&ctx, &order, intent).await.unwrap();
    let target = Target::from(&outcome::ask(&ctx, &order.token, Some(intent)).await.unwrap().unwrap().intent.unwrap());
    let (_, made) = provider.charges().remove(0);

    let silence = Fact::Silence(payments::provider::UnknownReason::TimedOut);
    for fact in [Fact::Charged(made), silence.clone(), Fact::Charged(charge("ch_other", 4990, "EUR")), silence] {
        let standing = settle::apply(&ctx, &target, &fact).await.unwrap();
        assert!(matches!(standing, Standing::Succeeded { .. }));
    }

    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer, paid.answer);
    assert_eq!(count(&pool, "select count(*) from discrepancies where kind = 'second_charge'").await, 1);
    assert_books_balance(&pool, &provider).await;
}
