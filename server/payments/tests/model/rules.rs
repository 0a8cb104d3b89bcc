//! What may happen when, and what must hold whatever happens.
//!
//! # Why the liveness check is sound
//!
//! Stateright checks `eventually` along the path on which it first met a state, and only where paths end; so it can miss a
//! counterexample that goes round in a circle, and one that joins another path after its condition held there. Neither can be
//! here. There are no circles: each step makes [`World::distance`] smaller, which is itself checked at each step. And joins do
//! no harm: the condition of L1 is a question to the state alone, and once true it stays true, since a final intent never moves (I4)
//! and only that could make room for another; so whoever joins a path after it held is in a state where it holds.
//!
//! Faults stop, since they are counted and run out. Fairness is that a history goes on as long as anything can happen. What
//! helps but need not happen (a notice, a late request) can also be lost at any time, so that no end depends on it.

use payments::intent::State;
use stateright::{Model, Property};

use crate::{
    protocol::{Action, Mistake, Protocol, has_owner},
    provider::Decision,
    world::{Age, Executor, PaymentIntent, Request, Step, World},
};

pub const I1: &str = "I1 at most one charge per intent";
pub const I1_ORDER: &str = "I1 at most one charge per order";
pub const I3: &str = "I3 nobody is told paid who was not charged";
pub const I3_NOT: &str = "I3 nobody is told not charged who was";
pub const I4: &str = "I4 an end that was seen is never unseen";
pub const I7: &str = "I7 no confirm leaves before its reservation is committed";
pub const I8: &str = "I8 a fenced-off executor's writes change nothing";
pub const I9: &str = "I9 a re-send carries the identical key and bytes";
pub const I12: &str = "I12 at most one intent of an order is unresolved or paid";
pub const L1: &str = "L1 every intent ends once faults stop";
pub const NO_CIRCLES: &str = "each step leads towards the end";

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.start()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        // Calls with the same UUID are alike, so that one of them stands for all.
        for (place, call) in world.calls.iter().enumerate() {
            let first = world.calls.iter().position(|other| other.intent == call.intent) == Some(place);
            actions.extend((first && self.reserves(world, *call)).then_some(Action::Call(place)));
        }
        for (place, executor) in world.executors.iter().enumerate() {
            self.steps_of(world, place, executor.next, actions);
        }
        for (place, request) in world.late.iter().enumerate() {
            actions.extend(self.decisions(world, *request).into_iter().map(|it| Action::ArriveLate(place, it)));
            actions.push(Action::Vanish(place));
        }
        for (intent, row) in world.intents() {
            if row.state.is_final() {
                actions.extend((!row.purged && self.may_forget(world, intent)).then_some(Action::Purge(intent)));
                continue;
            }
            if self.may_look(world, intent) {
                actions.push(Action::Claim(intent));
            }
            let may_age = match world.age(intent) {
                Age::Young | Age::Overdue => true,
                Age::Old => self.may_forget(world, intent),
                Age::Forgotten => false,
            };
            actions.extend(may_age.then_some(Action::Age(intent)));
        }
        for (place, payment_intent) in (0..).zip(&world.provider.payment_intents) {
            if matches!(payment_intent, PaymentIntent::AtBank(_)) {
                actions.extend([Action::LeaveBank(place, true), Action::LeaveBank(place, false)]);
            }
        }
        for place in 0..world.provider.notices.len() {
            actions.extend([Action::Notice(place), Action::LoseNotice(place)]);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut next = last.clone();
        self.act(&mut next, action);
        next.tidy();
        next.witness.went_back |= next.distance() >= last.distance();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(I1, |_, world: &World| world.intents().all(|(intent, _)| world.charges_of(intent) <= 1)),
            Property::always(I1_ORDER, |_, world: &World| world.provider.charges.len() <= 1),
            Property::always(I3, |_, world: &World| {
                world.intents().all(|(intent, row)| row.state != State::Succeeded || world.charges_of(intent) > 0)
            }),
            Property::always(I3_NOT, |_, world: &World| {
                world.intents().all(|(intent, row)| row.state != State::Failed || world.charges_of(intent) == 0)
            }),
            Property::always(I4, |_, world: &World| {
                world
                    .intents()
                    .zip(world.witness.seen)
                    .all(|((_, row), seen)| seen.is_none_or(|seen| seen == row.state))
            }),
            Property::always(I7, |_, world: &World| !world.witness.sent_unreserved),
            Property::always(I8, |_, world: &World| !world.witness.wrote_behind_fence),
            Property::always(I9, |_, world: &World| !world.witness.sent_other_bytes),
            Property::always(I12, |_, world: &World| {
                world.intents().filter(|(_, row)| !row.state.allows_another()).count() <= 1
            }),
            Property::always(NO_CIRCLES, |_, world: &World| !world.witness.went_back),
            Property::eventually(L1, |protocol: &Protocol, world: &World| {
                let starts = world.calls.iter().any(|call| protocol.reserves(world, *call));
                !starts && world.intents().all(|(_, row)| row.state.is_final())
            }),
        ];
        if self.mistake.is_none() {
            properties.extend(sights(self.bank));
        }
        properties
    }
}

/// What the model must be able to show, so that what never happens in it is not merely out of its reach.
fn sights(bank: bool) -> Vec<Property<Protocol>> {
    let mut sights = vec![
        Property::sometimes("a zombie wakes up after the end", |_, world: &World| {
            let ended = |intent| world.row(intent).is_some_and(|row| row.state.is_final());
            world.executors.iter().any(|it| !it.owns && ended(it.intent) && matches!(it.next, Step::Settle(_)))
        }),
        Property::sometimes("recovery re-sends while the original is on its way", |_, world: &World| {
            let resent = |late: &Request| {
                let same = |it: &Request| it == late;
                world.executors.iter().any(|it| it.recovers && it.next == Step::Confirm && same(&it.request))
            };
            world.late.iter().any(resent)
        }),
        Property::sometimes("an original arrives after its payment intent was cancelled", |_, world: &World| {
            let payment_intent = |it: &Request| world.provider.payment_intents[usize::from(it.payment_intent)];
            let confirms = |it: &&Executor| it.next == Step::Confirm && !it.recovers;
            world.executors.iter().filter(confirms).any(|it| payment_intent(&it.request) == PaymentIntent::Cancelled)
        }),
        Property::sometimes("after a cancel the order is paid by another intent", |_, world: &World| {
            world.order.payment_intent > 0 && world.order.paid && world.intents().count() == 2
        }),
        Property::sometimes("a notice is faster than the answer", |_, world: &World| {
            world.order.paid && world.executors.iter().any(|it| it.owns && matches!(it.next, Step::Settle(_)))
        }),
        Property::sometimes("a repeat comes when the intent is a tombstone", |_, world: &World| {
            world.intents().any(|(intent, row)| row.purged && world.calls.iter().any(|call| call.intent == intent))
        }),
    ];
    if bank {
        sights.push(Property::sometimes("the bank refuses, and the intent ends", |_, world: &World| {
            let asked_bank = world.provider.memory.contains(&Some(crate::world::Learned::BankStep));
            asked_bank
                && world.provider.charges.is_empty()
                && world.intents().any(|(_, row)| row.state == State::Failed)
        }));
    }
    sights
}

impl Protocol {
    fn steps_of(&self, world: &World, place: usize, next: Step, actions: &mut Vec<Action>) {
        let may_fail = world.faults > 0;
        // Whether a fenced-off executor ends before its write or by it makes no difference.
        let ends = !world.executors[place].owns && matches!(next, Step::Release | Step::Settle(_));
        if may_fail && !ends {
            actions.push(Action::Crash(place));
        }
        match next {
            Step::Confirm => {
                let request = world.executors[place].request;
                actions.extend(self.decisions(world, request).into_iter().map(|it| Action::Answer(place, it)));
                if may_fail {
                    actions.extend([Action::GiveUp(place), Action::Refuse(place)]);
                }
            }
            Step::Probe { .. } => {
                actions.push(Action::Probe(place));
                actions.extend(may_fail.then_some(Action::ProbeFails(place)));
            }
            Step::Cancel => {
                actions.push(Action::Cancel(place));
                if may_fail {
                    actions.extend([Action::CancelFails(place, true), Action::CancelFails(place, false)]);
                }
            }
            Step::Release | Step::Settle(_) => actions.push(Action::Write(place)),
        }
    }

    /// What the provider may decide about a request; `None` where there is nothing to decide.
    fn decisions(&self, world: &World, request: Request) -> Vec<Option<Decision>> {
        if !world.provider.decides(request, self.payment_intent_protects) {
            return vec![None];
        }
        let mut decisions = vec![Some(Decision::Approve), Some(Decision::Decline), Some(Decision::Fail)];
        decisions.extend(self.bank.then_some(Some(Decision::AskBank)));
        decisions
    }

    /// Before the deadline one look, and one for each fault that happened, are enough to meet everything; a bank step that goes on needs none, since a look only
    /// finds it again.
    fn may_look(&self, world: &World, intent: u8) -> bool {
        let Some(row) = world.row(intent) else { return false };
        let left = world.looks[usize::from(intent)];
        let kept = if world.age(intent) == Age::Young { world.faults + 2 } else { 0 };
        let at_bank =
            matches!(world.provider.payment_intents[usize::from(row.payment_intent)], PaymentIntent::AtBank(_));
        let busy = world.executors.iter().filter(|executor| executor.recovers).count();
        left > kept
            && (world.faults > 0 || !has_owner(world, intent))
            && busy < self.workers
            && !(row.state == State::ActionRequired && at_bank)
            && self.mistake != Some(Mistake::NoRecovery)
    }

    /// The provider remembers a key for longer than a request can be on its way, or an executor may sleep between its claim
    /// and its send: that is what the hour between its memory and ours is for.
    fn may_forget(&self, world: &World, intent: u8) -> bool {
        let on_its_way = world.late.iter().any(|request| request.intent == intent);
        let may_send = world.executors.iter().any(|executor| {
            let will_send = matches!(executor.next, Step::Confirm | Step::Probe { .. });
            executor.intent == intent && executor.age < Age::Old && will_send
        });
        !(on_its_way || may_send) || self.mistake == Some(Mistake::NoMargin)
    }
}
