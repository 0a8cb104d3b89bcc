//! Headers that every answer carries, and the ones that only a checkout's answers carry.

use axum::{extract::Request, middleware::Next, response::Response};
use http::{HeaderValue, header};

/// Pages and answers of a checkout speak of one customer at one moment: no cache keeps them.
pub async fn never_store(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Content is what it says it is, and an order's address, which is the capability to see it, leaks to no other origin.
pub async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}
