//! Refunds never add up to more than the charge.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{Got, Running, config, folder, start, start_with};

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

async fn paid(sandbox: &Running, order: &str, method: &str) -> String {
    let intent = sandbox.intent(order).await;
    assert_eq!(sandbox.confirm(&intent, order, method).await.status, 200);
    intent
}

async fn refunded(sandbox: &Running, order: &str) -> i64 {
    let ledger = sandbox.get(&format!("/_sandbox/ledger?order={order}")).await.json();
    ledger["charges"][0]["refunded"].as_i64().unwrap()
}

#[tokio::test]
async fn refusals_have_the_providers_shape_and_keys_remember_them() {
    let sandbox = start("refund-shapes").await;
    let intent = paid(&sandbox, "order-1", "pm_card_visa").await;
    let too_much = [("payment_intent", intent.as_str()), ("amount", "4991")];
    let got = sandbox.post("/v1/refunds", "too-much", &too_much).await;
    assert_eq!((got.error("type"), got.error("param").1), ((400, "invalid_request_error".into()), "amount".into()));
    assert!(got.json()["error"].get("code").is_none());
    assert!(sandbox.post("/v1/refunds", "too-much", &too_much).await.replayed);
    sandbox.post("/v1/refunds", "all", &[("payment_intent", &intent)]).await;
    let got = sandbox.post("/v1/refunds", "more", &[("payment_intent", &intent)]).await;
    assert_eq!(got.error("code"), (400, "charge_already_refunded".into()));
    let unpaid = sandbox.intent("order-2").await;
    assert_eq!(sandbox.post("/v1/refunds", "", &[("payment_intent", &unpaid)]).await.status, 400);
    assert_eq!(sandbox.post("/v1/refunds", "", &[("payment_intent", "pi_none")]).await.status, 400);
    assert_eq!(refunded(&sandbox, "order-1").await, 4990);
    sandbox.end().await;
}

#[tokio::test]
async fn a_pending_refund_succeeds_when_it_is_let() {
    let sandbox = start("refund-pending").await;
    let intent = paid(&sandbox, "order-1", "pm_card_pendingRefund").await;
    let refund = sandbox.post("/v1/refunds", "r", &[("payment_intent", &intent)]).await.json();
    assert_eq!(refund["status"], "pending");
    // It counts at once: nobody can refund it a second time meanwhile.
    assert_eq!(refunded(&sandbox, "order-1").await, 4990);
    let path = format!("/v1/refunds/{}", refund["id"].as_str().unwrap());
    sandbox.control(&path.replace("/v1/", "/_sandbox/"), json!({"status": "succeeded"})).await;
    assert_eq!(sandbox.get(&path).await.json()["status"], "succeeded");
    let kinds = sandbox.event_kinds().await;
    assert_eq!(kinds[3..], ["charge.refunded", "refund.created", "refund.updated", "charge.refund.updated"]);
    sandbox.end().await;
}

#[tokio::test]
async fn a_refund_that_fails_later_gives_its_amount_back_to_the_charge() {
    let sandbox = start("refund-fails").await;
    let intent = paid(&sandbox, "order-1", "pm_card_refundFail").await;
    let form = [("payment_intent", intent.as_str()), ("amount", "4000")];
    let refund = sandbox.post("/v1/refunds", "r", &form).await.json();
    assert_eq!(refund["status"], "succeeded");
    let path = format!("/v1/refunds/{}", refund["id"].as_str().unwrap());
    let control = path.replace("/v1/", "/_sandbox/");
    let end = json!({"status": "failed", "failure_reason": "lost_or_stolen_card"});
    sandbox.control(&control, end.clone()).await;
    let failed = sandbox.get(&path).await.json();
    assert_eq!((&failed["status"], &failed["failure_reason"]), (&json!("failed"), &json!("lost_or_stolen_card")));
    assert_eq!(refunded(&sandbox, "order-1").await, 0);
    let ledger = sandbox.get("/_sandbox/ledger?order=order-1").await.json();
    assert_eq!(ledger["refunds"][0]["status"], "failed");
    // A failed refund stays failed, and its amount comes back once.
    let again = sandbox.client.post(sandbox.url(&control)).json(&end).send().await.unwrap();
    assert_eq!(again.status(), 400);
    assert_eq!(refunded(&sandbox, "order-1").await, 0);
    assert_eq!(sandbox.post("/v1/refunds", "r2", &[("payment_intent", &intent)]).await.json()["amount"], 4990);
    let kinds = sandbox.event_kinds().await;
    assert_eq!(kinds[5..8], ["refund.updated", "refund.failed", "charge.refund.updated"]);
    sandbox.end().await;
}

#[tokio::test]
async fn refunds_settle_by_themselves_also_after_a_restart() {
    let folder = folder("refund-later");
    let mut slow = config(&folder);
    slow.refund_wait = std::time::Duration::from_millis(1500);
    let sandbox = start_with(slow.clone()).await;
    let intent = paid(&sandbox, "order-1", "pm_card_pendingRefund").await;
    let refund = sandbox.post("/v1/refunds", "r", &[("payment_intent", &intent)]).await.json();
    assert_eq!(refund["status"], "pending");
    sandbox.stop().await;
    let sandbox = start_with(slow).await;
    let path = format!("/v1/refunds/{}", refund["id"].as_str().unwrap());
    let waiting = async {
        while sandbox.get(&path).await.json()["status"] == "pending" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.unwrap();
    assert_eq!(sandbox.get(&path).await.json()["status"], "succeeded");
    let updated = sandbox.get("/v1/events?type=refund.updated").await.json();
    assert_eq!(updated["data"][0]["request"], json!({"id": null, "idempotency_key": null}));
    sandbox.end().await;
}

#[tokio::test]
async fn only_a_refund_that_waits_for_the_customer_can_be_cancelled() {
    let sandbox = start("refund-cancel").await;
    let intent = paid(&sandbox, "order-1", "pm_card_visa").await;
    let order = json!({"payment_intent": intent, "amount": 990, "status": "requires_action"});
    let waiting = sandbox.control("/_sandbox/refunds", order).await.json();
    assert_eq!(refunded(&sandbox, "order-1").await, 990);
    let path = format!("/v1/refunds/{}/cancel", waiting["id"].as_str().unwrap());
    assert_eq!(sandbox.post(&path, "c", &[]).await.json()["status"], "canceled");
    assert_eq!(refunded(&sandbox, "order-1").await, 0);
    assert_eq!(sandbox.post(&path, "c2", &[]).await.status, 400);
    let done = sandbox.post("/v1/refunds", "r", &[("payment_intent", &intent)]).await.json();
    let path = format!("/v1/refunds/{}/cancel", done["id"].as_str().unwrap());
    assert_eq!(sandbox.post(&path, "", &[]).await.status, 400);
    assert_eq!(refunded(&sandbox, "order-1").await, 4990);
    sandbox.end().await;
}

#[tokio::test]
async fn a_refund_made_elsewhere_is_a_refund() {
    let sandbox = start("refund-elsewhere").await;
    let intent = paid(&sandbox, "order-1", "pm_card_visa").await;
    sandbox.control("/_sandbox/refunds", json!({"payment_intent": intent, "amount": 1000})).await;
    let listed = sandbox.get(&format!("/v1/refunds?payment_intent={intent}")).await.json();
    assert_eq!((listed["data"].as_array().unwrap().len(), &listed["data"][0]["amount"]), (1, &json!(1000)));
    let event = sandbox.get("/v1/events?type=refund.created").await.json()["data"][0].clone();
    assert_eq!(event["request"]["id"], Value::Null);
    assert_eq!(sandbox.post("/v1/refunds", "", &[("payment_intent", &intent)]).await.json()["amount"], 3990);
    sandbox.end().await;
}

#[tokio::test]
async fn reads_of_a_refund_are_matched_by_its_order() {
    let sandbox = start("refund-reads").await;
    let intent = paid(&sandbox, "order-1", "pm_card_visa").await;
    let refund = sandbox.post("/v1/refunds", "r", &[("payment_intent", &intent)]).await.json();
    let id = refund["id"].as_str().unwrap();
    for (path, address) in [
        ("read", format!("/v1/refunds/{id}")),
        ("list", format!("/v1/refunds?payment_intent={intent}")),
        ("list", format!("/v1/charges?payment_intent={intent}")),
        ("read", format!("/v1/charges/{}", refund["charge"].as_str().unwrap())),
    ] {
        for (order, status) in [("order-2", 200), ("order-1", 500)] {
            sandbox.clear_faults().await;
            sandbox.fault(json!({"match": {"path": path, "order": order}, "fault": {"kind": "error_500"}})).await;
            assert_eq!(sandbox.get(&address).await.status, status, "{address} {order}");
        }
    }
    sandbox.end().await;
}

#[tokio::test]
async fn faults_of_a_refund_come_before_or_after_exactly_one_refund() {
    let sandbox = start("refund-faults").await;
    for (order, kind, refunds) in [
        ("a", "error_500", 0),
        ("b", "conflict_409", 0),
        ("c", "charge_then_500", 1),
        ("d", "charge_then_drop", 1),
        ("e", "drop_before", 0),
        ("f", "half_body", 1),
        ("g", "garbage", 1),
        ("h", "wrong_amount", 1),
    ] {
        let intent = paid(&sandbox, order, "pm_card_visa").await;
        sandbox.fault(json!({"match": {"path": "refund", "order": order}, "fault": {"kind": kind}, "next": 1})).await;
        let form = [("payment_intent", intent.as_str()), ("amount", "1000")];
        let key = format!("refund-{order}");
        sandbox.posting("/v1/refunds", &key, &form).send().await.ok();
        assert_eq!(refunded(&sandbox, order).await, refunds * 1000, "{kind}");
        // The repeat makes the refund, or learns of it.
        let again = sandbox.post("/v1/refunds", &key, &form).await;
        assert_eq!(
            (again.status, again.replayed, &again.json()["amount"]),
            (200, refunds == 1, &json!(1000)),
            "{kind}"
        );
        assert_eq!(refunded(&sandbox, order).await, 1000, "{kind}");
    }
    sandbox.end().await;
}
