//! The command line and the settings. The only file that reads the environment.
//!
//! It reports every problem at once, calls an unknown `PAYONCE_*` variable an error and suggests the one that was meant,
//! and never shows a secret: neither in an error nor in `Debug`.

mod reader;
mod stripe;
mod values;

use std::{
    fmt::{self, Write as _},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use clap::{Parser, Subcommand};
use url::Url;

use self::{
    reader::Reader,
    values::{
        address, card_fields, connections, hours, log_filter, milliseconds, minutes, number, postgres_url,
        publishable_key, web_url, webhook_secrets,
    },
};
use crate::{guard::GuardOptions, shop::CardFields};

/// A checkout that charges exactly once.
#[derive(Clone, Debug, Parser)]
#[command(name = "payonce", version, about, after_help = settings_help())]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    /// Stop when standard input ends, as on SIGTERM: for a parent that must not leave the process behind.
    #[arg(long, global = true)]
    pub until_stdin_closes: bool,
}

/// What the one binary can do.
#[derive(Clone, Debug, Eq, PartialEq, Subcommand)]
pub enum Command {
    /// Run the shop, and the sandbox provider and the embedded database where nothing else is set.
    Serve,
    /// Run only the sandbox provider.
    Sandbox,
    /// Bring the database to this version's schema, then stop.
    Migrate,
    /// Run only the embedded database; its address is the first line on standard output.
    Postgres,
    /// Make, list and revoke the API keys of programs.
    ApiKey {
        #[command(subcommand)]
        command: crate::api_keys::ApiKeyCommand,
    },
    /// Compare the provider's charges and refunds with our books. Exits with 0: nothing is open, 1: something is, 2: not done.
    Reconcile(crate::reconcile::ReconcileArgs),
    /// Print the description of the API for programs (OpenAPI 3.1).
    Openapi,
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
    /// `PAYONCE_WEBHOOK_SECRETS`: with which the provider signs its events; several while they are rotated.
    pub webhook_secrets: Vec<Secret>,
    /// `PAYONCE_PROVIDER_PUBLISHABLE_KEY`.
    pub provider_publishable_key: String,
    /// `PAYONCE_CARD_FIELDS`: who shows the fields for the card; unset, whose API it is decides.
    pub card_fields: CardFields,
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
    /// `PAYONCE_LEASE_MS`: how long a server owns a payment that it works on.
    pub lease: Duration,
    /// `PAYONCE_UNKNOWN_DEADLINE_MS`: by when an outcome that is not known is decided.
    pub unknown_deadline: Duration,
    /// `PAYONCE_BANK_DEADLINE_MS`: how long a payment may wait for its customer at the bank.
    pub bank_deadline: Duration,
    /// `PAYONCE_ORDER_HOLD_MS`: how long an order that nobody pays keeps its stock.
    pub order_hold: Duration,
    /// `PAYONCE_PROVIDER_KEY_MEMORY_MS`: for how long the provider remembers an idempotency key for sure.
    pub provider_key_memory: Duration,
    /// `PAYONCE_RETENTION_HOURS`: how long a final answer is repeated before it is purged.
    pub retention: Duration,
    /// `PAYONCE_RECONCILE_MINUTES`: how often `serve` compares the provider's charges with our books; `None`: never.
    pub reconcile_every: Option<Duration>,
    /// `PAYONCE_DATABASE_POOL_SIZE`: connections to the database at most.
    pub database_pool_size: u32,
    /// `PAYONCE_MAX_CONNECTIONS`: from customers, at most.
    pub max_connections: usize,
    /// `PAYONCE_STOP_DELAY_MS`: how long the shop stays open after the order to stop, when it is no longer ready.
    pub stop_delay: Duration,
    /// `PAYONCE_STOP_GRACE_MS`: how long what is in flight may take to end after that.
    pub stop_grace: Duration,
    /// `PAYONCE_API_…`, `PAYONCE_ADDRESS_…`, `PAYONCE_TRUSTED_PROXIES`: who may come in, and how often.
    pub guard: GuardOptions,
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

/// A text that is never shown: `Debug` prints a placeholder.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(secret)")
    }
}

impl Settings {
    /// Reads the environment and checks all of it.
    ///
    /// # Errors
    /// Every problem found, not only the first.
    #[expect(clippy::disallowed_methods, reason = "this is the file that the ban on reading the environment points to")]
    pub fn from_environment(cli: &Cli) -> Result<Self, Problems> {
        // A variable that is not Unicode cannot be one of ours with a good value; the lossy text gets the error it deserves.
        let all = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
        Self::from_variables(cli, all)
    }

    fn from_variables(cli: &Cli, all: impl Iterator<Item = (String, String)>) -> Result<Self, Problems> {
        let mut reader = Reader::new(all);
        let provider = reader.optional("PAYONCE_PROVIDER_URL", web_url).map_or(Provider::Sandbox, Provider::Url);
        let card_fields = reader.optional("PAYONCE_CARD_FIELDS", card_fields);
        let settings = Self {
            addr: reader.parsed("PAYONCE_ADDR", address),
            sandbox_addr: reader.parsed("PAYONCE_SANDBOX_ADDR", address),
            data_dir: PathBuf::from(reader.text("PAYONCE_DATA_DIR")),
            database: reader.optional("DATABASE_URL", postgres_url).map_or(Database::Embedded, Database::Url),
            card_fields: card_fields.unwrap_or(if provider.is_stripe() {
                CardFields::Element
            } else {
                CardFields::Own
            }),
            provider,
            provider_public_url: reader.optional("PAYONCE_PROVIDER_PUBLIC_URL", web_url),
            provider_secret_key: Secret(reader.text("PAYONCE_PROVIDER_SECRET_KEY")),
            webhook_secrets: reader.optional("PAYONCE_WEBHOOK_SECRETS", webhook_secrets).unwrap_or_default(),
            provider_publishable_key: reader.parsed("PAYONCE_PROVIDER_PUBLISHABLE_KEY", publishable_key),
            public_url: reader.optional("PAYONCE_PUBLIC_URL", web_url),
            site_root: PathBuf::from(reader.text("PAYONCE_SITE_ROOT")),
            shop_name: reader.text("PAYONCE_SHOP_NAME"),
            provider_timeout: reader.parsed("PAYONCE_PROVIDER_TIMEOUT_MS", |text| milliseconds(text, 100..=120_000)),
            pay_wait: reader.parsed("PAYONCE_PAY_WAIT_MS", |text| milliseconds(text, 0..=30_000)),
            lease: reader.parsed("PAYONCE_LEASE_MS", |text| milliseconds(text, 500..=600_000)),
            unknown_deadline: reader.parsed("PAYONCE_UNKNOWN_DEADLINE_MS", |text| milliseconds(text, 500..=3_600_000)),
            bank_deadline: reader.parsed("PAYONCE_BANK_DEADLINE_MS", |text| milliseconds(text, 500..=86_400_000)),
            order_hold: reader.parsed("PAYONCE_ORDER_HOLD_MS", |text| milliseconds(text, 500..=2_592_000_000)),
            provider_key_memory: reader
                .parsed("PAYONCE_PROVIDER_KEY_MEMORY_MS", |text| milliseconds(text, 0..=2_592_000_000)),
            retention: reader.parsed("PAYONCE_RETENTION_HOURS", |text| hours(text, 1..=8_760)),
            reconcile_every: reader.parsed("PAYONCE_RECONCILE_MINUTES", |text| minutes(text, 0..=10_080)),
            database_pool_size: reader.parsed("PAYONCE_DATABASE_POOL_SIZE", |text| number(text, 1..=1_000)),
            max_connections: reader.parsed("PAYONCE_MAX_CONNECTIONS", connections),
            stop_delay: reader.parsed("PAYONCE_STOP_DELAY_MS", |text| milliseconds(text, 0..=60_000)),
            stop_grace: reader.parsed("PAYONCE_STOP_GRACE_MS", |text| milliseconds(text, 0..=600_000)),
            guard: reader.guard(),
            log: reader.parsed("PAYONCE_LOG", log_filter),
            until_stdin_closes: cli.until_stdin_closes,
        };
        reader.problems.extend(stripe::problems(&settings, |name| reader.variables.contains_key(name)));
        reader.check_distinct_addresses(&settings);
        reader.check_lease(&settings);
        if reader.problems.is_empty() { Ok(settings) } else { Err(Problems(reader.problems)) }
    }
}

/// What is wrong with the settings, one line each.
#[derive(Debug)]
pub struct Problems(Vec<String>);

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the settings do not work:")?;
        self.0.iter().try_for_each(|problem| write!(formatter, "\n  - {problem}"))
    }
}

impl std::error::Error for Problems {}

/// One setting: its variable, its default ("" where absence has a meaning of its own), and what it is.
struct Setting {
    name: &'static str,
    default: &'static str,
    about: &'static str,
}

/// Every variable that is read, in the order of the help text.
const SETTINGS: &[Setting] = &[
    setting("PAYONCE_ADDR", "127.0.0.1:3000", "where the shop listens"),
    setting("PAYONCE_SANDBOX_ADDR", "127.0.0.1:3001", "where the sandbox provider listens"),
    setting("PAYONCE_DATA_DIR", ".payonce", "the embedded database and the sandbox's journal"),
    setting(
        "DATABASE_URL",
        "",
        "a PostgreSQL database, `host1:port,host2:port` for a primary and its standbys; unset: embedded",
    ),
    setting("PAYONCE_DATABASE_POOL_SIZE", "16", "connections to the database at most"),
    setting("PAYONCE_PROVIDER_URL", "", "the payment provider's API; unset: the sandbox, run by `serve` itself"),
    setting("PAYONCE_PROVIDER_PUBLIC_URL", "", "where browsers reach the provider, if elsewhere"),
    setting("PAYONCE_PROVIDER_SECRET_KEY", "sk_test_payonce", "the provider's secret key"),
    setting(
        "PAYONCE_WEBHOOK_SECRETS",
        "",
        "`whsec_…`, with which the provider signs its events; two while they are rotated",
    ),
    setting("PAYONCE_PROVIDER_PUBLISHABLE_KEY", "pk_test_payonce", "the provider's publishable key"),
    setting(
        "PAYONCE_CARD_FIELDS",
        "",
        "who shows the card fields: `element` is Stripe's script, `own` this shop; unset: by the provider",
    ),
    setting("PAYONCE_PROVIDER_TIMEOUT_MS", "10000", "how long one call to the provider may take"),
    setting("PAYONCE_PAY_WAIT_MS", "10000", "how long a repeated Pay waits for the first one's outcome"),
    setting("PAYONCE_LEASE_MS", "20000", "after which another server finishes a payment whose server is gone"),
    setting("PAYONCE_UNKNOWN_DEADLINE_MS", "60000", "by when a payment is cancelled whose outcome is not known"),
    setting("PAYONCE_BANK_DEADLINE_MS", "1800000", "how long a payment may wait for its customer at the bank"),
    setting("PAYONCE_ORDER_HOLD_MS", "3600000", "how long an order that nobody pays keeps its stock"),
    setting("PAYONCE_PROVIDER_KEY_MEMORY_MS", "82800000", "how long the provider remembers idempotency keys"),
    setting("PAYONCE_RETENTION_HOURS", "24", "how long the answer to a Pay is repeated before it is forgotten"),
    setting("PAYONCE_RECONCILE_MINUTES", "60", "how often all charges are compared with the provider's; 0: never"),
    setting("PAYONCE_PUBLIC_URL", "", "the shop's own address; unset: taken from the request"),
    setting("PAYONCE_SITE_ROOT", "target/site", "the built files for the browser"),
    setting("PAYONCE_SHOP_NAME", "Tidewater Goods", "the name on every page"),
    setting("PAYONCE_MAX_CONNECTIONS", "20000", "connections of customers at most, as far as `ulimit -n` allows"),
    setting(
        "PAYONCE_STOP_DELAY_MS",
        "0",
        "on SIGTERM: how long to stay open, no longer ready, for balancers to notice",
    ),
    setting("PAYONCE_STOP_GRACE_MS", "20000", "and then: how long requests in flight may take to end"),
    setting("PAYONCE_API_RATE_PER_SECOND", "100", "calls of one API key; 0: no limit"),
    setting("PAYONCE_API_BURST", "200", "calls of one API key at once, after a rest"),
    setting("PAYONCE_ADDRESS_RATE_PER_SECOND", "50", "posts of one address's browsers, and keys it tries; 0: no limit"),
    setting("PAYONCE_ADDRESS_BURST", "500", "the same at once, after a rest"),
    setting("PAYONCE_TRUSTED_PROXIES", "0", "proxies in front: how many, or their networks, as 10.0.0.0/8,fd00::/8"),
    setting("PAYONCE_LOG", "info,sqlx=warn,reqwest_retry=error", "which events are logged, from where"),
];

const fn setting(name: &'static str, default: &'static str, about: &'static str) -> Setting {
    Setting { name, default, about }
}

fn settings_help() -> String {
    let mut help = String::from("Environment:\n");
    for Setting { name, default, about } in SETTINGS {
        let default = if default.is_empty() { String::new() } else { format!(" [{default}]") };
        // Writing to a `String` cannot fail.
        let _ = writeln!(help, "  {name:<33} {about}{default}");
    }
    help
}

#[cfg(test)]
mod tests;
