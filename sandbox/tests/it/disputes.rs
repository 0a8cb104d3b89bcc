//! Disputes take money back that nobody can refund as well.

use serde_json::json;

use crate::harness::{Got, Running, start};

async fn paid(sandbox: &Running, order: &str, method: &str) -> (String, String) {
    let intent = sandbox.intent(order).await;
    let charge = sandbox.confirm(&intent, order, method).await.json()["latest_charge"].as_str().unwrap().to_owned();
    (intent, charge)
}

#[tokio::test]
async fn a_fully_disputed_charge_cannot_be_refunded_until_it_is_won() {
    let sandbox = start("disputed").await;
    let (intent, charge) = paid(&sandbox, "order-1", "pm_card_visa").await;
    let opened = sandbox.control("/_sandbox/disputes", json!({"charge": charge, "reason": "general"})).await.json();
    assert_eq!((&opened["object"], &opened["amount"]), (&json!("dispute"), &json!(4990)));
    assert_eq!((&opened["charge"], &opened["status"]), (&json!(charge), &json!("needs_response")));
    let path = format!("/v1/disputes/{}", opened["id"].as_str().unwrap());
    assert_eq!(sandbox.get(&path).await.json(), opened);
    assert_eq!(sandbox.get(&format!("/v1/disputes?charge={charge}")).await.json()["data"][0], opened);
    assert_eq!(sandbox.get(&format!("/v1/charges/{charge}")).await.json()["disputed"], true);

    let refused = sandbox.post("/v1/refunds", "r", &[("payment_intent", &intent)]).await;
    assert_eq!(refused.error("code"), (400, "charge_disputed".into()));
    let twice = sandbox.client.post(sandbox.url("/_sandbox/disputes")).json(&json!({"charge": charge}));
    assert_eq!(Got::from(twice.send().await.unwrap()).await.status, 400);

    let evidence = [("evidence[product_description]", "A chair"), ("submit", "true")];
    assert_eq!(sandbox.post(&path, "", &evidence).await.json()["status"], "under_review");
    sandbox.control(&path.replace("/v1/", "/_sandbox/"), json!({"status": "won"})).await;
    assert_eq!(sandbox.post(&format!("{path}/close"), "", &[]).await.status, 400);
    let kinds = sandbox.event_kinds().await;
    assert_eq!(
        kinds[3..],
        [
            "charge.dispute.created",
            "charge.dispute.funds_withdrawn",
            "charge.dispute.updated",
            "charge.dispute.funds_reinstated",
            "charge.dispute.closed",
        ]
    );
    let refund = sandbox.post("/v1/refunds", "r2", &[("payment_intent", &intent)]).await;
    assert_eq!(refund.json()["amount"], 4990, "{}", refund.text);
    sandbox.end().await;
}

#[tokio::test]
async fn of_a_partly_disputed_charge_only_the_rest_can_be_refunded() {
    let sandbox = start("partly-disputed").await;
    let (intent, _) = paid(&sandbox, "order-1", "pm_card_visa").await;
    let opened = sandbox.control("/_sandbox/disputes", json!({"payment_intent": intent, "amount": 2000})).await.json();
    let too_much = [("payment_intent", intent.as_str()), ("amount", "3000")];
    assert_eq!(sandbox.post("/v1/refunds", "a", &too_much).await.error("code").1, "charge_disputed");
    assert_eq!(sandbox.post("/v1/refunds", "b", &[("payment_intent", &intent)]).await.json()["amount"], 2990);
    let path = format!("/v1/disputes/{}", opened["id"].as_str().unwrap());
    assert_eq!(sandbox.post(&format!("{path}/close"), "", &[]).await.json()["status"], "lost");
    assert_eq!(
        sandbox.post("/v1/refunds", "c", &[("payment_intent", &intent)]).await.error("code").1,
        "charge_disputed"
    );
    let ledger = sandbox.ledger().await;
    assert_eq!((&ledger["charges"][0]["refunded"], &ledger["charges"][0]["disputed"]), (&json!(2990), &json!(2000)));
    sandbox.end().await;
}

#[tokio::test]
async fn some_cards_are_disputed_at_once() {
    let sandbox = start("dispute-card").await;
    let method = sandbox.method("4000000000000259").await;
    let (intent, charge) = paid(&sandbox, "order-1", &method).await;
    let listed = sandbox.get(&format!("/v1/disputes?payment_intent={intent}")).await.json();
    assert_eq!((&listed["data"][0]["charge"], &listed["data"][0]["reason"]), (&json!(charge), &json!("fraudulent")));
    assert_eq!(sandbox.charges().await, 1);
    assert!(sandbox.get("/").await.text.contains("Disputed, 49.90 EUR taken back"));
    sandbox.end().await;
}
