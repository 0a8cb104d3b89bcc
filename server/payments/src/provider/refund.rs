//! Refunds and disputes as the provider tells them.
//!
//! As for charges, outcomes say what is known: made, refused for good, or not known. Which refund is which of ours says the
//! intent's UUID, which travels with the request and comes back with every list and event.

use std::fmt;

use time::OffsetDateTime;

use super::{NotSentReason, ProviderChargeId, UnknownReason};
use crate::{
    ids::{IntentId, OrderId},
    money::Money,
};

/// What the body of a refund is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRefund<'a> {
    pub charge: &'a ProviderChargeId,
    pub money: Money,
    pub reason: Option<RefundReason>,
    pub order: OrderId,
    pub intent: IntentId,
}

/// Why somebody gets money back; the provider passes it on to the bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefundReason {
    /// The same was charged before.
    Duplicate,
    Fraudulent,
    RequestedByCustomer,
}

impl RefundReason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Duplicate, Self::Fraudulent, Self::RequestedByCustomer];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Fraudulent => "fraudulent",
            Self::RequestedByCustomer => "requested_by_customer",
        }
    }

    /// The reason of a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

/// One refund request, or its identical repeat.
#[derive(Clone, PartialEq, Eq)]
pub struct RefundCall {
    /// Derived from operation, order and intent.
    pub idempotency_key: String,
    /// As [`super::Provider::freeze_refund`] made it.
    pub body: Vec<u8>,
}

impl fmt::Debug for RefundCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RefundCall").field("idempotency_key", &self.idempotency_key).finish_non_exhaustive()
    }
}

/// A refund at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRefund {
    /// The provider's id of it.
    pub id: String,
    /// The charge that it gives back.
    pub charge: ProviderChargeId,
    /// What it gives back, as the provider says.
    pub money: Money,
    pub status: RefundStatus,
    /// When it was made, by the provider's clock in whole seconds.
    pub created: OffsetDateTime,
    /// The intent of ours that asked for it; `None`: somebody else did, at the provider.
    pub intent: Option<IntentId>,
    /// Why it failed: a short word, safe to log.
    pub failure: Option<String>,
}

/// Where a refund stands at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefundStatus {
    /// Under way; it takes its amount of the charge already.
    Pending,
    /// Given back. It may still fail later.
    Succeeded,
    /// Not given back, or come back to us: its amount is left on the charge again.
    Failed,
}

/// How a refund request ended, as far as this one answer tells.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundOutcome {
    /// There is a refund; where it stands it says itself.
    Made(ProviderRefund),
    /// The provider refuses, and made nothing by this request. `code` is short and safe to log.
    Refused { code: String },
    /// The provider is still at work on a call with this key, or holds a lock.
    Busy,
    /// Proven: *this* request did nothing.
    NotSent(NotSentReason),
    /// It may have been made. Only a look can tell.
    Unknown(UnknownReason),
}

/// The refunds of one payment intent, as the provider lists them.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundsSeen {
    /// All of them, read to the end of the list.
    Listed(Vec<ProviderRefund>),
    CannotTell(UnknownReason),
}

/// What of a payment intent's charges is disputed, as the provider lists it.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisputesSeen {
    /// By charge: the money that disputes hold back, or have taken for good.
    Listed(Vec<(ProviderChargeId, Money)>),
    CannotTell(UnknownReason),
}
