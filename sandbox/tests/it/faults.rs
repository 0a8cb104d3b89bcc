//! Each fault does what it says, and nothing else, as a client sees it.

use serde_json::{Value, json};

use crate::harness::{Got, Running, start};

async fn confirm_under(sandbox: &Running, key: &str, fault: Value) -> (String, Got) {
    let intent = sandbox.intent(key).await;
    sandbox.fault(json!({"match": {"path": "confirm", "order": key}, "fault": fault, "next": 1})).await;
    let got = sandbox.confirm(&intent, key, "pm_card_visa").await;
    (intent, got)
}

async fn charged(sandbox: &Running, order: &str) -> usize {
    let ledger = sandbox.get(&format!("/_sandbox/ledger?order={order}")).await.json();
    ledger["charges"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn errors_before_acting_charge_nothing_and_the_repeat_pays() {
    let sandbox = start("before").await;
    for (key, fault, status, code) in [
        ("a", json!({"kind": "error_500"}), 500, ""),
        ("b", json!({"kind": "conflict_409"}), 409, "idempotency_key_in_use"),
        ("c", json!({"kind": "status", "status": 429, "retry_after": 2}), 429, "rate_limit"),
        ("d", json!({"kind": "status", "status": 503}), 503, ""),
        ("e", json!({"kind": "status", "status": 302, "location": "https://elsewhere.example/"}), 302, ""),
    ] {
        let (intent, got) = confirm_under(&sandbox, key, fault.clone()).await;
        assert_eq!(got.error("code"), (status, code.into()), "{fault}");
        assert_eq!(charged(&sandbox, key).await, 0, "{fault}");
        let again = sandbox.confirm(&intent, key, "pm_card_visa").await;
        assert_eq!((again.status, again.replayed), (200, false), "{fault}");
        assert_eq!(charged(&sandbox, key).await, 1, "{fault}");
    }
    sandbox.end().await;
}

#[tokio::test]
async fn a_remembered_500_stays_the_answer_of_its_key() {
    let sandbox = start("remembered").await;
    let (intent, got) = confirm_under(&sandbox, "before", json!({"kind": "error_500", "remember": true})).await;
    assert_eq!(got.status, 500);
    let again = sandbox.confirm(&intent, "before", "pm_card_visa").await;
    assert_eq!((again.status, again.replayed, &again.text), (500, true, &got.text));
    assert_eq!(charged(&sandbox, "before").await, 0);
    assert_eq!(sandbox.confirm(&intent, "another", "pm_card_visa").await.status, 200);

    let (intent, got) = confirm_under(&sandbox, "after", json!({"kind": "charge_then_500", "remember": true})).await;
    assert_eq!(got.status, 500);
    assert_eq!(sandbox.confirm(&intent, "after", "pm_card_visa").await.status, 500);
    assert_eq!(charged(&sandbox, "after").await, 1);
    assert_eq!(sandbox.get(&format!("/v1/payment_intents/{intent}")).await.json()["status"], "succeeded");
    sandbox.end().await;
}

#[tokio::test]
async fn spoilt_answers_come_after_exactly_one_right_charge() {
    let sandbox = start("spoilt").await;
    for (key, fault, status) in [
        ("a", json!({"kind": "charge_then_500"}), 500),
        ("b", json!({"kind": "garbage"}), 200),
        ("c", json!({"kind": "wrong_amount"}), 200),
        ("d", json!({"kind": "wrong_currency"}), 200),
    ] {
        let (intent, got) = confirm_under(&sandbox, key, fault.clone()).await;
        assert_eq!(got.status, status, "{fault}");
        let body = got.json();
        match key {
            "b" => assert!(body["not json"].as_str().is_some_and(|text| text.starts_with("<!doctype html>"))),
            "c" => assert_eq!((&body["amount"], &body["status"]), (&json!(4991), &json!("succeeded"))),
            "d" => assert_eq!((&body["currency"], &body["amount"]), (&json!("xts"), &json!(4990))),
            _ => assert_eq!(body["error"]["type"], "api_error"),
        }
        let again = sandbox.confirm(&intent, key, "pm_card_visa").await;
        assert_eq!((again.status, again.replayed), (200, true), "{fault}");
        assert_eq!((&again.json()["amount"], &again.json()["currency"]), (&json!(4990), &json!("eur")), "{fault}");
        let ledger = sandbox.get(&format!("/_sandbox/ledger?order={key}")).await.json();
        assert_eq!(ledger["charges"][0]["amount"], 4990, "{fault}");
        assert_eq!(charged(&sandbox, key).await, 1, "{fault}");
    }
    sandbox.end().await;
}

#[tokio::test]
async fn a_late_answer_leaves_a_charge_that_others_can_see() {
    let sandbox = start("late").await;
    let intent = sandbox.intent("order-1").await;
    sandbox
        .fault(json!({"match": {"payment_intent": intent}, "fault": {"kind": "delay_after", "ms": 60_000}, "next": 1}))
        .await;
    let mut waiting = tokio::task::JoinSet::new();
    let path = format!("/v1/payment_intents/{intent}/confirm");
    waiting.spawn(sandbox.posting(&path, "pay", &[("payment_method", "pm_card_visa")]).send());
    sandbox.until_running("confirm", 1).await;
    while sandbox.charges().await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(sandbox.get(&format!("/v1/payment_intents/{intent}")).await.json()["status"], "succeeded");
    assert_eq!(sandbox.confirm(&intent, "pay", "pm_card_visa").await.error("code").1, "idempotency_key_in_use");
    sandbox.clear_faults().await;
    assert_eq!(waiting.join_next().await.unwrap().unwrap().unwrap().status(), 200);
    assert_eq!(sandbox.charges().await, 1);
    sandbox.end().await;
}

#[tokio::test]
async fn any_decline_can_be_ordered() {
    let sandbox = start("decline").await;
    let (_, got) = confirm_under(&sandbox, "a", json!({"kind": "decline", "code": "do_not_honor"})).await;
    assert_eq!(got.error("decline_code"), (402, "do_not_honor".into()));
    let (_, got) = confirm_under(&sandbox, "b", json!({"kind": "decline", "code": "expired_card"})).await;
    assert_eq!(got.error("code"), (402, "expired_card".into()));
    assert_eq!(sandbox.charges().await, 0);
    sandbox.end().await;
}

#[tokio::test]
async fn even_without_its_keys_an_intent_is_charged_once() {
    let sandbox = start("keyless").await;
    let intent = sandbox.intent("order-1").await;
    sandbox.fault(json!({"fault": {"kind": "ignore_key"}})).await;
    assert_eq!(sandbox.confirm(&intent, "pay", "pm_card_visa").await.status, 200);
    let again = sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    assert_eq!(again.error("code"), (400, "payment_intent_unexpected_state".into()));
    assert_eq!(sandbox.charges().await, 1);
    // Creating without keys makes two payment intents: the shop sees what it is to have no key.
    let form = [("amount", "4990"), ("currency", "eur")];
    let (one, two) =
        (sandbox.post("/v1/payment_intents", "k", &form).await, sandbox.post("/v1/payment_intents", "k", &form).await);
    assert_ne!(one.text, two.text);
    sandbox.end().await;
}

#[tokio::test]
async fn the_same_seed_strikes_the_same_calls() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let sandbox = start("seed").await;
        sandbox
            .fault(json!({"match": {"path": "create"}, "fault": {"kind": "error_500"}, "probability": 0.4, "seed": 11}))
            .await;
        let mut statuses = Vec::new();
        for _ in 0..30 {
            statuses
                .push(sandbox.post("/v1/payment_intents", "", &[("amount", "4990"), ("currency", "eur")]).await.status);
        }
        assert!(statuses.contains(&500) && statuses.contains(&200));
        let set = sandbox.get("/_sandbox/faults").await.json();
        let struck = statuses.iter().filter(|status| **status == 500).count();
        assert_eq!(set["faults"][0]["struck"], struck);
        runs.push(statuses);
        sandbox.end().await;
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test]
async fn faults_that_make_no_sense_are_refused_with_a_reason() {
    let sandbox = start("nonsense").await;
    for order in [
        json!({"fault": {"kind": "explode"}}),
        json!({"fault": {"kind": "refuse", "ms": 60_001}}),
        json!({"match": {"path": "nowhere"}, "fault": {"kind": "error_500"}}),
        json!({"fault": {"kind": "error_500"}, "nxt": 1}),
    ] {
        let got =
            Got::from(sandbox.client.post(sandbox.url("/_sandbox/faults")).json(&order).send().await.unwrap()).await;
        assert_eq!(got.error("type"), (400, "invalid_request_error".into()), "{order}");
        assert!(!got.error("message").1.is_empty());
    }
    let text = sandbox.client.post(sandbox.url("/_sandbox/faults")).body("{\"fault\":{\"kind\":\"error_500\"}}");
    assert_eq!(text.send().await.unwrap().status(), 415);
    assert_eq!(sandbox.get("/_sandbox/faults").await.json()["faults"], json!([]));
    sandbox.end().await;
}
