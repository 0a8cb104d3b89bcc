//! Each fault of a delivery does what it says.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{Got, Running, start};
use crate::receiver::{Arrived, Receiver, SIGNING_SECRET};

async fn with_receiver(name: &str, events: &[&str]) -> (Running, Receiver) {
    let sandbox = start(name).await;
    let receiver = Receiver::start().await;
    sandbox.send_to(&receiver, events).await;
    (sandbox, receiver)
}

async fn set(sandbox: &Running, event: &str, fault: Value) {
    sandbox.fault(json!({"match": {"path": "webhook", "event": event}, "fault": fault})).await;
}

#[tokio::test]
async fn an_early_event_arrives_before_the_answer_of_its_call() {
    let (sandbox, receiver) = with_receiver("early", &["payment_intent.succeeded"]).await;
    set(&sandbox, "payment_intent.succeeded", json!({"kind": "early"})).await;
    let intent = sandbox.intent("order-1").await;
    receiver.hold(true);
    let path = format!("/v1/payment_intents/{intent}/confirm");
    let mut confirming = JoinSet::new();
    confirming.spawn(sandbox.posting(&path, "pay", &[("payment_method", "pm_card_visa")]).send());
    receiver.until(1).await;
    // The shop has the event and has not answered it: the confirm waits.
    let calls = sandbox.get("/_sandbox/calls?call=confirm").await.json();
    assert_eq!(calls["calls"][0]["outcome"], "running");
    receiver.hold(false);
    let answer = Got::from(confirming.join_next().await.unwrap().unwrap().unwrap()).await;
    assert_eq!(answer.json()["status"], "succeeded");
    sandbox.end().await;
}

#[tokio::test]
async fn an_event_comes_while_the_answer_of_its_call_is_held() {
    let (sandbox, receiver) = with_receiver("during", &["payment_intent.succeeded"]).await;
    let intent = sandbox.intent("order-1").await;
    sandbox.fault(json!({"match": {"path": "confirm"}, "fault": {"kind": "delay_after", "ms": 60_000}})).await;
    let path = format!("/v1/payment_intents/{intent}/confirm");
    let mut confirming = JoinSet::new();
    confirming.spawn(sandbox.posting(&path, "pay", &[("payment_method", "pm_card_visa")]).send());
    receiver.until(1).await;
    let calls = sandbox.get("/_sandbox/calls?call=confirm").await.json();
    assert_eq!(calls["calls"][0]["outcome"], "running");
    sandbox.clear_faults().await;
    assert_eq!(confirming.join_next().await.unwrap().unwrap().unwrap().status(), 200);
    sandbox.end().await;
}

#[tokio::test]
async fn a_late_event_waits_until_the_faults_are_taken_back() {
    let (sandbox, receiver) = with_receiver("late-event", &["charge.*", "payment_intent.succeeded"]).await;
    set(&sandbox, "charge.succeeded", json!({"kind": "late", "ms": 600_000})).await;
    let intent = sandbox.intent("order-1").await;
    sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    receiver.until(1).await;
    assert_eq!(receiver.kinds(), ["payment_intent.succeeded"]);
    sandbox.clear_faults().await;
    receiver.until(2).await;
    assert_eq!(receiver.kinds(), ["payment_intent.succeeded", "charge.succeeded"]);
    sandbox.end().await;
}

#[tokio::test]
async fn fifty_copies_come_at_once() {
    let (sandbox, receiver) = with_receiver("copies", &["payment_intent.succeeded"]).await;
    set(&sandbox, "*", json!({"kind": "duplicate", "times": 50})).await;
    let intent = sandbox.intent("order-1").await;
    receiver.hold(true);
    sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    // All fifty are there before the first is answered.
    let arrived = receiver.until(50).await;
    receiver.hold(false);
    assert!(arrived.iter().all(|one| one.body == arrived[0].body && one.signatures_of(SIGNING_SECRET) == 1));
    assert_eq!(sandbox.until_settled().await.len(), 50);
    assert_eq!(receiver.arrived().len(), 50);
    sandbox.end().await;
}

#[tokio::test]
async fn an_event_can_be_overtaken_by_a_younger_one_of_its_payment() {
    let (sandbox, receiver) = with_receiver("order", &[]).await;
    set(&sandbox, "payment_intent.succeeded", json!({"kind": "out_of_order", "ms": 60_000})).await;
    let intent = sandbox.intent("order-1").await;
    sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    receiver.until(2).await;
    // A younger event of another payment lets nothing through.
    sandbox.intent("order-2").await;
    receiver.until(3).await;
    sandbox.post("/v1/refunds", "refund", &[("payment_intent", &intent)]).await;
    receiver.until(6).await;
    let kinds = receiver.kinds();
    let place = |kind: &str| kinds.iter().position(|found| found == kind).unwrap();
    assert!(place("charge.refunded") < place("payment_intent.succeeded"), "{kinds:?}");
    sandbox.end().await;
}

#[tokio::test]
async fn a_dropped_event_is_never_sent_but_can_be_found_and_delivered() {
    let (sandbox, receiver) = with_receiver("never", &["payment_intent.succeeded"]).await;
    set(&sandbox, "*", json!({"kind": "never"})).await;
    let intent = sandbox.intent("order-1").await;
    sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    let log = sandbox.until_settled().await;
    assert_eq!((log.len(), &log[0]["outcome"], &log[0]["faults"]), (1, &json!("dropped"), &json!(["never"])));
    assert_eq!(receiver.arrived().len(), 0);
    let listed = sandbox.get("/v1/events?type=payment_intent.succeeded").await.json();
    let id = listed["data"][0]["id"].as_str().unwrap();
    let again = sandbox.control(&format!("/_sandbox/events/{id}/deliver"), json!({"times": 3})).await.json();
    let outcomes: Vec<&Value> = again["sent"].as_array().unwrap().iter().map(|sent| &sent["outcome"]).collect();
    assert_eq!(outcomes, ["delivered"; 3]);
    assert_eq!(receiver.arrived().len(), 3);
    // Only what changes the event itself makes sense here.
    let late = json!({"faults": [{"kind": "late", "ms": 1}]});
    let refused = sandbox.client.post(sandbox.url(&format!("/_sandbox/events/{id}/deliver"))).json(&late);
    assert_eq!(refused.send().await.unwrap().status(), 400);
    sandbox.end().await;
}

#[tokio::test]
async fn forged_events_fit_no_secret_or_lie_about_their_time() {
    let (sandbox, receiver) = with_receiver("forged", &["payment_intent.created"]).await;
    sandbox.intent("order-1").await;
    let right = receiver.until(1).await[0].clone();
    let id = right.json()["id"].as_str().unwrap().to_owned();
    let forge = async |forgery: &str| -> Arrived {
        let order = json!({"faults": [{"kind": "forged", "forgery": forgery}]});
        sandbox.control(&format!("/_sandbox/events/{id}/deliver"), order).await;
        receiver.arrived().last().unwrap().clone()
    };
    for forgery in [
        "wrong_secret",
        "bad_signature",
        "altered_body",
        "altered_timestamp",
        "no_header",
        "empty_header",
        "no_timestamp",
        "other_scheme",
        "base64_like",
        "short_signature",
    ] {
        assert_eq!(forge(forgery).await.signatures_of(SIGNING_SECRET), 0, "{forgery}");
    }
    for (forgery, off) in [("old_timestamp", -3600), ("future_timestamp", 3600)] {
        let forged = forge(forgery).await;
        assert_eq!(forged.signatures_of(SIGNING_SECRET), 1, "{forgery}");
        assert!((forged.signed_at() - right.signed_at() - off).abs() < 60, "{forgery}");
    }
    sandbox.end().await;
}

#[tokio::test]
async fn rightly_signed_events_can_lie_about_money_and_mode() {
    let (sandbox, receiver) = with_receiver("lies", &["payment_intent.succeeded"]).await;
    for (number, (kind, path, told)) in [
        ("wrong_amount", "/data/object/amount", json!(4991)),
        ("wrong_amount", "/data/object/amount_received", json!(4991)),
        ("wrong_currency", "/data/object/currency", json!("xts")),
        ("wrong_mode", "/livemode", json!(true)),
    ]
    .into_iter()
    .enumerate()
    {
        sandbox.clear_faults().await;
        set(&sandbox, "payment_intent.succeeded", json!({"kind": kind})).await;
        let intent = sandbox.intent(&format!("order-{number}")).await;
        sandbox.confirm(&intent, &format!("pay-{number}"), "pm_card_visa").await;
        let arrived = receiver.until(number + 1).await[number].clone();
        assert_eq!(arrived.json().pointer(path), Some(&told), "{kind}");
        assert_eq!(arrived.signatures_of(SIGNING_SECRET), 1, "{kind}");
        // The list tells the truth.
        let id = arrived.json()["id"].as_str().unwrap().to_owned();
        assert_ne!(sandbox.get(&format!("/v1/events/{id}")).await.json().pointer(path), Some(&told), "{kind}");
    }
    sandbox.end().await;
}

#[tokio::test]
async fn any_event_and_any_bytes_can_be_sent_rightly_signed() {
    let (sandbox, receiver) = with_receiver("injected", &[]).await;
    let object = json!({"id": "pi_elsewhere", "object": "payment_intent", "amount": 1, "metadata": {"order": "none"}});
    let order = json!({"type": "payment_intent.succeeded", "object": object});
    let id = sandbox.control("/_sandbox/events", order).await.json()["id"].as_str().unwrap().to_owned();
    let arrived = receiver.until(1).await[0].clone();
    assert_eq!((&arrived.json()["id"], &arrived.json()["data"]["object"]), (&json!(id), &object));
    assert_eq!(sandbox.get(&format!("/v1/events/{id}")).await.json()["type"], "payment_intent.succeeded");

    receiver.answer(&[400]);
    let sent = sandbox.control("/_sandbox/events", json!({"body": "{not json"})).await.json();
    assert_eq!((&sent["sent"][0]["status"], &sent["sent"][0]["outcome"]), (&json!(400), &json!("failed")));
    let arrived = receiver.until(2).await[1].clone();
    assert_eq!((arrived.body.as_str(), arrived.signatures_of(SIGNING_SECRET)), ("{not json", 1));
    assert_eq!(sandbox.event_kinds().await.len(), 1);
    sandbox.end().await;
}

#[tokio::test]
async fn faults_of_calls_do_not_strike_deliveries() {
    let (sandbox, receiver) = with_receiver("apart", &[]).await;
    sandbox.fault(json!({"match": {"path": "refund"}, "fault": {"kind": "wrong_amount"}})).await;
    sandbox.fault(json!({"fault": {"kind": "wrong_currency"}})).await;
    sandbox.intent("order-1").await;
    assert_eq!(receiver.until(1).await[0].json()["data"]["object"]["currency"], "eur");
    assert_eq!(sandbox.until_settled().await[0]["faults"], json!([]));
    sandbox.end().await;
}
