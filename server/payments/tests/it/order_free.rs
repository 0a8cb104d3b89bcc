//! The promise of `settle`: facts may come in any order and any number of times, on any replica, from an executor or from
//! anybody, and state, archive, ledger, event and discrepancies end the same.

use std::sync::Arc;

use payments::{
    Ctx,
    clock::Clock,
    ids::{Ids, IntentId},
    intent::{Fact, IntentKey},
    limits::Limits,
    order::Order,
    provider::{ContinueUrl, Decline, DeclineReason, ProviderCharge, ProviderChargeId, UnknownReason},
    settle::{self, Target},
};
use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, RngSeed, TestRunner},
};
use sqlx::PgPool;
use time::macros::datetime;
use tokio::sync::Semaphore;

use crate::{
    fake::{Fake, Mood},
    support::{eventually, lamp, pay_with, state_of},
};

/// How many sets of facts are tried, each in an order of its own and in the sorted one.
const SETS: u32 = 60;

/// A fact by its name, so that two runs with other orders can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Charged,
    Declined,
    BankStep,
    Silence,
}

fn fact(said: Said, order: &Order) -> Fact {
    match said {
        Said::Charged => Fact::Charged(ProviderCharge {
            id: ProviderChargeId::parse(&format!("ch_{}", order.id)).unwrap(),
            money: order.total,
            created: Some(datetime!(2026-01-02 03:04:05 UTC)),
        }),
        Said::Declined => {
            Fact::Declined(Decline { code: "expired_card".to_owned(), reason: DeclineReason::ExpiredCard })
        }
        Said::BankStep => Fact::BankStep(ContinueUrl::parse("https://bank.example/step").unwrap()),
        Said::Silence => Fact::Silence(UnknownReason::TimedOut),
    }
}

/// What can be true of one intent together, in any order and number.
fn one_truth() -> impl Strategy<Value = Vec<Said>> {
    let of = |end: Said| prop::collection::vec(prop::sample::select(vec![end, Said::BankStep, Said::Silence]), 0..6);
    prop_oneof![(Just(Said::Charged), of(Said::Charged)), (Just(Said::Declined), of(Said::Declined))]
        .prop_map(|(end, mut others)| {
            others.push(end);
            others
        })
        .prop_shuffle()
}

/// Everything that the database holds of an order's one intent, without the names that differ from order to order.
async fn books(pool: &PgPool, order: &Order, intent: IntentId) -> Vec<String> {
    let (order_id, intent_id) = (order.id.to_string(), intent.to_string());
    let rows: Vec<String> = sqlx::query_scalar(
        "select concat_ws(' ', 'intent', state, charge, paid_at, decline, archive_status, convert_from(archive_body, 'UTF8'))
            from intents where order_id = $1
        union all select concat_ws(' ', 'order', state, charge, paid_at, email) from orders where id = $1
        union all select concat_ws(' ', 'ledger', account, amount_minor, currency, charge)
            from ledger_entries where order_id = $1
        union all select concat_ws(' ', 'event', kind, convert_from(payload, 'UTF8')) from outbox_events where order_id = $1
        union all select concat_ws(' ', 'discrepancy', kind, charge) from discrepancies where order_id = $1
        order by 1",
    )
    .bind(order.id.as_uuid())
    .fetch_all(pool)
    .await
    .unwrap();
    rows.iter().map(|row| row.replace(&order_id, "ORDER").replace(&intent_id, "INTENT")).collect()
}

/// Reserves an intent whose executor hears nothing until the end, brings the facts, and gives what the books hold then.
async fn after(ctx: &[Ctx; 2], pool: &PgPool, provider: &Fake, said: &[Said]) -> Vec<String> {
    let order = lamp(&ctx[0]).await;
    let intent = ctx[0].ids.intent();
    let gate = Arc::new(Semaphore::new(0));
    provider.next([Mood::Gate(gate)]);
    let paying = ctx[0].tasks.spawn({
        let (ctx, order) = (ctx[0].clone(), order.clone());
        async move { pay_with(&ctx, &order, intent).await }
    });
    eventually("it is reserved", || async { state_of(pool, intent).await }).await;
    let target = Target { key: IntentKey::pay(order.id, intent), money: order.total, fence: None, event: None };
    for (nth, said) in said.iter().enumerate() {
        settle::apply(&ctx[nth % 2], &target, &fact(*said, &order)).await.unwrap();
    }
    paying.abort();
    books(pool, &order, intent).await
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_62_any_order_and_repetition_of_the_same_facts_leaves_the_same_books(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let replica = || {
        let provider: Arc<Fake> = Arc::clone(&provider);
        Ctx::new(
            pool.clone(),
            provider,
            Clock::manual(datetime!(2026-01-02 03:04:06 UTC)),
            Ids::secure(),
            Limits::default(),
        )
    };
    let ctx = [replica(), replica()];
    let mut runner = TestRunner::new(Config { rng_seed: RngSeed::Fixed(62), ..Config::default() });
    for _ in 0..SETS {
        let said = one_truth().new_tree(&mut runner).unwrap().current();
        let mut sorted = said.clone();
        sorted.sort_unstable();
        sorted.dedup();

        let books = after(&ctx, &pool, &provider, &said).await;

        assert_eq!(books, after(&ctx, &pool, &provider, &sorted).await, "{said:?}");
        let end = if said.contains(&Said::Charged) { "intent succeeded" } else { "intent failed" };
        assert!(books.iter().any(|row| row.starts_with(end)), "{said:?} ended as {books:?}");
    }
}

/// Facts that contradict each other, since the provider broke its own rules: whoever saw an end sees no other, but the money is
/// booked once and the order is paid, whichever came first.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn money_and_a_decline_of_one_intent_leave_the_same_ledger_in_either_order(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let replica = || {
        let provider: Arc<Fake> = Arc::clone(&provider);
        Ctx::new(pool.clone(), provider, Clock::System, Ids::secure(), Limits::default())
    };
    let ctx = [replica(), replica()];
    let of = |books: Vec<String>, kind: &str| -> Vec<String> {
        books.into_iter().filter(|row| row.starts_with(kind)).map(|row| row.replace("ana@example.org", "")).collect()
    };
    for said in [[Said::Charged, Said::Declined], [Said::Declined, Said::Charged]] {
        let twice = [said, said].concat();
        let books = after(&ctx, &pool, &provider, &twice).await;
        assert_eq!(
            of(books.clone(), "ledger"),
            ["ledger provider_receivable 4990 EUR ch_ORDER", "ledger sales -4990 EUR ch_ORDER"]
        );
        assert!(of(books.clone(), "order")[0].starts_with("order paid ch_ORDER"));
        let first = if said[0] == Said::Charged { "intent succeeded" } else { "intent failed" };
        assert!(of(books.clone(), "intent")[0].starts_with(first));
        let discrepancies = of(books, "discrepancy");
        let expected: &[&str] =
            if said[0] == Said::Charged { &[] } else { &["discrepancy charge_of_failed_intent ch_ORDER"] };
        assert_eq!(discrepancies, expected);
    }
}
