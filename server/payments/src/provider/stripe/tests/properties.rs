//! Arbitrary answers: never a panic, and a definite outcome only from what an independent reading finds well-formed.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    PAYMENT_INTENT, Script, Scripted, answer, card_error, confirm_request, error, eur, payment_intent_id,
    requires_action, succeeded,
};
use crate::provider::{
    ConfirmOutcome, CreateOutcome, ProbeOutcome, Provider,
    stripe::{
        http::Reply,
        outcomes::{card_session, confirmed, created, probed},
        units::Units,
    },
};

const UNITS: Units = Units { exceptions: true };

/// Whether a body may stand for a charge, read without any type of the adapter's.
fn is_well_formed_success(status: u16, body: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return false };
    let charge = &value["latest_charge"];
    let has_charge = charge.as_str().is_some_and(|id| !id.is_empty())
        || (charge["id"].is_string() && charge["status"] == "succeeded" && charge["amount"].is_i64());
    status == 200
        && value["id"] == PAYMENT_INTENT
        && value["status"] == "succeeded"
        && value["amount"].is_i64()
        && has_charge
}

/// Whether a body may stand for a no.
fn is_well_formed_refusal(status: u16, body: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return false };
    let kind = &value["error"]["type"];
    (status == 402 && kind == "card_error") || (matches!(status, 400 | 404) && kind == "invalid_request_error")
}

fn check(status: u16, body: &[u8]) -> Result<(), TestCaseError> {
    let reply = || Ok(Reply { status, body: body.to_vec().into() });
    let id = payment_intent_id();
    let confirm = confirmed(reply(), &id, UNITS);
    if let ConfirmOutcome::Approved(charge) = &confirm {
        prop_assert!(is_well_formed_success(status, body), "approved");
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let said = UNITS
            .incoming(value["amount"].as_i64().unwrap_or_default(), value["currency"].as_str().unwrap_or_default());
        prop_assert_eq!(said, Some(charge.money), "the money that the body names, and no other");
    }
    if let ConfirmOutcome::ActionRequired { url } = &confirm {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        prop_assert!(status == 200 && value["id"] == PAYMENT_INTENT && value["status"] == "requires_action", "bank");
        prop_assert!(["https://", "http://"].iter().any(|scheme| url.as_str().starts_with(scheme)), "a page: {url:?}");
    }
    if matches!(confirm, ConfirmOutcome::Declined(_)) {
        prop_assert!(is_well_formed_refusal(status, body), "declined");
    }
    if matches!(confirm, ConfirmOutcome::NotSent(_)) {
        prop_assert!(matches!(status, 401 | 403 | 429), "not sent");
    }
    let probe = probed(reply(), &id, UNITS);
    if matches!(probe, ProbeOutcome::Charged(_)) {
        prop_assert!(is_well_formed_success(status, body), "charged");
    }
    if matches!(probe, ProbeOutcome::NotCharged | ProbeOutcome::Cancelled) {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        prop_assert!(status == 200 && value["id"] == PAYMENT_INTENT && value["status"] != "succeeded", "not charged");
    }
    if matches!(created(reply(), &eur(4990), UNITS), CreateOutcome::Created(_)) {
        prop_assert_eq!(status, 200);
    }
    // Nothing to hold it to, but that it comes to an end.
    drop(card_session(reply()));
    Ok(())
}

/// Statuses that exist, and the ones that matter more often.
fn statuses() -> impl Strategy<Value = u16> {
    prop_oneof![
        3 => prop::sample::select(vec![200_u16, 400, 401, 402, 403, 404, 409, 429, 500]),
        1 => 100_u16..=999,
    ]
}

/// A good answer of each kind.
fn good_bodies() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        succeeded(),
        card_error("insufficient_funds"),
        requires_action("https://bank.example/"),
        error("invalid_request_error", Some("resource_missing")),
    ])
}

/// What may stand in a field instead of what belongs there.
fn odd_values() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(|number| json!(number)),
        any::<u64>().prop_map(|number| json!(number)),
        any::<bool>().prop_map(|truth| json!(truth)),
        ".{0,40}".prop_map(|text| json!(text)),
        prop::sample::select(vec!["succeeded", "processing", "canceled", "card_error", "payment_intent", "pi_2"])
            .prop_map(|word| json!(word)),
        Just(json!({})),
        Just(json!([])),
    ]
}

/// Replaces one field, at the top or in any object below.
fn replace(value: &mut Value, mut position: usize, with: &Value) {
    let mut pointers = Vec::new();
    collect(value, "", &mut pointers);
    position %= pointers.len();
    if let Some(place) = value.pointer_mut(&pointers[position]) {
        *place = with.clone();
    }
}

fn collect(value: &Value, at: &str, pointers: &mut Vec<String>) {
    if let Some(fields) = value.as_object() {
        for (name, field) in fields {
            let here = format!("{at}/{name}");
            pointers.push(here.clone());
            collect(field, &here, pointers);
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_decide_nothing(status in statuses(), body: Vec<u8>) {
        check(status, &body)?;
    }

    #[test]
    fn a_good_body_under_any_status_decides_only_where_it_belongs(status in statuses(), body in good_bodies()) {
        check(status, body.to_string().as_bytes())?;
    }

    #[test]
    fn a_body_with_odd_fields_decides_only_if_it_still_reads_well(
        status in statuses(),
        mut body in good_bodies(),
        changes in prop::collection::vec((any::<usize>(), odd_values()), 1..4),
    ) {
        for (position, with) in &changes {
            replace(&mut body, *position, with);
        }
        check(status, body.to_string().as_bytes())?;
    }

    #[test]
    fn a_body_cut_short_decides_nothing(status in statuses(), body in good_bodies(), cut: prop::sample::Index) {
        let text = body.to_string();
        let short = &text.as_bytes()[..cut.index(text.len())];
        let outcome = confirmed(Ok(Reply { status, body: short.to_vec().into() }), &payment_intent_id(), UNITS);
        prop_assert!(matches!(outcome, ConfirmOutcome::Unknown(_)), "{outcome:?}");
    }

    // Without `e`, which can make a number too large to read, and `\`, which can make half a character: our reading skips
    // such a thing in a field that it does not know, and the other one stumbles.
    #[test]
    fn a_body_with_typing_errors_decides_only_if_it_still_reads_well(
        status in statuses(),
        body in good_bodies(),
        errors in prop::collection::vec((any::<prop::sample::Index>(), "[ -DF-\\[\\]-df-~]"), 1..8),
    ) {
        let mut bytes = body.to_string().into_bytes();
        for (at, character) in errors {
            let position = at.index(bytes.len());
            bytes[position] = character.as_bytes()[0];
        }
        check(status, &bytes)?;
    }

    #[test]
    fn a_body_that_is_no_text_decides_nothing(status in statuses(), body in good_bodies(), at: prop::sample::Index) {
        let mut bytes = body.to_string().into_bytes();
        let position = at.index(bytes.len());
        bytes[position] = 0xff;
        let outcome = confirmed(Ok(Reply { status, body: bytes.into() }), &payment_intent_id(), UNITS);
        prop_assert!(matches!(outcome, ConfirmOutcome::Unknown(_)), "{outcome:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_on_the_wire_are_unknown(bytes: Vec<u8>, cut: prop::sample::Index, is_real: bool) {
        // Either anything at all, or a real success that ends early.
        let whole = answer(200, &succeeded());
        let sent = if is_real { whole[..cut.index(whole.len())].to_vec() } else { bytes };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(async {
            let scripted = Scripted::start(vec![Script::Answer(sent)]).await;
            let stripe = scripted.stripe();
            stripe.confirm(&confirm_request(&stripe)).await
        });
        prop_assert!(matches!(outcome, ConfirmOutcome::Unknown(_)), "{:?}", outcome);
    }
}
