//! Logs: one compact line per event on standard error, filtered by `PAYONCE_LOG`.
//!
//! Standard output is never written to: it belongs to what a command answers. Secrets are kept out where they live: their
//! types print placeholders. A log that nobody takes any more (its reader is gone, its disk is full) is lost, and nothing else:
//! no payment and no stop ends with it.

use std::io::{self, IsTerminal as _, Write, stderr};

use tracing_subscriber::EnvFilter;

/// Starts logging for the whole process; called once. The filter was checked by [`crate::config`].
pub fn start(filter: &str) {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(|| Forgiving(stderr()))
        .log_internal_errors(false)
        .with_ansi(stderr().is_terminal())
        .compact()
        .init();
}

/// Standard error, as far as somebody takes it.
struct Forgiving(io::Stderr);

impl Write for Forgiving {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        Ok(self.0.write(line).unwrap_or(line.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().or(Ok(()))
    }
}
