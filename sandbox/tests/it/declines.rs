//! Every card that is declined, and every fault of a typed card, in the provider's error shape.

use crate::harness::{Got, PUBLISHABLE, start};

#[tokio::test]
async fn every_declining_card_says_why_and_leaves_the_intent_open() {
    let sandbox = start("declines").await;
    for (number, token, code, decline_code) in [
        ("4000000000000002", "pm_card_chargeDeclined", "card_declined", Some("generic_decline")),
        ("4000000000000002", "pm_card_visa_chargeDeclined", "card_declined", Some("generic_decline")),
        (
            "4000000000009995",
            "pm_card_visa_chargeDeclinedInsufficientFunds",
            "card_declined",
            Some("insufficient_funds"),
        ),
        ("4000000000009987", "pm_card_visa_chargeDeclinedLostCard", "card_declined", Some("lost_card")),
        ("4000000000009979", "pm_card_visa_chargeDeclinedStolenCard", "card_declined", Some("stolen_card")),
        ("4000000000000069", "pm_card_chargeDeclinedExpiredCard", "expired_card", None),
        ("4000000000000127", "pm_card_chargeDeclinedIncorrectCvc", "incorrect_cvc", None),
        ("4000000000000119", "pm_card_chargeDeclinedProcessingError", "processing_error", None),
        (
            "4000000000006975",
            "pm_card_visa_chargeDeclinedVelocityLimitExceeded",
            "card_declined",
            Some("card_velocity_exceeded"),
        ),
        ("4100000000000019", "pm_card_radarBlock", "card_declined", Some("fraudulent")),
    ] {
        for method in [sandbox.method(number).await, token.to_owned()] {
            let intent = sandbox.intent("order-1").await;
            let got = sandbox.confirm(&intent, &format!("key-{method}"), &method).await;
            assert_eq!(got.error("type"), (402, "card_error".into()), "{method}");
            let error = &got.json()["error"];
            assert_eq!(error["code"], code, "{method}");
            assert_eq!(error["decline_code"].as_str(), decline_code, "{method}");
            assert!(!error["message"].as_str().unwrap().is_empty());
            assert!(error["charge"].as_str().unwrap().starts_with("ch_"));
            assert_eq!(error["payment_method"]["card"]["last4"].as_str().unwrap().len(), 4);
            assert_eq!(error["payment_intent"]["id"], intent.as_str());
            assert_eq!(error["payment_intent"]["status"], "requires_payment_method");

            let now = sandbox.get(&format!("/v1/payment_intents/{intent}?expand[]=latest_charge")).await.json();
            assert_eq!(now["status"], "requires_payment_method");
            assert_eq!(now["last_payment_error"]["code"], code);
            assert_eq!(now["latest_charge"]["status"], "failed");
        }
    }
    assert_eq!(sandbox.charges().await, 0);
    sandbox.end().await;
}

#[tokio::test]
async fn another_card_pays_after_a_decline() {
    let sandbox = start("second-card").await;
    let intent = sandbox.intent("order-1").await;
    assert_eq!(sandbox.confirm(&intent, "first", "pm_card_chargeDeclined").await.status, 402);
    let got = sandbox.confirm(&intent, "second", "pm_card_mastercard").await;
    assert_eq!(got.json()["status"], "succeeded", "{}", got.text);
    assert_eq!(got.json()["last_payment_error"], serde_json::Value::Null);
    assert_eq!(sandbox.charges().await, 1);
    sandbox.end().await;
}

#[tokio::test]
async fn faults_of_a_typed_card_are_named() {
    let sandbox = start("typed").await;
    let good = [
        ("type", "card"),
        ("card[number]", "4242 4242 4242 4242"),
        ("card[exp_month]", "12"),
        ("card[exp_year]", "34"),
        ("card[cvc]", "123"),
    ];
    let send = async |name: &str, value: &str| {
        let form: Vec<(&str, &str)> =
            good.iter().map(|&(field, given)| (field, if field == name { value } else { given })).collect();
        let request = sandbox.client.post(sandbox.url("/v1/payment_methods")).bearer_auth(PUBLISHABLE).form(&form);
        Got::from(request.send().await.unwrap()).await
    };
    let got = send("", "").await;
    assert_eq!(got.status, 200, "{}", got.text);
    assert_eq!(got.json()["card"]["brand"], "visa");
    for (field, value, code, param) in [
        ("card[number]", "4242424242424241", "incorrect_number", "number"),
        ("card[number]", "4242", "incorrect_number", "number"),
        ("card[exp_month]", "13", "invalid_expiry_month", "exp_month"),
        ("card[exp_year]", "2020", "invalid_expiry_year", "exp_year"),
        ("card[cvc]", "12", "invalid_cvc", "cvc"),
        ("card[cvc]", "", "invalid_cvc", "cvc"),
        ("card[number]", "4111111111111111", "card_declined", "number"),
    ] {
        let got = send(field, value).await;
        assert_eq!(got.error("type"), (402, "card_error".into()), "{field}={value}");
        assert_eq!(got.error("code").1, code, "{field}={value}");
        assert_eq!(got.error("param").1, param, "{field}={value}");
    }
    assert_eq!(send("card[number]", "").await.error("code"), (400, "parameter_invalid_empty".into()));
    assert_eq!(send("type", "sepa_debit").await.error("param"), (400, "type".into()));
    sandbox.end().await;
}

#[tokio::test]
async fn a_payment_method_that_does_not_exist_is_refused_and_not_remembered() {
    let sandbox = start("no-method").await;
    let intent = sandbox.intent("order-1").await;
    let got = sandbox.confirm(&intent, "key", "pm_none").await;
    assert_eq!(got.error("code"), (400, "resource_missing".into()));
    assert_eq!(got.error("param").1, "payment_method");
    assert_eq!(
        sandbox.confirm("pi_none", "other", "pm_card_visa").await.error("code"),
        (404, "resource_missing".into())
    );
    assert_eq!(sandbox.confirm(&intent, "key", "pm_card_visa").await.status, 200);
    sandbox.end().await;
}
