//! What the provider knows of one thing each: plain records, as the journal holds them. No record has room for a card number
//! or a security code. Fields that came later have a default, so that older journals are still read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bulk::Bulk;
use crate::table::Row;

/// Where a payment intent stands. It can become `Succeeded` only once, and nothing leaves `Succeeded` or `Canceled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntentStatus {
    RequiresPaymentMethod,
    RequiresAction,
    Succeeded,
    Canceled,
}

impl IntentStatus {
    pub fn name(self) -> &'static str {
        match self {
            Self::RequiresPaymentMethod => "requires_payment_method",
            Self::RequiresAction => "requires_action",
            Self::Succeeded => "succeeded",
            Self::Canceled => "canceled",
        }
    }

    /// Whether money can still move.
    pub fn is_open(self) -> bool {
        match self {
            Self::RequiresPaymentMethod | Self::RequiresAction => true,
            Self::Succeeded | Self::Canceled => false,
        }
    }
}

/// One payment that was asked for; at most one charge of it ever succeeds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Intent {
    pub id: String,
    pub amount: i64,
    pub currency: String,
    pub status: IntentStatus,
    pub client_secret: String,
    pub description: Option<String>,
    pub receipt_email: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub payment_method: Option<String>,
    pub latest_charge: Option<String>,
    pub last_error: Option<CardError>,
    /// The newest visit to the bank, open or over.
    pub step: Option<BankStep>,
    pub created: i64,
    pub canceled_at: Option<i64>,
    pub cancellation_reason: Option<String>,
}

/// One visit to the bank. `number` binds a bank page to its attempt: an older page decides nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BankStep {
    pub number: u32,
    pub return_url: Option<String>,
    /// Key of the confirm call that began the visit; the charge belongs to it.
    pub idempotency_key: Option<String>,
    /// `None` while the customer has not decided; else whether the payment succeeded.
    pub decided: Option<bool>,
    /// When the bank stops waiting, in milliseconds since 1970; `None` never.
    #[serde(default)]
    pub expires_ms: Option<i64>,
}

/// Why a card was not charged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardError {
    pub code: String,
    pub decline_code: Option<String>,
    pub message: String,
    pub param: Option<String>,
    pub charge: Option<String>,
    pub payment_method: Option<String>,
}

/// A card without its secrets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Method {
    pub id: String,
    pub brand: String,
    pub last4: String,
    pub exp_month: u8,
    pub exp_year: i32,
    pub name: Option<String>,
    pub email: Option<String>,
    pub created: i64,
    /// What the card does when it is charged.
    pub conduct: Conduct,
}

/// How a test card behaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conduct {
    /// Whether the bank wants to see the customer first.
    pub bank_step: bool,
    /// The decline, by the name in the table of test cards; `None` pays.
    pub decline: Option<String>,
    /// What becomes of a refund.
    #[serde(default)]
    pub refund: RefundConduct,
    /// Why the customer disputes the charge as soon as it is made; `None` does not.
    #[serde(default)]
    pub dispute: Option<String>,
}

/// How refunds to a test card go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundConduct {
    /// They succeed at once.
    #[default]
    Succeeds,
    /// They are pending first and succeed later.
    SucceedsLater,
    /// They succeed, as it seems, and fail later.
    FailsLater,
}

/// One try to move money; only `succeeded` ones moved any.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Charge {
    pub id: String,
    pub amount: i64,
    pub amount_refunded: i64,
    /// What a dispute holds back or has taken.
    #[serde(default)]
    pub amount_disputed: i64,
    /// The newest dispute.
    #[serde(default)]
    pub dispute: Option<String>,
    pub currency: String,
    pub payment_intent: String,
    pub payment_method: Method,
    pub description: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub idempotency_key: Option<String>,
    pub error: Option<CardError>,
    pub created: i64,
}

impl Charge {
    pub fn succeeded(&self) -> bool {
        self.error.is_none()
    }

    /// What neither went back nor is disputed.
    pub fn refundable(&self) -> i64 {
        self.amount - self.amount_refunded - self.amount_disputed
    }
}

/// How far a refund is. Only a failed or cancelled one gives its amount back to the charge, and none leaves these two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundStatus {
    Pending,
    RequiresAction,
    #[default]
    Succeeded,
    Failed,
    Canceled,
}

impl RefundStatus {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::RequiresAction => "requires_action",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }

    /// Whether the money is on its way back, or there.
    pub fn counts(self) -> bool {
        match self {
            Self::Pending | Self::RequiresAction | Self::Succeeded => true,
            Self::Failed | Self::Canceled => false,
        }
    }
}

/// Money that goes back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refund {
    pub id: String,
    pub charge: String,
    pub payment_intent: String,
    pub amount: i64,
    pub currency: String,
    pub reason: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub idempotency_key: Option<String>,
    pub created: i64,
    #[serde(default)]
    pub status: RefundStatus,
    #[serde(default)]
    pub failure_reason: Option<String>,
    /// What becomes of it by itself, and when.
    #[serde(default)]
    pub later: Option<Later>,
}

/// A refund's next state, at an instant in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Later {
    pub at_ms: i64,
    pub status: RefundStatus,
}

/// Where a dispute stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisputeStatus {
    NeedsResponse,
    UnderReview,
    Won,
    Lost,
}

impl DisputeStatus {
    pub fn name(self) -> &'static str {
        match self {
            Self::NeedsResponse => "needs_response",
            Self::UnderReview => "under_review",
            Self::Won => "won",
            Self::Lost => "lost",
        }
    }

    pub fn is_open(self) -> bool {
        match self {
            Self::NeedsResponse | Self::UnderReview => true,
            Self::Won | Self::Lost => false,
        }
    }
}

/// A customer's bank takes a charge back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dispute {
    pub id: String,
    pub charge: String,
    pub payment_intent: String,
    pub amount: i64,
    pub currency: String,
    pub reason: String,
    pub status: DisputeStatus,
    pub metadata: BTreeMap<String, String>,
    pub has_evidence: bool,
    pub created: i64,
}

/// Something that happened, with the object as it was then.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    pub id: String,
    /// Its type, e.g. `payment_intent.succeeded`.
    pub kind: String,
    pub created: i64,
    /// The call that caused it, if a call of the shop did.
    pub request_id: Option<String>,
    pub idempotency_key: Option<String>,
    pub snapshot: Snapshot,
    /// The endpoints that get it.
    pub endpoints: Vec<String>,
}

/// An object as it was.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Snapshot {
    Intent(Box<Intent>),
    Charge(Box<Charge>),
    Refund(Box<Refund>),
    Dispute(Box<Dispute>),
    /// JSON that a test wants in an event.
    Other(Box<serde_json::Value>),
}

/// Where events are sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    pub id: String,
    pub url: String,
    /// Types of events; `*` is every type.
    pub enabled_events: Vec<String>,
    /// `None` for one whose secret is in the settings, which nobody else needs to write down.
    pub secret: Option<String>,
    /// Secrets that are still signed with after a rotation, and until when, in milliseconds since 1970.
    pub old_secrets: Vec<(String, i64)>,
    pub api_version: Option<String>,
    pub description: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub disabled: bool,
    /// Whether it comes from the sandbox's own settings, not from a call.
    pub is_set: bool,
    pub created: i64,
}

/// What a plain card form left: the payment method, or the fault, and what the shop may put into its form again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    pub id: String,
    pub payment_method: Option<String>,
    pub name: Option<String>,
    pub email: Option<String>,
    pub error_code: Option<String>,
    pub error_param: Option<String>,
    /// The checkout intent of the form that made it. Journals from before it was kept have none.
    #[serde(default)]
    pub intent: Option<String>,
    pub created: i64,
}

/// The remembered answer of an idempotency key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyRecord {
    pub key: String,
    pub endpoint: String,
    /// SHA-256 of the canonical parameters, without card secrets.
    pub fingerprint: String,
    pub status: u16,
    pub body: String,
    pub request_id: String,
    pub at_ms: i64,
}

macro_rules! rows {
    ($($record:ty),*) => {$(
        impl Row for $record {
            fn id(&self) -> &str {
                &self.id
            }

            fn created(&self) -> i64 {
                self.created
            }
        }
    )*};
}

rows!(Refund, Dispute, Method, Session, Event, Endpoint);

impl Row for Intent {
    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn of_bulk(bulk: &Bulk, index: u64) -> Option<Self> {
        Some(bulk.intent(index))
    }

    fn index_in(bulk: &Bulk, id: &str) -> Option<u64> {
        bulk.index_of("pi_", id)
    }
}

impl Row for Charge {
    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn of_bulk(bulk: &Bulk, index: u64) -> Option<Self> {
        Some(bulk.charge(index))
    }

    fn index_in(bulk: &Bulk, id: &str) -> Option<u64> {
        bulk.index_of("ch_", id)
    }
}
