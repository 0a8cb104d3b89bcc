//! The server functions' addresses, which leptos routes. Gives their errors the statuses they travel with.

use app::error::CheckoutError;
use axum::{
    body::{Body, to_bytes},
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};

use super::MAX_BODY_BYTES;

/// Where the server functions live.
pub const PREFIX: &str = "/rpc/";

/// Stands around every server function; other routes pass.
///
/// The answer is always JSON: leptos would turn a call that also accepts HTML into a redirect to its referrer, which loses
/// the outcome.
pub async fn around(mut request: Request, next: Next) -> Response {
    if !is_at(request.uri().path()) {
        return next.run(request).await;
    }
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let response = next.run(request).await;
    if response.status() == StatusCode::INTERNAL_SERVER_ERROR { with_status_of_error(response).await } else { response }
}

/// leptos answers every error with 500; the error itself knows better.
async fn with_status_of_error(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove("serverfnerror");
    let body = to_bytes(body, MAX_BODY_BYTES).await.unwrap_or_default();
    match serde_json::from_slice::<CheckoutError>(&body) {
        Ok(error) => carrying(&error, Response::from_parts(parts, Body::from(body))),
        Err(_) => refuse(&CheckoutError::Unavailable { retry_after_seconds: 2 }),
    }
}

/// Whether a server function would be at this address.
pub fn is_at(path: &str) -> bool {
    path.starts_with(PREFIX)
}

/// An error as the answer of a server function.
pub fn refuse(error: &CheckoutError) -> Response {
    carrying(error, axum::Json(error).into_response())
}

/// The answer with the status and the `Retry-After` that its error travels with.
pub fn carrying(error: &CheckoutError, mut response: Response) -> Response {
    *response.status_mut() = StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    if let Some(seconds) = error.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
