//! The provider's own lists, as the domain reads them: events, charges and refunds, newest first, in pages.
//!
//! Promise: an entry that cannot be read is an entry all the same ([`Entry::Unreadable`]), so that one odd object neither hides
//! nor stops what stands beside it; a page that cannot be read whole is no page. Never: reading a list moves anything.

use time::OffsetDateTime;

use super::{ProviderChargeId, ProviderPaymentIntentId, UnknownReason};
use crate::money::Money;

/// Which page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Only what was made at this second or later.
    pub from: Option<OffsetDateTime>,
    /// Only what was made before this second.
    pub until: Option<OffsetDateTime>,
    pub place: Place,
    /// Most entries of the page, up to [`crate::limits::LIST_PAGE`].
    pub limit: u8,
}

/// Where a page stands in its list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// The newest entries.
    #[default]
    Newest,
    /// Those right behind this one, which is newer.
    OlderThan(String),
    /// Those right before this one, which is older; also newest first.
    NewerThan(String),
}

/// How the reading of a page ended.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListOutcome<T> {
    Page(Listed<T>),
    /// The provider does not know the entry that the place names, or no longer.
    NoSuchPlace,
    CannotTell(UnknownReason),
}

/// A page, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    pub entries: Vec<Entry<T>>,
    /// Id of the newest entry; absent where there is none.
    pub newest: Option<String>,
    /// Id of the oldest entry.
    pub oldest: Option<String>,
    /// Whether there are more entries in the direction of reading.
    pub has_more: bool,
}

impl<T> Listed<T> {
    /// A page with nothing on it.
    pub const EMPTY: Self = Self { entries: Vec::new(), newest: None, oldest: None, has_more: false };
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<T> {
    Read(T),
    /// It is there, and it is not of the shape that we know: its id, and when it was made, where that can be read.
    Unreadable {
        id: String,
        made: Option<OffsetDateTime>,
    },
}

/// What looking for one object found.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindOutcome<T> {
    Found(T),
    /// The provider has no such object, as it says itself.
    Missing,
    CannotTell(UnknownReason),
}

/// A charge as the provider lists it, also one that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedCharge {
    pub id: ProviderChargeId,
    /// What was taken, or asked for where none was.
    pub money: Money,
    /// When it was made, in whole seconds.
    pub created: OffsetDateTime,
    pub state: ListedState,
    pub payment_intent: Option<ProviderPaymentIntentId>,
    /// The order that it names, as the creation of its payment intent said.
    pub order: Option<String>,
    /// What was given back of it, in minor units.
    pub refunded_minor: i64,
}

/// A refund as the provider lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRefund {
    pub id: String,
    pub money: Money,
    pub created: OffsetDateTime,
    pub state: ListedState,
    pub charge: Option<ProviderChargeId>,
}

/// How far the provider is with a charge or a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedState {
    /// The money has moved.
    Succeeded,
    /// Neither yet.
    Pending,
    /// It has not, and will not: failed or cancelled.
    Failed,
}
