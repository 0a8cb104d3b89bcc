//! What pages of lists prove, and what they do not.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{charges, found_charge, query, refunds};
use crate::provider::{
    UnknownReason,
    lists::{Entry, FindOutcome, ListOutcome, ListPage, ListedCharge, ListedState, Place},
    stripe::{
        http::{Reply, Silence},
        units::Units,
    },
};

const UNITS: Units = Units { exceptions: true };

#[expect(clippy::unnecessary_wraps, reason = "it stands for what a call ends with")]
fn reply(status: u16, body: &Value) -> Result<Reply, Silence> {
    Ok(Reply { status, body: Bytes::from(body.to_string()) })
}

fn list(data: &[Value]) -> Result<Reply, Silence> {
    reply(200, &json!({"object": "list", "data": data, "has_more": true, "url": "/v1/charges"}))
}

fn charge(id: &str, change: Value) -> Value {
    let mut charge = json!({
        "id": id, "object": "charge", "amount": 4990, "amount_captured": 4990, "amount_refunded": 0, "currency": "eur",
        "created": 1_767_225_600, "status": "succeeded", "payment_intent": "pi_1", "metadata": {"order": "o-1"}
    });
    for (name, value) in change.as_object().into_iter().flatten() {
        charge[name] = value.clone();
    }
    charge
}

fn entries(answer: Result<Reply, Silence>) -> Vec<Entry<ListedCharge>> {
    let ListOutcome::Page(page) = charges(answer, UNITS) else { unreachable!("it is a page") };
    page.entries
}

#[test]
fn an_odd_entry_is_told_and_hides_no_other() {
    let data = [
        charge("ch_1", json!({})),
        charge("ch_2", json!({"currency": "xts"})),
        charge("ch_3", json!({"amount_captured": 1})),
        charge("ch_4", json!({"status": "invented"})),
        charge("ch_5", json!({"amount": -1})),
        charge("ch_6", json!({"payment_intent": "../etc"})),
        charge("ch_7", json!({"created": "yesterday"})),
        json!({"object": "charge"}),
        charge("ch_8", json!({"status": "failed", "amount_captured": 0, "metadata": null, "payment_intent": null})),
    ];
    let seen: Vec<String> = entries(list(&data))
        .into_iter()
        .map(|entry| match entry {
            Entry::Read(charge) => format!("{} {:?}", charge.id, charge.state),
            Entry::Unreadable { id, made: _ } => format!("{id} unreadable"),
        })
        .collect();
    assert_eq!(
        seen,
        [
            "ch_1 Succeeded",
            "ch_2 unreadable",
            "ch_3 unreadable",
            "ch_4 unreadable",
            "ch_5 unreadable",
            "ch_6 unreadable",
            "ch_7 unreadable",
            "unnamed unreadable",
            "ch_8 Failed"
        ]
    );
}

#[test]
fn what_is_no_page_is_no_page() {
    for (answer, reason) in [
        (reply(200, &json!({"object": "charge"})), UnknownReason::Unreadable),
        (
            reply(200, &json!({"object": "list", "data": [{"object": "charge"}], "has_more": false})),
            UnknownReason::Unreadable,
        ),
        (reply(200, &json!({"object": "list", "data": []})), UnknownReason::Unreadable),
        (reply(500, &json!({"error": {"type": "api_error"}})), UnknownReason::ServerFault),
        (
            reply(429, &json!({"error": {"type": "invalid_request_error", "code": "rate_limit"}})),
            UnknownReason::NotAsked,
        ),
        (reply(404, &json!("not found")), UnknownReason::Unreadable),
        (Err(Silence::Unknown(UnknownReason::TimedOut)), UnknownReason::TimedOut),
    ] {
        let shown = format!("{answer:?}");
        assert_eq!(charges(answer, UNITS), ListOutcome::CannotTell(reason), "{shown}");
    }
}

/// Only the provider's own word counts for "there is none".
#[test]
fn only_the_provider_says_that_something_is_missing() {
    let missing =
        json!({"error": {"type": "invalid_request_error", "code": "resource_missing", "param": "ending_before"}});
    for status in [400, 404] {
        assert_eq!(charges(reply(status, &missing), UNITS), ListOutcome::NoSuchPlace);
        assert_eq!(found_charge(reply(status, &missing), UNITS), FindOutcome::Missing);
    }
    let of_something_between = json!({"error": {"type": "invalid_request_error", "message": "no route"}});
    let found = found_charge(reply(404, &of_something_between), UNITS);
    assert!(matches!(found, FindOutcome::CannotTell(_)), "{found:?}");
    let FindOutcome::Found(charge) = found_charge(reply(200, &charge("ch_1", json!({"amount_refunded": 90}))), UNITS)
    else {
        unreachable!("it is found")
    };
    assert_eq!(
        (charge.refunded_minor, charge.order.as_deref(), charge.state),
        (90, Some("o-1"), ListedState::Succeeded)
    );
}

#[test]
fn refunds_have_three_states_however_many_words_there_are() {
    let refund = |id: &str, status: &str| json!({"id": id, "object": "refund", "amount": 5, "currency": "jpy", "created": 1, "status": status, "charge": "ch_1"});
    let words = ["succeeded", "pending", "requires_action", "failed", "canceled"];
    let data: Vec<Value> = words.iter().map(|word| refund("re_1", word)).collect();
    let ListOutcome::Page(page) = refunds(list(&data), UNITS) else { unreachable!("it is a page") };
    let states = page.entries.into_iter().map(|entry| match entry {
        Entry::Read(refund) => Some(refund.state),
        Entry::Unreadable { .. } => None,
    });
    assert_eq!(
        states.collect::<Vec<_>>(),
        [ListedState::Succeeded, ListedState::Pending, ListedState::Pending, ListedState::Failed, ListedState::Failed]
            .map(Some)
    );
}

#[test]
fn a_page_is_asked_for_by_time_and_place() {
    let from = time::macros::datetime!(2026-01-01 00:00 UTC);
    let page = ListPage { from: Some(from), until: Some(from), place: Place::OlderThan("ch_1".to_owned()), limit: 100 };
    let asked: Vec<String> = query(&page).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(asked, ["limit=100", "created[gte]=1767225600", "created[lt]=1767225600", "starting_after=ch_1"]);
}
