//! Checkout intents: one try to pay one order with one payment method, named by one UUID.

pub mod archive;
pub mod key;
pub mod waiters;

use time::OffsetDateTime;

pub use self::key::IntentKey;
use self::archive::Archive;
use crate::{
    money::Money,
    provider::{ContinueUrl, DeclineReason, ProviderChargeId},
};

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
        /// When.
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
