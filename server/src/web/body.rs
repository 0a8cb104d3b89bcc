//! Bodies are read whole, before anything looks at the request, within a bound of bytes and one of time.

use app::error::CheckoutError;
use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::request::Parts,
    middleware::Next,
    response::Response,
};
use http::{HeaderValue, header};
use tokio::time::{sleep, timeout};

use super::{MAX_BODY_BYTES, form::refusal};
use crate::{
    serve::{Bounds, Stopping},
    shop::Shop,
};

/// Largest event of the provider's that is read, in bytes, before its signature is looked at. Stripe's are a few thousand; one
/// with an expanded invoice is some ten thousand.
const EVENT_MAX_BYTES: usize = 256 * 1024;

/// Stands around the doors that take what browsers send.
pub async fn read_whole(State(shop): State<Shop>, request: Request, next: Next) -> Response {
    whole(&shop, request, next, MAX_BODY_BYTES).await
}

/// Stands around the door that takes what the provider sends.
pub async fn read_event(State(shop): State<Shop>, request: Request, next: Next) -> Response {
    whole(&shop, request, next, EVENT_MAX_BYTES).await
}

/// Reads a body of at most `max` bytes, and hands the request on. What is too large or comes too slowly is refused, and so is its connection, since
/// nobody knows where the next request begins on it.
async fn whole(shop: &Shop, request: Request, next: Next, max: usize) -> Response {
    let (parts, body) = request.into_parts();
    // A chunked body may have been announced with a length as well, which a proxy in front may have believed: then what
    // follows it is not the request that it seems to be.
    let ends_clearly = !parts.headers.contains_key(header::TRANSFER_ENCODING);
    let (mut response, whole) = match read(&parts, body, &shop.bounds, max).await {
        Ok(body) => (next.run(Request::from_parts(parts, Body::from(body))).await, true),
        Err(error) => (refusal(shop, parts.uri.path(), &error), false),
    };
    if !(whole && ends_clearly) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn read(parts: &Parts, body: Body, bounds: &Bounds, max: usize) -> Result<Bytes, CheckoutError> {
    let declared = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|bytes: usize| bytes > max) {
        return Err(CheckoutError::TooLarge);
    }
    tokio::select! {
        read = timeout(bounds.body_wait, to_bytes(body, max)) => match read {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(_)) if declared.is_none() => Err(CheckoutError::TooLarge),
            // Shorter than declared: whoever sent it is gone.
            Ok(Err(_)) => Err(CheckoutError::MalformedRequest),
            Err(_) => Err(CheckoutError::TooSlow),
        },
        () = half_sent(parts, bounds) => Err(CheckoutError::TooSlow),
    }
}

/// The moment when a stopping server no longer waits for the rest of a request.
async fn half_sent(parts: &Parts, bounds: &Bounds) {
    match parts.extensions.get::<Stopping>() {
        Some(Stopping(stop)) => {
            stop.cancelled().await;
            sleep(bounds.half_sent_wait).await;
        }
        None => std::future::pending().await,
    }
}
