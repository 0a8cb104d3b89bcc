//! The payment provider as the domain sees it: a trait of calls that return outcomes, and of the reading of what it
//! tells unasked.
//!
//! Promise: no method returns a `Result`, so nobody can `?` past a charge that may have happened. Each outcome says what is
//! *known*: yes, no, or not known. Silence, a broken answer and everything else that nobody thought of is `Unknown`
//! (`CannotTell` for a probe). Never: no outcome carries a secret, a card number or a text of the provider's into a log; what
//! could be one has a type whose `Debug` shows nothing.

pub mod breaker;
pub mod decline;
pub mod event;
pub mod ids;
pub mod lists;
pub mod refund;
pub mod stripe;

use std::fmt;

use async_trait::async_trait;
use time::OffsetDateTime;

use self::lists::{FindOutcome, ListOutcome, ListPage, ListedCharge, ListedRefund};
pub use self::{
    decline::{Decline, DeclineReason},
    event::{EventRefused, ProviderEvent},
    ids::{ContinueUrl, InvalidProviderId, PaymentMethodToken, ProviderChargeId, ProviderPaymentIntentId},
    refund::{
        DisputesSeen, NewRefund, ProviderRefund, RefundCall, RefundOutcome, RefundReason, RefundStatus, RefundsSeen,
    },
};
use crate::money::Money;

/// What the shop needs of a payment provider. Every call ends within the deadline the implementation was made with.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Creates the provider's payment intent of an order. Moves no money. May be repeated with the same key at any time.
    async fn create_payment_intent(&self, new: &NewPaymentIntent) -> CreateOutcome;

    /// The body of a confirm, made once and stored, so that every re-send repeats the identical bytes.
    fn freeze_confirm(&self, payment_method: &str, return_url: &str) -> Vec<u8>;

    /// Asks the provider to charge. This is the only call that can move money.
    async fn confirm(&self, request: &ConfirmRequest) -> ConfirmOutcome;

    /// Asks what really happened to a payment intent. Changes nothing.
    async fn probe(&self, payment_intent: &ProviderPaymentIntentId) -> ProbeOutcome;

    /// Cancels a payment intent, so that it can never be charged, and tells where it stands then. Moves no money. Only
    /// [`ProbeOutcome::Cancelled`] proves that it worked.
    async fn cancel(&self, payment_intent: &ProviderPaymentIntentId) -> ProbeOutcome;

    /// Exchanges the card session of a page without scripts for the payment method that its form made.
    async fn card_session(&self, id: &str) -> CardSessionOutcome;

    /// The body of a refund request, made once and stored, so that every re-send repeats the identical bytes. `None`: the
    /// provider cannot count this money.
    fn freeze_refund(&self, _new: &NewRefund<'_>) -> Option<Vec<u8>> {
        None
    }

    /// Asks the provider to give money back. The only call that does.
    async fn refund(&self, _call: &RefundCall) -> RefundOutcome {
        RefundOutcome::NotSent(NotSentReason::NotBuilt)
    }

    /// Lists what was given back of a payment intent, by whomever. Changes nothing.
    async fn refunds_of(&self, _payment_intent: &ProviderPaymentIntentId) -> RefundsSeen {
        RefundsSeen::CannotTell(UnknownReason::NotAsked)
    }

    /// Lists what of a payment intent is disputed. Changes nothing.
    async fn disputes_of(&self, _payment_intent: &ProviderPaymentIntentId) -> DisputesSeen {
        DisputesSeen::CannotTell(UnknownReason::NotAsked)
    }

    /// A page of the events that the provider made, whether it delivered them or not. `now` stands in for a time that one does
    /// not tell.
    async fn list_events(&self, _page: &ListPage, _now: OffsetDateTime) -> ListOutcome<ProviderEvent> {
        ListOutcome::CannotTell(UnknownReason::NotAsked)
    }

    /// A page of its charges, also of those that failed or that this shop did not make.
    async fn list_charges(&self, _page: &ListPage) -> ListOutcome<ListedCharge> {
        ListOutcome::CannotTell(UnknownReason::NotAsked)
    }

    /// A page of its refunds.
    async fn list_refunds(&self, _page: &ListPage) -> ListOutcome<ListedRefund> {
        ListOutcome::CannotTell(UnknownReason::NotAsked)
    }

    /// One charge.
    async fn find_charge(&self, _id: &ProviderChargeId) -> FindOutcome<ListedCharge> {
        FindOutcome::CannotTell(UnknownReason::NotAsked)
    }

    /// One refund.
    async fn find_refund(&self, _id: &str) -> FindOutcome<ListedRefund> {
        FindOutcome::CannotTell(UnknownReason::NotAsked)
    }

    /// Proves that a message comes from the provider, by the signature over its raw bytes and by its age, and reads it. Asks
    /// nobody. A provider that tells nothing unasked refuses all.
    ///
    /// # Errors
    /// See [`EventRefused`].
    fn open_event(&self, _signature: &str, _body: &[u8], _now: OffsetDateTime) -> Result<ProviderEvent, EventRefused> {
        Err(EventRefused::NotExpected)
    }
}

/// What a payment intent is created from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPaymentIntent {
    /// The order's id; ends in the provider's metadata, where reconciliation finds it.
    pub order: String,
    /// The order's reference for people.
    pub reference: String,
    pub money: Money,
    /// Derived from the order, so that a repeat gives the same payment intent.
    pub idempotency_key: String,
}

/// One confirm, or its identical repeat.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfirmRequest {
    pub payment_intent: ProviderPaymentIntentId,
    /// Derived from operation, order and intent.
    pub idempotency_key: String,
    /// As [`Provider::freeze_confirm`] made it.
    pub body: Vec<u8>,
}

impl fmt::Debug for ConfirmRequest {
    /// Leaves out the body, which names the payment method.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ConfirmRequest")
            .field("payment_intent", &self.payment_intent)
            .field("idempotency_key", &self.idempotency_key)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// How the creation of a payment intent ended.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    Created(ProviderPaymentIntentId),
    /// Proven: this request did nothing. It may be repeated.
    NotSent(NotSentReason),
    /// The provider refuses this order; a repeat would be refused again. `code` is short and safe to log.
    Refused {
        code: String,
    },
    /// Nobody knows. It may be repeated, with the same key.
    Unknown(UnknownReason),
}

/// How a confirm ended, as far as this one answer tells.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfirmOutcome {
    /// Charged. The caller compares the money with what was agreed.
    Approved(ProviderCharge),
    /// Definitely not charged, and this key will never charge.
    Declined(Decline),
    /// Not charged yet: the bank wants to see the customer first.
    ActionRequired { url: ContinueUrl },
    /// The provider is still at work on a call with this key, or holds a lock. Neither a yes nor a no: try again shortly.
    Busy,
    /// Proven: *this* request charged nothing. It says nothing about an earlier one with the same key, so after a lost answer
    /// it leaves the intent unknown.
    NotSent(NotSentReason),
    /// It may have charged. Only a probe can tell.
    Unknown(UnknownReason),
}

/// What a probe found.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    Charged(ProviderCharge),
    /// Not charged at this moment; the payment intent may be confirmed (again).
    NotCharged,
    ActionRequired {
        url: ContinueUrl,
    },
    /// Not charged, and never will be.
    Cancelled,
    /// The provider itself does not know yet.
    Processing,
    CannotTell(UnknownReason),
}

/// Money that the provider says it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderCharge {
    pub id: ProviderChargeId,
    /// What was taken, as the provider says; never copied from the request.
    pub money: Money,
    /// When, by the provider's clock in whole seconds; absent where the answer names the charge by its id only.
    pub created: Option<OffsetDateTime>,
}

impl ProviderCharge {
    /// The same, with this time where the provider told none.
    #[must_use]
    pub fn at(self, time: OffsetDateTime) -> Self {
        Self { created: self.created.or(Some(time)), ..self }
    }
}

/// What became of a card session.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CardSessionOutcome {
    Found(CardSession),
    /// No such session, or no longer.
    Missing,
    /// Not known now; asking again may help.
    Unavailable,
}

/// What a card form at the provider ended with. Either a payment method or an error.
#[derive(Clone, PartialEq, Eq)]
pub struct CardSession {
    pub payment_method: Option<PaymentMethodToken>,
    /// `visa`, `mastercard`, …
    pub brand: Option<String>,
    pub last4: Option<String>,
    pub name: Option<String>,
    pub email: Option<String>,
    /// The checkout intent whose form made it; it may pay no other.
    pub intent: Option<String>,
    /// The provider's code of the fault, e.g. `incorrect_number`.
    pub error_code: Option<String>,
}

impl fmt::Debug for CardSession {
    /// Shows no person and no card.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CardSession")
            .field("payment_method", &self.payment_method)
            .field("brand", &self.brand)
            .field("error_code", &self.error_code)
            .finish_non_exhaustive()
    }
}

/// Why it is certain that a request did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotSentReason {
    /// Refused, unreachable, no such host or no TLS: the connection was never made.
    NotConnected,
    /// The provider does not accept the secret key; a matter for the merchant.
    KeyRefused,
    /// The provider turned the request away before acting on it.
    RateLimited,
    /// The request could not even be built.
    NotBuilt,
    /// The provider is down, and is spared.
    CircuitOpen,
}

impl NotSentReason {
    /// Stable, for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotConnected => "not_connected",
            Self::KeyRefused => "key_refused",
            Self::RateLimited => "rate_limited",
            Self::NotBuilt => "not_built",
            Self::CircuitOpen => "circuit_open",
        }
    }
}

impl fmt::Display for NotSentReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Why an outcome is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownReason {
    /// No whole answer within the deadline.
    TimedOut,
    /// The connection broke after the request may have left.
    ConnectionLost,
    /// The answer ended early, is too large, or is not what the provider's protocol says.
    Unreadable,
    /// The provider reports a fault of its own, or something in between does.
    ServerFault,
    /// The payment intent is in a state that this call did not expect; a probe tells which.
    UnexpectedState,
    /// The provider has not decided.
    Processing,
    /// The answer speaks of another object, or of another amount than asked for.
    Mismatch,
    /// The provider says that the key was used with other bytes.
    KeyReused,
    /// The provider is still at work on this key.
    Busy,
    /// The provider does not know the object, or does not show it to this key.
    NotFound,
    /// The connection for the probe was never made.
    NotConnected,
    /// The probe was never sent, or was turned away.
    NotAsked,
    /// A status that the table does not name.
    Unlisted,
}

impl UnknownReason {
    /// Stable, for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::ConnectionLost => "connection_lost",
            Self::Unreadable => "unreadable",
            Self::ServerFault => "server_fault",
            Self::UnexpectedState => "unexpected_state",
            Self::Processing => "processing",
            Self::Mismatch => "mismatch",
            Self::KeyReused => "key_reused",
            Self::Busy => "busy",
            Self::NotFound => "not_found",
            Self::NotConnected => "not_connected",
            Self::NotAsked => "not_asked",
            Self::Unlisted => "unlisted",
        }
    }
}

impl fmt::Display for UnknownReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
