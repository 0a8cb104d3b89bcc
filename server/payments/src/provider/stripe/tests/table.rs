//! Every row of the classification, as answers come over the wire.

use serde_json::{Value, json};

use super::{card_error, error, eur, payment_intent, payment_intent_id, requires_action, succeeded};
use crate::provider::{
    ConfirmOutcome, CreateOutcome, Decline, DeclineReason, NotSentReason, ProbeOutcome, UnknownReason,
    stripe::{
        http::Reply,
        outcomes::{confirmed, created, probed},
        units::Units,
    },
};

const UNITS: Units = Units { exceptions: true };

fn reply(status: u16, body: &Value) -> Reply {
    Reply { status, body: body.to_string().into() }
}

fn confirm(status: u16, body: &Value) -> ConfirmOutcome {
    confirmed(Ok(reply(status, body)), &payment_intent_id(), UNITS)
}

fn create(status: u16, body: &Value) -> CreateOutcome {
    created(Ok(reply(status, body)), &eur(4990), UNITS)
}

fn probe(status: u16, body: &Value) -> ProbeOutcome {
    probed(Ok(reply(status, body)), &payment_intent_id(), UNITS)
}

/// An answer that leaves all three calls in the dark.
fn check_unknown(status: u16, body: &Value, reason: UnknownReason) {
    assert_eq!(confirm(status, body), ConfirmOutcome::Unknown(reason), "confirm {status} {body}");
    assert_eq!(create(status, body), CreateOutcome::Unknown(reason), "create {status} {body}");
    assert_eq!(probe(status, body), ProbeOutcome::CannotTell(reason), "probe {status} {body}");
}

#[test]
fn every_decline_is_definite() {
    for (code, reason) in [
        ("generic_decline", DeclineReason::Generic),
        ("insufficient_funds", DeclineReason::InsufficientFunds),
        ("lost_card", DeclineReason::Generic),
        ("stolen_card", DeclineReason::Generic),
        ("expired_card", DeclineReason::ExpiredCard),
        ("incorrect_cvc", DeclineReason::IncorrectCode),
        ("processing_error", DeclineReason::TryLater),
        ("card_velocity_exceeded", DeclineReason::OverLimit),
    ] {
        let expected = ConfirmOutcome::Declined(Decline { code: code.to_owned(), reason });
        assert_eq!(confirm(402, &card_error(code)), expected);
    }
}

#[test]
fn a_decline_without_a_decline_code_is_told_by_its_code() {
    let outcome = confirm(402, &error("card_error", Some("expired_card")));
    let reason = DeclineReason::ExpiredCard;
    assert_eq!(outcome, ConfirmOutcome::Declined(Decline { code: "expired_card".to_owned(), reason }));
}

#[test]
fn a_decline_with_an_odd_code_is_a_decline_with_a_tame_one() {
    for code in ["Line\nbreak", "4242 4242 4242 4242", "", &"x".repeat(65)] {
        let expected = Decline { code: "unnamed".to_owned(), reason: DeclineReason::Generic };
        assert_eq!(confirm(402, &card_error(code)), ConfirmOutcome::Declined(expected));
    }
}

#[test]
fn a_402_that_is_no_card_error_is_unknown() {
    check_unknown(402, &error("invalid_request_error", None), UnknownReason::Unlisted);
    check_unknown(402, &json!({"declined": true}), UnknownReason::Unreadable);
    check_unknown(402, &json!({"error": "card_error"}), UnknownReason::Unreadable);
}

#[test]
fn a_decline_that_contradicts_itself_is_unknown() {
    for (status, reason) in [
        ("succeeded", UnknownReason::UnexpectedState),
        ("processing", UnknownReason::Processing),
        ("requires_capture", UnknownReason::UnexpectedState),
        ("a_state_of_tomorrow", UnknownReason::UnexpectedState),
    ] {
        let mut body = card_error("generic_decline");
        body["error"]["payment_intent"] = payment_intent(status);
        assert_eq!(confirm(402, &body), ConfirmOutcome::Unknown(reason), "{status}");
    }
    let mut body = card_error("generic_decline");
    body["error"]["payment_intent"]["id"] = json!("pi_2");
    assert_eq!(confirm(402, &body), ConfirmOutcome::Unknown(UnknownReason::Mismatch));
}

#[test]
fn b33_a_lock_is_neither_a_decline_nor_a_refusal() {
    for (status, kind, code) in [
        (409, "idempotency_error", Some("idempotency_key_in_use")),
        (409, "invalid_request_error", Some("idempotency_key_in_use")),
        (409, "invalid_request_error", None),
        (429, "invalid_request_error", Some("lock_timeout")),
    ] {
        let body = error(kind, code);
        assert_eq!(confirm(status, &body), ConfirmOutcome::Busy);
        assert_eq!(create(status, &body), CreateOutcome::Unknown(UnknownReason::Busy));
        assert_eq!(probe(status, &body), ProbeOutcome::CannotTell(UnknownReason::Busy));
    }
    check_unknown(409, &json!("conflict"), UnknownReason::Unreadable);
}

#[test]
fn a_key_that_is_not_accepted_and_a_rate_limit_are_not_sent() {
    for (status, code, reason) in [
        (401, None, NotSentReason::KeyRefused),
        (403, None, NotSentReason::KeyRefused),
        (429, Some("rate_limit"), NotSentReason::RateLimited),
        (429, None, NotSentReason::RateLimited),
    ] {
        let body = error("invalid_request_error", code);
        assert_eq!(confirm(status, &body), ConfirmOutcome::NotSent(reason));
        assert_eq!(create(status, &body), CreateOutcome::NotSent(reason));
        assert_eq!(probe(status, &body), ProbeOutcome::CannotTell(UnknownReason::NotAsked));
    }
    // Whoever else answers so may have done it after the provider acted.
    for status in [401, 403, 429] {
        check_unknown(status, &json!({"message": "slow down"}), UnknownReason::Unreadable);
    }
}

#[test]
fn a_wrong_request_is_refused_and_charges_nothing() {
    for (code, tame) in [
        (Some("resource_missing"), "resource_missing"),
        (Some("parameter_missing"), "parameter_missing"),
        (Some("parameter_invalid_integer"), "parameter_invalid_integer"),
        (Some("amount_too_small"), "amount_too_small"),
        (None, "unnamed"),
    ] {
        let body = error("invalid_request_error", code);
        let reason = DeclineReason::NotCharged;
        assert_eq!(confirm(400, &body), ConfirmOutcome::Declined(Decline { code: tame.to_owned(), reason }));
        assert_eq!(create(400, &body), CreateOutcome::Refused { code: tame.to_owned() });
        assert_eq!(probe(400, &body), ProbeOutcome::CannotTell(UnknownReason::Unlisted));
    }
}

#[test]
fn a_payment_method_that_does_not_exist_charges_nothing() {
    let mut body = error("invalid_request_error", Some("resource_missing"));
    check_unknown(404, &body, UnknownReason::NotFound);
    body["error"]["param"] = json!("payment_method");
    let expected = Decline { code: "resource_missing".to_owned(), reason: DeclineReason::NotCharged };
    assert_eq!(confirm(404, &body), ConfirmOutcome::Declined(expected));
}

#[test]
fn a_refusal_that_may_come_from_an_earlier_success_is_unknown() {
    check_unknown(
        400,
        &error("invalid_request_error", Some("payment_intent_unexpected_state")),
        UnknownReason::UnexpectedState,
    );
    check_unknown(400, &error("idempotency_error", None), UnknownReason::KeyReused);
    check_unknown(400, &error("invalid_request_error", Some("a_code_of_tomorrow")), UnknownReason::Unlisted);
    let mut body = error("invalid_request_error", None);
    body["error"]["payment_intent"] = payment_intent("succeeded");
    assert_eq!(confirm(400, &body), ConfirmOutcome::Unknown(UnknownReason::UnexpectedState));
}

#[test]
fn statuses_that_nobody_thought_of_are_unknown() {
    for status in [201, 204, 301, 302, 304, 307, 308, 402, 405, 410, 418, 422, 424, 451] {
        check_unknown(status, &error("invalid_request_error", None), UnknownReason::Unlisted);
        check_unknown(status, &succeeded(), UnknownReason::Unreadable);
    }
    for status in [500, 502, 503, 504, 599] {
        check_unknown(status, &error("invalid_request_error", None), UnknownReason::ServerFault);
        check_unknown(status, &succeeded(), UnknownReason::ServerFault);
    }
}

#[test]
fn every_state_of_a_payment_intent_has_its_meaning() {
    let state = |status| (confirm(200, &payment_intent(status)), probe(200, &payment_intent(status)));
    let unexpected = UnknownReason::UnexpectedState;
    for status in ["requires_payment_method", "requires_confirmation"] {
        assert_eq!(state(status), (ConfirmOutcome::Unknown(unexpected), ProbeOutcome::NotCharged));
    }
    assert_eq!(state("canceled"), (ConfirmOutcome::Unknown(unexpected), ProbeOutcome::Cancelled));
    assert_eq!(state("processing"), (ConfirmOutcome::Unknown(UnknownReason::Processing), ProbeOutcome::Processing));
    for status in ["requires_capture", "requires_action", "a_state_of_tomorrow"] {
        assert_eq!(state(status), (ConfirmOutcome::Unknown(unexpected), ProbeOutcome::CannotTell(unexpected)));
    }
    // Success without a charge is none.
    let unreadable = UnknownReason::Unreadable;
    assert_eq!(state("succeeded"), (ConfirmOutcome::Unknown(unreadable), ProbeOutcome::CannotTell(unreadable)));
}

#[test]
fn the_bank_page_must_be_a_page() {
    for url in ["javascript:alert(1)", "/bank/pi_1", "", "https://user:word@bank.example/", "data:text/html,x"] {
        let outcome = confirm(200, &requires_action(url));
        assert_eq!(outcome, ConfirmOutcome::Unknown(UnknownReason::UnexpectedState), "{url}");
    }
    assert!(matches!(
        confirm(200, &requires_action("https://bank.example/?x=1")),
        ConfirmOutcome::ActionRequired { .. }
    ));
}

#[test]
fn a_charge_says_its_own_money() {
    let mut body = succeeded();
    for pointer in ["/amount", "/amount_received", "/latest_charge/amount", "/latest_charge/amount_captured"] {
        *body.pointer_mut(pointer).unwrap() = json!(4991);
    }
    for pointer in ["/currency", "/latest_charge/currency"] {
        *body.pointer_mut(pointer).unwrap() = json!("usd");
    }
    let ConfirmOutcome::Approved(charge) = confirm(200, &body) else { unreachable!("not approved") };
    assert_eq!((charge.money.minor, charge.money.currency.code()), (4991, "USD"));

    let mut body = succeeded();
    body["latest_charge"] = json!("ch_9");
    let ProbeOutcome::Charged(charge) = probe(200, &body) else { unreachable!("not charged") };
    assert_eq!((charge.id.as_str(), charge.money, charge.created), ("ch_9", eur(4990), None));
}

#[test]
fn a_success_with_anything_odd_about_the_money_is_unknown() {
    type Change = fn(&mut Value);
    let changes: [(Change, UnknownReason); 14] = [
        (|body| body["id"] = json!("pi_2"), UnknownReason::Mismatch),
        (|body| body["object"] = json!("setup_intent"), UnknownReason::Unreadable),
        (|body| body["currency"] = json!(null), UnknownReason::Unreadable),
        (|body| body["amount"] = json!("4990"), UnknownReason::Unreadable),
        (|body| body["amount"] = json!(4991), UnknownReason::Unreadable),
        (|body| body["amount_received"] = json!(0), UnknownReason::Unreadable),
        (|body| body["currency"] = json!("usd"), UnknownReason::Unreadable),
        (|body| body["latest_charge"]["amount"] = json!(49.9), UnknownReason::Unreadable),
        (|body| body["latest_charge"]["amount"] = json!(4991), UnknownReason::Unreadable),
        (|body| body["latest_charge"]["amount_captured"] = json!(-4990), UnknownReason::Unreadable),
        (|body| body["latest_charge"]["currency"] = json!("zzz"), UnknownReason::Unreadable),
        (|body| body["latest_charge"]["status"] = json!("failed"), UnknownReason::Unreadable),
        (|body| body["latest_charge"]["payment_intent"] = json!("pi_2"), UnknownReason::Unreadable),
        (|body| body["latest_charge"]["id"] = json!("ch 1\n"), UnknownReason::Unreadable),
    ];
    for (index, (change, reason)) in changes.into_iter().enumerate() {
        let mut body = succeeded();
        change(&mut body);
        assert_eq!(confirm(200, &body), ConfirmOutcome::Unknown(reason), "change {index}");
        assert_eq!(probe(200, &body), ProbeOutcome::CannotTell(reason), "change {index}");
    }
}

#[test]
fn amounts_that_are_none_are_unknown() {
    for amount in
        [json!(0), json!(-4990), json!(9_223_372_036_854_775_808_u64), json!("4990"), json!(4990.0), json!(null)]
    {
        let mut body = succeeded();
        for pointer in ["/amount", "/amount_received", "/latest_charge/amount", "/latest_charge/amount_captured"] {
            *body.pointer_mut(pointer).unwrap() = amount.clone();
        }
        assert_eq!(confirm(200, &body), ConfirmOutcome::Unknown(UnknownReason::Unreadable), "{amount}");
    }
}

#[test]
fn a_creation_of_another_amount_is_unknown() {
    for (field, value) in [("amount", json!(4991)), ("currency", json!("usd"))] {
        let mut body = payment_intent("requires_payment_method");
        body[field] = value;
        assert_eq!(create(200, &body), CreateOutcome::Unknown(UnknownReason::Mismatch));
    }
}
