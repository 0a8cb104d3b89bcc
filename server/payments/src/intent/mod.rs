//! Checkout intents: one try to pay one order with one payment method, named by one UUID.
//!
//! The whole life of an intent is one table, [`MOVES`]; [`moves`] is pure, the rest of the crate obeys it.

pub mod archive;
pub mod fingerprint;
pub mod key;
pub mod moves;
pub(crate) mod store;
pub mod summary;
pub mod waiters;

use time::OffsetDateTime;

use self::archive::{Archive, Archived};
pub use self::{
    key::{IntentKey, Operation},
    moves::{Effect, FactKind, MOVES, State},
};
use crate::{
    Ctx,
    ids::{IntentId, OrderId},
    money::Money,
    pool::{StoreError, keyed},
    provider::{
        ContinueUrl, Decline, DeclineReason, ProviderCharge, ProviderChargeId, ProviderPaymentIntentId, UnknownReason,
    },
};

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
pub struct ProvenNotCharged {
    reason: DeclineReason,
    retires_payment_intent: bool,
}

impl ProvenNotCharged {
    /// The provider's payment intent is cancelled: nobody can confirm it any more, so the order needs its next one.
    pub(crate) fn payment_intent_cancelled() -> Self {
        Self { reason: DeclineReason::NotCharged, retires_payment_intent: true }
    }

    /// The confirm of this intent led to the bank, and the bank's step has ended without a charge. A re-send under the same key
    /// only repeats the stored answer, so this intent can no longer charge.
    pub(crate) fn bank_step_ended() -> Self {
        Self { reason: DeclineReason::BankCheckFailed, retires_payment_intent: false }
    }

    /// The payment intent's one charge is booked for another intent; a payment intent succeeds only once.
    pub(crate) fn charge_is_of_another_intent() -> Self {
        Self { reason: DeclineReason::NotCharged, retires_payment_intent: false }
    }

    /// What the customer is told.
    pub fn reason(self) -> DeclineReason {
        self.reason
    }

    /// Whether the order's payment intent can never be charged any more, so that the order needs another one.
    pub(crate) fn retires_payment_intent(self) -> bool {
        self.retires_payment_intent
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

    /// By when an outcome that is not known will be decided, unless the provider stays silent. `None`: it is known, or the
    /// moment is past.
    pub fn decide_by(&self, ctx: &Ctx) -> Option<OffsetDateTime> {
        let by = self.created_at + ctx.limits.unknown_deadline;
        (self.standing == Standing::Unknown && by > ctx.clock.now()).then_some(by)
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
        /// The answer, while it is kept.
        archive: Archived,
    },
    /// Not charged, and never will be by this intent. Final.
    Failed {
        /// Why.
        reason: DeclineReason,
        /// When it was found.
        failed_at: OffsetDateTime,
        /// The answer, while it is kept.
        archive: Archived,
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

    /// What is left of the archived answer of a final intent.
    pub fn archive(&self) -> Option<&Archived> {
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

/// The intent that news of this payment intent concern: the one that is under way or was charged, else the newest.
pub(crate) async fn find_by_payment_intent(
    ctx: &Ctx,
    payment_intent: &ProviderPaymentIntentId,
) -> Result<Option<Intent>, StoreError> {
    let row = keyed(&ctx.limits, || store::find_by_payment_intent(&ctx.pool, payment_intent)).await?;
    row.map(Intent::try_from).transpose()
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
