//! Logs: one compact line per event on standard error, filtered by `PAYONCE_LOG`.
//!
//! Standard output is never written to: it belongs to what a command answers. Secrets are kept out where they live: their
//! types print placeholders.

use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::EnvFilter;

/// Starts logging for the whole process; called once. The filter was checked by [`crate::config`].
pub fn start(filter: &str) {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .compact()
        .init();
}
