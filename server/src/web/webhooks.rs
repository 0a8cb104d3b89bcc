//! `POST /webhooks/stripe`: what the provider tells of its own accord.
//!
//! Promise: nothing unsigned reaches the database or is read at all, and a 2xx means that the event is kept for good, if not
//! handled. A fault of ours is told with 503, so that the provider delivers again. Never: an answer waits for another call to
//! the provider.

use axum::{
    body::Bytes,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use payments::{
    inbox::{self, Received},
    provider::EventRefused,
};

use crate::shop::Shop;

/// Where the signature stands.
const SIGNATURE: &str = "stripe-signature";
/// When the provider should come again, in seconds; it keeps a schedule of its own.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// Takes in one delivery.
pub async fn receive(State(shop): State<Shop>, headers: HeaderMap, body: Bytes) -> Response {
    let event = match shop.ctx.provider.open_event(signature(&headers), &body, shop.ctx.clock.now()) {
        Ok(event) => event,
        Err(refused) => {
            tracing::warn!(%refused, "a webhook was refused");
            return (refusal(refused), format!("{refused}\n")).into_response();
        }
    };
    let id = event.id.clone();
    match inbox::receive(&shop.ctx, event).await {
        Ok(received) => {
            tracing::debug!(event = id, ?received, "an event was taken in");
            (StatusCode::OK, told(received)).into_response()
        }
        Err(error) => {
            tracing::error!(event = id, %error, "an event could not be taken in; the provider will deliver it again");
            let headers = [(header::RETRY_AFTER, RETRY_AFTER)];
            (StatusCode::SERVICE_UNAVAILABLE, headers, "not now; deliver it again\n").into_response()
        }
    }
}

/// The one signature, or none: two headers could be read in two ways.
fn signature(headers: &HeaderMap) -> &str {
    let mut values = headers.get_all(SIGNATURE).iter();
    match (values.next().and_then(|value| value.to_str().ok()), values.next()) {
        (Some(signature), None) => signature,
        (Some(_) | None, _) => "",
    }
}

fn refusal(refused: EventRefused) -> StatusCode {
    match refused {
        EventRefused::NotExpected => StatusCode::NOT_FOUND,
        EventRefused::Malformed | EventRefused::Forged | EventRefused::Untimely | EventRefused::Unreadable => {
            StatusCode::BAD_REQUEST
        }
    }
}

fn told(received: Received) -> &'static str {
    match received {
        Received::Again => "known\n",
        Received::Kept => "kept\n",
        Received::Handled(_) => "handled\n",
    }
}
