//! What the provider tells of its own accord, as the domain sees it.
//!
//! Promise: a [`ProviderEvent`] is only made by [`super::Provider::open_event`], after the signature over the raw bytes and the
//! age were proven, or by [`super::Provider::list_events`], which asks the provider itself. Never: it carries no body, since those hold client secrets, names and addresses.

use time::OffsetDateTime;

use super::ProviderPaymentIntentId;
use crate::notice::Notice;

/// Longest word for what happened that is kept; Stripe's longest has 60 characters.
pub const EVENT_KIND_MAX_CHARS: usize = 100;

/// An event whose origin is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderEvent {
    /// The provider's id of it. The same event comes under the same id, however often it is delivered.
    pub id: String,
    /// The provider's word for what happened, at most [`EVENT_KIND_MAX_CHARS`] long; empty where it has none.
    pub kind: String,
    /// When it was made, by the provider's clock.
    pub told_at: OffsetDateTime,
    /// It is a test's event and this shop is live, or the other way round.
    pub wrong_mode: bool,
    /// What we act on; `None`: nothing.
    pub about: Option<(ProviderPaymentIntentId, Notice)>,
}

/// Why a message is no event of the provider's. None of them has any effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventRefused {
    /// No secret is configured, so nothing can be proven.
    #[error("this shop expects no events: no secret for their signatures is configured")]
    NotExpected,
    /// There is no signature, or not one that can be read.
    #[error("the signature is missing or malformed")]
    Malformed,
    /// It was signed with no secret of ours, or other bytes were signed.
    #[error("the signature does not match")]
    Forged,
    /// It was signed too long ago, or in the future.
    #[error("the signature is too old, or from the future")]
    Untimely,
    /// It is signed, but names no event.
    #[error("the body is no event")]
    Unreadable,
}
