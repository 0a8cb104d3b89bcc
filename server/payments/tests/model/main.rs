//! The protocol of a payment, checked in every history that a small world has: two clients' calls with one UUID and one call with
//! another for the same order, two recovering replicas, and a few crashes, lost answers, refusals and pauses at any point.
//!
//! The model moves its intents by [`payments::intent::State::after`], so that it and the code cannot drift there. Its steps mirror
//! the statements and calls of `pay`, `settle` and `recover`. See `docs/state-machines.md`.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; what was explored is shown"
)]

mod protocol;
mod provider;
mod rules;
mod world;

use std::{collections::BTreeSet, time::Instant};

use payments::intent::{FactKind, MOVES, State};
use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::{
    protocol::{Mistake, Protocol},
    rules::{I1, I1_ORDER, I3_NOT, I4, I7, I8, I9, I12, L1},
    world::Call,
};

const FIRST: Call = Call { intent: 0, body: 0 };
const REPEAT: Call = Call { intent: 0, body: 1 };
const RIVAL: Call = Call { intent: 1, body: 2 };

/// Without optimisation a world takes ten times as long, so that there it meets a fault less.
const FAULTS: u8 = if cfg!(debug_assertions) { 1 } else { 2 };

/// Well above the length that each mistake needs.
const LONGEST_HISTORY: usize = 20;

fn protocol() -> Protocol {
    Protocol {
        calls: &[FIRST, REPEAT, RIVAL],
        faults: FAULTS,
        workers: 2,
        payment_intent_protects: true,
        bank: true,
        mistake: None,
    }
}

#[track_caller]
fn holds(name: &str, protocol: Protocol) {
    let started = Instant::now();
    let faults = protocol.faults;
    let checker = protocol.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    let properties = checker.model().properties();
    let rules = properties.iter().filter(|property| property.expectation.discovery_is_failure()).count();
    println!(
        "\n{name}: {} states explored, {} unique, longest history {} steps, {faults} faults; {rules} properties hold, no \
         counterexample; {} sights seen; {:.1} s",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        properties.iter().filter(|property| property.expectation == Expectation::Sometimes).count(),
        started.elapsed().as_secs_f32(),
    );
}

/// Looks into longer and longer histories, so that the first that is found is the shortest.
#[track_caller]
fn is_found(mistake: Mistake, protocol: Protocol, broken: &[&'static str]) {
    let protocol = Protocol { mistake: Some(mistake), ..protocol };
    for rule in broken {
        let path = (2..LONGEST_HISTORY).find_map(|depth| {
            let finish = HasDiscoveries::AllOf(BTreeSet::from([*rule]));
            let checker = protocol.clone().checker().finish_when(finish).target_max_depth(depth).spawn_bfs().join();
            checker.discovery(rule)
        });
        let Some(path) = path else { panic!("{mistake:?} is not found to break \"{rule}\"") };
        let steps = path.into_actions();
        println!("\n{mistake:?}: breaks \"{rule}\" in {} steps: {steps:?}", steps.len());
    }
}

#[test]
fn every_promise_holds_in_every_history() {
    holds("a payment intent that succeeds once", protocol());
}

#[test]
fn every_promise_holds_by_the_keys_alone() {
    holds("a payment intent that does not protect", Protocol { payment_intent_protects: false, ..protocol() });
}

#[test]
fn a_charge_before_the_reserve_commit_is_found() {
    let unprotected = Protocol { payment_intent_protects: false, ..protocol() };
    is_found(Mistake::ChargeBeforeReserve, unprotected, &[I7, I1_ORDER]);
}

#[test]
fn a_settle_without_fence_is_found() {
    is_found(Mistake::SettleWithoutFence, protocol(), &[I8]);
}

#[test]
fn a_resend_after_retention_is_found() {
    let unprotected = Protocol { payment_intent_protects: false, ..protocol() };
    is_found(Mistake::ResendAfterRetention, unprotected, &[I1]);
}

#[test]
fn a_resend_with_a_fresh_key_is_found() {
    let unprotected = Protocol { payment_intent_protects: false, ..protocol() };
    is_found(Mistake::ResendWithFreshKey, unprotected, &[I9, I1]);
}

#[test]
fn silence_taken_for_failure_is_found() {
    is_found(Mistake::SilenceIsFailure, protocol(), &[I3_NOT]);
}

#[test]
fn a_deadline_that_decides_without_proof_is_found() {
    is_found(Mistake::DeadlineAloneDecides, protocol(), &[I3_NOT]);
}

#[test]
fn a_missing_live_index_is_found() {
    is_found(Mistake::NoLiveIndex, protocol(), &[I12]);
}

#[test]
fn a_purge_that_forgets_the_key_is_found() {
    is_found(Mistake::PurgeDeletes, protocol(), &[I4]);
}

#[test]
fn a_decline_notice_that_decides_is_found() {
    is_found(Mistake::DeclineNoticeDecides, protocol(), &[I3_NOT]);
}

/// The assumption that stays: see `docs/state-machines.md`.
#[test]
fn a_provider_that_forgets_a_key_while_it_is_used_is_found() {
    is_found(Mistake::NoMargin, protocol(), &[I3_NOT]);
}

#[test]
fn a_sweep_that_never_comes_is_found() {
    is_found(Mistake::NoRecovery, protocol(), &[L1]);
}

/// The words of the table for the page: `State::ActionRequired` is `action_required`, `FactKind::BankStep` is `bank step`.
fn drawn((from, fact, to): (State, FactKind, State)) -> String {
    let mut words = String::new();
    for letter in format!("{fact:?}").chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    format!("{} --> {}: {words}", from.as_str(), to.as_str())
}

/// The arrows between states of the diagram below a heading of the page.
fn arrows(heading: &str) -> BTreeSet<String> {
    let page = include_str!("../../../../docs/state-machines.md");
    let diagram = page.split(heading).nth(1).expect("the heading").split("```").nth(1).expect("the diagram");
    let arrows = diagram.lines().map(str::trim).filter(|line| line.contains("-->") && !line.contains("[*]"));
    arrows.map(str::to_owned).collect()
}

#[test]
fn the_diagram_of_an_intent_shows_the_moves_of_the_table_and_no_others() {
    assert_eq!(arrows("\n## Intent\n"), MOVES.iter().copied().map(drawn).collect::<BTreeSet<_>>());
}

#[test]
fn the_diagram_of_an_order_shows_the_moves_that_the_database_allows_and_no_others() {
    let migration = include_str!("../../../../migrations/20261130210100_create_orders.sql");
    let moves = migration.split("or (old.state, new.state) in (").nth(1).expect("the trigger").lines().next();
    let moves = moves.expect("its list").trim_matches(['(', ')']);
    let allowed: BTreeSet<String> = moves.replace('\'', "").split("), (").map(|it| it.replace(", ", " --> ")).collect();
    let shown = arrows("\n## Order\n").iter().filter_map(|arrow| Some(arrow.split_once(':')?.0.to_owned())).collect();
    assert_eq!(allowed, shown);
}
