//! The server functions' addresses. Bounds the body, runs the function, and gives its error the status it travels with.

use app::error::CheckoutError;
use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};

use super::{MAX_BODY_BYTES, provide_port};
use crate::shop::Shop;

/// Runs one server function.
///
/// The answer is always JSON: leptos would turn a call that also accepts HTML into a redirect to its referrer, which loses
/// the outcome.
pub async fn call(State(shop): State<Shop>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return refuse(&CheckoutError::TooLarge);
    };
    parts.headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let request = Request::from_parts(parts, Body::from(body));
    let response = leptos_axum::handle_server_fns_with_context(provide_port(shop), request).await.into_response();
    if response.status().is_success() { response } else { with_status_of_error(response).await }
}

/// leptos answers every error with 500; the error itself knows better.
async fn with_status_of_error(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let body = to_bytes(body, MAX_BODY_BYTES).await.unwrap_or_default();
    match serde_json::from_slice::<CheckoutError>(&body) {
        Ok(error) => {
            let (status, retry_after) = status_of(&error);
            parts.status = status;
            if let Some(seconds) = retry_after {
                parts.headers.insert(header::RETRY_AFTER, seconds);
            }
            Response::from_parts(parts, Body::from(body))
        }
        // Not ours: an unknown function, or a method it does not take.
        Err(_) => refuse(&CheckoutError::NotFound),
    }
}

/// An error as the answer of a server function.
fn refuse(error: &CheckoutError) -> Response {
    let (status, retry_after) = status_of(error);
    let mut response = (status, axum::Json(error)).into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

/// Status and `Retry-After` of an error.
pub fn status_of(error: &CheckoutError) -> (StatusCode, Option<HeaderValue>) {
    let status = StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    (status, error.retry_after_seconds().map(HeaderValue::from))
}
