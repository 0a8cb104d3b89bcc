//! Misbehaviour on demand. A fault strikes the next n matching calls, or each matching call with a probability, or all of
//! them. Draws are seeded and belong to their fault: which of its matching calls a fault strikes depends on nothing but its
//! seed. Faults live in memory only, and never decide what was charged: before-faults come before the call is executed,
//! after-faults after its changes are written.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::answer::Refusal;

const MAX_FAULTS: usize = 200;
/// Long enough for every deadline that a shop may have, short enough that a forgotten fault ends.
const MAX_WAIT_MS: u64 = 600_000;
const MAX_REFUSE_MS: u64 = 60_000;

/// A fault as `POST /_sandbox/faults` takes it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FaultOrder {
    #[serde(rename = "match", default)]
    pub matches: Match,
    pub fault: Fault,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// Which calls a fault can strike.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    #[serde(default)]
    pub path: Path,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_intent: Option<String>,
}

/// The call's name, as in `routes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    #[default]
    Any,
    Create,
    Retrieve,
    Confirm,
    Cancel,
    Refund,
    Tokenize,
    Hosted,
    Bank,
    Read,
    List,
}

impl Path {
    fn holds(self, call: &str) -> bool {
        self == Self::Any || serde_json::to_value(self).is_ok_and(|name| name == call)
    }
}

/// What happens to a call that is struck.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: Kind,
    /// How long the delay is, or how long the port is closed; for the other kinds a wait before they strike.
    #[serde(default)]
    pub ms: u64,
    /// Whether the idempotency key remembers the faulty answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remember: bool,
    /// How a dropped connection ends.
    #[serde(default)]
    pub how: Hangup,
    /// For `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// For `status`: seconds of a `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
    /// For `status`: where a redirect leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// For `decline`, and the error code of `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    DelayBefore,
    DelayAfter,
    DropBefore,
    ChargeThenDrop,
    #[serde(rename = "charge_then_500")]
    ChargeThen500,
    #[serde(rename = "error_500")]
    Error500,
    #[serde(rename = "conflict_409")]
    Conflict409,
    Status,
    Decline,
    IgnoreKey,
    Garbage,
    HalfBody,
    WrongAmount,
    WrongCurrency,
    Refuse,
    RefuseAfter,
}

/// When a fault has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// At once, when it is set.
    Now,
    /// Before the key is looked up.
    AtTheDoor,
    /// Before the call is executed.
    Before,
    /// It changes what the call does.
    During,
    /// After the call's changes are written.
    After,
}

impl Kind {
    pub fn turn(self) -> Turn {
        match self {
            Self::Refuse => Turn::Now,
            Self::IgnoreKey => Turn::AtTheDoor,
            Self::DelayBefore | Self::DropBefore | Self::Error500 | Self::Conflict409 | Self::Status => Turn::Before,
            Self::Decline => Turn::During,
            Self::DelayAfter
            | Self::ChargeThenDrop
            | Self::ChargeThen500
            | Self::Garbage
            | Self::HalfBody
            | Self::WrongAmount
            | Self::WrongCurrency
            | Self::RefuseAfter => Turn::After,
        }
    }
}

/// How a connection ends without an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hangup {
    /// With a reset (RST).
    #[default]
    Reset,
    /// With an orderly end (FIN).
    Close,
}

/// What a fault can know of a call.
#[derive(Clone, Debug)]
pub struct Subject {
    pub call: &'static str,
    pub order: Option<String>,
    pub payment_intent: Option<String>,
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

    pub fn len(&self) -> usize {
        self.lock().1.len()
    }

    /// The faults that strike this call, in the order in which they were set.
    pub fn strike(&self, subject: &Subject, turns: &[Turn]) -> Plan {
        let cleared = self.cleared.subscribe();
        let faults = self
            .lock()
            .1
            .iter_mut()
            .filter(|set| turns.contains(&set.order.fault.kind.turn()) && set.order.matches.holds(subject))
            .filter_map(Set::draw)
            .collect();
        Plan { faults, cleared }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, Vec<Set>)> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Set {
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
    }
}

/// What is going to happen to one call.
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

    /// Waits as long as the fault says, or until all faults are taken back.
    pub async fn wait(&self, fault: &Fault) {
        if fault.ms > 0 {
            let mut cleared = self.cleared.clone();
            tokio::time::timeout(Duration::from_millis(fault.ms), cleared.changed()).await.ok();
        }
    }
}

fn check(order: &FaultOrder) -> Result<(), Refusal> {
    let fault = &order.fault;
    let bad = |what: String| Err(Refusal::invalid(what).code("parameter_invalid"));
    if order.next.is_some() && order.probability.is_some() {
        return bad("A fault has either next or probability, not both.".into());
    }
    if order.probability.is_some_and(|probability| !(0.0..=1.0).contains(&probability)) {
        return bad("probability is between 0 and 1.".into());
    }
    let (needs_ms, limit) = match fault.kind {
        Kind::Refuse | Kind::RefuseAfter => (true, MAX_REFUSE_MS),
        Kind::DelayBefore | Kind::DelayAfter => (true, MAX_WAIT_MS),
        Kind::DropBefore
        | Kind::ChargeThenDrop
        | Kind::ChargeThen500
        | Kind::Error500
        | Kind::Conflict409
        | Kind::Status
        | Kind::Decline
        | Kind::IgnoreKey
        | Kind::Garbage
        | Kind::HalfBody
        | Kind::WrongAmount
        | Kind::WrongCurrency => (false, MAX_WAIT_MS),
    };
    if (needs_ms && fault.ms == 0) || fault.ms > limit {
        return bad(format!("This kind of fault has ms between {} and {limit}.", u8::from(needs_ms)));
    }
    if fault.kind == Kind::Status && !fault.status.is_some_and(|status| (200..=599).contains(&status)) {
        return bad("A status fault has a status between 200 and 599.".into());
    }
    if fault.kind == Kind::Decline && fault.code.is_none() {
        return bad("A decline fault has a code, such as do_not_honor.".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strikes(faults: &Faults, calls: usize) -> Vec<usize> {
        let subject = Subject { call: "confirm", order: Some("o1".into()), payment_intent: None };
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
        let other = Subject { call: "confirm", order: Some("o2".into()), payment_intent: None };
        assert!(faults.strike(&other, &[Turn::Before]).faults.is_empty());
        assert_eq!(strikes(&faults, 4), [1, 1, 0, 0]);
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
