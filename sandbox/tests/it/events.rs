//! Every change makes its events, with the object as it was then.

use serde_json::{Value, json};

use crate::harness::{Running, start, start_with};

async fn event(sandbox: &Running, kind: &str) -> Value {
    let listed = sandbox.get(&format!("/v1/events?type={kind}")).await.json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{kind}: {listed}");
    listed["data"][0].clone()
}

#[tokio::test]
async fn a_payment_tells_of_each_step_with_its_cause() {
    let sandbox = start("events-paying").await;
    let intent = sandbox.intent("order-1").await;
    let path = format!("/v1/payment_intents/{intent}/confirm");
    sandbox.posting(&path, "declined", &[("payment_method", "pm_card_chargeDeclined")]).send().await.unwrap();
    let paid = sandbox.posting(&path, "paid", &[("payment_method", "pm_card_visa")]).send().await.unwrap();
    let request_id = paid.headers()["request-id"].to_str().unwrap().to_owned();
    assert_eq!(
        sandbox.event_kinds().await,
        [
            "payment_intent.created",
            "charge.failed",
            "payment_intent.payment_failed",
            "charge.succeeded",
            "payment_intent.succeeded",
        ]
    );
    // Each shows the object as it was, not as it is.
    let created = event(&sandbox, "payment_intent.created").await;
    assert_eq!(created["data"]["object"]["status"], "requires_payment_method");
    assert_eq!(created["data"]["object"]["last_payment_error"], Value::Null);
    let failed = event(&sandbox, "payment_intent.payment_failed").await;
    assert_eq!(failed["data"]["object"]["last_payment_error"]["decline_code"], "generic_decline");
    assert_eq!(failed["request"]["idempotency_key"], "declined");
    let succeeded = event(&sandbox, "payment_intent.succeeded").await;
    assert_eq!(succeeded["data"]["object"], sandbox.get(&format!("/v1/payment_intents/{intent}")).await.json());
    assert_eq!(succeeded["request"], json!({"id": request_id, "idempotency_key": "paid"}));
    assert_eq!((&succeeded["object"], &succeeded["livemode"]), (&json!("event"), &json!(false)));
    assert_eq!((&succeeded["pending_webhooks"], &succeeded["api_version"]), (&json!(0), &json!("2026-10-28.endive")));
    let id = succeeded["id"].as_str().unwrap();
    assert!(id.starts_with("evt_"), "{id}");
    assert_eq!(sandbox.get(&format!("/v1/events/{id}")).await.json(), succeeded);
    assert_eq!(sandbox.get("/v1/events/evt_none").await.error("code"), (404, "resource_missing".into()));
    sandbox.end().await;
}

#[tokio::test]
async fn replays_and_refused_calls_tell_nothing() {
    let sandbox = start("events-replay").await;
    let intent = sandbox.intent("order-1").await;
    sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    let told = sandbox.event_kinds().await;
    assert!(sandbox.confirm(&intent, "pay", "pm_card_visa").await.replayed);
    assert_eq!(sandbox.confirm(&intent, "again", "pm_card_visa").await.status, 400);
    assert_eq!(sandbox.post(&format!("/v1/payment_intents/{intent}/cancel"), "", &[]).await.status, 400);
    assert_eq!(sandbox.event_kinds().await, told);
    sandbox.end().await;
}

#[tokio::test]
async fn the_bank_a_cancel_and_a_refund_tell_too() {
    let sandbox = start("events-bank").await;
    let intent = sandbox.intent("order-1").await;
    sandbox.confirm(&intent, "pay", "pm_card_threeDSecureRequired").await;
    sandbox.post(&format!("/bank/{intent}"), "", &[("decision", "refuse"), ("step", "1")]).await;
    sandbox.confirm(&intent, "pay-2", "pm_card_threeDSecureRequired").await;
    sandbox.post(&format!("/bank/{intent}"), "", &[("decision", "approve"), ("step", "2")]).await;
    sandbox.post("/v1/refunds", "refund", &[("payment_intent", &intent), ("amount", "1000")]).await;
    let other = sandbox.intent("order-2").await;
    sandbox.post(&format!("/v1/payment_intents/{other}/cancel"), "", &[]).await;
    assert_eq!(
        sandbox.event_kinds().await,
        [
            "payment_intent.created",
            "payment_intent.requires_action",
            "payment_intent.payment_failed",
            "payment_intent.requires_action",
            "charge.succeeded",
            "payment_intent.succeeded",
            "charge.refunded",
            "refund.created",
            "payment_intent.created",
            "payment_intent.canceled",
        ]
    );
    // What the customer did at the bank was no call of the shop.
    assert_eq!(
        event(&sandbox, "payment_intent.succeeded").await["request"],
        json!({"id": null, "idempotency_key": null})
    );
    let refunded = event(&sandbox, "charge.refunded").await["data"]["object"].clone();
    assert_eq!((&refunded["amount_refunded"], &refunded["refunded"]), (&json!(1000), &json!(false)));
    sandbox.end().await;
}

#[tokio::test]
async fn events_are_listed_in_pages_and_by_type() {
    let sandbox = start("events-list").await;
    for number in 0..3 {
        let intent = sandbox.intent(&format!("order-{number}")).await;
        sandbox.confirm(&intent, &format!("pay-{number}"), "pm_card_visa").await;
    }
    let ids = async |query: &str| {
        let listed = sandbox.get(&format!("/v1/events{query}")).await.json();
        let ids: Vec<String> =
            listed["data"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect();
        (ids, listed["has_more"] == true)
    };
    let (all, _) = ids("?limit=100").await;
    assert_eq!(all.len(), 9);
    assert_eq!(ids(&format!("?limit=4&starting_after={}", all[3])).await, (all[4..8].to_vec(), true));
    assert_eq!(ids(&format!("?limit=4&ending_before={}", all[3])).await, (all[..3].to_vec(), false));
    assert_eq!(ids("?type=charge.succeeded").await.0.len(), 3);
    assert_eq!(ids("?type=charge.*").await.0.len(), 3);
    assert_eq!(ids("?types[]=charge.succeeded&types[]=payment_intent.created").await.0.len(), 6);
    assert_eq!(ids("?created[gte]=1&type=payment_intent.succeeded").await.0.len(), 3);
    assert_eq!(ids("?created[lt]=1").await.0.len(), 0);
    for bad in ["?type=a&types[]=b", "?starting_after=evt_none", "?kind=x"] {
        assert_eq!(sandbox.get(&format!("/v1/events{bad}")).await.status, 400, "{bad}");
    }
    sandbox.end().await;
}

#[tokio::test]
async fn events_survive_a_restart_and_are_in_the_line_of_their_change() {
    let sandbox = start("events-restart").await;
    let intent = sandbox.intent("order-1").await;
    sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    let before = sandbox.get("/v1/events").await.text;
    let folder = sandbox.stop().await;
    let journal = std::fs::read_to_string(folder.join("journal.jsonl")).unwrap();
    let line = journal.lines().find(|line| line.contains("\"confirm\"")).unwrap();
    assert!(line.contains("payment_intent.succeeded") && line.contains("charge.succeeded"));
    let sandbox = start_with(crate::harness::config(&folder)).await;
    assert_eq!(sandbox.get("/v1/events").await.text, before);
    sandbox.end().await;
}

#[tokio::test]
async fn the_version_of_the_api_is_read_and_answered() {
    let sandbox = start("version").await;
    let asked = sandbox.request(reqwest::Method::GET, "/v1/events").header("stripe-version", "2024-06-20");
    assert_eq!(asked.send().await.unwrap().headers()["stripe-version"], "2024-06-20");
    let plain = sandbox.request(reqwest::Method::GET, "/v1/events").send().await.unwrap();
    assert_eq!(plain.headers()["stripe-version"], "2026-10-28.endive");
    let wrong = sandbox.request(reqwest::Method::GET, "/v1/events").header("stripe-version", "newest");
    assert_eq!(wrong.send().await.unwrap().status(), 400);
    sandbox.end().await;
}
