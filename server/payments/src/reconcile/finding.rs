//! Findings: differences between the provider and our books, each of a named kind.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    intent::{IntentKey, Operation},
    money::Money,
};

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Another amount or currency than agreed or booked.
    AmountMismatch,
    /// Money for an intent that had failed.
    ChargeOfFailedIntent,
    /// Money where another charge had paid.
    SecondCharge,
    /// Only theirs: money that no intent and no order of ours knows.
    UnknownPaymentIntent,
    /// Only ours: we say paid, and the provider has no such charge, or says that it failed.
    OnlyOurs,
    /// They charged for an order that another try of ours is paying.
    StateMismatch,
    /// An entry of their list of charges that is not understood.
    UnreadableCharge,
    /// A refund that no intent of ours asked for.
    RefundOnlyTheirs,
    /// We say given back, and the provider has no such refund.
    RefundOnlyOurs,
    /// A refund of another amount or currency than ours.
    RefundAmountMismatch,
    /// A refund that failed for one side only.
    RefundStateMismatch,
    /// An entry of their list of refunds that is not understood.
    UnreadableRefund,
}

impl Kind {
    /// The stable word, as the database holds it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AmountMismatch => "amount_mismatch",
            Self::ChargeOfFailedIntent => "charge_of_failed_intent",
            Self::SecondCharge => "second_charge",
            Self::UnknownPaymentIntent => "unknown_payment_intent",
            Self::OnlyOurs => "only_ours",
            Self::StateMismatch => "state_mismatch",
            Self::UnreadableCharge => "unreadable_charge",
            Self::RefundOnlyTheirs => "refund_only_theirs",
            Self::RefundOnlyOurs => "refund_only_ours",
            Self::RefundAmountMismatch => "refund_amount_mismatch",
            Self::RefundStateMismatch => "refund_state_mismatch",
            Self::UnreadableRefund => "unreadable_refund",
        }
    }
}

/// The intent that a finding is about, pay or refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OfIntent {
    pub(super) operation: &'static str,
    pub(super) order: Uuid,
    pub(super) id: Uuid,
}

impl OfIntent {
    pub(super) fn pay(order: Uuid, id: Uuid) -> Self {
        Self { operation: Operation::Pay.as_str(), order, id }
    }

    pub(super) fn refund(order: Uuid, id: Uuid) -> Self {
        Self { operation: "refund", order, id }
    }
}

impl From<&IntentKey> for OfIntent {
    fn from(key: &IntentKey) -> Self {
        Self { operation: key.operation.as_str(), order: key.order.as_uuid(), id: key.intent.as_uuid() }
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) kind: Kind,
    pub(super) intent: Option<OfIntent>,
    pub(super) charge: Option<String>,
    pub(super) refund: Option<String>,
    pub(super) payment_intent: Option<String>,
    /// The order that the provider names, where no intent belongs to it.
    pub(super) named_order: Option<Uuid>,
    pub(super) expected: Option<Money>,
    pub(super) reported: Option<Money>,
}

impl Finding {
    /// Nothing but its kind.
    pub(super) fn of(kind: Kind) -> Self {
        Self {
            kind,
            intent: None,
            charge: None,
            refund: None,
            payment_intent: None,
            named_order: None,
            expected: None,
            reported: None,
        }
    }

    /// As it would be reported once it is told.
    pub(super) fn open(self, found_at: OffsetDateTime) -> Open {
        let code = |money: &Money| money.currency.code().to_owned();
        Open {
            kind: self.kind.as_str().to_owned(),
            order_id: self.intent.map(|intent| intent.order).or(self.named_order),
            intent_id: self.intent.map(|intent| intent.id),
            charge: self.charge,
            refund: self.refund,
            payment_intent: self.payment_intent,
            expected_minor: self.expected.map(|money| money.minor),
            expected_currency: self.expected.as_ref().map(code),
            reported_minor: self.reported.map(|money| money.minor),
            reported_currency: self.reported.as_ref().map(code),
            found_at,
        }
    }
}

/// An open discrepancy, whoever found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The word of its [`Kind`], or another one that only a person closes.
    pub kind: String,
    /// The order, where one is known or named.
    pub order_id: Option<Uuid>,
    /// The intent of ours.
    pub intent_id: Option<Uuid>,
    /// The provider's charge.
    pub charge: Option<String>,
    /// The provider's refund.
    pub refund: Option<String>,
    /// The provider's payment intent.
    pub payment_intent: Option<String>,
    /// What we say, in minor units.
    pub expected_minor: Option<i64>,
    /// And its ISO 4217 code.
    pub expected_currency: Option<String>,
    /// What the provider says, in minor units.
    pub reported_minor: Option<i64>,
    /// And its ISO 4217 code.
    pub reported_currency: Option<String>,
    /// When it was found.
    pub found_at: OffsetDateTime,
}
