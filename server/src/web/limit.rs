//! The rate limit of browsers: whatever an address posts counts. What is too much starts nothing, and the page keeps its UUID.

use app::error::CheckoutError;
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::Method;

use super::{form, rpc};
use crate::shop::Shop;

/// Stands before everything that changes something; looking is free.
pub async fn posts(State(shop): State<Shop>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    match shop.guard.admit_address(request.extensions(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(too_many) => {
            let error = CheckoutError::RateLimited { retry_after_seconds: too_many.retry_after_seconds };
            if request.uri().path().starts_with(rpc::PREFIX) {
                rpc::refuse(&error)
            } else {
                form::problem(&shop, &error, None)
            }
        }
    }
}
