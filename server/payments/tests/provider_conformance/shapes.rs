//! The sandbox's answers beside recorded ones of the real provider: whatever the adapter reads is there in both, and of the same
//! kind. A sandbox that is easier to read than the provider would prove nothing.

use payments::provider::{ConfirmOutcome, Provider as _};
use serde_json::{Value, json};

use crate::bench::{Bench, eur};

/// What the adapter reads of a payment intent.
const PAYMENT_INTENT: &[&str] =
    &["/id", "/object", "/amount", "/amount_received", "/currency", "/status", "/latest_charge", "/next_action"];
/// And of a charge in it.
const CHARGE: &[&str] = &[
    "/latest_charge/id",
    "/latest_charge/amount",
    "/latest_charge/amount_captured",
    "/latest_charge/currency",
    "/latest_charge/created",
    "/latest_charge/status",
    "/latest_charge/payment_intent",
];
const BANK_STEP: &[&str] = &["/next_action/type", "/next_action/redirect_to_url/url"];
const ERROR: &[&str] = &["/error/type", "/error/message"];
const CODE: &[&str] = &["/error/code"];
const PARAM: &[&str] = &["/error/param"];
const DECLINE: &[&str] = &["/error/decline_code"];
const ERROR_WITH_INTENT: &[&str] = &["/error/payment_intent/id", "/error/payment_intent/status"];
const REFUND: &[&str] =
    &["/id", "/object", "/amount", "/currency", "/charge", "/payment_intent", "/status", "/reason", "/created"];
const EVENT: &[&str] = &[
    "/id",
    "/object",
    "/type",
    "/api_version",
    "/created",
    "/livemode",
    "/data/object/id",
    "/data/object/object",
    "/data/object/status",
];
const EVENT_OF_PAYMENT: &[&str] =
    &["/data/object/amount", "/data/object/amount_received", "/data/object/currency", "/data/object/latest_charge"];
const EVENT_OF_CHARGE: &[&str] =
    &["/data/object/amount", "/data/object/amount_captured", "/data/object/created", "/data/object/payment_intent"];

fn recorded(text: &str) -> (u16, Value) {
    let recorded: Value = serde_json::from_str(text).unwrap();
    let status = recorded["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or_default();
    (status, if recorded["body"].is_null() { recorded } else { recorded["body"].clone() })
}

fn kind(value: Option<&Value>) -> &'static str {
    match value {
        None => "missing",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "truth",
        Some(Value::Number(number)) if number.is_i64() => "integer",
        Some(Value::Number(_)) => "number",
        Some(Value::String(_)) => "text",
        Some(Value::Array(_)) => "list",
        Some(Value::Object(_)) => "object",
    }
}

/// The two have the same status, and the same kind at each place.
#[track_caller]
fn same(what: &str, recorded: &(u16, Value), sandbox: &(u16, Value), places: &[&[&str]]) {
    assert_eq!(recorded.0, sandbox.0, "{what}: {}", sandbox.1);
    for place in places.iter().copied().flatten() {
        let (theirs, ours) = (kind(recorded.1.pointer(place)), kind(sandbox.1.pointer(place)));
        assert_ne!(theirs, "missing", "{what}: {place} is not in the record");
        assert_eq!(ours, theirs, "{what}: {place} in {}", sandbox.1);
    }
}

macro_rules! record {
    ($name:literal) => {
        recorded(include_str!(concat!("../../src/provider/stripe/tests/recorded/", $name, ".json")))
    };
}

/// A payment intent that was just made, and the path of its confirm.
async fn made(bench: &Bench, order: &str) -> (Value, String) {
    let id = bench.create(order, eur(4990)).await;
    (json!(id.as_str()), format!("/v1/payment_intents/{id}/confirm"))
}

const BACK: (&str, &str) = ("return_url", "https://shop.example/orders/token");
const EXPAND: (&str, &str) = ("expand[]", "latest_charge");

#[tokio::test]
async fn payment_intents_have_the_recorded_shape_in_every_state() {
    let bench = Bench::start().await;
    let params = [("amount", "4990"), ("currency", "eur"), ("payment_method_types[]", "card")];
    let created = bench.raw("/v1/payment_intents", Some("shape-1"), &params).await;
    same("created", &record!("created"), &created, &[PAYMENT_INTENT]);

    let (_, confirm) = made(&bench, "order-1").await;
    let paid = bench.raw(&confirm, None, &[("payment_method", "pm_card_visa"), BACK, EXPAND]).await;
    same("succeeded", &record!("succeeded"), &paid, &[PAYMENT_INTENT, CHARGE]);

    let (_, confirm) = made(&bench, "order-2").await;
    let paid = bench.raw(&confirm, None, &[("payment_method", "pm_card_visa"), BACK]).await;
    same("the charge as id", &record!("succeeded_with_the_charge_as_id"), &paid, &[PAYMENT_INTENT]);

    let (_, confirm) = made(&bench, "order-3").await;
    let asked = bench.raw(&confirm, None, &[("payment_method", "pm_card_authenticationRequired"), BACK, EXPAND]).await;
    same("requires action", &record!("requires_action"), &asked, &[PAYMENT_INTENT, BANK_STEP]);

    let (_, confirm) = made(&bench, "order-4").await;
    let cancel = confirm.replace("/confirm", "/cancel");
    let canceled = bench.raw(&cancel, None, &[("cancellation_reason", "abandoned"), EXPAND]).await;
    same("canceled", &record!("canceled"), &canceled, &[PAYMENT_INTENT]);
}

#[tokio::test]
async fn declines_have_the_recorded_shape() {
    let bench = Bench::start().await;
    for (token, record, places) in [
        ("pm_card_visa_chargeDeclined", record!("card_declined"), [ERROR, CODE, DECLINE, ERROR_WITH_INTENT].as_slice()),
        (
            "pm_card_visa_chargeDeclinedInsufficientFunds",
            record!("insufficient_funds"),
            &[ERROR, CODE, DECLINE, ERROR_WITH_INTENT],
        ),
        ("pm_card_chargeDeclinedIncorrectCvc", record!("incorrect_cvc"), &[ERROR, CODE, PARAM, ERROR_WITH_INTENT]),
    ] {
        let (id, confirm) = made(&bench, token).await;
        let declined = bench.raw(&confirm, None, &[("payment_method", token), BACK, EXPAND]).await;
        same(token, &record, &declined, places);
        assert_eq!(declined.1["error"]["payment_intent"]["id"], id);
        for place in ["/error/type", "/error/code", "/error/decline_code", "/error/payment_intent/status"] {
            assert_eq!(declined.1.pointer(place), record.1.pointer(place), "{token}: {place}");
        }
    }
}

#[tokio::test]
async fn errors_have_the_recorded_shape_and_the_same_words() {
    let bench = Bench::start().await;
    let (_, confirm) = made(&bench, "order-1").await;
    let card = ("payment_method", "pm_card_visa");
    let paid = bench.raw(&confirm, Some("key-1"), &[card, BACK]).await;
    assert_eq!(paid.0, 200);
    let reused = bench.raw(&confirm, Some("key-1"), &[("payment_method", "pm_card_mastercard"), BACK]).await;
    same("idempotency error", &record!("idempotency_error"), &reused, &[ERROR]);
    let late = bench.raw(&confirm, Some("key-2"), &[card, BACK]).await;
    same("unexpected state", &record!("unexpected_state"), &late, &[ERROR, CODE, ERROR_WITH_INTENT]);
    let small = [("amount", "1"), ("currency", "eur"), ("payment_method_types[]", "card")];
    let small = bench.raw("/v1/payment_intents", Some("key-3"), &small).await;
    same("amount too small", &record!("amount_too_small"), &small, &[ERROR, CODE, PARAM]);
    let missing = bench.raw("/v1/payment_intents/pi_none/confirm", Some("key-4"), &[card, BACK]).await;
    same("no such payment intent", &record!("no_such_payment_intent"), &missing, &[ERROR, CODE, PARAM]);
    let (_, other) = made(&bench, "order-2").await;
    for (fault, record, name) in [
        (json!({"kind": "conflict_409"}), record!("idempotency_key_in_use"), "in use"),
        (json!({"kind": "status", "status": 429, "code": "lock_timeout"}), record!("lock_timeout"), "lock"),
        (json!({"kind": "status", "status": 429, "code": "rate_limit"}), record!("rate_limit"), "rate limit"),
    ] {
        bench.fault(json!({"match": {"path": "confirm"}, "fault": fault, "next": 1})).await;
        let answer = bench.raw(&other, Some("key-5"), &[card, BACK]).await;
        same(name, &record, &answer, &[ERROR, CODE]);
    }
    bench.fault(json!({"match": {"path": "confirm"}, "fault": {"kind": "error_500"}, "next": 1})).await;
    same("api error", &record!("api_error"), &bench.raw(&other, Some("key-6"), &[card, BACK]).await, &[ERROR]);
    for (name, answer) in [("idempotency_error", &reused), ("payment_intent_unexpected_state", &late)] {
        let said = [&answer.1["error"]["type"], &answer.1["error"]["code"]];
        assert!(said.contains(&&json!(name)), "{name}: {said:?}");
    }
}

#[tokio::test]
async fn refunds_and_events_have_the_recorded_shape() {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(4990)).await;
    let confirmed = bench.stripe.confirm(&bench.request(&id, "pm_card_visa")).await;
    assert!(matches!(confirmed, ConfirmOutcome::Approved(_)));
    let params = [("payment_intent", id.as_str()), ("amount", "1000"), ("reason", "requested_by_customer")];
    same("refund", &record!("refund"), &bench.raw("/v1/refunds", Some("key-1"), &params).await, &[REFUND]);
    for (kind, record, places) in [
        ("payment_intent.succeeded", record!("event_payment_intent_succeeded"), [EVENT, EVENT_OF_PAYMENT].as_slice()),
        ("charge.succeeded", record!("event_charge_succeeded"), &[EVENT, EVENT_OF_CHARGE]),
        ("charge.refunded", record!("event_charge_refunded"), &[EVENT, EVENT_OF_CHARGE]),
    ] {
        let listed = bench.look(&format!("/v1/events?type={kind}")).await;
        let event = (0, listed["data"][0].clone());
        same(kind, &record, &event, places);
        assert_eq!(event.1["type"], record.1["type"]);
    }
}
