//! What we read of the provider's answers, and nothing more.
//!
//! Promise: reading is tolerant of what Stripe may add (fields, enum values, long texts) and strict in what money hangs on
//! (ids, amounts, currency, status): where one of these is missing or odd there is no value at all, and the caller says
//! *unknown*. Never: no type here derives `Debug`, since answers carry client secrets, names and addresses.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};

/// Longest code that is handed on; Stripe's longest has 50 characters.
const CODE_MAX_BYTES: usize = 64;

/// Reads an answer; anything that is not of the shape is `None`. So is a body with one byte that is no text, even in a field
/// that nobody reads: what arrived damaged proves nothing.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    std::str::from_utf8(body).ok().and_then(|text| serde_json::from_str(text).ok())
}

/// State of a payment intent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    RequiresPaymentMethod,
    RequiresConfirmation,
    RequiresAction,
    Processing,
    RequiresCapture,
    Canceled,
    Succeeded,
    /// One that Stripe invented after this was written.
    Other,
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match String::deserialize(deserializer)?.as_str() {
            "requires_payment_method" => Self::RequiresPaymentMethod,
            "requires_confirmation" => Self::RequiresConfirmation,
            "requires_action" => Self::RequiresAction,
            "processing" => Self::Processing,
            "requires_capture" => Self::RequiresCapture,
            "canceled" => Self::Canceled,
            "succeeded" => Self::Succeeded,
            _ => Self::Other,
        })
    }
}

/// A payment intent.
#[derive(Deserialize)]
pub(super) struct PaymentIntent {
    pub(super) id: String,
    pub(super) object: String,
    pub(super) amount: i64,
    #[serde(default)]
    pub(super) amount_received: Option<i64>,
    pub(super) currency: String,
    pub(super) status: Status,
    #[serde(default)]
    pub(super) latest_charge: Option<LatestCharge>,
    #[serde(default)]
    pub(super) next_action: Option<NextAction>,
}

/// The newest charge of a payment intent: its id, or itself where `expand[]=latest_charge` was heeded.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum LatestCharge {
    Id(String),
    Expanded(Box<Charge>),
}

/// A charge, which may also be one that failed.
#[derive(Deserialize)]
pub(super) struct Charge {
    pub(super) id: String,
    pub(super) amount: i64,
    #[serde(default)]
    pub(super) amount_captured: Option<i64>,
    pub(super) currency: String,
    pub(super) created: i64,
    pub(super) status: String,
    #[serde(default)]
    pub(super) payment_intent: Option<String>,
}

/// What the customer has to do next.
#[derive(Deserialize)]
pub(super) struct NextAction {
    #[serde(default)]
    pub(super) redirect_to_url: Option<RedirectToUrl>,
}

#[derive(Deserialize)]
pub(super) struct RedirectToUrl {
    #[serde(default)]
    pub(super) url: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct ErrorBody {
    pub(super) error: ApiError,
}

/// The error object. `type` is what makes it Stripe's: an answer of something in between does not have it.
#[derive(Deserialize)]
pub(super) struct ApiError {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) code: Option<String>,
    #[serde(default)]
    pub(super) decline_code: Option<String>,
    #[serde(default)]
    pub(super) param: Option<String>,
    #[serde(default)]
    pub(super) payment_intent: Option<ErrorPaymentIntent>,
}

/// The payment intent that an error speaks of, as it is after the error.
#[derive(Deserialize)]
pub(super) struct ErrorPaymentIntent {
    pub(super) id: String,
    pub(super) status: Status,
}

/// The result of a card form at the provider; the sandbox's own, for pages without scripts.
#[derive(Deserialize)]
pub(super) struct CardSession {
    #[serde(default)]
    pub(super) payment_method: Option<String>,
    #[serde(default)]
    pub(super) card: Option<Card>,
    #[serde(default)]
    pub(super) billing_details: Option<BillingDetails>,
    #[serde(default)]
    pub(super) intent: Option<String>,
    #[serde(default)]
    pub(super) error: Option<CardError>,
}

#[derive(Deserialize)]
pub(super) struct Card {
    #[serde(default)]
    pub(super) brand: Option<String>,
    #[serde(default)]
    pub(super) last4: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct BillingDetails {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) email: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct CardError {
    #[serde(default)]
    pub(super) code: Option<String>,
}

/// A code as it may be stored and logged: a short word, or `unnamed`. What else could stand there is not ours to repeat.
pub(super) fn tame_code(code: Option<&str>) -> String {
    match code {
        Some(word)
            if !word.is_empty()
                && word.len() <= CODE_MAX_BYTES
                && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') =>
        {
            word.to_owned()
        }
        Some(_) | None => "unnamed".to_owned(),
    }
}
