//! What supervisors, proxies and deployments ask. No secrets, no load.

use std::time::Duration;

use axum::{extract::State, response::IntoResponse};
use http::StatusCode;

use crate::shop::Shop;

/// How long a readiness answer may wait for the database, in seconds: supervisors usually give up after 5.
const READINESS_WAIT_SECONDS: u64 = 2;

/// The process runs, also while it stops.
pub async fn livez() -> &'static str {
    "ok\n"
}

/// The process takes payments: it is not about to stop, and the database answers and takes writes.
pub async fn readyz(State(shop): State<Shop>) -> impl IntoResponse {
    if shop.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
    }
    let asked = tokio::time::timeout(Duration::from_secs(READINESS_WAIT_SECONDS), shop.ctx.pool.takes_writes());
    match asked.await {
        Ok(true) => (StatusCode::OK, "ready\n"),
        Ok(false) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the database takes no writes\n"),
    }
}

/// Which build this is, line by line: its version, the commit it was made of where the build was told
/// (`PAYONCE_COMMIT=$(git rev-parse HEAD) cargo build`), and the newest migration it knows.
pub async fn version() -> String {
    let schema = payments::MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default();
    let commit = option_env!("PAYONCE_COMMIT").unwrap_or("unknown");
    format!("{}\ncommit {commit}\nschema {schema}\n", env!("CARGO_PKG_VERSION"))
}
