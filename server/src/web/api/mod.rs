//! `/api`: the shop for programs, as JSON. [`document`] describes it, and is made from the same lines that route it.
//!
//! One merchant, one shop: every API key may see and pay every order, also those that browsers made. What belongs to one API key
//! alone are the idempotency keys of the orders that it makes. An answer that is no outcome is a [`problem::Problem`], whoever
//! gives it: handlers, extractors, the router, the limits. Nothing is decided here.

mod auth;
mod body;
mod idempotency_key;
mod intents;
mod openapi;
mod orders;
mod path;
mod payments;
mod prefer;
mod problem;
mod refunds;
pub mod wire;

use axum::{Router, extract::DefaultBodyLimit, middleware, response::IntoResponse as _, routing::get};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::{router::OpenApiRouter, routes};

pub use self::problem::{Kind, Problem};
use super::{MAX_BODY_BYTES, security};
use crate::shop::Shop;

/// Everything under `/api`.
pub fn router() -> Router<Shop> {
    let (routes, _described) = described().split_for_parts();
    routes
        .route("/api/openapi.json", get(openapi::serve))
        .method_not_allowed_fallback(async || Problem::of(Kind::MethodNotAllowed, "This address takes other methods."))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn(security::never_store))
        .layer(CatchPanicLayer::custom(|_panic| {
            tracing::error!("a call of the API panicked");
            Problem::of(Kind::Internal, "The server failed. Ask for the outcome, or send the same request again.")
                .into_response()
        }))
}

/// The description, as it is served and committed: OpenAPI 3.1.
pub fn document() -> String {
    let text = described().into_openapi().to_pretty_json();
    text.map(|text| format!("{text}\n")).unwrap_or_default()
}

/// Whether an address belongs to programs, so that also "nothing is here" is said in their language.
pub fn is_for_programs(uri: &http::Uri) -> bool {
    let path = uri.path();
    path == "/api" || path.starts_with("/api/")
}

/// Nothing is here.
pub fn not_found() -> Problem {
    Problem::of(Kind::NotFound, "There is nothing at this address.")
}

fn described() -> OpenApiRouter<Shop> {
    OpenApiRouter::with_openapi(openapi::frame())
        .routes(routes!(orders::create))
        .routes(routes!(orders::read))
        .routes(routes!(payments::pay))
        .routes(routes!(refunds::refund))
        .routes(routes!(intents::read))
}
