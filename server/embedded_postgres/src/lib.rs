//! A private PostgreSQL cluster that lives and dies with the server.
//!
//! It promises: data survives every end, kill -9 of the server, of PostgreSQL or of both included (fsync and data
//! checksums are on); there are never two postmasters on one cluster; nobody but the cluster's own account (and root) can
//! reach it, since it listens on a Unix socket in a closed folder only, and wants a random password there too; nothing runs
//! as root. It never touches a cluster that it did not make, and never sends a signal to a process that it did not identify
//! as its own.
//!
//! Reading order: [`EmbeddedPostgres::start`] → `home` (folders, account, lock) → `programs` (which PostgreSQL) → `cluster`
//! (makes it) → `postmaster` (runs it) → `supervisor` (restarts it when it dies, stops it when told).

#![forbid(unsafe_code)]

mod account;
mod cluster;
mod download;
mod error;
mod home;
mod postmaster;
mod process;
mod programs;
mod supervisor;
mod tools;

use std::path::{Path, PathBuf};

pub use error::EmbeddedPostgresError;
pub use tools::Tools;

use crate::{home::Home, postmaster::Postmaster, programs::Programs, supervisor::Supervisor};

/// Where the cluster lives.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The folder that gets the cluster; made if it is not there.
    pub folder: PathBuf,
}

impl EmbeddedOptions {
    /// The cluster of a data folder such as `.payonce`.
    pub fn in_data_dir(data_dir: &Path) -> Self {
        Self { folder: data_dir.join("postgres") }
    }
}

/// A running cluster. [`EmbeddedPostgres::stop`] ends it in order; dropping it asks it to stop and does not wait.
#[derive(Debug)]
pub struct EmbeddedPostgres {
    url: String,
    supervisor: Supervisor,
}

impl EmbeddedPostgres {
    /// Starts the cluster, making it first where there is none. It first stops what a killed server left running.
    ///
    /// # Errors
    /// See [`EmbeddedPostgresError`]; each text names the way out.
    pub async fn start(options: EmbeddedOptions) -> Result<Self, EmbeddedPostgresError> {
        let home = Home::prepare(&options.folder)?;
        let programs = Programs::find(&home).await?;
        postmaster::stop_orphan(&home).await?;
        let password = cluster::ensure(&home, &programs).await?;
        let socket_folder = home.socket_folder();
        let postmaster = Postmaster::launch(&home, &programs, &socket_folder).await?;
        let url = postmaster::url(&socket_folder, &password);
        tracing::info!("PostgreSQL {} runs in {}", programs.version, home.folder.display());
        Ok(Self { url, supervisor: Supervisor::watch(postmaster, socket_folder, home, programs) })
    }

    /// The address of a cluster that another process runs in this folder, if it looks as if one did: connecting tells. Starts
    /// and changes nothing. It holds the password: never log it.
    pub fn url_of_running(options: &EmbeddedOptions) -> Option<String> {
        let folder = std::fs::canonicalize(&options.folder).ok()?;
        let password = std::fs::read_to_string(folder.join("password")).ok()?;
        let socket_folder = folder.join("socket");
        let is_there = socket_folder.is_dir();
        is_there.then(|| postmaster::url(&socket_folder, password.trim()))
    }

    /// The address of the database `payonce`. It holds the password: never log it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops the cluster (fast shutdown, with a bound) and waits for its end.
    ///
    /// # Errors
    /// When the process had to be killed; the next start then recovers.
    pub async fn stop(self) -> Result<(), EmbeddedPostgresError> {
        self.supervisor.stop().await
    }
}
