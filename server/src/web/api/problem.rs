//! Problems (RFC 9457): what went wrong, whether the outcome is known, and whether the same request may be sent again.
//!
//! [`Kind`] is the closed list; each has one status and one pair of advice for ever, since programs act on them. No text from
//! below and nothing secret gets in here.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use payments::pool::StoreError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{guard::TooMany, port::RETRY_AFTER_SECONDS};

/// What kind of problem it is. Stable; new kinds may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub enum Kind {
    #[serde(rename = "urn:payonce:problem:malformed-request")]
    MalformedRequest,
    #[serde(rename = "urn:payonce:problem:key-missing")]
    KeyMissing,
    #[serde(rename = "urn:payonce:problem:key-malformed")]
    KeyMalformed,
    #[serde(rename = "urn:payonce:problem:unauthorized")]
    Unauthorized,
    #[serde(rename = "urn:payonce:problem:not-found")]
    NotFound,
    #[serde(rename = "urn:payonce:problem:method-not-allowed")]
    MethodNotAllowed,
    #[serde(rename = "urn:payonce:problem:in-progress")]
    InProgress,
    #[serde(rename = "urn:payonce:problem:order-taken")]
    OrderTaken,
    #[serde(rename = "urn:payonce:problem:price-changed")]
    PriceChanged,
    #[serde(rename = "urn:payonce:problem:out-of-stock")]
    OutOfStock,
    #[serde(rename = "urn:payonce:problem:not-paid")]
    NotPaid,
    #[serde(rename = "urn:payonce:problem:payment-unresolved")]
    PaymentUnresolved,
    #[serde(rename = "urn:payonce:problem:exceeds-remaining")]
    ExceedsRemaining,
    #[serde(rename = "urn:payonce:problem:intent-ambiguous")]
    IntentAmbiguous,
    #[serde(rename = "urn:payonce:problem:key-purged")]
    KeyPurged,
    #[serde(rename = "urn:payonce:problem:order-closed")]
    OrderClosed,
    #[serde(rename = "urn:payonce:problem:too-large")]
    TooLarge,
    #[serde(rename = "urn:payonce:problem:unsupported-media-type")]
    UnsupportedMediaType,
    #[serde(rename = "urn:payonce:problem:order-refused")]
    OrderRefused,
    #[serde(rename = "urn:payonce:problem:key-reused")]
    KeyReused,
    #[serde(rename = "urn:payonce:problem:invalid-field")]
    InvalidField,
    #[serde(rename = "urn:payonce:problem:replaces-unfinished")]
    ReplacesUnfinished,
    #[serde(rename = "urn:payonce:problem:rate-limited")]
    RateLimited,
    #[serde(rename = "urn:payonce:problem:internal")]
    Internal,
    #[serde(rename = "urn:payonce:problem:not-sent")]
    NotSent,
    #[serde(rename = "urn:payonce:problem:unavailable")]
    Unavailable,
}

/// Whether it is known what became of what the request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeKnown {
    /// This request has started nothing.
    Known,
    /// Something may have been started, by this request or an earlier one of its key. Ask, or send the same again.
    Unknown,
}

use OutcomeKnown::{Known, Unknown};

impl Kind {
    /// Status, title, whether the outcome is known, and whether the same request may be sent again.
    pub fn facts(self) -> (u16, &'static str, OutcomeKnown, bool) {
        match self {
            Self::MalformedRequest => (400, "The request cannot be read", Known, false),
            Self::KeyMissing => (400, "The Idempotency-Key header is missing", Known, false),
            Self::KeyMalformed => (400, "The Idempotency-Key header is malformed", Known, false),
            Self::Unauthorized => (401, "An API key is needed", Known, false),
            Self::NotFound => (404, "There is nothing here", Known, false),
            Self::MethodNotAllowed => (405, "This address takes other methods", Known, false),
            Self::InProgress => (409, "The first request of this key is still under way", Unknown, true),
            Self::OrderTaken => (409, "The order has another payment", Known, false),
            Self::PriceChanged => (409, "The order costs something else", Known, false),
            Self::OutOfStock => (409, "Fewer pieces are left than were asked for", Known, true),
            Self::NotPaid => (409, "The order is not paid", Known, false),
            Self::PaymentUnresolved => (409, "It is not known yet whether the order is paid", Known, true),
            Self::ExceedsRemaining => (409, "More than can still be given back", Known, false),
            Self::IntentAmbiguous => (409, "Several orders have an intent of this UUID", Known, false),
            Self::KeyPurged => (410, "The answer to this key is no longer archived", Known, false),
            Self::OrderClosed => (410, "The order can no longer be paid", Known, false),
            Self::TooLarge => (413, "The request is too large", Known, false),
            Self::UnsupportedMediaType => (415, "The body must be application/json", Known, false),
            Self::OrderRefused => (422, "The provider takes no payment of this amount", Known, false),
            Self::KeyReused => (422, "The key was used for another request", Known, false),
            Self::InvalidField => (422, "A member has a value that cannot be used", Known, false),
            Self::ReplacesUnfinished => (422, "The intent to replace has not failed", Known, false),
            Self::RateLimited => (429, "Too many requests", Known, true),
            Self::Internal => (500, "The server failed", Unknown, true),
            Self::NotSent => (503, "The provider cannot be reached; nothing was sent", Known, true),
            Self::Unavailable => (503, "The shop cannot answer right now", Unknown, true),
        }
    }

    /// The HTTP status.
    pub fn status(self) -> u16 {
        self.facts().0
    }
}

/// A problem, as `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    #[serde(rename = "type")]
    pub kind: Kind,
    /// For people; the same for each type.
    #[schema(value_type = String)]
    pub title: &'static str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// For people: what is wrong with this request, and what to do.
    #[schema(value_type = String)]
    pub detail: Box<str>,
    pub outcome: OutcomeKnown,
    /// Whether the identical request, under the same key, may be sent again and may get another answer. It never makes a second
    /// payment or order; where this is false, it only gets the same answer.
    pub safe_to_retry: bool,
    /// With `invalid-field`: the member of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub field: Option<Box<str>>,
    /// Where to find what stands instead; also the `Location` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub location: Option<Box<str>>,
    /// With `intent-ambiguous`: the orders.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>, required = false)]
    pub orders: Option<Box<[String]>>,
    /// With `exceeds-remaining`: what can still be given back, in minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = false, minimum = 0)]
    pub remaining: Option<i64>,
    #[serde(skip)]
    retry_after_seconds: Option<u32>,
}

impl Problem {
    /// A problem of this kind. `detail` is shown to people as it is.
    pub fn of(kind: Kind, detail: impl Into<Box<str>>) -> Self {
        let (status, title, outcome, safe_to_retry) = kind.facts();
        let waits = matches!(
            kind,
            Kind::InProgress | Kind::PaymentUnresolved | Kind::NotSent | Kind::Unavailable | Kind::Internal
        );
        Self {
            kind,
            title,
            status,
            detail: detail.into(),
            outcome,
            safe_to_retry,
            field: None,
            location: None,
            orders: None,
            remaining: None,
            retry_after_seconds: waits.then_some(RETRY_AFTER_SECONDS),
        }
    }

    /// A member of the body has a value that cannot be used.
    pub fn field(field: impl Into<Box<str>>, detail: impl Into<Box<str>>) -> Self {
        Self::of(Kind::InvalidField, detail).about(field)
    }

    /// The problem, with the member of the body that it speaks of.
    #[must_use]
    pub fn about(self, field: impl Into<Box<str>>) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    /// The problem, with the address of what stands instead.
    #[must_use]
    pub fn at(self, location: String) -> Self {
        Self { location: Some(location.into()), ..self }
    }

    /// The problem, with what can still be given back.
    #[must_use]
    pub fn leaving(self, minor: i64) -> Self {
        Self { remaining: Some(minor), ..self }
    }

    /// The problem, with the orders that it speaks of.
    #[must_use]
    pub fn among(self, orders: Vec<String>) -> Self {
        Self { orders: Some(orders.into()), ..self }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, cause = ?std::error::Error::source(&error), "the database cannot answer");
        Self::of(Kind::Unavailable, "The database does not answer. Send the same request again.")
    }
}

impl From<TooMany> for Problem {
    fn from(too_many: TooMany) -> Self {
        let TooMany { retry_after_seconds } = too_many;
        Self {
            retry_after_seconds: Some(retry_after_seconds),
            ..Self::of(Kind::RateLimited, "Nothing was started. Send the same request again after the pause.")
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).expect("structs of strings and integers always serialise");
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(Ok(location)) = self.location.as_deref().map(HeaderValue::from_str) {
            headers.insert(header::LOCATION, location);
        }
        if self.kind == Kind::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"payonce\""));
        }
        response
    }
}

/// The media type of problems.
pub const MEDIA_TYPE: &str = "application/problem+json";
