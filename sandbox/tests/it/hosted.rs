//! The plain card form, as a page without scripts sends it.

use reqwest::Url;
use serde_json::Value;

use crate::harness::{Got, PUBLISHABLE, Running, start};

const RETURN_URL: &str = "https://shop.example/checkout/t0k/review?lang=de";
const RETRY_URL: &str = "https://shop.example/checkout/t0k?session=cs_old";
const INTENT: &str = "9b2f1c1e-7a40-4a53-9a0e-2f6f4e0d1a11";

async fn send(sandbox: &Running, changed: &[(&str, &str)]) -> Got {
    let mut form = vec![
        ("key", PUBLISHABLE),
        ("return_url", RETURN_URL),
        ("retry_url", RETRY_URL),
        ("intent", INTENT),
        ("email", "zoe@example.com"),
        ("cardnumber", "4242 4242 4242 4242"),
        ("exp", "12 / 34"),
        ("cvc", "737"),
        ("name", "Zoë Ångström"),
    ];
    for (name, value) in changed {
        form.retain(|(field, _)| field != name);
        form.push((name, value));
    }
    sandbox.post("/hosted/cards", "", &form).await
}

fn query(got: &Got, name: &str) -> String {
    let url = got.location.as_deref().and_then(|location| Url::parse(location).ok());
    url.and_then(|url| url.query_pairs().find(|(field, _)| field == name).map(|(_, value)| value.into_owned()))
        .unwrap_or_default()
}

async fn session(sandbox: &Running, got: &Got) -> Value {
    sandbox.get(&format!("/v1/card_sessions/{}", query(got, "session"))).await.json()
}

#[tokio::test]
async fn a_good_card_leads_to_the_review_page_and_its_session_pays() {
    let sandbox = start("hosted").await;
    let got = send(&sandbox, &[]).await;
    assert_eq!(got.status, 303, "{}", got.text);
    assert!(
        got.location.as_deref().unwrap_or_default().starts_with("https://shop.example/checkout/t0k/review?lang=de&")
    );
    assert_eq!(query(&got, "intent"), INTENT);
    let session = session(&sandbox, &got).await;
    assert_eq!(session["error"], Value::Null);
    assert_eq!(session["intent"], INTENT, "the session says whose form made it");
    assert_eq!(session["card"], serde_json::json!({"brand": "visa", "last4": "4242"}));
    assert_eq!(session["billing_details"], serde_json::json!({"name": "Zoë Ångström", "email": "zoe@example.com"}));
    let intent = sandbox.intent("order-1").await;
    assert_eq!(sandbox.confirm(&intent, "pay", session["payment_method"].as_str().unwrap()).await.status, 200);
    assert_eq!(sandbox.charges().await, 1);
    sandbox.end().await;
}

#[tokio::test]
async fn a_bad_card_leads_back_to_the_form_with_what_the_shop_may_show_again() {
    let sandbox = start("hosted-bad").await;
    for (field, value, code, param) in [
        ("cardnumber", "4242 4242 4242 4241", "incorrect_number", "number"),
        ("cardnumber", "", "incorrect_number", "number"),
        ("exp", "13/34", "invalid_expiry_month", "exp_month"),
        ("exp", "12/20", "invalid_expiry_year", "exp_year"),
        ("exp", "12", "invalid_expiry_year", "exp_year"),
        ("exp", "", "invalid_expiry_month", "exp_month"),
        ("cvc", "", "invalid_cvc", "cvc"),
    ] {
        let got = send(&sandbox, &[(field, value)]).await;
        assert_eq!(got.status, 303, "{field}={value}");
        let location = got.location.clone().unwrap_or_default();
        assert!(location.starts_with("https://shop.example/checkout/t0k?session=cs_"), "{location}");
        assert!(!location.contains("cs_old"), "{location}");
        let session = session(&sandbox, &got).await;
        assert_eq!(session["payment_method"], Value::Null);
        assert_eq!(session["error"], serde_json::json!({"code": code, "param": param}), "{field}={value}");
        assert_eq!(session["billing_details"]["email"], "zoe@example.com");
    }
    sandbox.end().await;
}

#[tokio::test]
async fn forms_that_cannot_be_sent_back_get_a_page() {
    let sandbox = start("hosted-odd").await;
    for (field, value, status) in [
        ("return_url", "javascript:alert(1)", 400),
        ("return_url", "/checkout", 400),
        ("retry_url", "", 400),
        ("key", "pk_test_other", 401),
        ("key", "", 401),
    ] {
        let got = send(&sandbox, &[(field, value)]).await;
        assert_eq!((got.status, got.location.clone()), (status, None), "{field}={value}");
        assert!(got.text.contains("Please go back to the shop."), "{}", got.text);
    }
    assert_eq!(sandbox.get("/v1/card_sessions/cs_none").await.error("code"), (404, "resource_missing".into()));
    sandbox.end().await;
}
