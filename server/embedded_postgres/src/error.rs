//! Why the embedded cluster did not start or stop. Every text says what to do; none holds the password.

use std::{io, path::PathBuf, time::Duration};

/// The ways out that fit most problems.
const OR_YOUR_OWN: &str = "or set DATABASE_URL to a database of your own";

/// Why the cluster did not start or stop; each text names the way out.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedPostgresError {
    /// Another server runs on this data folder.
    #[error(
        "the embedded database in {folder:?} is in use by process {pid}; stop that one, or give this one its own \
         PAYONCE_DATA_DIR"
    )]
    InUse {
        /// The folder of the cluster.
        folder: PathBuf,
        /// The other server, as it wrote it down.
        pid: String,
    },
    /// The cluster was made under another account.
    #[error(
        "the embedded database in {folder:?} belongs to user id {uid}; run payonce as that user, give it its own \
         PAYONCE_DATA_DIR, {OR_YOUR_OWN}"
    )]
    Foreign {
        /// The folder of the cluster.
        folder: PathBuf,
        /// Whose it is.
        uid: u32,
    },
    /// Root, and no account to run as.
    #[error(
        "PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody` to run it as; \
         `useradd --system postgres` adds one, {OR_YOUR_OWN}"
    )]
    NoAccount,
    /// A folder or file could not be made or read.
    #[error("{what} {path:?} failed: {source}; check the folder, set PAYONCE_DATA_DIR to another, {OR_YOUR_OWN}")]
    Files {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing installed, and the download failed.
    #[error(
        "{wanted} is not installed, and downloading it failed ({cause}); install it (Debian and Ubuntu: \
         `apt-get install postgresql`, macOS: `brew install postgresql`) {OR_YOUR_OWN}"
    )]
    NoPrograms {
        /// Which PostgreSQL.
        wanted: String,
        /// Why the download failed.
        cause: String,
    },
    /// A program of PostgreSQL could not be run or reported a failure.
    #[error("{program:?} failed: {output}; see {log:?}, {OR_YOUR_OWN}")]
    Program {
        /// Which one.
        program: PathBuf,
        /// What it said.
        output: String,
        /// Where the cluster's log is.
        log: PathBuf,
    },
    /// The cluster did not become ready in time.
    #[error("PostgreSQL was not ready after {} s; see {log:?}, {OR_YOUR_OWN}", waited.as_secs())]
    NotReady {
        /// How long it got.
        waited: Duration,
        /// Where the cluster's log is.
        log: PathBuf,
    },
    /// What a killed server left running does not stop.
    #[error("PostgreSQL of an earlier run (process {pid}) does not stop; stop it by hand with `kill -QUIT {pid}`")]
    OrphanStays {
        /// Its process.
        pid: u32,
    },
    /// The shutdown took longer than its bound.
    #[error("PostgreSQL did not stop in time and was killed; nothing is lost, the next start recovers")]
    Killed,
}

impl EmbeddedPostgresError {
    /// For `map_err` on file operations.
    pub(crate) fn files(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Files { what, path, source }
    }
}
