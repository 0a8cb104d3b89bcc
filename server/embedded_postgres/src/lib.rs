//! A private PostgreSQL cluster that lives and dies with the server.

use std::path::PathBuf;

/// Where and how the cluster runs.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The folder that gets the cluster; made if it is not there. `serve` passes `$PAYONCE_DATA_DIR/postgres`.
    pub data_dir: PathBuf,
}

/// Why the cluster did not start; each text names the way out.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedPostgresError {
    /// Skeleton.
    #[error("not there yet")]
    Unfinished,
}

/// A running cluster. [`EmbeddedPostgres::stop`] ends it in order; dropping it asks it to stop and does not wait.
#[derive(Debug)]
pub struct EmbeddedPostgres {
    url: String,
}

impl EmbeddedPostgres {
    /// Starts the cluster, making it first where there is none.
    ///
    /// # Errors
    /// See [`EmbeddedPostgresError`].
    pub async fn start(options: EmbeddedOptions) -> Result<Self, EmbeddedPostgresError> {
        let _ = options;
        Err(EmbeddedPostgresError::Unfinished)
    }

    /// The address of the database `payonce`, with its password: never log it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops the cluster (fast shutdown, bounded) and waits for its end.
    pub async fn stop(self) {}
}
