//! The protocol's rules, one promise each, and then all of them under random schedules (see `world`).

#![expect(clippy::panic, reason = "a page in another state than the test led it to has failed the test")]

use super::{Effect, Event, Idle, Kind, Live, Machine, Over, Phase, Press, Seed};
use crate::{
    dto::{AnswerDto, AnswerState, DeclineReason, MoneyDto, OutcomeDto, OutcomeState, PayDto},
    error::CheckoutError,
    fields::{Fault, Field, Problem},
};

const K1: &str = "7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11";
const K2: &str = "2b9d4f60-8e17-4a3b-b1c4-6f0e9d5a7c22";
const K3: &str = "e4a0c7d8-13f2-4f96-8d7b-a95c3e1f6b33";

pub(super) fn money() -> MoneyDto {
    MoneyDto { minor: 4990, currency: "EUR".into(), display: "€49.90".into() }
}

pub(super) fn outcome(state: OutcomeState, intent: Option<&str>, received: bool) -> OutcomeDto {
    OutcomeDto {
        state,
        intent: intent.map(Into::into),
        reference: "AB12-CD34".into(),
        amount: money(),
        charge: None,
        paid_at: None,
        decline: (state == OutcomeState::Failed).then_some(DeclineReason::Generic),
        continue_url: (state == OutcomeState::ActionRequired).then(|| "https://bank.example/1".into()),
        decide_by: None,
        email_hint: None,
        received,
    }
}

pub(super) fn seed(outcome: OutcomeDto, intent: &str, replaces: Option<&str>, kind: Kind) -> Seed {
    Seed {
        order: "order".into(),
        intent: intent.into(),
        replaces: replaces.map(Into::into),
        price: money(),
        outcome,
        refused: None,
        kind,
    }
}

pub(super) fn answer(intent: &str, state: AnswerState) -> AnswerDto {
    AnswerDto {
        intent: intent.into(),
        state,
        amount: 4990,
        currency: "EUR".into(),
        detail: (state == AnswerState::Pending).then(|| "pending".into()),
        charge: None,
        paid_at: None,
        decline: (state == AnswerState::Failed).then_some(DeclineReason::InsufficientFunds),
        continue_url: None,
    }
}

/// A page that can be pressed, with K1.
fn ready() -> Machine {
    let mut page = Machine::new(&seed(outcome(OutcomeState::Ready, None, false), K1, None, Kind::Checkout));
    let effects = page.handle(Event::Adopted { intent: K1.into(), random: 7 });
    assert_eq!(effects, [Effect::Store(K1.into())]);
    page
}

fn press() -> Event {
    Event::Submitted(Press { email: "ana@example.org".into(), faults: Vec::new() })
}

/// A page whose request is on its way.
fn sent() -> (Machine, u32, PayDto) {
    let mut page = ready();
    assert_eq!(page.handle(press()), [Effect::Store(K1.into()), Effect::Tokenize]);
    let (tag, pay) = pay_in(&page.handle(Event::TokenMade("pm_1".into())));
    (page, tag, pay)
}

fn pay_in(effects: &[Effect]) -> (u32, PayDto) {
    let found = effects.iter().find_map(|effect| {
        let Effect::Pay { tag, pay } = effect else { return None };
        Some((*tag, pay.clone()))
    });
    found.unwrap_or_else(|| panic!("no Pay in {effects:?}"))
}

fn ask_in(effects: &[Effect]) -> (u32, String) {
    let found = effects.iter().find_map(|effect| {
        let Effect::Ask { tag, intent } = effect else { return None };
        Some((*tag, intent.clone()))
    });
    found.unwrap_or_else(|| panic!("no Ask in {effects:?}"))
}

fn last_wait(effects: &[Effect]) -> (u32, u32) {
    let found = effects.iter().rev().find_map(|effect| {
        let Effect::Wait { tag, ms } = effect else { return None };
        Some((*tag, *ms))
    });
    found.unwrap_or_else(|| panic!("no Wait in {effects:?}"))
}

/// Lets the wait in `effects` pass; the page must ask then.
fn asked_after(page: &mut Machine, effects: &[Effect]) -> u32 {
    let (tag, _) = last_wait(effects);
    ask_in(&page.handle(Event::TimeUp { tag })).0
}

#[test]
fn b15_the_key_is_stored_before_it_is_sent_and_a_second_press_sends_nothing() {
    let (mut page, _, pay) = sent();
    assert_eq!((pay.intent.as_str(), pay.amount, pay.replaces), (K1, 4990, None));
    assert_eq!(page.handle(press()), [Effect::Repeat]);
    assert_eq!(page.handle(Event::TokenMade("pm_2".into())), []);
}

#[test]
fn success_leads_to_the_outcome_page_and_forgets_the_key() {
    let (mut page, tag, _) = sent();
    let effects = page.handle(Event::PayAnswered { tag, answer: answer(K1, AnswerState::Succeeded) });
    assert_eq!(effects, [Effect::Forget, Effect::GoToOrder]);
    assert_eq!(page.phase(), &Phase::Over(Over::Paid));
}

#[test]
fn b17_a_lost_answer_is_asked_for_and_the_same_bytes_go_again_only_when_never_received() {
    let (mut page, tag, first) = sent();
    let effects = page.handle(Event::PayFailed { tag, error: CheckoutError::LostAnswer });
    let ask = asked_after(&mut page, &effects);
    let ready = outcome(OutcomeState::Ready, None, false);
    let effects = page.handle(Event::OutcomeAnswered { tag: ask, outcome: ready });
    let (wait, _) = last_wait(&effects);
    let (_, second) = pay_in(&page.handle(Event::TimeUp { tag: wait }));
    assert_eq!(first, second);
}

#[test]
fn p33_a_409_410_or_422_is_never_shown_but_asked_about() {
    for error in [
        CheckoutError::InProgress { retry_after_seconds: 3 },
        CheckoutError::IntentReused,
        CheckoutError::Purged { outcome: "/orders/x".into() },
        CheckoutError::OrderTaken { intent: K2.into() },
        CheckoutError::ReplacesUnfinished,
        CheckoutError::OrderClosed,
    ] {
        let (mut page, tag, _) = sent();
        let least = error.retry_after_seconds().unwrap_or(0) * 1000;
        let effects = page.handle(Event::PayFailed { tag, error });
        assert_eq!(page.phase(), &Phase::Live(Live::Sending { stage: 0 }));
        assert!(last_wait(&effects).1 >= least, "obeys Retry-After");
        asked_after(&mut page, &effects);
    }
}

#[test]
fn too_many_tries_send_the_same_intent_again_when_the_server_allows_it() {
    let (mut page, tag, first) = sent();
    let limited = CheckoutError::RateLimited { retry_after_seconds: 7 };
    let (wait, ms) = last_wait(&page.handle(Event::PayFailed { tag, error: limited }));
    assert!(ms >= 7_000, "obeys Retry-After");
    let (_, second) = pay_in(&page.handle(Event::TimeUp { tag: wait }));
    assert_eq!(first, second);
}

#[test]
fn while_the_outcome_is_unknown_nothing_can_be_pressed_and_asking_goes_on() {
    let (mut page, tag, _) = sent();
    let mut effects = page.handle(Event::PayFailed { tag, error: CheckoutError::LostAnswer });
    for _ in 0..50 {
        let tag = asked_after(&mut page, &effects);
        effects = page.handle(Event::OutcomeFailed { tag, error: CheckoutError::LostAnswer });
        assert_eq!(page.phase(), &Phase::Live(Live::Unknown { by: None }));
        assert_eq!(page.handle(press()), [Effect::Repeat]);
    }
    let tag = asked_after(&mut page, &effects);
    let effects = page.handle(Event::OutcomeAnswered { tag, outcome: outcome(OutcomeState::Paid, Some(K1), true) });
    assert_eq!(effects, [Effect::Forget, Effect::GoToOrder]);
}

#[test]
fn b30_a_decline_mints_the_successor_at_once_and_names_what_it_replaces() {
    let (mut page, tag, _) = sent();
    let effects = page.handle(Event::PayAnswered { tag, answer: answer(K1, AnswerState::Failed) });
    assert_eq!(effects, [Effect::Mint { retired: K1.into() }]);
    assert!(
        matches!(page.phase(), Phase::Idle(Idle::Declined(proof)) if proof.reason() == DeclineReason::InsufficientFunds)
    );
    assert_eq!(page.handle(Event::Minted(Some(K2.into()))), [Effect::Store(K2.into())]);
    page.handle(press());
    let (_, pay) = pay_in(&page.handle(Event::TokenMade("pm_2".into())));
    assert_eq!((pay.intent.as_str(), pay.replaces.as_deref()), (K2, Some(K1)));
}

#[test]
fn a_browser_that_cannot_mint_takes_the_servers_uuid() {
    let (mut page, tag, _) = sent();
    page.handle(Event::PayAnswered { tag, answer: answer(K1, AnswerState::Failed) });
    assert_eq!(page.handle(Event::Minted(None)), [Effect::Reload]);
}

#[test]
fn a_fault_in_the_form_sends_nothing_and_keeps_the_key() {
    let mut page = ready();
    let fault = Fault { field: Field::Name, problem: Problem { sentence: "x".into(), unfinished: true } };
    let effects = page.handle(Event::Submitted(Press { email: String::new(), faults: vec![fault.clone()] }));
    assert_eq!(effects, []);
    assert_eq!(page.phase(), &Phase::Idle(Idle::Fields(vec![fault])));
    assert_eq!(page.intent(), K1);
}

#[test]
fn a_card_that_the_provider_refuses_was_sent_nowhere() {
    let mut page = ready();
    page.handle(press());
    assert_eq!(page.handle(Event::refused("incorrect_number")), []);
    assert!(matches!(page.phase(), Phase::Idle(Idle::Fields(_))));
    page.handle(press());
    page.handle(Event::TokenLost);
    assert_eq!(page.phase(), &Phase::Idle(Idle::NotSent));
    assert_eq!(page.intent(), K1);
}

#[test]
fn offline_before_sending_refuses_truthfully_and_offline_after_it_never_says_try_again() {
    let mut page = ready();
    page.handle(Event::WentOffline);
    assert_eq!(page.phase(), &Phase::Idle(Idle::Offline));
    assert_eq!(page.handle(press()), [Effect::Repeat]);
    let (mut page, tag, _) = sent();
    page.handle(Event::WentOffline);
    assert_eq!(page.phase(), &Phase::Live(Live::LostConnection));
    page.handle(Event::PayFailed { tag, error: CheckoutError::LostAnswer });
    assert_eq!(page.phase(), &Phase::Live(Live::LostConnection));
    let (tag, intent) = ask_in(&page.handle(Event::WentOnline));
    assert_eq!(intent, K1);
    page.handle(Event::OutcomeAnswered { tag, outcome: outcome(OutcomeState::Pending, Some(K1), true) });
    assert_eq!(page.phase(), &Phase::Live(Live::Sending { stage: 2 }));
}

#[test]
fn b04_a_restored_page_asks_before_a_press_counts() {
    let mut page = ready();
    let (tag, _) = ask_in(&page.handle(Event::Woke));
    assert!(!page.handle(press()).contains(&Effect::Tokenize), "the press waits");
    let effects = page.handle(Event::OutcomeAnswered { tag, outcome: outcome(OutcomeState::Paid, Some(K1), true) });
    assert_eq!(effects, [Effect::Forget]);
    assert_eq!(page.phase(), &Phase::Over(Over::AlreadyPaid));
}

#[test]
fn b05_a_restored_page_whose_question_hangs_can_be_pressed_within_a_second() {
    let mut page = ready();
    page.handle(Event::Woke);
    let (tag, ms) = last_wait(&page.handle(press()));
    assert!(ms <= 1_000);
    assert_eq!(page.handle(Event::TimeUp { tag }), [Effect::Store(K1.into()), Effect::Tokenize]);
}

#[test]
fn a_press_that_waited_goes_on_with_the_same_key() {
    let mut page = ready();
    let (tag, _) = ask_in(&page.handle(Event::Woke));
    page.handle(press());
    let effects = page.handle(Event::OutcomeAnswered { tag, outcome: outcome(OutcomeState::Ready, None, false) });
    assert_eq!(effects, [Effect::Store(K1.into()), Effect::Tokenize]);
}

#[test]
fn a_stored_key_that_was_used_up_elsewhere_is_noticed_before_the_press() {
    let seed = seed(outcome(OutcomeState::Failed, Some(K2), true), K3, Some(K2), Kind::Checkout);
    let mut page = Machine::new(&seed);
    let (tag, intent) = ask_in(&page.handle(Event::Adopted { intent: K1.into(), random: 1 }));
    assert_eq!(intent, K1);
    page.handle(press());
    let failed = outcome(OutcomeState::Failed, Some(K2), true);
    let effects = page.handle(Event::OutcomeAnswered { tag, outcome: failed });
    assert_eq!(effects, [Effect::Mint { retired: K1.into() }]);
    let effects = page.handle(Event::Minted(Some(K3.into())));
    assert_eq!(effects, [Effect::Store(K3.into()), Effect::Store(K3.into()), Effect::Tokenize]);
    let (_, pay) = pay_in(&page.handle(Event::TokenMade("pm".into())));
    assert_eq!((pay.intent.as_str(), pay.replaces.as_deref()), (K3, Some(K2)));
}

#[test]
fn somebody_elses_payment_that_ended_does_not_retire_a_key_that_was_never_sent() {
    let seed = seed(outcome(OutcomeState::Pending, Some(K2), true), K2, None, Kind::Checkout);
    let mut page = Machine::new(&seed);
    let (tag, _) = ask_in(&page.handle(Event::Adopted { intent: K1.into(), random: 1 }));
    let failed = outcome(OutcomeState::Failed, Some(K2), false);
    assert_eq!(page.handle(Event::OutcomeAnswered { tag, outcome: failed }), []);
    assert_eq!((page.intent(), page.replaces()), (K1, Some(K2)));
}

#[test]
fn an_answer_about_the_key_held_before_does_not_retire_the_key_held_now() {
    let mut page = ready();
    let (tag, _) = ask_in(&page.handle(Event::Woke));
    page.handle(Event::StoredElsewhere(Some(K2.into())));
    let failed = outcome(OutcomeState::Failed, Some(K1), true);
    assert_eq!(page.handle(Event::OutcomeAnswered { tag, outcome: failed }), []);
    assert_eq!(page.intent(), K2);
}

#[test]
fn another_tabs_successor_is_followed_but_never_under_a_payment() {
    let mut page = ready();
    let (_, intent) = ask_in(&page.handle(Event::StoredElsewhere(Some(K2.into()))));
    assert_eq!((intent.as_str(), page.intent()), (K2, K2));
    let (mut page, ..) = sent();
    page.handle(Event::StoredElsewhere(Some(K2.into())));
    assert_eq!(page.intent(), K1);
}

#[test]
fn not_sent_is_tried_again_with_the_same_key_and_then_left_to_the_customer() {
    let (mut page, mut tag, first) = sent();
    for _ in 0..super::RESENDS_MAX {
        let (wait, ms) = last_wait(&page.handle(Event::PayFailed { tag, error: CheckoutError::NotSent }));
        assert!(ms >= 2_000);
        let (again, pay) = pay_in(&page.handle(Event::TimeUp { tag: wait }));
        assert_eq!(pay, first);
        tag = again;
    }
    assert_eq!(page.handle(Event::PayFailed { tag, error: CheckoutError::NotSent }), []);
    assert_eq!(page.phase(), &Phase::Idle(Idle::NotSent));
    assert_eq!(page.intent(), K1);
}

#[test]
fn after_a_lost_answer_unavailable_proves_nothing() {
    let (mut page, tag, _) = sent();
    page.handle(Event::WentOffline);
    page.handle(Event::PayFailed { tag, error: CheckoutError::LostAnswer });
    let (tag, _) = ask_in(&page.handle(Event::WentOnline));
    let effects =
        page.handle(Event::OutcomeFailed { tag, error: CheckoutError::Unavailable { retry_after_seconds: 5 } });
    assert_eq!(page.phase(), &Phase::Live(Live::Unknown { by: None }));
    assert!(last_wait(&effects).1 >= 5_000);
}

#[test]
fn the_price_that_changed_is_shown_and_the_next_press_means_it() {
    let (mut page, tag, _) = sent();
    let now = MoneyDto { minor: 5200, currency: "EUR".into(), display: "€52.00".into() };
    page.handle(Event::PayFailed { tag, error: CheckoutError::PriceChanged { shown: money(), now } });
    assert_eq!(page.phase(), &Phase::Idle(Idle::PriceChanged { was: money() }));
    page.handle(press());
    let (_, pay) = pay_in(&page.handle(Event::TokenMade("pm_2".into())));
    assert_eq!((pay.amount, pay.intent.as_str()), (5200, K1));
}

#[test]
fn the_bank_step_is_offered_only_at_an_address_that_a_link_may_have() {
    for (url, offered) in [("https://bank.example/1", true), ("/bank/1", true), ("javascript:alert(1)", false)] {
        let (mut page, tag, _) = sent();
        let mut answer = answer(K1, AnswerState::Pending);
        answer.detail = Some("action_required".into());
        answer.continue_url = Some(url.into());
        page.handle(Event::PayAnswered { tag, answer });
        assert_eq!(matches!(page.phase(), Phase::Live(Live::BankStep { .. })), offered, "{url}");
    }
}

#[test]
fn an_answer_about_another_intent_is_a_lost_answer() {
    let (mut page, tag, _) = sent();
    let effects = page.handle(Event::PayAnswered { tag, answer: answer(K2, AnswerState::Failed) });
    asked_after(&mut page, &effects);
    assert_eq!(page.intent(), K1);
}

#[test]
fn an_outcome_page_leaves_every_known_outcome_to_the_server() {
    for state in [OutcomeState::Paid, OutcomeState::Failed, OutcomeState::Ready, OutcomeState::Closed] {
        let pending = seed(outcome(OutcomeState::Unknown, Some(K1), true), K1, None, Kind::Outcome);
        let mut page = Machine::new(&pending);
        let (tag, _) = ask_in(&page.handle(Event::Adopted { intent: K1.into(), random: 3 }));
        let received = state != OutcomeState::Ready;
        let effects = page.handle(Event::OutcomeAnswered { tag, outcome: outcome(state, Some(K1), received) });
        assert!(effects.contains(&Effect::Reload), "{state:?}: {effects:?}");
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Mint { .. } | Effect::Store(_))));
    }
}

#[test]
fn an_outcome_page_that_says_declined_does_not_reload_itself_for_ever() {
    let failed = seed(outcome(OutcomeState::Failed, Some(K1), true), K1, None, Kind::Outcome);
    let mut page = Machine::new(&failed);
    assert_eq!(page.handle(Event::Adopted { intent: K1.into(), random: 3 }), []);
    let (tag, _) = ask_in(&page.handle(Event::Woke));
    let same = outcome(OutcomeState::Failed, Some(K1), true);
    assert_eq!(page.handle(Event::OutcomeAnswered { tag, outcome: same }), []);
    let (tag, _) = ask_in(&page.handle(Event::Woke));
    let paid = outcome(OutcomeState::Paid, Some(K2), true);
    assert_eq!(page.handle(Event::OutcomeAnswered { tag, outcome: paid }), [Effect::Reload]);
}
