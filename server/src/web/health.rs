//! What supervisors and proxies ask. No secrets, no load.

use std::time::Duration;

use axum::{extract::State, response::IntoResponse};
use http::StatusCode;

use crate::shop::Shop;

/// How long a readiness answer may wait for the database, in seconds: supervisors usually give up after 5.
const READINESS_WAIT_SECONDS: u64 = 2;

/// The process runs.
pub async fn livez() -> &'static str {
    "ok\n"
}

/// The process can take a payment: the database answers and takes writes.
pub async fn readyz(State(shop): State<Shop>) -> impl IntoResponse {
    let asked = tokio::time::timeout(Duration::from_secs(READINESS_WAIT_SECONDS), shop.ctx.pool.takes_writes());
    match asked.await {
        Ok(true) => (StatusCode::OK, "ready\n"),
        Ok(false) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the database takes no writes\n"),
    }
}

/// Which build this is.
pub async fn version() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), "\n")
}
