//! The closed set of errors that a customer's browser can meet. Safe to show: no text from below ever gets in here.
//!
//! A decline is not among them: it is an outcome.

use leptos::server_fn::{
    codec::JsonEncoding,
    error::{FromServerFnError, ServerFnErrorErr},
};
use serde::{Deserialize, Serialize};

use crate::dto::MoneyDto;

/// Why a call did not give an outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CheckoutError {
    /// No such order, or not for this token. The two are not told apart.
    #[error("no such order")]
    NotFound,
    /// The body is not of the expected shape.
    #[error("the request could not be read")]
    MalformedRequest,
    /// The body is larger than a checkout needs.
    #[error("the request is too large")]
    TooLarge,
    /// The body did not come in time. Nothing was started by it.
    #[error("the request came too slowly")]
    TooSlow,
    /// Another site made the browser send this.
    #[error("the request comes from another site")]
    CrossSite,
    /// The idempotency key is not a version 4 UUID in its usual 36-character form.
    #[error("the intent is not a version 4 UUID")]
    InvalidIntent,
    /// A field has a fault; `field` is its name in the form.
    #[error("{field}: {problem}")]
    InvalidField { field: String, problem: String },
    /// The total is not what the customer saw. Nothing was reserved.
    #[error("the total changed from {} to {}", shown.display, now.display)]
    PriceChanged { shown: MoneyDto, now: MoneyDto },
    /// This key was used for another request. The first one stands.
    #[error("this intent was used for another request")]
    IntentReused,
    /// This intent had its end so long ago that the answer is no longer kept. `outcome` is where the order tells it.
    #[error("the answer to this intent is no longer kept")]
    Purged { outcome: String },
    /// This intent is still under way.
    #[error("this payment is still under way")]
    InProgress { retry_after_seconds: u32 },
    /// Another intent of this order is under way, or has paid it.
    #[error("this order has another payment")]
    OrderTaken { intent: String },
    /// `replaces` names an intent that is not FAILED.
    #[error("the intent to replace has not failed")]
    ReplacesUnfinished,
    /// The order can no longer be paid.
    #[error("this order is closed")]
    OrderClosed,
    /// The provider takes no payment of this order's amount, now or later.
    #[error("the provider takes no payment of this amount")]
    AmountRefused,
    /// Fewer pieces are left than were asked for.
    #[error("only {left} left of {sku}")]
    OutOfStock { sku: String, left: i32 },
    /// Proven: nothing was sent to the provider. The same intent may be sent again.
    #[error("the payment could not be started")]
    NotSent,
    /// The shop cannot answer now; nothing was started by this call.
    #[error("the shop cannot answer right now")]
    Unavailable { retry_after_seconds: u32 },
    /// Too many tries from this address. Nothing was started by this call; the same intent may be sent again.
    #[error("too many tries")]
    RateLimited { retry_after_seconds: u32 },
    /// The answer was lost on its way to the browser, or the database's to the shop: whether anything has begun is *unknown*.
    #[error("the answer was lost")]
    LostAnswer,
}

/// What the caller should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Ask for the outcome; do not pay again.
    Ask,
    /// Send the same intent again, later.
    RetrySameIntent,
    /// Mend the request.
    Fix,
    /// Nothing can be paid at this address.
    GiveUp,
}

impl CheckoutError {
    /// The HTTP status this error travels with.
    pub fn http_status(&self) -> u16 {
        match self {
            Self::NotFound => 404,
            Self::MalformedRequest => 400,
            Self::CrossSite => 403,
            Self::TooSlow => 408,
            Self::TooLarge => 413,
            Self::InvalidIntent
            | Self::InvalidField { .. }
            | Self::IntentReused
            | Self::ReplacesUnfinished
            | Self::AmountRefused => 422,
            Self::PriceChanged { .. } | Self::InProgress { .. } | Self::OrderTaken { .. } | Self::OutOfStock { .. } => {
                409
            }
            Self::OrderClosed | Self::Purged { .. } => 410,
            Self::RateLimited { .. } => 429,
            Self::NotSent | Self::Unavailable { .. } | Self::LostAnswer => 503,
        }
    }

    /// Seconds for `Retry-After`, where waiting helps.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        match self {
            Self::InProgress { retry_after_seconds }
            | Self::Unavailable { retry_after_seconds }
            | Self::RateLimited { retry_after_seconds } => Some(*retry_after_seconds),
            Self::NotSent | Self::LostAnswer => Some(2),
            Self::NotFound
            | Self::MalformedRequest
            | Self::TooLarge
            | Self::TooSlow
            | Self::CrossSite
            | Self::InvalidIntent
            | Self::InvalidField { .. }
            | Self::PriceChanged { .. }
            | Self::IntentReused
            | Self::Purged { .. }
            | Self::OrderTaken { .. }
            | Self::ReplacesUnfinished
            | Self::OrderClosed
            | Self::AmountRefused
            | Self::OutOfStock { .. } => None,
        }
    }

    /// What the caller should do next.
    pub fn advice(&self) -> Advice {
        match self {
            Self::IntentReused
            | Self::Purged { .. }
            | Self::InProgress { .. }
            | Self::OrderTaken { .. }
            | Self::ReplacesUnfinished
            | Self::OrderClosed
            | Self::LostAnswer => Advice::Ask,
            Self::NotSent | Self::Unavailable { .. } | Self::RateLimited { .. } | Self::TooSlow => {
                Advice::RetrySameIntent
            }
            Self::MalformedRequest
            | Self::TooLarge
            | Self::CrossSite
            | Self::InvalidIntent
            | Self::InvalidField { .. }
            | Self::PriceChanged { .. }
            | Self::OutOfStock { .. } => Advice::Fix,
            Self::NotFound | Self::AmountRefused => Advice::GiveUp,
        }
    }
}

impl FromServerFnError for CheckoutError {
    type Encoder = JsonEncoding;

    /// On the server these are faults of the request. In the browser they mean that no readable answer came back, after a
    /// request that may well have arrived: *unknown*, never *failed*.
    fn from_server_fn_error(error: ServerFnErrorErr) -> Self {
        if cfg!(feature = "ssr") {
            match error {
                ServerFnErrorErr::Args(_)
                | ServerFnErrorErr::MissingArg(_)
                | ServerFnErrorErr::Deserialization(_)
                | ServerFnErrorErr::Request(_)
                | ServerFnErrorErr::UnsupportedRequestMethod(_) => Self::MalformedRequest,
                ServerFnErrorErr::Registration(_)
                | ServerFnErrorErr::ServerError(_)
                | ServerFnErrorErr::MiddlewareError(_)
                | ServerFnErrorErr::Serialization(_)
                | ServerFnErrorErr::Response(_) => Self::Unavailable { retry_after_seconds: 2 },
            }
        } else {
            Self::LostAnswer
        }
    }
}
