//! The bank's step.

use crate::harness::{Got, Running, start};

/// A confirm that the bank wants to see; the bank page's path.
async fn ask_bank(sandbox: &Running, intent: &str, key: &str, method: &str) -> String {
    let form = [("payment_method", method), ("return_url", "https://shop.example/orders/t0k?lang=de")];
    let got = sandbox.post(&format!("/v1/payment_intents/{intent}/confirm"), key, &form).await;
    assert_eq!(got.json()["status"], "requires_action", "{}", got.text);
    let url = got.json()["next_action"]["redirect_to_url"]["url"].as_str().unwrap_or_default().to_owned();
    assert_eq!(url, sandbox.url(&format!("/bank/{intent}")));
    format!("/bank/{intent}")
}

async fn decide(sandbox: &Running, path: &str, decision: &str, step: &str) -> Got {
    sandbox.post(path, "", &[("decision", decision), ("step", step)]).await
}

#[tokio::test]
async fn approving_twice_charges_once_and_leads_back_with_the_query_kept() {
    let sandbox = start("approve").await;
    let intent = sandbox.intent("order-1").await;
    let method = sandbox.method("4000002500003155").await;
    let path = ask_bank(&sandbox, &intent, "pay", &method).await;
    assert_eq!(sandbox.charges().await, 0);
    let page = sandbox.get(&path).await;
    assert!(page.text.contains("Your bank (sandbox)") && page.text.contains("49.90 EUR"), "{}", page.text);

    let back = format!("https://shop.example/orders/t0k?lang=de&payment_intent={intent}&redirect_status=succeeded");
    for _ in 0..2 {
        let got = decide(&sandbox, &path, "approve", "1").await;
        assert_eq!((got.status, got.location.as_deref()), (303, Some(back.as_str())));
    }
    let got = decide(&sandbox, &path, "refuse", "1").await;
    assert_eq!(got.location.as_deref(), Some(back.as_str()));
    let ledger = sandbox.ledger().await;
    assert_eq!(ledger["charges"].as_array().unwrap().len(), 1);
    assert_eq!(ledger["charges"][0]["idempotency_key"], "pay");
    assert_eq!(sandbox.get(&format!("/v1/payment_intents/{intent}")).await.json()["status"], "succeeded");
    assert!(sandbox.get(&path).await.text.contains("Nothing to decide here"));
    sandbox.end().await;
}

#[tokio::test]
async fn a_refusal_charges_nothing_and_the_intent_can_be_tried_again() {
    let sandbox = start("refuse-bank").await;
    let intent = sandbox.intent("order-1").await;
    let path = ask_bank(&sandbox, &intent, "pay", "pm_card_threeDSecureRequired").await;
    let got = decide(&sandbox, &path, "refuse", "1").await;
    assert!(got.location.unwrap().ends_with("redirect_status=failed"));
    let now = sandbox.get(&format!("/v1/payment_intents/{intent}")).await.json();
    assert_eq!(now["status"], "requires_payment_method");
    assert_eq!(now["last_payment_error"]["code"], "payment_intent_authentication_failure");
    assert_eq!(sandbox.charges().await, 0);

    // A page of the first visit decides nothing in the second.
    ask_bank(&sandbox, &intent, "pay-2", "pm_card_authenticationRequired").await;
    assert_eq!(decide(&sandbox, &path, "approve", "1").await.status, 200);
    assert_eq!(sandbox.charges().await, 0);
    assert_eq!(decide(&sandbox, &path, "approve", "2").await.status, 303);
    assert_eq!(sandbox.charges().await, 1);
    sandbox.end().await;
}

#[tokio::test]
async fn approval_can_still_end_in_a_decline() {
    let sandbox = start("approve-decline").await;
    let intent = sandbox.intent("order-1").await;
    let method = sandbox.method("4000008260003178").await;
    let path = ask_bank(&sandbox, &intent, "pay", &method).await;
    let got = decide(&sandbox, &path, "approve", "1").await;
    assert!(got.location.unwrap().ends_with("redirect_status=failed"));
    let now = sandbox.get(&format!("/v1/payment_intents/{intent}")).await.json();
    assert_eq!(now["last_payment_error"]["decline_code"], "insufficient_funds");
    assert_eq!(sandbox.charges().await, 0);
    sandbox.end().await;
}

#[tokio::test]
async fn a_cancelled_payment_cannot_be_approved() {
    let sandbox = start("cancelled-bank").await;
    let intent = sandbox.intent("order-1").await;
    let path = ask_bank(&sandbox, &intent, "pay", "pm_card_threeDSecure2Required").await;
    sandbox.post(&format!("/v1/payment_intents/{intent}/cancel"), "", &[]).await;
    assert_eq!(decide(&sandbox, &path, "approve", "1").await.status, 200);
    assert_eq!(sandbox.charges().await, 0);
    assert_eq!(decide(&sandbox, "/bank/pi_none", "approve", "1").await.status, 404);
    sandbox.end().await;
}

async fn status(sandbox: &Running, intent: &str) -> serde_json::Value {
    sandbox.get(&format!("/v1/payment_intents/{intent}")).await.json()
}

#[tokio::test]
async fn a_step_that_nobody_takes_expires_and_an_approval_after_it_charges_nothing() {
    let sandbox = start("expired-bank").await;
    let intent = sandbox.intent("order-1").await;
    let path = ask_bank(&sandbox, &intent, "pay", "pm_card_threeDSecureRequired").await;
    let expire = format!("/_sandbox/payment_intents/{intent}/expire");
    sandbox.control(&expire, serde_json::json!({})).await;
    let now = status(&sandbox, &intent).await;
    assert_eq!(now["status"], "requires_payment_method");
    assert_eq!(now["last_payment_error"]["code"], "payment_intent_authentication_failure");
    assert_eq!(now["next_action"], serde_json::Value::Null);
    assert_eq!(sandbox.event_kinds().await.last().unwrap(), "payment_intent.payment_failed");
    // The customer comes back to the bank's tab: led to the shop, with nothing charged.
    assert!(sandbox.get(&path).await.text.contains("Nothing to decide here"));
    let late = decide(&sandbox, &path, "approve", "1").await;
    assert!(late.location.unwrap().ends_with("redirect_status=failed"));
    assert_eq!(sandbox.charges().await, 0);
    let again = sandbox.client.post(sandbox.url(&expire)).json(&serde_json::json!({})).send().await.unwrap();
    assert_eq!(again.status(), 400);

    ask_bank(&sandbox, &intent, "pay-2", "pm_card_threeDSecureRequired").await;
    assert_eq!(decide(&sandbox, &path, "approve", "2").await.status, 303);
    assert_eq!(sandbox.charges().await, 1);
    sandbox.end().await;
}

#[tokio::test]
async fn a_step_expires_by_itself_also_after_a_restart() {
    let folder = crate::harness::folder("bank-wait");
    let mut hasty = crate::harness::config(&folder);
    hasty.bank_wait = std::time::Duration::from_millis(300);
    let sandbox = crate::harness::start_with(hasty.clone()).await;
    let intent = sandbox.intent("order-1").await;
    ask_bank(&sandbox, &intent, "pay", "pm_card_threeDSecureRequired").await;
    sandbox.stop().await;
    let sandbox = crate::harness::start_with(hasty).await;
    let waiting = async {
        while status(&sandbox, &intent).await["status"] == "requires_action" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.unwrap();
    assert_eq!(status(&sandbox, &intent).await["status"], "requires_payment_method");
    assert_eq!(sandbox.charges().await, 0);
    sandbox.end().await;
}

#[tokio::test]
async fn two_tabs_that_approve_at_once_charge_once_and_lead_to_the_same_place() {
    let sandbox = start("two-tabs").await;
    let intent = sandbox.intent("order-1").await;
    let path = ask_bank(&sandbox, &intent, "pay", "pm_card_threeDSecureRequired").await;
    let mut tabs = tokio::task::JoinSet::new();
    for _ in 0..20 {
        tabs.spawn(sandbox.posting(&path, "", &[("decision", "approve"), ("step", "1")]).send());
    }
    let mut places = std::collections::HashSet::new();
    while let Some(tab) = tabs.join_next().await {
        places.insert(Got::from(tab.unwrap().unwrap()).await.location.unwrap());
    }
    assert_eq!(places.len(), 1, "{places:?}");
    assert_eq!(sandbox.charges().await, 1);
    sandbox.end().await;
}

#[tokio::test]
async fn the_step_is_told_as_the_provider_tells_it() {
    let sandbox = start("next-action").await;
    let intent = sandbox.intent("order-1").await;
    ask_bank(&sandbox, &intent, "pay", "pm_card_threeDSecureRequired").await;
    let now = status(&sandbox, &intent).await;
    let action = serde_json::json!({
        "type": "redirect_to_url",
        "redirect_to_url": {
            "url": sandbox.url(&format!("/bank/{intent}")),
            "return_url": "https://shop.example/orders/t0k?lang=de",
        },
    });
    assert_eq!(now["next_action"], action);
    // A repeat of the confirm finds the same step; another confirm begins a new one, and the old page decides nothing.
    let path = format!("/bank/{intent}");
    sandbox.confirm(&intent, "other", "pm_card_threeDSecureRequired").await;
    assert_eq!(decide(&sandbox, &path, "approve", "1").await.status, 200);
    assert_eq!(sandbox.charges().await, 0);
    // A step without a return address ends on a page of the bank.
    let done = decide(&sandbox, &path, "approve", "2").await;
    assert_eq!((done.status, done.location), (200, None));
    assert!(done.text.contains("The payment was made"));
    assert_eq!(sandbox.charges().await, 1);
    sandbox.end().await;
}
