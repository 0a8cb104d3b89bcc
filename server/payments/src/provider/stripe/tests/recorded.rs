//! The adapter against answers and events of the API version that it pins; where they come from says `recorded/README.md`.

use std::{fs, path::PathBuf};

use serde_json::Value;
use time::OffsetDateTime;

use super::eur;
use crate::{
    notice::Notice,
    provider::{
        ConfirmOutcome, CreateOutcome, Decline, DeclineReason, NotSentReason, ProbeOutcome, ProviderEvent,
        ProviderPaymentIntentId, UnknownReason,
        stripe::{
            http::{Reply, STRIPE_VERSION},
            outcomes::{confirmed, created, probed},
            units::Units,
            webhook,
        },
    },
};

const UNITS: Units = Units { exceptions: true };
const PAYMENT_INTENT: &str = "pi_3PZc1ALgUG5tbmjc0aB1cD2e";
const CHARGE: &str = "ch_3PZc1ALgUG5tbmjc0zYxWvUt";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/provider/stripe/tests/recorded")
}

fn recorded(name: &str) -> Value {
    let text = fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The answer of this name, of the pinned version.
fn reply(name: &str) -> Reply {
    let recorded = recorded(name);
    assert_eq!(recorded["api_version"], STRIPE_VERSION, "{name}");
    let status = recorded["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap();
    Reply { status, body: recorded["body"].to_string().into() }
}

fn id() -> ProviderPaymentIntentId {
    ProviderPaymentIntentId::parse(PAYMENT_INTENT).unwrap()
}

fn confirm(name: &str) -> ConfirmOutcome {
    confirmed(Ok(reply(name)), &id(), UNITS)
}

fn probe(name: &str) -> ProbeOutcome {
    probed(Ok(reply(name)), &id(), UNITS)
}

fn create(name: &str) -> CreateOutcome {
    created(Ok(reply(name)), &eur(4990), UNITS)
}

fn declined(code: &str, reason: DeclineReason) -> ConfirmOutcome {
    ConfirmOutcome::Declined(Decline { code: code.to_owned(), reason })
}

#[test]
fn every_recorded_answer_means_what_the_table_says() {
    use UnknownReason::{Busy, KeyReused, NotAsked, NotFound, Processing, ServerFault, UnexpectedState, Unlisted};
    let unknown = ConfirmOutcome::Unknown;
    let cannot_tell = ProbeOutcome::CannotTell;
    let not_sent = ConfirmOutcome::NotSent;
    for (name, confirmed, probed) in [
        ("created", unknown(UnexpectedState), ProbeOutcome::NotCharged),
        ("processing", unknown(Processing), ProbeOutcome::Processing),
        ("canceled", unknown(UnexpectedState), ProbeOutcome::Cancelled),
        ("bank_check_refused", unknown(UnexpectedState), ProbeOutcome::NotCharged),
        // A step that only a script in the page could go: nobody is sent anywhere, and nothing is claimed.
        ("requires_action_of_the_script", unknown(UnexpectedState), cannot_tell(UnexpectedState)),
        ("card_declined", declined("generic_decline", DeclineReason::Generic), cannot_tell(Unlisted)),
        ("insufficient_funds", declined("insufficient_funds", DeclineReason::InsufficientFunds), cannot_tell(Unlisted)),
        ("incorrect_cvc", declined("incorrect_cvc", DeclineReason::IncorrectCode), cannot_tell(Unlisted)),
        (
            "authentication_required",
            declined("authentication_required", DeclineReason::BankCheckFailed),
            cannot_tell(Unlisted),
        ),
        ("unexpected_state", unknown(UnexpectedState), cannot_tell(UnexpectedState)),
        ("idempotency_error", unknown(KeyReused), cannot_tell(KeyReused)),
        ("idempotency_key_in_use", ConfirmOutcome::Busy, cannot_tell(Busy)),
        ("lock_timeout", ConfirmOutcome::Busy, cannot_tell(Busy)),
        ("invalid_request", declined("parameter_unknown", DeclineReason::NotCharged), cannot_tell(Unlisted)),
        ("no_such_payment_method", declined("resource_missing", DeclineReason::NotCharged), cannot_tell(Unlisted)),
        ("no_such_payment_intent", unknown(NotFound), cannot_tell(NotFound)),
        ("authentication", not_sent(NotSentReason::KeyRefused), cannot_tell(NotAsked)),
        ("rate_limit", not_sent(NotSentReason::RateLimited), cannot_tell(NotAsked)),
        ("api_error", unknown(ServerFault), cannot_tell(ServerFault)),
    ] {
        assert_eq!(confirm(name), confirmed, "{name}");
        assert_eq!(probe(name), probed, "{name}");
    }
}

#[test]
fn a_recorded_creation_is_one_and_a_recorded_refusal_is_told_by_its_code() {
    assert_eq!(create("created"), CreateOutcome::Created(id()));
    for (name, code) in [("amount_too_small", "amount_too_small"), ("invalid_request", "parameter_unknown")] {
        assert_eq!(create(name), CreateOutcome::Refused { code: code.to_owned() });
    }
    assert_eq!(create("authentication"), CreateOutcome::NotSent(NotSentReason::KeyRefused));
    assert_eq!(create("api_error"), CreateOutcome::Unknown(UnknownReason::ServerFault));
}

/// With the charge expanded, as we ask, and with its id, as Stripe answers where it does not heed that.
#[test]
fn a_recorded_success_is_a_charge_whichever_way_it_is_told() {
    for (name, created) in [("succeeded", Some(1_720_000_060)), ("succeeded_with_the_charge_as_id", None)] {
        let ConfirmOutcome::Approved(charge) = confirm(name) else { unreachable!("{name} is no charge") };
        assert_eq!((charge.id.as_str(), charge.money), (CHARGE, eur(4990)), "{name}");
        assert_eq!(charge.created.map(OffsetDateTime::unix_timestamp), created, "{name}");
        assert_eq!(probe(name), ProbeOutcome::Charged(charge), "{name}");
    }
}

#[test]
fn a_recorded_bank_step_leads_to_the_banks_page() {
    let page = "https://hooks.stripe.com/redirect/authenticate/src_recorded?client_secret=src_client_secret_recorded";
    let ConfirmOutcome::ActionRequired { url } = confirm("requires_action") else { unreachable!("no step") };
    assert_eq!(url.as_str(), page);
    assert_eq!(probe("requires_action"), ProbeOutcome::ActionRequired { url });
}

fn event(name: &str) -> ProviderEvent {
    let body = recorded(name).to_string();
    webhook::open(body.as_bytes(), OffsetDateTime::UNIX_EPOCH, false, UNITS).unwrap()
}

#[test]
fn every_recorded_event_is_told_by_what_it_is_of_whatever_version() {
    let mut seen = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".json").filter(|name| name.starts_with("event_")) else { continue };
        let (event, recorded) = (event(name), recorded(name));
        assert_eq!(event.kind, recorded["type"], "{name}");
        assert_eq!(event.told_at.unix_timestamp(), 1_720_000_061, "{name}");
        assert!(!event.wrong_mode, "{name}");
        seen += 1;
    }
    assert_eq!(seen, 11);
}

#[test]
fn recorded_events_of_a_payment_are_notices_of_it() {
    let about = |name| event(name).about;
    for (name, at) in [("event_payment_intent_succeeded", 1_720_000_061), ("event_charge_succeeded", 1_720_000_060)] {
        let Some((of, Notice::Charged(charge))) = about(name) else { unreachable!("{name} is no charge") };
        assert_eq!((of, charge.id.as_str(), charge.money), (id(), CHARGE, eur(4990)), "{name}");
        assert_eq!(charge.created.map(OffsetDateTime::unix_timestamp), Some(at), "{name}");
    }
    assert_eq!(about("event_payment_intent_canceled"), Some((id(), Notice::Cancelled)));
    // A no of one try is no end of the payment intent: it is asked.
    assert_eq!(about("event_payment_intent_payment_failed"), Some((id(), Notice::Changed)));
}

/// An endpoint has a version of its own, which its merchant may have set years ago.
#[test]
fn an_event_of_another_version_whose_charge_we_cannot_read_leads_to_asking() {
    let recorded = recorded("event_payment_intent_succeeded_of_2020");
    assert_ne!(recorded["api_version"], STRIPE_VERSION);
    assert_eq!(event("event_payment_intent_succeeded_of_2020").about, Some((id(), Notice::Changed)));
}

/// Money that goes back is no payment, however its events look.
#[test]
fn recorded_events_of_refunds_and_disputes_never_say_that_something_was_paid() {
    for name in [
        "event_charge_refunded",
        "event_charge_refund_updated",
        "event_refund_updated",
        "event_refund_failed",
        "event_charge_dispute_created",
        "event_charge_dispute_closed",
    ] {
        assert!(!matches!(event(name).about, Some((_, Notice::Charged(_) | Notice::Cancelled))), "{name}");
    }
}
