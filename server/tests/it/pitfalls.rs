//! Traps of Postgres and of servers that exactly-once checkouts have fallen into, by their numbers in the catalogue.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use payments::{
    clock::Clock,
    provider::{
        CardSessionOutcome, ConfirmOutcome, ConfirmRequest, CreateOutcome, NewPaymentIntent, ProbeOutcome, Provider,
        ProviderPaymentIntentId, stripe::Stripe,
    },
};
use serde_json::json;
use sqlx::{Executor as _, PgPool};
use time::OffsetDateTime;

use crate::house::{GOOD_CARD, House, Plan, until, uuid};

async fn set_for_database(db: &PgPool, setting: &str) {
    let name: String = sqlx::query_scalar("select current_database()::text").fetch_one(db).await.unwrap();
    db.execute(sqlx::AssertSqlSafe(format!("alter database \"{name}\" set {setting}"))).await.unwrap();
}

/// Under REPEATABLE READ a duplicate meets 40001; under SERIALIZABLE, ON CONFLICT DO NOTHING hides a read, which would let
/// two different intents of one order through if anything but a unique index stood between them.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b42_pitfall_06_07_a_stricter_isolation_changes_no_outcome(db: PgPool) {
    for level in ["repeatable read", "serializable"] {
        set_for_database(&db, &format!("default_transaction_isolation = '{level}'")).await;
        let house = House::with(db.clone(), Plan { replicas: 2, ..Plan::default() }).await;
        for _ in 0..5 {
            let order = house.order("mug").await;
            let (one, two) = (uuid(), uuid());
            let same = join_all((0..10).map(|n| house.pay_at(n % 2, &order, &one, GOOD_CARD)));
            let (answers, other) = tokio::join!(same, house.pay_at(1, &order, &two, GOOD_CARD));
            let other_won = other.status.is_success();
            for answer in &answers {
                assert_eq!(answer.status.as_u16(), if other_won { 409 } else { 200 }, "{level}: {answer:?}");
                assert_eq!(answer.archived(), answers[0].archived(), "{level}");
            }
            assert!(other_won || other.status.as_u16() == 409, "{level}: {other:?}");
            house.assert_charged_once(&order).await;
        }
    }
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_08_the_archive_holds_the_very_bytes_that_were_sent(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let answer = house.pay(&order, &uuid(), GOOD_CARD).await;
    let stored: Vec<u8> = sqlx::query_scalar("select archive_body from intents").fetch_one(&house.db).await.unwrap();
    assert_eq!(stored, answer.body);
    assert_eq!(answer.content_type, "application/json");
    house.assert_charged_once(&order).await;
}

/// A database that ends idle transactions quickly ends nothing: none is open while the provider takes its time.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_11_no_transaction_is_open_while_the_provider_works(db: PgPool) {
    set_for_database(&db, "idle_in_transaction_session_timeout = '300ms'").await;
    let house = House::new(db).await;
    let order = house.order("lamp").await;
    let delay = json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":1500},"next":1});
    house.sandbox.fault(&house.http, delay).await;
    let intent = uuid();
    let (answer, ()) = tokio::join!(house.pay(&order, &intent, GOOD_CARD), async {
        until("the reservation", || async { house.count("select count(*) from intents").await == 1 }).await;
        let busy = "select count(*) from pg_stat_activity
                    where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'";
        assert_eq!(house.count(busy).await, 0, "every connection is idle, outside of any transaction");
    });
    answer.assert_succeeded();
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// "One live intent per order" must not depend on a clock: an index that did would not be allowed, or would forget.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_16_the_constraint_knows_states_and_no_time(db: PgPool) {
    let predicate: String = sqlx::query_scalar(
        "select pg_get_expr(indpred, indrelid) from pg_index where indexrelid = 'intents_one_live_per_order'::regclass and indisunique",
    )
    .fetch_one(&db)
    .await
    .unwrap();
    for state in ["pending", "unknown", "action_required", "succeeded"] {
        assert!(predicate.contains(state), "{predicate}");
    }
    assert!(!predicate.contains("now()") && !predicate.contains("_at"), "{predicate}");
}

/// Replicas whose clocks are ten minutes apart agree on who owns an intent: leases go by the database's clock.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_19_a_replica_whose_clock_is_wrong_takes_nothing_over(db: PgPool) {
    let mut house = House::new(db).await;
    for minutes in [-10, 10] {
        let clock = Clock::manual(OffsetDateTime::now_utc() + time::Duration::minutes(minutes));
        house.add_replica(Plan { clock, ..Plan::default() }).await;
    }
    for paying in 0..3 {
        let order = house.order("lamp").await;
        let delay = json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":800},"next":1});
        house.sandbox.fault(&house.http, delay).await;
        let before = house.sandbox.confirms(&house.http).await;
        let intent = uuid();
        let (answer, ()) = tokio::join!(house.pay_at(paying, &order, &intent, GOOD_CARD), async {
            until("the reservation", || async {
                house.count("select count(*) from intents where state = 'pending'").await == 1
            })
            .await;
            for replica in &house.replicas {
                assert_eq!(payments::recover::run_once(&replica.ctx).await.unwrap(), 0, "its owner is alive");
            }
        });
        answer.assert_succeeded();
        assert_eq!(house.sandbox.confirms(&house.http).await, before + 1);
        house.assert_charged_once(&order).await;
    }
    house.assert_books_balance().await;
}

/// A fault of our own in the middle of a payment: the intent is not left behind, and it is charged once.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_22_a_panic_leaves_no_intent_behind(db: PgPool) {
    let plan =
        Plan { lease: Duration::from_secs(1), around: |stripe| Arc::new(PanicsOnce::new(stripe)), ..Plan::default() };
    let house = House::with(db, plan).await;
    let order = house.order("mug").await;
    let intent = uuid();
    let first = house.pay(&order, &intent, GOOD_CARD).await;
    assert!(matches!(first.status.as_u16(), 409 | 503), "no outcome is made up: {first:?}");
    house.assert_not_charged(&order).await;
    until("recovery has finished it", || async {
        payments::recover::run_once(&house.replicas[0].ctx).await.unwrap();
        house.count("select count(*) from intents where state = 'succeeded'").await == 1
    })
    .await;
    house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// The adapter, but for its first confirm, which panics before anything is sent.
struct PanicsOnce {
    stripe: Stripe,
    panicked: AtomicBool,
}

impl PanicsOnce {
    fn new(stripe: Stripe) -> Self {
        Self { stripe, panicked: AtomicBool::new(false) }
    }
}

#[async_trait::async_trait]
impl Provider for PanicsOnce {
    async fn create_payment_intent(&self, new: &NewPaymentIntent) -> CreateOutcome {
        self.stripe.create_payment_intent(new).await
    }

    fn freeze_confirm(&self, payment_method: &str, return_url: &str) -> Vec<u8> {
        self.stripe.freeze_confirm(payment_method, return_url)
    }

    async fn confirm(&self, request: &ConfirmRequest) -> ConfirmOutcome {
        assert!(self.panicked.swap(true, Ordering::SeqCst), "the fault that this test is about");
        self.stripe.confirm(request).await
    }

    async fn probe(&self, payment_intent: &ProviderPaymentIntentId) -> ProbeOutcome {
        self.stripe.probe(payment_intent).await
    }

    async fn cancel(&self, payment_intent: &ProviderPaymentIntentId) -> ProbeOutcome {
        self.stripe.cancel(payment_intent).await
    }

    async fn card_session(&self, id: &str) -> CardSessionOutcome {
        self.stripe.card_session(id).await
    }
}
