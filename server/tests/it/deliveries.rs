//! The provider's own deliveries, as it sends them and as it should not: the sandbox signs them, repeats them, forges them.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::{
    house::{GOOD_CARD, House, Order, Plan, WEBHOOK_SECRET, until, uuid},
    pay::approve_at_the_bank,
};

const FORGERIES: [&str; 12] = [
    "wrong_secret",
    "bad_signature",
    "altered_body",
    "old_timestamp",
    "future_timestamp",
    "altered_timestamp",
    "no_header",
    "empty_header",
    "no_timestamp",
    "other_scheme",
    "base64_like",
    "short_signature",
];

/// A house to which the provider delivers.
async fn told_house(db: PgPool, plan: Plan) -> House {
    let house = House::with(db, plan).await;
    for replica in &house.replicas {
        let endpoint = json!({"url": format!("{}/webhooks/stripe", replica.url), "secret": WEBHOOK_SECRET});
        control(&house, "webhook_endpoints", endpoint).await;
    }
    house
}

async fn control(house: &House, what: &str, body: Value) -> Value {
    let sent = house.http.post(format!("{}/_sandbox/{what}", house.sandbox.url)).json(&body).send().await.unwrap();
    assert!(sent.status().is_success(), "{what}: {}", sent.text().await.unwrap());
    sent.json().await.unwrap()
}

async fn fault(house: &House, of: &str, fault: Value) {
    house.sandbox.fault(&house.http, json!({"match": {"path": of}, "fault": fault})).await;
}

/// What became of the deliveries of an order's events.
async fn deliveries(house: &House, order: &Order) -> Vec<Value> {
    let url = format!("{}/_sandbox/deliveries?order={}", house.sandbox.url, order.id);
    let log: Value = house.http.get(url).send().await.unwrap().json().await.unwrap();
    log["deliveries"].as_array().unwrap().clone()
}

async fn is_paid(house: &House, order: &Order) -> bool {
    let paid: i64 = sqlx::query_scalar("select count(*) from orders where token = $1 and state = 'paid'")
        .bind(&order.token)
        .fetch_one(&house.db)
        .await
        .unwrap();
    paid == 1
}

/// The answer is lost, nobody can look, and nobody asks: the event alone brings the end, to every replica.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_event_alone_ends_what_nobody_can_look_up(db: PgPool) {
    let plan = Plan { replicas: 2, pay_wait: Duration::from_secs(20), ..Plan::default() };
    let house = told_house(db, plan).await;
    fault(&house, "webhook", json!({"kind": "duplicate", "times": 50})).await;
    fault(&house, "retrieve", json!({"kind": "error_500"})).await;
    let order = house.order("mug").await;
    let lost = json!({"match": {"path": "confirm"}, "fault": {"kind": "charge_then_drop"}, "next": 1});
    house.sandbox.fault(&house.http, lost).await;
    let intent = uuid();

    house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();

    until("all are delivered", || async {
        let all = deliveries(&house, &order).await;
        all.len() >= 300 && all.iter().all(|one| one["outcome"] != "running")
    })
    .await;
    for one in deliveries(&house, &order).await {
        assert_eq!(one["status"], 200, "{one}");
    }
    assert_eq!(house.count("select count(*) from ledger_entries").await, 2);
    assert_eq!(house.count("select count(*) from outbox_events").await, 1);
    assert_eq!(house.count("select count(*) from inbox_events where effect = 'applied'").await, 1);
    house.sandbox.no_faults(&house.http).await;
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// The event overtakes the answer to the call that caused it.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b63_b58_an_event_that_comes_before_the_answer_is_one_payment(db: PgPool) {
    let house = told_house(db, Plan::default()).await;
    fault(&house, "webhook", json!({"kind": "early"})).await;
    for card in [GOOD_CARD, "pm_card_chargeDeclined", GOOD_CARD] {
        let (order, intent) = (house.order("mug").await, uuid());
        let answer = house.pay(&order, &intent, card).await;
        let end = if card == GOOD_CARD { "SUCCEEDED" } else { "FAILED" };
        assert_eq!(answer.json()["state"], end);
        assert_eq!(house.pay(&order, &intent, card).await.archived(), answer.archived());
        assert_eq!(house.charges(&order).await.len(), usize::from(card == GOOD_CARD));
    }
    let unhandled = "select count(*) from inbox_events where handled_at is null";
    until("all handled", || async { house.count(unhandled).await == 0 }).await;
    house.assert_books_balance().await;
}

/// Approved at the bank, and the browser never comes back: the event settles.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_customer_who_never_comes_back_from_the_bank_has_paid(db: PgPool) {
    let house = told_house(db, Plan::default()).await;
    let order = house.order("mug").await;
    let waits = house.pay(&order, &uuid(), "pm_card_threeDSecure2Required").await;
    assert_eq!(waits.json()["detail"], "action_required");
    fault(&house, "retrieve", json!({"kind": "error_500"})).await;
    approve_at_the_bank(&house, &waits.json()).await;
    until("paid by the event", || is_paid(&house, &order)).await;
    house.sandbox.no_faults(&house.http).await;
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// Each way of forging is refused, and nothing of it is kept; what is rightly signed and wrong is kept and pays nothing.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn w4_the_sandboxs_forgeries_and_lies_pay_nothing(db: PgPool) {
    let house = House::with(db, Plan { pay_wait: Duration::from_millis(300), ..Plan::default() }).await;
    fault(&house, "retrieve", json!({"kind": "error_500"})).await;
    let order = house.order("mug").await;
    let lost = json!({"match": {"path": "confirm"}, "fault": {"kind": "charge_then_drop"}, "next": 1});
    house.sandbox.fault(&house.http, lost).await;
    assert_eq!(house.pay(&order, &uuid(), GOOD_CARD).await.json()["detail"], "unknown");
    until("the charge", || async { house.charges(&order).await.len() == 1 }).await;
    let url = format!("{}/v1/events?type=payment_intent.succeeded", house.sandbox.url);
    let list: Value =
        house.http.get(url).bearer_auth(crate::house::SECRET_KEY).send().await.unwrap().json().await.unwrap();
    let event = list["data"][0]["id"].as_str().unwrap().to_owned();
    let endpoint = json!({"url": format!("{}/webhooks/stripe", house.url()), "secret": WEBHOOK_SECRET});
    control(&house, "webhook_endpoints", endpoint).await;
    let deliver = async |faults: Value| {
        let told = control(&house, &format!("events/{event}/deliver"), json!({"faults": faults})).await;
        told["sent"][0]["status"].as_u64().unwrap_or_else(|| panic!("{told}"))
    };

    for forgery in FORGERIES {
        assert_eq!(deliver(json!([{"kind": "forged", "forgery": forgery}])).await, 400, "{forgery}");
    }
    assert_eq!(house.count("select count(*) from inbox_events").await, 0);
    assert_eq!(deliver(json!([{"kind": "wrong_mode"}])).await, u64::from(StatusCode::OK.as_u16()));
    assert_eq!(house.count("select count(*) from discrepancies where kind = 'wrong_mode'").await, 1);
    assert!(!is_paid(&house, &order).await);

    house.sandbox.no_faults(&house.http).await;
    house.outcome_becomes(&order, "paid").await;
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}
