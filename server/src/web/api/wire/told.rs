//! What programs are told.
//!
//! The types that only the description uses (the archived answers, which `payments` writes) are held to the real bytes by the
//! tests, which read the answers back with them.

use payments::{
    ids::Sku,
    intent::{State, summary::IntentSummary},
    order::{Line, Order, OrderState},
    refund::{Refund, Remaining},
};
use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use utoipa::ToSchema;

use super::refunds::{OrderRefundBody, RefundedBody};

/// An order that was made; the same bytes for every repeat.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderMade {
    #[schema(format = Uuid)]
    pub id: String,
    /// The capability to see and pay the order: whoever has it, can.
    #[schema(pattern = "^[A-Za-z0-9]{22}$", example = "0123456789abcdefABCDEF")]
    pub token: String,
    /// Where a customer can pay it.
    #[schema(format = Uri)]
    pub checkout_url: String,
    /// In minor units.
    #[schema(example = 1640)]
    pub amount: i64,
    #[schema(example = "EUR")]
    pub currency: String,
    pub state: OrderStateWord,
}

/// Whether an order can be, or was, paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OrderStateWord {
    Open,
    Paid,
    Closed,
}

/// The archived answer to a payment that succeeded; the same bytes for every repeat, from a browser or a program.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Succeeded {
    #[schema(format = Uuid)]
    pub intent: String,
    #[schema(pattern = "^SUCCEEDED$")]
    pub state: String,
    pub amount: i64,
    pub currency: String,
    /// The provider's charge.
    #[schema(example = "ch_3PmxyzAbCdEf")]
    pub charge: String,
    #[schema(format = DateTime)]
    pub paid_at: String,
}

/// The archived answer to a payment that failed for good; the same bytes for every repeat. Another try is another intent, under
/// a new key, which names this one as `replaces`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    #[schema(format = Uuid)]
    pub intent: String,
    #[schema(pattern = "^FAILED$")]
    pub state: String,
    pub amount: i64,
    pub currency: String,
    pub decline: DeclineWord,
    #[schema(format = DateTime)]
    pub failed_at: String,
}

/// Why a payment failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeclineWord {
    Generic,
    InsufficientFunds,
    ExpiredCard,
    IncorrectCode,
    IncorrectNumber,
    BankCheckFailed,
    CardNotSupported,
    OverLimit,
    TryLater,
    NotCharged,
}

/// A payment whose outcome is not known yet. Send the same request again, or ask for the intent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    #[schema(format = Uuid)]
    pub intent: String,
    #[schema(pattern = "^PENDING$")]
    pub state: String,
    pub amount: i64,
    pub currency: String,
    pub detail: PendingDetail,
    /// With `action_required`: the bank's page, for the customer.
    #[schema(format = Uri, nullable = false)]
    pub continue_url: Option<String>,
}

/// `pending`: at the provider. `unknown`: its answer was lost, and is being looked for. `action_required`: the bank wants to see
/// the customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PendingDetail {
    Pending,
    Unknown,
    ActionRequired,
}

/// An order with its lines and intents.
#[derive(Serialize, ToSchema)]
pub struct OrderBody {
    #[schema(format = Uuid)]
    id: String,
    token: String,
    #[schema(format = Uri)]
    checkout_url: String,
    /// For people.
    #[schema(example = "AB23-CD45")]
    reference: String,
    amount: i64,
    currency: String,
    state: OrderStateWord,
    #[schema(format = DateTime)]
    created_at: String,
    /// Once it is known: where the receipt goes.
    email: Option<String>,
    /// With `paid`.
    paid: Option<PaidBody>,
    lines: Vec<LineBody>,
    /// Newest first, at most 100.
    intents: Vec<IntentBody>,
    /// What was given back, and can still be.
    refunded: RefundedBody,
    /// Newest first, at most 100.
    refunds: Vec<OrderRefundBody>,
}

/// What paid an order.
#[derive(Serialize, ToSchema)]
pub struct PaidBody {
    #[schema(format = Uuid)]
    intent: String,
    charge: String,
    #[schema(format = DateTime)]
    paid_at: String,
}

/// One line of an order.
#[derive(Serialize, ToSchema)]
pub struct LineBody {
    /// Null for a line that a program named and priced itself.
    sku: Option<String>,
    name: String,
    quantity: i32,
    unit_amount: i64,
    amount: i64,
}

/// Where an intent stands.
#[derive(Serialize, ToSchema)]
pub struct IntentBody {
    /// The idempotency key of its payment.
    #[schema(format = Uuid)]
    intent: String,
    #[schema(format = Uuid)]
    order: String,
    state: IntentStateWord,
    /// With `PENDING`.
    detail: Option<PendingDetail>,
    amount: i64,
    currency: String,
    #[schema(format = Uuid)]
    replaces: Option<String>,
    /// With `action_required`: the bank's page, for the customer.
    #[schema(format = Uri)]
    continue_url: Option<String>,
    /// With `SUCCEEDED`.
    charge: Option<String>,
    #[schema(format = DateTime)]
    paid_at: Option<String>,
    /// With `FAILED`.
    #[schema(value_type = Option<DeclineWord>)]
    decline: Option<&'static str>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    finished_at: Option<String>,
}

/// The first two are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum IntentStateWord {
    Succeeded,
    Failed,
    Pending,
}

impl OrderBody {
    /// An order, as a program is shown it.
    pub fn of(
        order: &Order,
        checkout_url: String,
        lines: &[Line],
        intents: Vec<IntentBody>,
        (left, refunds): (Remaining, &[Refund]),
    ) -> Self {
        let (state, paid) = match &order.state {
            OrderState::Open => (OrderStateWord::Open, None),
            OrderState::Closed => (OrderStateWord::Closed, None),
            OrderState::Paid(payment) => (
                OrderStateWord::Paid,
                Some(PaidBody {
                    intent: payment.intent.to_string(),
                    charge: payment.charge.to_string(),
                    paid_at: instant(payment.paid_at),
                }),
            ),
        };
        let line = |line: &Line| LineBody {
            sku: line.sku.as_ref().map(Sku::to_string),
            name: line.name.clone(),
            quantity: line.quantity,
            unit_amount: line.unit.minor,
            amount: line.amount.minor,
        };
        Self {
            id: order.id.to_string(),
            token: order.token.expose().to_owned(),
            checkout_url,
            reference: order.reference.to_string(),
            amount: order.total.minor,
            currency: order.total.currency.to_string(),
            state,
            created_at: instant(order.created_at),
            email: order.email.as_ref().map(|email| email.as_str().to_owned()),
            paid,
            lines: lines.iter().map(line).collect(),
            intents,
            refunded: left.into(),
            refunds: refunds.iter().map(OrderRefundBody::of).collect(),
        }
    }
}

impl IntentBody {
    /// An intent; `page` gives the address of the bank's page for whoever asked.
    pub fn of(intent: &IntentSummary, page: impl Fn(&str) -> String) -> Self {
        let (state, detail) = match intent.state {
            State::Succeeded => (IntentStateWord::Succeeded, None),
            State::Failed => (IntentStateWord::Failed, None),
            State::Pending => (IntentStateWord::Pending, Some(PendingDetail::Pending)),
            State::Unknown => (IntentStateWord::Pending, Some(PendingDetail::Unknown)),
            State::ActionRequired => (IntentStateWord::Pending, Some(PendingDetail::ActionRequired)),
        };
        Self {
            intent: intent.id.to_string(),
            order: intent.order.to_string(),
            state,
            detail,
            amount: intent.money.minor,
            currency: intent.money.currency.to_string(),
            replaces: intent.replaces.map(|id| id.to_string()),
            continue_url: intent.continue_url.as_ref().map(|url| page(url.as_str())),
            charge: intent.charge.as_ref().map(ToString::to_string),
            paid_at: intent.paid_at.map(instant),
            decline: intent.decline.map(payments::provider::DeclineReason::as_str),
            created_at: instant(intent.created_at),
            finished_at: intent.finished_at.map(instant),
        }
    }
}

pub(super) fn instant(at: OffsetDateTime) -> String {
    at.format(&Rfc3339).unwrap_or_default()
}
