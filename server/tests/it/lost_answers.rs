//! What the provider did and what we heard of it are two things.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::house::{GOOD_CARD, House, Plan, until, uuid};

async fn with_fault(db: PgPool, fault: Value) -> (House, crate::house::Order) {
    let house = House::with(db, Plan { provider_timeout: Duration::from_secs(2), ..Plan::default() }).await;
    let order = house.order("lamp").await;
    house.sandbox.fault(&house.http, json!({"match":{"path":"confirm"},"fault":fault,"next":1})).await;
    (house, order)
}

/// Pays under a fault after which the outcome is unknown at first, then pays again; ends paid, once.
async fn ends_paid_once(db: PgPool, fault: Value) {
    let (house, order) = with_fault(db, fault).await;
    let intent = uuid();
    let first = house.pay(&order, &intent, GOOD_CARD).await;
    assert!(first.status.is_success() || first.status.as_u16() == 409, "never a failure: {first:?}");
    if first.status.is_success() {
        assert_ne!(first.json()["state"], "FAILED");
    }
    house.outcome_becomes(&order, "paid").await;
    house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_answer_lost_after_the_charge_never_becomes_a_second_charge(db: PgPool) {
    ends_paid_once(db, json!({"kind":"charge_then_drop"})).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_28_an_error_after_the_charge_is_not_a_failure(db: PgPool) {
    ends_paid_once(db, json!({"kind":"charge_then_500"})).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b53_an_error_without_a_charge_is_looked_up_and_sent_again(db: PgPool) {
    ends_paid_once(db, json!({"kind":"error_500"})).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b49_pitfall_52_a_time_out_is_unknown_and_becomes_what_really_happened(db: PgPool) {
    ends_paid_once(db, json!({"kind":"delay_after","ms":4000})).await;
}

/// The provider's "a request with this key is running" is no decline.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b33_a_lock_at_the_provider_is_waited_for(db: PgPool) {
    let (house, order) = with_fault(db, json!({"kind":"conflict_409"})).await;
    let answer = house.pay(&order, &uuid(), GOOD_CARD).await;
    answer.assert_succeeded();
    assert_eq!(house.count("select count(*) from intents where state = 'failed'").await, 0);
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// Nothing was sent, so nothing is archived: the same intent pays as soon as the provider is back.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b29_a_provider_that_cannot_be_reached_uses_up_no_key(db: PgPool) {
    let (house, order) = with_fault(db, json!({"kind":"status","status":429})).await;
    let intent = uuid();
    let refused = house.pay(&order, &intent, GOOD_CARD).await;
    assert!(refused.assert_refused(503, "not_sent").retry_after.is_some());
    assert_eq!(house.count("select count(*) from intents").await, 0, "the reservation is released");
    house.assert_not_charged(&order).await;
    house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// The browser disappears at every stage; the payment does not.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b125_pitfall_20_a_customer_who_disconnects_is_charged_once_and_finds_the_outcome(db: PgPool) {
    let house = House::new(db).await;
    for patience in [1, 5, 20, 50, 100, 200, 400, 590, 610] {
        let order = house.order("mug").await;
        house
            .sandbox
            .fault(&house.http, json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":600},"next":1}))
            .await;
        let intent = uuid();
        let body = House::pay_body(&order, &intent, GOOD_CARD);
        let url = format!("{}/rpc/pay", house.url());
        let gone = house.http.post(url).timeout(Duration::from_millis(patience)).json(&body).send().await;
        drop(gone);
        let arrived = house.outcome(&order, Some(&intent)).await["received"] == json!(true);
        if !arrived {
            house.sandbox.no_faults(&house.http).await;
            house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
        }
        house.outcome_becomes(&order, "paid").await;
        house.assert_charged_once(&order).await;
    }
    assert_eq!(house.count("select count(*) from intents where state <> 'succeeded'").await, 0);
    house.assert_books_balance().await;
}

/// A pool of five, fifty customers, a slow provider: nobody waits for a connection while the provider works.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b126_a_slow_provider_does_not_drain_the_pool(db: PgPool) {
    let house = House::with(db, Plan { pool_size: 5, ..Plan::default() }).await;
    let orders = join_all((0..50).map(|_| house.order("mug"))).await;
    house
        .sandbox
        .fault(&house.http, json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":3000},"next":50}))
        .await;
    let intents: Vec<String> = orders.iter().map(|_| uuid()).collect();
    let paying = join_all(orders.iter().zip(&intents).map(|(order, intent)| house.pay(order, intent, GOOD_CARD)));
    let (answers, ()) = tokio::join!(paying, async {
        until("all are reserved", || async { house.count("select count(*) from intents").await == 50 }).await;
        let ready = house.http.get(format!("{}/readyz", house.url())).send().await.unwrap();
        assert!(ready.status().is_success(), "the database answers while fifty payments wait for the provider");
    });
    for answer in &answers {
        answer.assert_succeeded();
    }
    for order in &orders {
        house.assert_charged_once(order).await;
    }
    house.assert_books_balance().await;
}
