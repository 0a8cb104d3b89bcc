//! Misbehaviour on demand. A fault strikes the next n matching calls, or each matching call with a probability, or all of
//! them. Draws are seeded and belong to their fault: which of its matching calls a fault strikes depends on nothing but its
//! seed. Faults live in memory only, and never decide what was charged: before-faults come before the call is executed,
//! after-faults after its changes are written.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;
use tokio::sync::watch;

use crate::answer::Refusal;
use crate::events;
pub use crate::fault_kinds::{Fault, FaultOrder, Hangup, Kind, Path, Turn};
use crate::fault_kinds::{Match, check};

const MAX_FAULTS: usize = 200;

/// What a fault can know of a call.
#[derive(Clone, Debug)]
pub struct Subject {
    pub call: &'static str,
    pub order: Option<String>,
    pub payment_intent: Option<String>,
    /// The type of the event that is delivered.
    pub event: Option<String>,
}

/// A fault that is set.
#[derive(Debug, Serialize)]
pub struct Set {
    pub id: String,
    #[serde(flatten)]
    pub order: FaultOrder,
    /// How many calls it has struck.
    pub struck: u32,
    #[serde(skip)]
    draws: StdRng,
}

/// All faults that are set.
pub struct Faults {
    set: Mutex<(u64, Vec<Set>)>,
    cleared: watch::Sender<u64>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { set: Mutex::new((0, Vec::new())), cleared: watch::Sender::new(0) }
    }
}

impl Faults {
    /// Sets a fault and returns its id.
    pub fn set(&self, order: FaultOrder) -> Result<String, Refusal> {
        check(&order)?;
        let mut guard = self.lock();
        let (count, set) = &mut *guard;
        if set.len() >= MAX_FAULTS {
            return Err(Refusal::invalid(format!("At most {MAX_FAULTS} faults can be set. DELETE them first.")));
        }
        *count += 1;
        let id = format!("fault_{count}");
        if order.fault.kind.turn() != Turn::Now {
            let draws = StdRng::seed_from_u64(order.seed.unwrap_or(0));
            set.push(Set { id: id.clone(), order, struck: 0, draws });
        }
        Ok(id)
    }

    /// Takes all faults back. Delays that are running end at once.
    pub fn clear(&self) {
        self.lock().1.clear();
        self.cleared.send_modify(|count| *count += 1);
    }

    /// The faults that are set, as JSON.
    pub fn list(&self) -> serde_json::Value {
        serde_json::json!({ "faults": self.lock().1 })
    }

    /// How many can still strike. A fault that is used up stays in the list, to tell what it struck.
    pub fn in_force(&self) -> usize {
        self.lock().1.iter().filter(|set| set.order.next.is_none_or(|next| set.struck < next)).count()
    }

    /// The faults that strike this call, in the order in which they were set.
    pub fn strike(&self, subject: &Subject, turns: &[Turn]) -> Plan {
        let cleared = self.cleared.subscribe();
        let faults = self
            .lock()
            .1
            .iter_mut()
            .filter(|set| turns.contains(&set.turn()) && set.order.matches.holds(subject))
            .filter_map(Set::draw)
            .collect();
        Plan { faults, cleared }
    }

    /// A plan of these faults alone.
    pub fn plan(&self, faults: Vec<Fault>) -> Plan {
        Plan { faults, cleared: self.cleared.subscribe() }
    }

    /// The plan of what no fault can strike.
    pub fn none(&self) -> Plan {
        self.plan(Vec::new())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, Vec<Set>)> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Set {
    /// Kinds that strike both calls and deliveries have their turn where they match.
    fn turn(&self) -> Turn {
        if self.order.matches.path == Path::Webhook { Turn::Delivery } else { self.order.fault.kind.turn() }
    }

    fn draw(&mut self) -> Option<Fault> {
        let strikes = match (self.order.next, self.order.probability) {
            (Some(next), _) => self.struck < next,
            (None, Some(probability)) => self.draws.random_bool(probability),
            (None, None) => true,
        };
        if strikes {
            self.struck = self.struck.saturating_add(1);
        }
        strikes.then(|| self.order.fault.clone())
    }
}

impl Match {
    fn holds(&self, subject: &Subject) -> bool {
        let same = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        self.path.holds(subject.call)
            && same(&self.order, &subject.order)
            && same(&self.payment_intent, &subject.payment_intent)
            && self.event.as_ref().is_none_or(|wanted| {
                subject.event.as_ref().is_some_and(|kind| events::is_one_of(kind, std::slice::from_ref(wanted)))
            })
    }
}

/// What is going to happen to one call, or to one event on its way.
#[derive(Clone)]
pub struct Plan {
    faults: Vec<Fault>,
    cleared: watch::Receiver<u64>,
}

impl Plan {
    pub fn at(&self, turn: Turn) -> impl Iterator<Item = &Fault> {
        self.faults.iter().filter(move |fault| fault.kind.turn() == turn)
    }

    pub fn has(&self, kind: Kind) -> Option<&Fault> {
        self.faults.iter().find(|fault| fault.kind == kind)
    }

    /// The kinds of the faults.
    pub fn names(&self) -> Vec<&'static str> {
        self.faults.iter().map(|fault| fault.kind.name()).collect()
    }

    /// Waits as long as the fault says, or until all faults are taken back.
    pub async fn wait(&self, fault: &Fault) {
        if fault.ms > 0 {
            let mut cleared = self.cleared.clone();
            tokio::time::timeout(Duration::from_millis(fault.ms), cleared.changed()).await.ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strikes(faults: &Faults, calls: usize) -> Vec<usize> {
        let subject = Subject { call: "confirm", order: Some("o1".into()), payment_intent: None, event: None };
        (0..calls).map(|_| faults.strike(&subject, &[Turn::Before]).faults.len()).collect()
    }

    fn set(faults: &Faults, json: serde_json::Value) {
        faults.set(serde_json::from_value(json).unwrap()).unwrap();
    }

    #[test]
    fn next_counts_matching_calls_only() {
        let faults = Faults::default();
        set(
            &faults,
            serde_json::json!({"match": {"path": "confirm", "order": "o1"}, "fault": {"kind": "error_500"}, "next": 2}),
        );
        let other = Subject { call: "confirm", order: Some("o2".into()), payment_intent: None, event: None };
        assert!(faults.strike(&other, &[Turn::Before]).faults.is_empty());
        assert_eq!((strikes(&faults, 1), faults.in_force()), (vec![1], 1));
        assert_eq!((strikes(&faults, 3), faults.in_force()), (vec![1, 0, 0], 0), "used up, and still listed");
        assert_eq!(faults.list()["faults"][0]["struck"], 2);
    }

    #[test]
    fn draws_depend_on_the_seed_alone() {
        let drop = serde_json::json!({"fault": {"kind": "drop_before"}, "probability": 0.5, "seed": 7});
        let alone = Faults::default();
        set(&alone, drop.clone());
        let beside_others = Faults::default();
        set(
            &beside_others,
            serde_json::json!({"match": {"path": "create"}, "fault": {"kind": "error_500"}, "probability": 0.5}),
        );
        set(&beside_others, drop);
        let first = strikes(&alone, 64);
        assert_eq!(first, strikes(&beside_others, 64));
        assert!(first.contains(&0) && first.contains(&1));
    }

    #[test]
    fn orders_that_make_no_sense_are_refused() {
        for order in [
            serde_json::json!({"fault": {"kind": "delay_before"}}),
            serde_json::json!({"fault": {"kind": "refuse", "ms": 60_001}}),
            serde_json::json!({"fault": {"kind": "status"}}),
            serde_json::json!({"fault": {"kind": "decline"}}),
            serde_json::json!({"fault": {"kind": "error_500"}, "next": 1, "probability": 0.5}),
            serde_json::json!({"fault": {"kind": "error_500"}, "probability": 1.5}),
            serde_json::json!({"fault": {"kind": "never"}}),
            serde_json::json!({"match": {"path": "webhook"}, "fault": {"kind": "error_500"}}),
            serde_json::json!({"match": {"path": "webhook"}, "fault": {"kind": "garbage"}}),
            serde_json::json!({"match": {"path": "webhook"}, "fault": {"kind": "duplicate", "times": 51}}),
            serde_json::json!({"match": {"path": "confirm", "event": "charge.*"}, "fault": {"kind": "error_500"}}),
        ] {
            let parsed: FaultOrder = serde_json::from_value(order.clone()).unwrap();
            assert!(Faults::default().set(parsed).is_err(), "{order}");
        }
        assert!(serde_json::from_value::<FaultOrder>(serde_json::json!({"fault": {"kind": "x"}})).is_err());
        assert!(
            serde_json::from_value::<FaultOrder>(serde_json::json!({"fault": {"kind": "error_500"}, "nxt": 1}))
                .is_err()
        );
    }
}
