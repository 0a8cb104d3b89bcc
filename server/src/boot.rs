//! The composition root: what the commands of the binary start, in which order, and how it stops again.
//!
//! Stopping is the reverse of starting: no new connections, payments in flight end or are left to recovery, then the sandbox,
//! then the database. Each wait has a bound.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use app::Storefront;
use embedded_postgres::{EmbeddedOptions, EmbeddedPostgres};
use leptos::prelude::LeptosOptions;
use payments::{
    clock::Clock,
    ids::Ids,
    limits::Limits,
    provider::stripe::{SecretKey, Stripe, StripeConfig},
};
use tokio::{net::TcpListener, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    config::{Database, Provider, Settings},
    guard::Guard,
    shop::{ProviderAddress, Shop, Site},
    web, worker,
};

/// How long open requests and payments in flight together may take to end after the order to stop. A payment in flight waits
/// for the provider at most its time limit (10 s); what is not done by then, recovery finishes after the next start.
const GRACE: Duration = Duration::from_secs(20);
/// How long the pool may take to say goodbye after that.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
/// How much of a lease recovery pauses at most between two looks at one intent, so that it is final within the lease once the
/// faults stop.
const LOOK_PAUSE_OF_LEASE: f64 = 0.75;
/// How often expired leases are looked for, in milliseconds: an intent whose server died is finished this much later.
const RECOVERY_PAUSE_MS: u64 = 1_000;
/// How often archived answers of orders are looked for whose time is over: a batch is more than a replica makes meanwhile.
const ORDER_KEYS_PAUSE: Duration = Duration::from_secs(10);

/// `payonce serve`.
///
/// # Errors
/// When something cannot be started; it then stops what it had started.
pub async fn serve(settings: Settings) -> anyhow::Result<()> {
    let stop = stop_signal(settings.until_stdin_closes)?;
    let database = DatabaseRun::start(&settings).await?;
    let served = serve_with_database(&settings, &database, stop).await;
    database.stop().await;
    served
}

/// `payonce sandbox`.
///
/// # Errors
/// When its address is taken or its journal cannot be read.
pub async fn sandbox(settings: Settings) -> anyhow::Result<()> {
    let stop = stop_signal(settings.until_stdin_closes)?;
    let listener = listen(settings.sandbox_addr, "PAYONCE_SANDBOX_ADDR").await?;
    tracing::info!("sandbox provider on http://{}", listener.local_addr()?);
    sandbox::serve(listener, sandbox_config(&settings), stop.cancelled_owned()).await?;
    Ok(())
}

/// `payonce migrate`.
///
/// # Errors
/// When the database cannot be reached or refuses a migration.
pub async fn migrate(settings: Settings) -> anyhow::Result<()> {
    let database = DatabaseRun::start(&settings).await?;
    let migrated = database.pool(&settings).await.map(|_| ());
    database.stop().await;
    migrated
}

/// `payonce postgres`: prints the database's address as the first line, then runs it until it is told to stop.
///
/// # Errors
/// When the cluster cannot be started.
pub async fn postgres(settings: Settings) -> anyhow::Result<()> {
    let stop = stop_signal(settings.until_stdin_closes)?;
    let cluster = EmbeddedPostgres::start(EmbeddedOptions::in_data_dir(&settings.data_dir)).await?;
    say_address(cluster.url());
    stop.cancelled().await;
    cluster.stop().await?;
    Ok(())
}

async fn serve_with_database(
    settings: &Settings,
    database: &DatabaseRun,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let pool = database.pool(settings).await?;
    let provider = ProviderRun::start(settings).await?;
    let ctx = payments::Ctx::new(
        pool,
        Arc::new(stripe(settings, &provider.url)?),
        Clock::System,
        Ids::secure(),
        limits(settings),
    );
    let shop = Shop {
        ctx: ctx.clone(),
        site: Arc::new(site(settings, &provider)),
        leptos: leptos_options(settings),
        guard: Arc::new(Guard::new(settings.guard.clone())),
    };
    let listener = listen(settings.addr, "PAYONCE_ADDR").await?;
    tracing::info!("shop on http://{}", listener.local_addr()?);

    let recovery = worker::repeat("recovery", Duration::from_millis(RECOVERY_PAUSE_MS), stop.clone(), {
        let ctx = ctx.clone();
        move || {
            let ctx = ctx.clone();
            async move { recover(&ctx).await }
        }
    });
    let order_keys = worker::repeat("order keys", ORDER_KEYS_PAUSE, stop.clone(), {
        let ctx = ctx.clone();
        move || {
            let ctx = ctx.clone();
            async move { purge_order_keys(&ctx).await }
        }
    });
    let deadline = serve_until(listener, shop, stop).await?;

    ctx.tasks.close();
    within(deadline, "payments in flight; recovery finishes them", ctx.tasks.wait()).await;
    within(deadline, "recovery", recovery).await;
    within(deadline, "the purge of order keys", order_keys).await;
    provider.stop().await;
    within(deadline + CLOSE_PATIENCE, "connections to the database", ctx.pool.close()).await;
    Ok(())
}

/// Serves until `stop`, then lets open requests end, for a while. Gives the moment by which everything else must end too.
async fn serve_until(listener: TcpListener, shop: Shop, stop: CancellationToken) -> anyhow::Result<Instant> {
    let mut serving = std::pin::pin!(
        axum::serve(listener, web::router(shop)).with_graceful_shutdown(stop.clone().cancelled_owned()).into_future()
    );
    let ended = tokio::select! {
        served = &mut serving => {
            served?;
            true
        }
        () = stop.cancelled() => false,
    };
    let deadline = Instant::now() + GRACE;
    if !ended {
        within(deadline, "connections", serving).await;
    }
    Ok(deadline)
}

/// Waits for the end of something until `deadline`, and tells when it did not come.
async fn within(deadline: Instant, what: &str, end: impl IntoFuture) {
    if tokio::time::timeout_at(deadline, end).await.is_err() {
        tracing::warn!("the time to stop is over; still open: {what}");
    }
}

async fn recover(ctx: &payments::Ctx) {
    match payments::recover::run_once(ctx).await {
        Ok(0) => {}
        Ok(intents) => tracing::info!(intents, "recovery looked after intents that had no owner"),
        Err(error) => tracing::warn!(%error, "recovery could not look for intents without an owner"),
    }
}

async fn purge_order_keys(ctx: &payments::Ctx) {
    match payments::order::by_key::purge_once(ctx).await {
        Ok(0) => {}
        Ok(keys) => tracing::info!(keys, "dropped archived answers of orders whose time was over"),
        Err(error) => tracing::warn!(%error, "could not drop archived answers of orders"),
    }
}

/// The database, and the cluster if it is ours.
pub(crate) enum DatabaseRun {
    Embedded(Box<EmbeddedPostgres>),
    Url(String),
}

impl DatabaseRun {
    pub(crate) async fn start(settings: &Settings) -> anyhow::Result<Self> {
        match &settings.database {
            Database::Url(url) => Ok(Self::Url(url.expose().to_owned())),
            Database::Embedded => {
                let cluster = EmbeddedPostgres::start(EmbeddedOptions::in_data_dir(&settings.data_dir)).await?;
                Ok(Self::Embedded(Box::new(cluster)))
            }
        }
    }

    /// Connects and brings the schema up to date. Replicas that start together take turns by a lock of the migrator.
    pub(crate) async fn pool(&self, settings: &Settings) -> anyhow::Result<sqlx::PgPool> {
        let url = match self {
            Self::Embedded(cluster) => cluster.url(),
            Self::Url(url) => url,
        };
        let pool = payments::pool::connect(url, settings.database_pool_size).await.context("DATABASE_URL")?;
        payments::MIGRATOR.run(&pool).await.context("the schema could not be brought up to date")?;
        Ok(pool)
    }

    pub(crate) async fn stop(self) {
        if let Self::Embedded(cluster) = self
            && let Err(error) = cluster.stop().await
        {
            tracing::warn!(%error, "the embedded database did not stop in time");
        }
    }
}

/// The provider, and the sandbox if it is ours.
struct ProviderRun {
    url: Url,
    browsers: Option<ProviderAddress>,
    sandbox: Option<(CancellationToken, JoinHandle<()>)>,
}

impl ProviderRun {
    async fn start(settings: &Settings) -> anyhow::Result<Self> {
        match &settings.provider {
            Provider::Url(url) => Ok(Self { url: url.clone(), browsers: None, sandbox: None }),
            Provider::Sandbox => {
                let listener = listen(settings.sandbox_addr, "PAYONCE_SANDBOX_ADDR").await?;
                let addr = listener.local_addr()?;
                tracing::info!("sandbox provider on http://{addr}");
                let stop = CancellationToken::new();
                let serving = sandbox::serve(listener, sandbox_config(settings), stop.clone().cancelled_owned());
                let task = worker::spawn("sandbox", async move {
                    if let Err(error) = serving.await {
                        tracing::error!(%error, "the sandbox provider ended");
                    }
                });
                let host = if addr.ip().is_unspecified() { "127.0.0.1".to_owned() } else { addr.ip().to_string() };
                let url = Url::parse(&format!("http://{host}:{}", addr.port())).context("the sandbox's address")?;
                let browsers = Some(ProviderAddress::SameHost { port: addr.port() });
                Ok(Self { url, browsers, sandbox: Some((stop, task)) })
            }
        }
    }

    async fn stop(self) {
        if let Some((stop, task)) = self.sandbox {
            stop.cancel();
            if task.await.is_err() {
                tracing::warn!("the sandbox provider did not stop cleanly");
            }
        }
    }
}

fn stripe(settings: &Settings, url: &Url) -> anyhow::Result<Stripe> {
    let mut config = StripeConfig::new(url.clone(), SecretKey::new(settings.provider_secret_key.expose()));
    config.request_timeout = settings.provider_timeout;
    config.connect_timeout = config.connect_timeout.min(settings.provider_timeout / 2);
    Stripe::new(&config).context("the provider's client")
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        pay_wait: settings.pay_wait,
        lease: settings.lease,
        longest_look_pause: settings.lease.mul_f64(LOOK_PAUSE_OF_LEASE).min(Limits::default().longest_look_pause),
        unknown_deadline: settings.unknown_deadline,
        provider_key_memory: settings.provider_key_memory,
        ..Limits::default()
    }
}

fn site(settings: &Settings, provider: &ProviderRun) -> Site {
    let configured = settings.provider_public_url.clone().map(ProviderAddress::Fixed);
    Site {
        site_root: settings.site_root.clone(),
        public_url: settings.public_url.clone(),
        provider: configured
            .or_else(|| provider.browsers.clone())
            .unwrap_or_else(|| ProviderAddress::Fixed(provider.url.clone())),
        publishable_key: settings.provider_publishable_key.clone(),
        storefront: Storefront {
            name: settings.shop_name.clone(),
            sandbox: matches!(settings.provider, Provider::Sandbox),
            ..Storefront::default()
        },
    }
}

fn sandbox_config(settings: &Settings) -> sandbox::Config {
    sandbox::Config {
        data_dir: settings.data_dir.join("sandbox"),
        secret_key: settings.provider_secret_key.expose().to_owned(),
        publishable_key: settings.provider_publishable_key.clone(),
        journal_sync: true,
        key_memory: Duration::from_hours(24),
    }
}

fn leptos_options(settings: &Settings) -> LeptosOptions {
    LeptosOptions::builder()
        .output_name("payonce")
        .site_root(settings.site_root.to_string_lossy().into_owned())
        .site_addr(settings.addr)
        .build()
}

async fn listen(addr: std::net::SocketAddr, setting: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(addr).await.with_context(|| format!("{setting}: cannot listen on {addr}"))
}

/// Cancelled on SIGINT or SIGTERM, and at the end of standard input where that was asked for.
fn stop_signal(until_stdin_closes: bool) -> anyhow::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let stop = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    if until_stdin_closes {
        let stop = stop.clone();
        // A thread of its own: the runtime would wait for its own blocking read when the process ends by a signal.
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            let end = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            tracing::info!(error = end.err().map(tracing::field::display), "standard input has ended");
            stop.cancel();
        })?;
    }
    let cancel = stop.clone();
    worker::spawn("signals", async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = cancel.cancelled() => {}
        }
        tracing::info!("stopping");
        cancel.cancel();
    });
    Ok(stop)
}

#[expect(clippy::print_stdout, reason = "the address is this command's output, for the program that called it")]
fn say_address(url: &str) {
    println!("{url}");
}
