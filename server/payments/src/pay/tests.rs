//! The order in which a customer hears of what stands in the way, and who a reserve that ran twice takes itself for.

use tokio::time::Instant;
use uuid::Uuid;

use super::{Decision, PayError, decide};
use crate::{
    ids::{Email, IntentId, OrderToken},
    intent::{
        Standing,
        fingerprint::Fingerprint,
        store::reserve::{Reserved, Reserving},
    },
    money::{Currency, Money},
    provider::PaymentMethodToken,
};

const OWNER: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);

/// An open order of €49.90 that nobody has tried to pay; `change` says what is different.
fn check(change: impl FnOnce(&mut Reserved, &mut Reserving<'_>)) -> Result<Decision, PayError> {
    check_order(Some(untried()), change)
}

fn untried() -> Reserved {
    Reserved {
        order_id: Uuid::from_u128(3),
        order_state: "open".to_owned(),
        currency: "EUR".to_owned(),
        amount_minor: 4990,
        provider_payment_intent: Some("pi_1".to_owned()),
        paid_intent: None,
        fence: None,
        live: None,
        replaced_state: None,
        fingerprint: None,
        owner: None,
        owner_fence: None,
        created_at: None,
        state: None,
        continue_url: None,
        charge: None,
        paid_at: None,
        decline: None,
        archive_status: None,
        archive_content_type: None,
        archive_body: None,
        finished_at: None,
        purged_at: None,
    }
}

fn check_order(
    mut found: Option<Reserved>,
    change: impl FnOnce(&mut Reserved, &mut Reserving<'_>),
) -> Result<Decision, PayError> {
    let token = OrderToken::parse("0123456789abcdefABCDEF").expect("a token");
    let method = PaymentMethodToken::parse("pm_1").expect("a payment method");
    let email = Email::parse("ana@example.org").expect("an address");
    let shown = Money::new(4990, Currency::parse("EUR").expect("a currency"));
    let mut asked = Reserving {
        order: &token,
        intent: IntentId::parse("3b241101-e2bb-4255-8caf-4136c566a962").expect("an intent"),
        fingerprint: Fingerprint::of_payment(shown, &method, None, Some(&email)),
        shown,
        email: Some(&email),
        replaces: None,
        request: b"",
        owner: OWNER,
        lease_seconds: 1.0,
    };
    if let Some(found) = &mut found {
        change(found, &mut asked);
    }
    decide(found, &asked, Instant::now())
}

/// The intent is there already, pending, with the fingerprint of the same request.
fn was_there(found: &mut Reserved, asked: &Reserving<'_>, owner: Uuid) {
    found.fingerprint = Some(asked.fingerprint.as_bytes().to_vec());
    found.owner = Some(owner);
    found.owner_fence = Some(8);
    found.created_at = Some(time::OffsetDateTime::UNIX_EPOCH);
    found.state = Some("pending".to_owned());
    found.live = Some(asked.intent.as_uuid());
}

#[test]
fn whoever_wrote_the_row_owns_it() {
    let decision = check(|found, _| found.fence = Some(7));
    assert!(matches!(decision, Ok(Decision::Reserved(lease)) if lease.target.fence == Some(7)));
}

#[test]
fn pitfall_12_a_reserve_whose_answer_was_lost_finds_itself() {
    let decision = check(|found, asked| was_there(found, asked, OWNER));
    assert!(matches!(decision, Ok(Decision::Reserved(lease)) if lease.target.fence == Some(8)));
}

#[test]
fn a_repeat_finds_the_other_and_never_owns() {
    let decision = check(|found, asked| was_there(found, asked, OTHER));
    assert!(matches!(decision, Ok(Decision::WasThere(intent)) if intent.standing == Standing::Pending));
}

#[test]
fn pitfall_05_a_row_committed_meanwhile_is_read_again() {
    assert!(matches!(check(|_, _| ()), Ok(Decision::RaceLost)));
}

#[test]
fn an_order_unknown_to_the_provider_is_made_known_first() {
    assert!(matches!(check(|found, _| found.provider_payment_intent = None), Ok(Decision::NoPaymentIntent)));
}

#[test]
fn what_stands_in_the_way_is_told_in_one_order() {
    assert!(matches!(check_order(None, |_, _| ()), Err(PayError::NotFound)));

    // From here on each case has everything wrong that the next ones have, and one thing more.
    let unfinished = |found: &mut Reserved, asked: &mut Reserving<'_>| {
        asked.replaces = Some(IntentId(OTHER));
        found.replaced_state = Some("unknown".to_owned());
    };
    assert!(matches!(check(unfinished), Err(PayError::ReplacesUnfinished)));
    let dearer = |found: &mut Reserved, asked: &mut Reserving<'_>| {
        unfinished(found, asked);
        found.amount_minor = 5990;
    };
    assert!(matches!(check(dearer), Err(PayError::PriceChanged { now, .. }) if now.minor == 5990));
    let closed = |found: &mut Reserved, asked: &mut Reserving<'_>| {
        dearer(found, asked);
        found.order_state = "closed".to_owned();
    };
    assert!(matches!(check(closed), Err(PayError::OrderClosed)));
    let taken = |found: &mut Reserved, asked: &mut Reserving<'_>| {
        closed(found, asked);
        found.live = Some(OTHER);
    };
    assert!(matches!(check(taken), Err(PayError::OrderTaken(by)) if by.as_uuid() == OTHER));
    let reused = |found: &mut Reserved, asked: &mut Reserving<'_>| {
        taken(found, asked);
        was_there(found, asked, OTHER);
        found.fingerprint = Some(vec![0; 32]);
    };
    assert!(matches!(check(reused), Err(PayError::Reused)));
}

#[test]
fn money_that_came_late_for_a_failed_intent_takes_the_order_too() {
    let decision = check(|found, _| {
        found.order_state = "paid".to_owned();
        found.paid_intent = Some(OTHER);
    });
    assert!(matches!(decision, Err(PayError::OrderTaken(by)) if by.as_uuid() == OTHER));
}
