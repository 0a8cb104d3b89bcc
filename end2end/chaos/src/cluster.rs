//! Postgres: a private cluster, run by `payonce postgres` as a child process, with a database for each world.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use sqlx::{
    ConnectOptions as _, Connection as _, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tempfile::TempDir;

use crate::process::{Process, Says};

/// Connections of a test's own to one database: it only looks.
const LOOKING_CONNECTIONS: u32 = 2;
/// How long the cluster may take to stop when nobody can wait for it asynchronously.
const STOP_SECONDS_MAX: Duration = Duration::from_secs(20);

/// A running cluster. It ends, and its files go, when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    process: Process,
    options: PgConnectOptions,
    databases: AtomicU32,
    _folder: TempDir,
}

/// One database of a cluster.
#[derive(Clone, Debug)]
pub struct Database {
    /// How to get there directly.
    pub options: PgConnectOptions,
    /// The test's own way there, to look at rows.
    pub pool: PgPool,
}

/// Where a server listens.
#[derive(Clone, Debug)]
pub enum Place {
    /// A Unix socket.
    Socket(PathBuf),
    /// Host and port.
    Tcp(String, u16),
}

impl Cluster {
    /// Makes and starts one.
    ///
    /// # Errors
    /// When the binary or Postgres is missing.
    pub async fn start() -> anyhow::Result<Self> {
        // Open enough for the account that Postgres runs under where the test is root.
        let folder = tempfile::Builder::new().prefix("chaos-").permissions(Permissions::from_mode(0o711)).tempdir()?;
        let settings = [("PAYONCE_DATA_DIR".to_owned(), folder.path().display().to_string())];
        let is_address = |line: &str| line.starts_with("postgres://").then(|| line.to_owned());
        let (process, url) = Process::start("postgres", "postgres", &settings, Says::Output, is_address).await?;
        Ok(Self { process, options: url.parse()?, databases: AtomicU32::new(0), _folder: folder })
    }

    /// Makes an empty database. A replica that starts on it brings its schema.
    ///
    /// # Errors
    /// When Postgres refuses.
    pub async fn database(&self) -> anyhow::Result<Database> {
        let name = format!("world_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let mut connection = self.options.connect().await?;
        // The name is made of digits and letters of our own.
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("create database {name}"))).execute(&mut connection).await?;
        connection.close().await?;
        let options = self.options.clone().database(&name);
        let pool = PgPoolOptions::new().max_connections(LOOKING_CONNECTIONS).connect_lazy_with(options.clone());
        Ok(Database { options, pool })
    }

    /// Where it listens.
    pub fn place(&self) -> Place {
        place(&self.options)
    }
}

/// Where the server of these options listens.
pub fn place(options: &PgConnectOptions) -> Place {
    options.get_socket().map_or_else(
        || Place::Tcp(options.get_host().to_owned(), options.get_port()),
        |folder| Place::Socket(folder.join(format!(".s.PGSQL.{}", options.get_port()))),
    )
}

impl Database {
    /// The address of this database by way of a proxy on a port of this machine. Unencrypted, so that the proxy can read along.
    ///
    /// # Errors
    /// Never, for the addresses that `payonce postgres` prints.
    pub fn url_through(&self, port: u16) -> anyhow::Result<String> {
        let mut url = self.options.to_url_lossy();
        url.set_query(Some("sslmode=disable"));
        url.set_host(Some("127.0.0.1")).context("an address with a host")?;
        url.set_port(Some(port)).ok().context("an address with a port")?;
        Ok(url.into())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // In order, so that no postmaster is left behind; its folder is removed only after that.
        self.process.close_input();
        let since = Instant::now();
        while !self.process.has_ended() && since.elapsed() < STOP_SECONDS_MAX {
            #[expect(clippy::disallowed_methods, reason = "a drop cannot wait asynchronously, and the test is over")]
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
