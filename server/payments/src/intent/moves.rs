//! The state machine of an intent, pure: states, facts, and what a fact does.
//!
//! Promise: facts may come in any order and any number of times. What is true of one intent together ends in one state; a final
//! intent never moves again, so nobody who saw an end ever sees another; and money is never dropped. Never: nothing here asks
//! a clock, a database or a provider.

use super::{Fact, Standing};
use crate::money::Money;

/// The name of a [`Standing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Reserved, and being confirmed.
    Pending,
    /// The provider may or may not have charged.
    Unknown,
    /// The bank wants to see the customer.
    ActionRequired,
    /// Charged. Final.
    Succeeded,
    /// Not charged, and never will be by this intent. Final.
    Failed,
}

/// The name of a [`Fact`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FactKind {
    /// The provider charged.
    Charged,
    /// The provider refused for good.
    Declined,
    /// It is proven that nothing was charged, nor will be.
    NotCharged,
    /// The bank wants to see the customer.
    BankStep,
    /// No answer, or none that says anything.
    Silence,
}

/// All moves there are. What is not in the table does not move: no fact moves a final intent, and silence takes nothing back.
///
/// The diagram in the documentation, the trigger in the database and the tests say the same.
pub const MOVES: &[(State, FactKind, State)] = &[
    (State::Pending, FactKind::Charged, State::Succeeded),
    (State::Pending, FactKind::Declined, State::Failed),
    (State::Pending, FactKind::NotCharged, State::Failed),
    (State::Pending, FactKind::BankStep, State::ActionRequired),
    (State::Pending, FactKind::Silence, State::Unknown),
    (State::Unknown, FactKind::Charged, State::Succeeded),
    (State::Unknown, FactKind::Declined, State::Failed),
    (State::Unknown, FactKind::NotCharged, State::Failed),
    (State::Unknown, FactKind::BankStep, State::ActionRequired),
    (State::ActionRequired, FactKind::Charged, State::Succeeded),
    (State::ActionRequired, FactKind::Declined, State::Failed),
    (State::ActionRequired, FactKind::NotCharged, State::Failed),
];

impl State {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Unknown, Self::ActionRequired, Self::Succeeded, Self::Failed];

    /// The state after `fact`.
    #[must_use]
    pub fn after(self, fact: FactKind) -> Self {
        MOVES.iter().find(|(from, kind, _)| (*from, *kind) == (self, fact)).map_or(self, |(_, _, to)| *to)
    }

    /// Whether it is an end: archived, and never left again.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    /// Whether another intent of the order may start. Only a failed one leaves the order free.
    pub fn allows_another(self) -> bool {
        self == Self::Failed
    }

    /// The stable word, as the database holds it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Unknown => "unknown",
            Self::ActionRequired => "action_required",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

/// What a fact does to an intent that stands somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It moves there; if that is an end, with archive, order, ledger and event.
    Move(State),
    /// Money for an intent that has an end already: booked, told as a discrepancy, and the order is paid. The end stays.
    BookLate,
    /// Another amount than agreed: told as a discrepancy, booked nowhere, and no end.
    DoubtAmount,
    /// It is known already, or says less than what is known.
    Nothing,
}

/// The transition function: what `fact` does to an intent that stands at `standing` and was agreed at `agreed`.
#[must_use]
pub fn effect_of(fact: &Fact, standing: &Standing, agreed: Money) -> Effect {
    let state = standing.state();
    if let Fact::Charged(charge) = fact {
        match standing {
            Standing::Succeeded { charge: booked, .. } if *booked == charge.id => return Effect::Nothing,
            Standing::Succeeded { .. } | Standing::Failed { .. } => return Effect::BookLate,
            Standing::Pending | Standing::Unknown | Standing::ActionRequired { .. } if charge.money != agreed => {
                return Effect::DoubtAmount;
            }
            Standing::Pending | Standing::Unknown | Standing::ActionRequired { .. } => {}
        }
    }
    let next = state.after(fact.kind());
    if next == state { Effect::Nothing } else { Effect::Move(next) }
}
