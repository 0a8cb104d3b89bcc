//! Checkout intents: one try to pay one order with one payment method, named by one UUID.
//!
//! The whole life of an intent is one table, [`MOVES`]. A final intent never moves again, so nobody who saw an end ever sees
//! another; and no unresolved intent lets another one start.

pub mod archive;
pub mod fingerprint;
pub mod key;
pub(crate) mod store;
pub mod waiters;

use time::OffsetDateTime;

use self::archive::Archive;
pub use self::key::{IntentKey, Operation};
use crate::{
    Ctx,
    ids::{IntentId, OrderId},
    money::Money,
    pool::{StoreError, keyed},
    provider::{ContinueUrl, Decline, DeclineReason, ProviderCharge, ProviderChargeId, UnknownReason},
};

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

/// What somebody who asked the provider learned about one intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The provider charged. Compared with what was agreed before it is believed.
    Charged(ProviderCharge),
    /// The provider refused for good.
    Declined(Decline),
    /// It is proven that nothing was charged, nor will be.
    NotCharged(ProvenNotCharged),
    /// The bank wants to see the customer there.
    BankStep(ContinueUrl),
    /// No answer, or none that says anything.
    Silence(UnknownReason),
}

impl Fact {
    /// Its name in the table of moves.
    pub fn kind(&self) -> FactKind {
        match self {
            Self::Charged(_) => FactKind::Charged,
            Self::Declined(_) => FactKind::Declined,
            Self::NotCharged(_) => FactKind::NotCharged,
            Self::BankStep(_) => FactKind::BankStep,
            Self::Silence(_) => FactKind::Silence,
        }
    }
}

/// The proof that an intent charged nothing and never will. Made only where such a proof exists; a timer is none, and neither
/// is a provider that has "not charged yet".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvenNotCharged(DeclineReason);

impl ProvenNotCharged {
    /// The provider's payment intent is cancelled: nobody can confirm it any more.
    pub(crate) fn payment_intent_cancelled() -> Self {
        Self(DeclineReason::NotCharged)
    }

    /// The confirm of this intent led to the bank, and the bank's step has ended without a charge. A re-send under the same key
    /// only repeats the stored answer, so this intent can no longer charge.
    pub(crate) fn bank_step_ended() -> Self {
        Self(DeclineReason::BankCheckFailed)
    }

    /// The payment intent's one charge is booked for another intent; a payment intent succeeds only once.
    pub(crate) fn charge_is_of_another_intent() -> Self {
        Self(DeclineReason::NotCharged)
    }

    /// What the customer is told.
    pub fn reason(self) -> DeclineReason {
        self.0
    }
}

/// An intent as the database holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Operation, order and UUID.
    pub key: IntentKey,
    /// What was agreed with the payer.
    pub money: Money,
    /// Where it stands.
    pub standing: Standing,
    /// When it was reserved.
    pub created_at: OffsetDateTime,
}

impl Intent {
    /// Whether it has failed, so that the order is free for another.
    pub fn has_failed(&self) -> bool {
        self.standing.state().allows_another()
    }
}

/// Where an intent stands, with what is known there and only there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Reserved, and being confirmed.
    Pending,
    /// The provider may or may not have charged.
    Unknown,
    /// The bank wants to see the customer.
    ActionRequired {
        /// The bank's page.
        continue_url: ContinueUrl,
    },
    /// Charged. Final.
    Succeeded {
        /// The provider's charge.
        charge: ProviderChargeId,
        /// When, by the provider's clock where it told.
        paid_at: OffsetDateTime,
        /// The answer, for ever.
        archive: Archive,
    },
    /// Not charged, and never will be by this intent. Final.
    Failed {
        /// Why.
        reason: DeclineReason,
        /// When it was found.
        failed_at: OffsetDateTime,
        /// The answer, for ever.
        archive: Archive,
    },
}

impl Standing {
    /// Its name.
    pub fn state(&self) -> State {
        match self {
            Self::Pending => State::Pending,
            Self::Unknown => State::Unknown,
            Self::ActionRequired { .. } => State::ActionRequired,
            Self::Succeeded { .. } => State::Succeeded,
            Self::Failed { .. } => State::Failed,
        }
    }

    /// The archived answer of a final intent.
    pub fn archive(&self) -> Option<&Archive> {
        match self {
            Self::Succeeded { archive, .. } | Self::Failed { archive, .. } => Some(archive),
            Self::Pending | Self::Unknown | Self::ActionRequired { .. } => None,
        }
    }
}

/// The intent of this key.
pub(crate) async fn find(ctx: &Ctx, key: &IntentKey) -> Result<Option<Intent>, StoreError> {
    keyed(&ctx.limits, || store::find(&ctx.pool, key)).await?.map(Intent::try_from).transpose()
}

/// The intents that tell where an order stands, newest first: the one that is under way or has paid, the newest that failed,
/// and the one asked for.
pub(crate) async fn list_telling(
    ctx: &Ctx,
    order: OrderId,
    asked: Option<IntentId>,
) -> Result<Vec<Intent>, StoreError> {
    let rows = keyed(&ctx.limits, || store::list_telling(&ctx.pool, order, asked)).await?;
    rows.into_iter().map(Intent::try_from).collect()
}

#[cfg(test)]
mod tests;
