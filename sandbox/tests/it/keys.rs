//! Idempotency keys: first time, again, other request; over restarts, and after their time.

use std::time::Duration;

use crate::harness::{config, folder, start, start_with};

#[tokio::test]
async fn a_repeat_gets_the_same_bytes_also_after_a_restart_and_for_declines() {
    let folder = folder("replay");
    let sandbox = start_with(config(&folder)).await;
    let form = [("amount", "4990"), ("currency", "eur"), ("metadata[order]", "order-1")];
    let created = sandbox.post("/v1/payment_intents", "payonce:order:1:1", &form).await;
    let intent = created.json()["id"].as_str().unwrap().to_owned();
    let declined = sandbox.confirm(&intent, "payonce:pay:1:a", "pm_card_visa_chargeDeclinedInsufficientFunds").await;
    assert_eq!(declined.status, 402);
    let paid = sandbox.confirm(&intent, "payonce:pay:1:b", "pm_card_visa").await;
    assert_eq!((paid.status, paid.replayed), (200, false));

    let folder = sandbox.stop().await;
    let sandbox = start_with(config(&folder)).await;
    let again = sandbox.post("/v1/payment_intents", "payonce:order:1:1", &form).await;
    assert_eq!((again.status, again.replayed, &again.text), (200, true, &created.text));
    let again = sandbox.confirm(&intent, "payonce:pay:1:a", "pm_card_visa_chargeDeclinedInsufficientFunds").await;
    assert_eq!((again.status, again.replayed, &again.text), (402, true, &declined.text));
    let again = sandbox.confirm(&intent, "payonce:pay:1:b", "pm_card_visa").await;
    assert_eq!((again.status, again.replayed, &again.text), (200, true, &paid.text));
    assert_eq!(sandbox.charges().await, 1);
    sandbox.end().await;
}

#[tokio::test]
async fn the_same_key_with_another_request_is_an_error_and_changes_nothing() {
    let sandbox = start("reused").await;
    let form = [("amount", "4990"), ("currency", "eur")];
    let first = sandbox.post("/v1/payment_intents", "key", &form).await;
    let other = sandbox.post("/v1/payment_intents", "key", &[("amount", "4991"), ("currency", "eur")]).await;
    assert_eq!(other.error("type"), (400, "idempotency_error".into()));
    let intent = first.json()["id"].as_str().unwrap().to_owned();
    let elsewhere = sandbox.confirm(&intent, "key", "pm_card_visa").await;
    assert_eq!(elsewhere.error("type"), (400, "idempotency_error".into()));
    assert_eq!(sandbox.charges().await, 0);
    // The order in which parameters come is no difference.
    let turned = sandbox.post("/v1/payment_intents", "key", &[("currency", "eur"), ("amount", "4990")]).await;
    assert_eq!((turned.replayed, &turned.text), (true, &first.text));
    sandbox.end().await;
}

#[tokio::test]
async fn keys_are_forgotten_after_their_time_and_the_intent_still_charges_once() {
    let folder = folder("forgotten");
    let sandbox = start_with(sandbox::Config { key_memory: Duration::ZERO, ..config(&folder) }).await;
    let intent = sandbox.intent("order-1").await;
    assert_eq!(sandbox.confirm(&intent, "key", "pm_card_visa").await.status, 200);
    let again = sandbox.confirm(&intent, "key", "pm_card_visa").await;
    assert_eq!(again.error("code"), (400, "payment_intent_unexpected_state".into()));
    assert!(!again.replayed);
    assert_eq!(sandbox.charges().await, 1);
    sandbox.end().await;
}

#[tokio::test]
async fn all_keys_can_be_forgotten_on_demand_and_stay_forgotten() {
    let folder = folder("forget");
    let sandbox = start_with(config(&folder)).await;
    let form = [("amount", "4990"), ("currency", "eur")];
    let first = sandbox.post("/v1/payment_intents", "key", &form).await;
    assert_eq!(sandbox.client.delete(sandbox.url("/_sandbox/keys")).send().await.unwrap().status(), 200);
    let folder = sandbox.stop().await;
    let sandbox = start_with(config(&folder)).await;
    let again = sandbox.post("/v1/payment_intents", "key", &form).await;
    assert!(!again.replayed);
    assert_ne!(again.text, first.text);
    sandbox.end().await;
}

#[tokio::test]
async fn odd_keys_are_refused() {
    let sandbox = start("odd-keys").await;
    let form = [("amount", "4990"), ("currency", "eur")];
    let longest = "k".repeat(255);
    assert_eq!(sandbox.post("/v1/payment_intents", &longest, &form).await.status, 200);
    let too_long = "k".repeat(256);
    assert_eq!(
        sandbox.post("/v1/payment_intents", &too_long, &form).await.error("type"),
        (400, "idempotency_error".into())
    );
    sandbox.end().await;
}
