//! Refunds never add up to more than the charge.

use tokio::task::JoinSet;

use crate::harness::{Got, start};

#[tokio::test]
async fn refunds_are_bounded_by_the_charge_under_concurrency() {
    let sandbox = start("refunds").await;
    let intent = sandbox.intent("order-1").await;
    sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    let mut refunds = JoinSet::new();
    for number in 0..20 {
        let form = [("payment_intent", intent.as_str()), ("amount", "1000")];
        let request = sandbox.posting("/v1/refunds", &format!("refund-{number}"), &form);
        refunds.spawn(async move { Got::from(request.send().await.unwrap()).await });
    }
    let done = refunds.join_all().await;
    assert_eq!(done.iter().filter(|got| got.status == 200).count(), 4);
    assert!(done.iter().all(|got| matches!(got.status, 200 | 400)));

    let rest = sandbox.post("/v1/refunds", "rest", &[("payment_intent", &intent)]).await;
    assert_eq!(rest.json()["amount"], 990, "{}", rest.text);
    let more = sandbox.post("/v1/refunds", "more", &[("payment_intent", &intent)]).await;
    assert_eq!(more.error("code"), (400, "charge_already_refunded".into()));

    let ledger = sandbox.get("/_sandbox/ledger?order=order-1").await.json();
    assert_eq!(ledger["charges"][0]["refunded"], 4990);
    let sum: i64 = ledger["refunds"].as_array().unwrap().iter().map(|refund| refund["amount"].as_i64().unwrap()).sum();
    assert_eq!(sum, 4990);
    let charge = sandbox.get(&format!("/v1/charges?payment_intent={intent}")).await.json();
    assert_eq!(charge["data"][0]["refunded"], true);
    sandbox.end().await;
}

#[tokio::test]
async fn a_refund_is_idempotent_too() {
    let sandbox = start("refund-again").await;
    let intent = sandbox.intent("order-1").await;
    let charge =
        sandbox.confirm(&intent, "pay", "pm_card_visa").await.json()["latest_charge"].as_str().unwrap().to_owned();
    let form = [
        ("charge", charge.as_str()),
        ("amount", "500"),
        ("reason", "requested_by_customer"),
        ("metadata[why]", "late"),
    ];
    let first = sandbox.post("/v1/refunds", "refund", &form).await;
    let again = sandbox.post("/v1/refunds", "refund", &form).await;
    assert_eq!((again.status, again.replayed, &again.text), (200, true, &first.text));
    assert_eq!(first.json()["metadata"]["why"], "late");
    let listed = sandbox.get(&format!("/v1/refunds?charge={charge}")).await.json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    let id = first.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(sandbox.get(&format!("/v1/refunds/{id}")).await.json()["amount"], 500);
    sandbox.end().await;
}

#[tokio::test]
async fn what_was_never_charged_cannot_be_refunded() {
    let sandbox = start("no-refund").await;
    let open = sandbox.intent("order-1").await;
    assert_eq!(sandbox.post("/v1/refunds", "", &[("payment_intent", &open)]).await.status, 400);
    let declined = sandbox.confirm(&open, "pay", "pm_card_chargeDeclined").await;
    let failed = declined.json()["error"]["charge"].as_str().unwrap().to_owned();
    assert_eq!(sandbox.post("/v1/refunds", "", &[("charge", &failed)]).await.status, 400);
    assert_eq!(sandbox.post("/v1/refunds", "", &[("charge", "ch_none")]).await.error("code").1, "resource_missing");
    assert_eq!(sandbox.post("/v1/refunds", "", &[]).await.error("code").1, "parameter_missing");
    let paid = sandbox.intent("order-2").await;
    sandbox.confirm(&paid, "pay-2", "pm_card_visa").await;
    for amount in ["0", "-1", "1.5"] {
        let got = sandbox.post("/v1/refunds", "", &[("payment_intent", &paid), ("amount", amount)]).await;
        assert_eq!(got.error("code"), (400, "parameter_invalid_integer".into()), "{amount}");
    }
    assert_eq!(
        sandbox.post("/v1/refunds", "", &[("payment_intent", &paid), ("amount", "4991")]).await.error("param").1,
        "amount"
    );
    sandbox.end().await;
}
