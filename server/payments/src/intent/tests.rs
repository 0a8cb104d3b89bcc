//! The table of moves, as theorems.

use std::collections::BTreeSet;

use proptest::{prelude::*, sample::select};

use super::{FactKind, MOVES, State};

const FACTS: [FactKind; 5] =
    [FactKind::Charged, FactKind::Declined, FactKind::NotCharged, FactKind::BankStep, FactKind::Silence];

/// Facts that can be true of one intent together: it was charged, or it was not, but never both.
fn one_truth() -> impl Strategy<Value = Vec<FactKind>> {
    let of = |facts: &'static [FactKind]| prop::collection::vec(select(facts), 0..8);
    prop_oneof![
        of(&[FactKind::Charged, FactKind::BankStep, FactKind::Silence]),
        of(&[FactKind::Declined, FactKind::NotCharged, FactKind::BankStep, FactKind::Silence]),
    ]
}

fn end_of(facts: &[FactKind]) -> State {
    facts.iter().fold(State::Pending, |state, fact| state.after(*fact))
}

proptest! {
    #[test]
    fn pitfall_62_any_order_and_repetition_of_the_same_facts_ends_the_same(
        (facts, shuffled) in one_truth().prop_flat_map(|facts| {
            let twice = [facts.clone(), facts.clone()].concat();
            (Just(facts), Just(twice).prop_shuffle())
        })
    ) {
        prop_assert_eq!(end_of(&facts), end_of(&shuffled));
    }

    #[test]
    fn whoever_saw_an_end_never_sees_another(facts in prop::collection::vec(select(&FACTS), 0..12)) {
        let mut seen = None;
        let mut state = State::Pending;
        for fact in facts {
            state = state.after(fact);
            if let Some(end) = seen {
                prop_assert_eq!(state, end);
            }
            if state.is_final() {
                seen = Some(state);
            }
        }
    }

    #[test]
    fn silence_is_never_an_end(facts in prop::collection::vec(select(&[FactKind::Silence, FactKind::BankStep]), 0..12)) {
        prop_assert!(!end_of(&facts).is_final());
    }
}

#[test]
fn nothing_unresolved_or_paid_lets_another_intent_start() {
    let free: Vec<State> = State::ALL.into_iter().filter(|state| state.allows_another()).collect();
    assert_eq!(free, [State::Failed]);
}

#[test]
fn the_table_names_each_move_once_and_none_from_an_end() {
    let moves: BTreeSet<_> = MOVES.iter().map(|(from, fact, _)| format!("{from:?} {fact:?}")).collect();
    assert_eq!(moves.len(), MOVES.len());
    assert!(MOVES.iter().all(|(from, _, to)| !from.is_final() && from != to));
}

#[test]
fn the_trigger_in_the_database_allows_the_moves_of_the_table_and_no_others() {
    // Of several files that define it, the last one counts.
    let in_force = crate::MIGRATOR
        .iter()
        .filter_map(|file| file.sql.as_str().split_once("trigger intents_moves_are_legal before update"))
        .next_back();
    let (_, trigger) = in_force.expect("the trigger");
    let in_database: BTreeSet<(String, String)> = trigger
        .lines()
        .filter_map(|line| line.trim().strip_prefix("('")?.trim_end_matches(',').strip_suffix("')")?.split_once("', '"))
        .map(|(from, to)| (from.to_owned(), to.to_owned()))
        .collect();
    let in_table: BTreeSet<(String, String)> =
        MOVES.iter().map(|(from, _, to)| (from.as_str().to_owned(), to.as_str().to_owned())).collect();
    assert_eq!(in_database, in_table);
}

#[test]
fn the_live_index_covers_every_state_that_refuses_another_start() {
    let migration = include_str!("../../../../migrations/20261130210200_create_intents.sql");
    let index = migration.split("create unique index intents_one_live_per_order").nth(1).expect("the index");
    let index = index.split(';').next().expect("its end");
    for state in State::ALL {
        assert_eq!(index.contains(&format!("'{}'", state.as_str())), !state.allows_another(), "{state:?}");
    }
}
