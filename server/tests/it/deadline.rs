//! What a customer is told of an outcome that nobody knows: by when it will be known, and then the proven truth.

use std::time::Duration;

use payments::recover;
use serde_json::{Value, json};
use sqlx::PgPool;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::house::{GOOD_CARD, House, Order, Plan, until, uuid};

/// A shop whose customers wait this long for certainty, and whose provider does as told at the next confirm.
async fn impatient(db: PgPool, unknown_deadline: Duration, fault: Value) -> (House, Order) {
    let plan = Plan {
        provider_timeout: Duration::from_millis(500),
        pay_wait: Duration::from_millis(200),
        unknown_deadline,
        ..Plan::default()
    };
    let house = House::with(db, plan).await;
    let order = house.order("lamp").await;
    house.sandbox.fault(&house.http, json!({"match":{"path":"confirm"},"fault":fault,"next":1})).await;
    (house, order)
}

/// The payment intents of an order that the provider was asked to cancel.
async fn cancels(house: &House) -> usize {
    let calls: Value =
        house.http.get(format!("{}/_sandbox/calls", house.sandbox.url)).send().await.unwrap().json().await.unwrap();
    let calls = calls.as_array().or_else(|| calls["calls"].as_array()).expect("calls").clone();
    calls.iter().filter(|call| call["path"].as_str().is_some_and(|path| path.ends_with("/cancel"))).count()
}

/// A provider that answers 500 and remembers that under the key answers every repeat with it. Nobody can tell what happened
/// until the payment intent is cancelled; the order gets another, and the customer pays at once.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b53_a_remembered_fault_ends_not_charged_at_the_deadline_that_was_told(db: PgPool) {
    let deadline = Duration::from_secs(3);
    let (house, order) = impatient(db, deadline, json!({"kind":"error_500","remember":true})).await;
    let (intent, next) = (uuid(), uuid());
    let before = OffsetDateTime::now_utc();
    house.pay(&order, &intent, GOOD_CARD).await;

    let unknown = house.outcome_becomes(&order, "unknown").await;
    let by = unknown["decide_by"]["at"].as_str().expect("a moment by which it will be known");
    let by = OffsetDateTime::parse(by, &Rfc3339).expect("RFC 3339");
    assert!(by >= before + deadline - Duration::from_secs(1) && by <= before + deadline * 4, "{by}");
    let page = house.http.get(format!("{}/orders/{}", house.url(), order.token)).send().await.unwrap();
    let shown = unknown["decide_by"]["display"].as_str().unwrap();
    assert!(page.text().await.unwrap().contains(&format!("We keep asking and will know by {shown}.")));
    house.pay(&order, &next, GOOD_CARD).await.assert_refused(409, "order_taken");

    let failed = house.outcome_becomes(&order, "failed").await;
    assert_eq!((&failed["decline"], &failed["decide_by"]), (&json!("not_charged"), &Value::Null));
    assert_eq!(cancels(&house).await, 1);
    house.assert_not_charged(&order).await;

    let mut again = House::pay_body(&order, &next, GOOD_CARD);
    again["pay"]["replaces"] = intent.as_str().into();
    house.send(0, &again).await;
    house.outcome_becomes(&order, "paid").await;
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// The original request sleeps in the provider beyond the deadline, and is charged after all: cancelling is refused while it
/// does, so that nothing is said too early, and the charge is found.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_late_original_that_is_charged_after_the_deadline_is_found_and_never_denied(db: PgPool) {
    let (house, order) = impatient(db, Duration::from_secs(1), json!({"kind":"delay_before","ms":3000})).await;
    let intent = uuid();
    house.pay(&order, &intent, GOOD_CARD).await;
    let ctx = &house.replicas[0].ctx;
    until("it is decided", || async {
        recover::run_once(ctx).await.unwrap();
        let seen = house.outcome(&order, None).await;
        assert_ne!(seen["state"], "failed", "nothing was proven");
        seen["state"] == "paid"
    })
    .await;
    assert!(cancels(&house).await > 0, "the deadline was over before the charge");
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// The provider is away for longer than the deadline. The page stops naming a moment, and does not say more than is known.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn after_the_deadline_the_page_names_no_moment_and_stays_truthful(db: PgPool) {
    let (house, order) = impatient(db, Duration::from_millis(700), json!({"kind":"charge_then_drop"})).await;
    for path in ["retrieve", "cancel"] {
        let fault = json!({"match":{"path":path},"fault":{"kind":"error_500"},"next":100_000});
        house.sandbox.fault(&house.http, fault).await;
    }
    house.pay(&order, &uuid(), GOOD_CARD).await;
    until("the deadline is past", || async {
        let seen = house.outcome(&order, None).await;
        seen["state"] == "unknown" && seen["decide_by"].is_null()
    })
    .await;
    until("cancelling was tried", || async {
        recover::run_once(&house.replicas[0].ctx).await.unwrap();
        cancels(&house).await > 0
    })
    .await;
    let page = house.http.get(format!("{}/orders/{}", house.url(), order.token)).send().await.unwrap();
    assert!(page.text().await.unwrap().contains("it takes longer than it should"));

    house.sandbox.no_faults(&house.http).await;
    house.outcome_becomes(&order, "paid").await;
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}
