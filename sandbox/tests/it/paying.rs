//! One charge for one payment intent, whoever asks how often.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{Got, start};

#[tokio::test]
async fn a_confirmed_intent_is_charged_and_in_the_ledger() {
    let sandbox = start("paid").await;
    let intent = sandbox.intent("order-1").await;
    let method = sandbox.method("4242424242424242").await;
    let got = sandbox.confirm(&intent, "payonce:pay:1", &method).await;
    assert_eq!(got.status, 200, "{}", got.text);
    let body = got.json();
    assert_eq!(body["status"], "succeeded");
    assert_eq!(body["payment_method"], method.as_str());
    assert_eq!(body["amount_received"], 4990);
    let charge = body["latest_charge"].as_str().unwrap().to_owned();

    let ledger = sandbox.ledger().await;
    let expected = json!([{
        "id": charge, "amount": 4990, "currency": "eur", "payment_intent": intent,
        "metadata": {"order": "order-1", "reference": "AB12-CD34"}, "idempotency_key": "payonce:pay:1",
        "created": ledger["charges"][0]["created"], "status": "succeeded", "payment_method": method, "disputed": 0, "refunded": 0,
    }]);
    assert_eq!(ledger["charges"], expected);
    assert_eq!(sandbox.get("/_sandbox/ledger?order=order-1").await.json()["charges"], expected);
    assert_eq!(sandbox.get("/_sandbox/ledger?order=order-2").await.json()["charges"], json!([]));

    let expanded = sandbox.get(&format!("/v1/payment_intents/{intent}?expand[]=latest_charge")).await.json();
    assert_eq!(expanded["latest_charge"]["id"], charge.as_str());
    assert_eq!(expanded["latest_charge"]["paid"], true);
    assert_eq!(expanded["latest_charge"]["payment_method_details"]["card"]["last4"], "4242");
    assert_eq!(sandbox.get(&format!("/v1/charges/{charge}")).await.json()["status"], "succeeded");
    sandbox.end().await;
}

#[tokio::test]
async fn fifty_confirms_with_one_key_charge_once_and_answer_alike() {
    let sandbox = start("one-key").await;
    let intent = sandbox.intent("order-1").await;
    let mut confirms = JoinSet::new();
    for _ in 0..50 {
        let path = format!("/v1/payment_intents/{intent}/confirm");
        let request = sandbox.posting(&path, "one-key", &[("payment_method", "pm_card_visa")]);
        confirms.spawn(async move { Got::from(request.send().await.unwrap()).await });
    }
    let mut bodies = std::collections::BTreeSet::new();
    for got in confirms.join_all().await {
        if got.status == 409 {
            assert_eq!(got.error("code").1, "idempotency_key_in_use");
        } else {
            assert_eq!(got.status, 200, "{}", got.text);
            bodies.insert(got.text);
        }
    }
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert_eq!(sandbox.charges().await, 1);
    let replay = sandbox.confirm(&intent, "one-key", "pm_card_visa").await;
    assert!(replay.replayed);
    assert!(bodies.contains(&replay.text));
    sandbox.end().await;
}

#[tokio::test]
async fn fifty_confirms_with_fifty_keys_charge_once() {
    let sandbox = start("many-keys").await;
    let intent = sandbox.intent("order-1").await;
    let mut confirms = JoinSet::new();
    for number in 0..50 {
        let path = format!("/v1/payment_intents/{intent}/confirm");
        let request = sandbox.posting(&path, &format!("key-{number}"), &[("payment_method", "pm_card_visa")]);
        confirms.spawn(async move { Got::from(request.send().await.unwrap()).await });
    }
    let mut succeeded = 0;
    for got in confirms.join_all().await {
        match got.status {
            200 => succeeded += 1,
            400 => assert_eq!(got.error("code").1, "payment_intent_unexpected_state"),
            other => assert_eq!((other, got.error("code").1.as_str()), (429, "lock_timeout")),
        }
    }
    assert_eq!(succeeded, 1);
    assert_eq!(sandbox.charges().await, 1);
    sandbox.end().await;
}

#[tokio::test]
async fn a_second_confirm_while_the_first_runs_is_told_to_come_again() {
    let sandbox = start("locked").await;
    let intent = sandbox.intent("order-1").await;
    sandbox
        .fault(json!({"match": {"path": "confirm"}, "fault": {"kind": "delay_before", "ms": 60_000}, "next": 1}))
        .await;
    let path = format!("/v1/payment_intents/{intent}/confirm");
    let first = sandbox.posting(&path, "first", &[("payment_method", "pm_card_visa")]);
    let mut running = JoinSet::new();
    running.spawn(async move { Got::from(first.send().await.unwrap()).await });
    sandbox.until_running("confirm", 1).await;

    assert_eq!(sandbox.confirm(&intent, "second", "pm_card_visa").await.error("code"), (429, "lock_timeout".into()));
    assert_eq!(sandbox.post(&format!("/v1/payment_intents/{intent}/cancel"), "", &[]).await.error("code").0, 429);
    assert_eq!(
        sandbox.confirm(&intent, "first", "pm_card_visa").await.error("code"),
        (409, "idempotency_key_in_use".into())
    );
    assert_eq!(sandbox.charges().await, 0);

    sandbox.clear_faults().await;
    assert_eq!(running.join_next().await.unwrap().unwrap().status, 200);
    assert_eq!(sandbox.charges().await, 1);
    sandbox.end().await;
}

#[tokio::test]
async fn a_cancelled_intent_can_never_be_charged() {
    let sandbox = start("cancelled").await;
    let intent = sandbox.intent("order-1").await;
    let cancel = format!("/v1/payment_intents/{intent}/cancel");
    let got = sandbox.post(&cancel, "cancel", &[("cancellation_reason", "abandoned")]).await;
    assert_eq!(got.json()["status"], "canceled", "{}", got.text);
    let late = sandbox.confirm(&intent, "late", "pm_card_visa").await;
    assert_eq!(late.error("code"), (400, "payment_intent_unexpected_state".into()));
    assert_eq!(late.json()["error"]["payment_intent"]["status"], "canceled");
    assert_eq!(sandbox.post(&cancel, "again", &[]).await.status, 400);

    let paid = sandbox.intent("order-2").await;
    sandbox.confirm(&paid, "pay", "pm_card_visa").await;
    let got = sandbox.post(&format!("/v1/payment_intents/{paid}/cancel"), "", &[]).await;
    assert_eq!(got.error("code"), (400, "payment_intent_unexpected_state".into()));
    assert_eq!(sandbox.charges().await, 1);
    sandbox.end().await;
}

#[tokio::test]
async fn a_client_who_hangs_up_stops_no_charge() {
    let sandbox = start("hung-up").await;
    let intent = sandbox.intent("order-1").await;
    sandbox
        .fault(json!({"match": {"path": "confirm"}, "fault": {"kind": "delay_before", "ms": 60_000}, "next": 1}))
        .await;
    let path = format!("/v1/payment_intents/{intent}/confirm");
    let mut leaving = JoinSet::new();
    leaving.spawn(sandbox.posting(&path, "gone", &[("payment_method", "pm_card_visa")]).send());
    sandbox.until_running("confirm", 1).await;
    leaving.shutdown().await;
    sandbox.clear_faults().await;
    sandbox.until_calls("confirm", 1, "answered").await;
    assert_eq!(sandbox.charges().await, 1);
    let again = sandbox.confirm(&intent, "gone", "pm_card_visa").await;
    assert_eq!((again.status, again.replayed), (200, true));
    sandbox.end().await;
}

#[tokio::test]
async fn amounts_and_currencies_are_checked_before_anything_exists() {
    let sandbox = start("amounts").await;
    for (amount, currency, code) in [
        ("", "eur", "parameter_invalid_empty"),
        ("49.90", "eur", "parameter_invalid_integer"),
        ("0", "eur", "parameter_invalid_integer"),
        ("-4990", "eur", "parameter_invalid_integer"),
        ("49", "eur", "amount_too_small"),
        ("49", "jpy", "amount_too_small"),
        ("100000000000", "usd", "amount_too_large"),
        ("4990", "eu", ""),
        ("4990", "xxx", ""),
    ] {
        let got = sandbox.post("/v1/payment_intents", "key", &[("amount", amount), ("currency", currency)]).await;
        assert_eq!(got.error("code"), (400, code.into()), "{amount} {currency}");
        assert_eq!(got.error("type").1, "invalid_request_error");
    }
    let got = sandbox.post("/v1/payment_intents", "key", &[("amount", "50"), ("currency", "EUR"), ("oops", "1")]).await;
    assert_eq!(got.error("code"), (400, "parameter_unknown".into()));
    assert_eq!(sandbox.get("/v1/payment_intents").await.json()["data"], Value::Array(Vec::new()));
    // None of these refusals was remembered under the key.
    let got = sandbox.post("/v1/payment_intents", "key", &[("amount", "50"), ("currency", "EUR")]).await;
    assert_eq!((got.status, got.replayed), (200, false), "{}", got.text);
    assert_eq!(got.json()["currency"], "eur");
    sandbox.end().await;
}
