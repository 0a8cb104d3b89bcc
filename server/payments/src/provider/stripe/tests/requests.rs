//! What goes out: method, path, headers and body of each call.

use super::{
    Script, Scripted, answer, config, confirm_request, error, eur, new_payment_intent, payment_intent,
    payment_intent_id, requires_action, succeeded,
};
use crate::{
    money::{Currency, Money},
    provider::{
        CardSessionOutcome, ConfirmOutcome, CreateOutcome, NewPaymentIntent, NotSentReason, ProbeOutcome, Provider,
        stripe::{SecretKey, Stripe, StripeConfig, StripeConfigError, http::STRIPE_VERSION},
    },
};
use url::Url;

/// The only request of a server that got one.
fn only(scripted: &mut Scripted) -> String {
    let mut received = scripted.received();
    assert_eq!(received.len(), 1);
    received.remove(0)
}

fn has_header(request: &str, header: &str) -> bool {
    request.lines().any(|line| line.eq_ignore_ascii_case(header))
}

#[tokio::test]
async fn a_creation_says_what_the_order_costs_and_which_order_it_is() {
    let mut scripted =
        Scripted::start(vec![Script::Answer(answer(200, &payment_intent("requires_payment_method")))]).await;
    let outcome = scripted.stripe().create_payment_intent(&new_payment_intent()).await;
    assert_eq!(outcome, CreateOutcome::Created(payment_intent_id()));
    let request = only(&mut scripted);
    assert!(request.starts_with("POST /v1/payment_intents HTTP/1.1\r\n"), "{request}");
    assert!(has_header(&request, "authorization: Bearer sk_test_9f8e7d6c5b4a"));
    assert!(has_header(&request, "stripe-version: 2024-06-20"));
    assert!(has_header(&request, "idempotency-key: payonce:order:0190c5b2-7d5e-4f6a-8b9c-0d1e2f3a4b5c:1"));
    assert!(has_header(&request, "content-type: application/x-www-form-urlencoded"));
    let (_, body) = request.split_once("\r\n\r\n").unwrap();
    let pairs: Vec<_> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    assert_eq!(
        pairs,
        [
            ("amount", "4990"),
            ("currency", "eur"),
            ("payment_method_types[]", "card"),
            ("metadata[order]", "0190c5b2-7d5e-4f6a-8b9c-0d1e2f3a4b5c"),
            ("metadata[reference]", "AB12-CD34"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}

#[tokio::test]
async fn a_confirm_carries_its_frozen_bytes_and_so_does_every_repeat() {
    let scripts = (0..2).map(|_| Script::Answer(answer(200, &succeeded()))).collect();
    let mut scripted = Scripted::start(scripts).await;
    let stripe = scripted.stripe();
    let request = confirm_request(&stripe);
    for _ in 0..2 {
        let ConfirmOutcome::Approved(charge) = stripe.confirm(&request).await else { unreachable!("not approved") };
        assert_eq!((charge.id.as_str(), charge.money), ("ch_1", eur(4990)));
        assert_eq!(charge.created.map(time::OffsetDateTime::unix_timestamp), Some(1_700_000_123));
    }
    let received = scripted.received();
    assert_eq!(received[0], received[1], "byte for byte");
    assert!(received[0].starts_with("POST /v1/payment_intents/pi_1/confirm HTTP/1.1\r\n"));
    assert!(has_header(&received[0], "idempotency-key: payonce:pay:0190c5b2:6f1e"));
    assert!(received[0].ends_with(
        "\r\n\r\npayment_method=pm_1a2b3c4d5e6f&return_url=https%3A%2F%2Fshop.example%2Forders%2Ftok%3Fa%3D1%26b%3D2\
         &expand%5B%5D=latest_charge"
    ));
}

#[tokio::test]
async fn calls_share_a_connection() {
    let body = payment_intent("processing").to_string();
    let reply = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes();
    // There is a script for one connection only, so a second one would never be accepted.
    let mut scripted = Scripted::start(vec![Script::AnswerEach(vec![reply; 3])]).await;
    let stripe = scripted.stripe();
    for _ in 0..3 {
        assert_eq!(stripe.probe(&payment_intent_id()).await, ProbeOutcome::Processing);
    }
    assert_eq!(scripted.received().len(), 3);
}

#[tokio::test]
async fn a_probe_is_a_look_up_without_a_key() {
    let body = requires_action("http://127.0.0.1:3001/bank/pi_1");
    let mut scripted = Scripted::start(vec![Script::Answer(answer(200, &body))]).await;
    let ProbeOutcome::ActionRequired { url } = scripted.stripe().probe(&payment_intent_id()).await else {
        unreachable!("no action")
    };
    assert_eq!(url.as_str(), "http://127.0.0.1:3001/bank/pi_1");
    let request = only(&mut scripted);
    assert!(request.starts_with("GET /v1/payment_intents/pi_1?expand%5B%5D=latest_charge HTTP/1.1\r\n"), "{request}");
    assert!(!request.to_ascii_lowercase().contains("idempotency-key"));
}

/// Without it, whoever uses the dashboard could change what the answers look like.
#[tokio::test]
async fn every_call_names_the_version_whose_answers_we_can_read() {
    let answers = (0..5).map(|_| Script::Answer(answer(200, &payment_intent("processing")))).collect();
    let mut scripted = Scripted::start(answers).await;
    let stripe = scripted.stripe();
    let _ = stripe.create_payment_intent(&new_payment_intent()).await;
    let _ = stripe.confirm(&confirm_request(&stripe)).await;
    let _ = stripe.probe(&payment_intent_id()).await;
    let _ = stripe.cancel(&payment_intent_id()).await;
    let _ = stripe.card_session("cs_1").await;
    let received = scripted.received();
    assert_eq!(received.len(), 5);
    for request in received {
        assert!(has_header(&request, &format!("stripe-version: {STRIPE_VERSION}")), "{request}");
    }
}

#[tokio::test]
async fn a_card_session_gives_the_payment_method_or_the_fault() {
    let good = serde_json::json!({
        "id": "cs_1", "payment_method": "pm_7", "card": {"brand": "visa", "last4": "4242"},
        "billing_details": {"name": "Ana Test", "email": "ana@shop.example"}, "error": null,
        "intent": "7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11",
    });
    let bad = serde_json::json!({
        "id": "cs_1", "payment_method": null, "card": null,
        "billing_details": {"name": null, "email": "ana@shop.example"}, "error": {"code": "incorrect_number", "param": "number"},
    });
    let missing = answer(404, &error("invalid_request_error", Some("resource_missing")));
    let scripts = vec![answer(200, &good), answer(200, &bad), missing];
    let mut scripted = Scripted::start(scripts.into_iter().map(Script::Answer).collect()).await;
    let stripe = scripted.stripe();

    let CardSessionOutcome::Found(session) = stripe.card_session("cs_1").await else { unreachable!("not found") };
    assert_eq!(session.payment_method.unwrap().expose(), "pm_7");
    assert_eq!((session.brand.as_deref(), session.last4.as_deref()), (Some("visa"), Some("4242")));
    assert_eq!((session.name.as_deref(), session.email.as_deref()), (Some("Ana Test"), Some("ana@shop.example")));
    assert_eq!(session.error_code, None);
    assert_eq!(session.intent.as_deref(), Some("7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11"));

    let CardSessionOutcome::Found(session) = stripe.card_session("cs_1").await else { unreachable!("not found") };
    assert!(session.payment_method.is_none() && session.intent.is_none());
    assert_eq!(session.error_code.as_deref(), Some("incorrect_number"));

    assert_eq!(stripe.card_session("cs_1").await, CardSessionOutcome::Missing);
    assert!(scripted.received()[0].starts_with("GET /v1/card_sessions/cs_1 HTTP/1.1\r\n"));
}

#[tokio::test]
async fn an_odd_card_session_id_never_leaves() {
    let mut scripted = Scripted::start(Vec::new()).await;
    let stripe = scripted.stripe();
    for id in ["", "../payment_intents", "cs_1/../x", "cs 1", "cs_1?x=1", "cs_\u{e9}", "%2e%2e", &"c".repeat(256)] {
        assert_eq!(stripe.card_session(id).await, CardSessionOutcome::Missing, "{id:?}");
    }
    assert_eq!(scripted.received(), Vec::<String>::new());
}

#[tokio::test]
async fn b99_an_amount_that_the_provider_would_refuse_never_leaves() {
    let mut scripted = Scripted::start(Vec::new()).await;
    let money = Money::new(35_205, Currency::parse("BHD").unwrap());
    let new = NewPaymentIntent { money, ..new_payment_intent() };
    let outcome = scripted.stripe().create_payment_intent(&new).await;
    assert_eq!(outcome, CreateOutcome::Refused { code: "amount_not_supported".to_owned() });
    assert_eq!(scripted.received(), Vec::<String>::new());
}

#[tokio::test]
async fn a_key_that_no_header_can_carry_is_not_sent() {
    let mut scripted = Scripted::start(Vec::new()).await;
    let stripe = scripted.stripe();
    for key in ["", "two\r\nlines", "sp ace", "\u{e9}", &"k".repeat(256)] {
        let mut request = confirm_request(&stripe);
        request.idempotency_key = key.to_owned();
        assert_eq!(stripe.confirm(&request).await, ConfirmOutcome::NotSent(NotSentReason::NotBuilt), "{key:?}");
    }
    assert_eq!(scripted.received(), Vec::<String>::new());
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let check = |config: &StripeConfig, expected| assert_eq!(Stripe::new(config).err(), Some(expected));
    for base_url in [
        "ftp://provider.example",
        "mailto:a@b.example",
        "http://user:word@provider.example",
        "http://provider.example/?a=b",
        "http://provider.example/#x",
    ] {
        check(&config(base_url), StripeConfigError::BaseUrl);
    }
    let good = config("http://provider.example/gateway/");
    assert!(Stripe::new(&good).is_ok());
    for key in ["", "with space", "two\nlines", "\u{e9}"] {
        check(&StripeConfig { secret_key: SecretKey::new(key), ..good.clone() }, StripeConfigError::SecretKey);
    }
    let slow = StripeConfig { connect_timeout: good.request_timeout, ..good.clone() };
    check(&slow, StripeConfigError::Timeouts);
    assert_eq!(good.base_url, Url::parse("http://provider.example/gateway/").unwrap());
}
