//! The composition root: what the commands of the binary start, in which order, and how it stops again.
//!
//! Stopping is the reverse of starting: not ready, no new connections, requests and payments in flight end or are handed over
//! to other replicas, then the sandbox, then the database. Each wait has a bound, and a second signal ends them all.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use app::Storefront;
use embedded_postgres::{EmbeddedOptions, EmbeddedPostgres};
use leptos::prelude::LeptosOptions;
use payments::{
    clock::Clock,
    ids::Ids,
    limits::Limits,
    provider::{
        breaker::{Breaker, BreakerLimits},
        stripe::{SecretKey, Stripe, StripeConfig, WebhookSecret},
    },
};
use tokio::{
    net::{TcpListener, TcpSocket},
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    config::{Database, Provider, Settings},
    guard::Guard,
    open_files,
    serve::{self, Bounds},
    shop::{Fittings, ProviderAddress, Shop, Site},
    upkeep, web, worker,
};

/// How long, after the time to stop is over, the database may take for the last words: handing over, and goodbye.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
/// Connections that may wait to be accepted, as far as the kernel allows. One that finds no place comes again only seconds
/// later, and later each time.
const BACKLOG: u32 = 16_384;

/// `payonce serve`.
///
/// # Errors
/// When something cannot be started; it then stops what it had started.
pub async fn serve(settings: Settings) -> anyhow::Result<()> {
    let stop = Stop::at_signal(settings.until_stdin_closes)?;
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
    let stop = Stop::at_signal(settings.until_stdin_closes)?;
    let listener = listen(settings.sandbox_addr, "PAYONCE_SANDBOX_ADDR")?;
    tracing::info!("sandbox provider on http://{}", listener.local_addr()?);
    sandbox::serve(listener, sandbox_config(&settings), stop.begun.cancelled_owned()).await?;
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
    let stop = Stop::at_signal(settings.until_stdin_closes)?;
    let cluster = EmbeddedPostgres::start(EmbeddedOptions::in_data_dir(&settings.data_dir)).await?;
    say_address(cluster.url());
    stop.begun.cancelled().await;
    cluster.stop().await?;
    Ok(())
}

async fn serve_with_database(settings: &Settings, database: &DatabaseRun, stop: Stop) -> anyhow::Result<()> {
    let pool = database.pool(settings).await?;
    let listener = listen(settings.addr, "PAYONCE_ADDR")?;
    let provider = ProviderRun::start(settings, listener.local_addr()?)?;
    let ctx = payments::Ctx::new(
        pool,
        Arc::new(Breaker::new(stripe(settings, &provider.url)?, BreakerLimits::for_lease(settings.lease))),
        Clock::System,
        Ids::secure(),
        limits(settings),
    );
    let shop = shop(settings, &ctx, &provider, &stop);
    if !settings.site_root.is_dir() {
        let folder = settings.site_root.display();
        tracing::warn!("PAYONCE_SITE_ROOT: there is no folder {folder}; pages come without style and scripts");
    }
    tracing::info!("shop on http://{}", listener.local_addr()?);

    let upkeep = upkeep::start(&ctx, settings.reconcile_every, &stop.begun);
    let deadline = serve_until(listener, shop, settings, &stop).await?;

    ctx.tasks.close();
    if !within(deadline, &stop, "payments in flight, which are handed over", ctx.tasks.wait()).await {
        hand_over(&ctx).await;
    }
    for (name, work) in upkeep {
        within(deadline, &stop, name, work).await;
    }
    provider.stop().await;
    // Hurry is no reason to leave sessions behind in the database; this wait is short.
    within(Instant::now() + CLOSE_PATIENCE, &Stop::default(), "connections to the database", ctx.pool.close()).await;
    Ok(())
}

/// Serves until the order to stop, then lets open requests end, for a while. Gives the moment by which everything else must
/// end too.
async fn serve_until(listener: TcpListener, shop: Shop, settings: &Settings, stop: &Stop) -> anyhow::Result<Instant> {
    let (bounds, closing) = (shop.bounds, CancellationToken::new());
    let mut serving = worker::spawn("shop", serve::serve(listener, web::router(shop), bounds, closing.clone()));
    tokio::select! {
        () = stop.begun.cancelled() => {}
        _ = &mut serving => anyhow::bail!("the accept loop has ended by itself"),
    }

    // Not ready any more, but open: balancers have this long to notice, and to send their customers elsewhere.
    stop.hurried.run_until_cancelled(sleep(settings.stop_delay)).await;
    closing.cancel();
    let deadline = Instant::now() + settings.stop_grace;
    within(deadline, stop, "requests", serving).await;
    Ok(deadline)
}

/// Waits for the end of something until `deadline`, or until somebody is in a hurry. Tells when it did not come.
async fn within(deadline: Instant, stop: &Stop, what: &str, end: impl IntoFuture) -> bool {
    let ended = tokio::select! {
        _ = end.into_future() => true,
        () = sleep_until(deadline) => false,
        () = stop.hurried.cancelled() => false,
    };
    if !ended {
        tracing::warn!("the time to stop is over; still open: {what}");
    }
    ended
}

/// Gives the intents that are still being executed to the other replicas, at once instead of when their leases end.
async fn hand_over(ctx: &payments::Ctx) {
    match timeout(CLOSE_PATIENCE, payments::recover::hand_over(ctx)).await {
        Ok(Ok(intents)) => tracing::info!(intents, "handed over to the other replicas"),
        Ok(Err(error)) => tracing::warn!(%error, "nothing could be handed over; the leases will end"),
        Err(_) => tracing::warn!("the database did not take the handing over in time; the leases will end"),
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

    /// Connects and brings the schema up to date.
    pub(crate) async fn pool(&self, settings: &Settings) -> anyhow::Result<payments::pool::Pool> {
        let url = match self {
            Self::Embedded(cluster) => cluster.url(),
            Self::Url(url) => url,
        };
        let pool = payments::pool::connect(url, settings.database_pool_size).await.context("DATABASE_URL")?;
        payments::schema::migrate(&pool).await.context("the schema could not be brought up to date")?;
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
    /// `shop` is where the shop listens, for the sandbox's events.
    fn start(settings: &Settings, shop: SocketAddr) -> anyhow::Result<Self> {
        match &settings.provider {
            Provider::Url(url) => Ok(Self { url: url.clone(), browsers: None, sandbox: None }),
            Provider::Sandbox => {
                let listener = listen(settings.sandbox_addr, "PAYONCE_SANDBOX_ADDR")?;
                let addr = listener.local_addr()?;
                tracing::info!("sandbox provider on http://{addr}");
                let stop = CancellationToken::new();
                let mut config = sandbox_config(settings);
                config.webhooks.endpoints = endpoint(settings, shop).into_iter().collect();
                let serving = sandbox::serve(listener, config, stop.clone().cancelled_owned());
                let task = worker::spawn("sandbox", async move {
                    if let Err(error) = serving.await {
                        tracing::error!(%error, "the sandbox provider ended");
                    }
                });
                let url = Url::parse(&from_here(addr)).context("the sandbox's address")?;
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

/// The provider's API, for a command beside the shop: the sandbox is that of a shop that runs.
pub(crate) fn provider_url(settings: &Settings) -> anyhow::Result<Url> {
    match &settings.provider {
        Provider::Url(url) => Ok(url.clone()),
        Provider::Sandbox => Url::parse(&from_here(settings.sandbox_addr)).context("the sandbox's address"),
    }
}

/// Where this process reaches what listens at `addr` in it.
fn from_here(addr: SocketAddr) -> String {
    let nowhere = if addr.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) };
    let host = if addr.ip().is_unspecified() { nowhere } else { addr.ip() };
    format!("http://{}", SocketAddr::new(host, addr.port()))
}

/// Where the sandbox of this process delivers its events, if there is a secret to sign them with.
fn endpoint(settings: &Settings, shop: SocketAddr) -> Option<sandbox::SetEndpoint> {
    let secret = settings.webhook_secrets.first()?;
    let url = format!("{}/webhooks/stripe", from_here(shop));
    Some(sandbox::SetEndpoint { url, secret: secret.expose().to_owned() })
}

pub(crate) fn stripe(settings: &Settings, url: &Url) -> anyhow::Result<Stripe> {
    let mut config = StripeConfig::new(url.clone(), SecretKey::new(settings.provider_secret_key.expose()));
    config.request_timeout = settings.provider_timeout;
    config.webhook_secrets =
        settings.webhook_secrets.iter().filter_map(|secret| WebhookSecret::parse(secret.expose())).collect();
    config.connect_timeout = config.connect_timeout.min(settings.provider_timeout / 2);
    Stripe::new(&config).context("the provider's client")
}

pub(crate) fn limits(settings: &Settings) -> Limits {
    Limits {
        pay_wait: settings.pay_wait,
        lease: settings.lease,
        longest_look_pause: Limits::look_pause_within(settings.lease, settings.provider_timeout),
        unknown_deadline: settings.unknown_deadline,
        bank_deadline: settings.bank_deadline,
        order_hold: settings.order_hold,
        provider_key_memory: settings.provider_key_memory,
        retention: settings.retention,
        order_key_memory: settings.retention,
        ..Limits::default()
    }
}

fn shop(settings: &Settings, ctx: &payments::Ctx, provider: &ProviderRun, stop: &Stop) -> Shop {
    Shop::from(Fittings {
        ctx: ctx.clone(),
        site: site(settings, provider),
        leptos: leptos_options(settings),
        guard: Guard::new(settings.guard.clone()),
        bounds: Bounds { max_connections: open_files::connections(settings.max_connections), ..Bounds::default() },
        stopping: stop.begun.clone(),
    })
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
        card_fields: settings.card_fields,
        storefront: Storefront {
            name: settings.shop_name.clone(),
            sandbox: matches!(settings.provider, Provider::Sandbox),
            ..Storefront::default()
        },
    }
}

fn sandbox_config(settings: &Settings) -> sandbox::Config {
    sandbox::Config {
        secret_key: settings.provider_secret_key.expose().to_owned(),
        publishable_key: settings.provider_publishable_key.clone(),
        ..sandbox::Config::at(settings.data_dir.join("sandbox"))
    }
}

fn leptos_options(settings: &Settings) -> LeptosOptions {
    LeptosOptions::builder()
        .output_name("payonce")
        .site_root(settings.site_root.to_string_lossy().into_owned())
        .site_addr(settings.addr)
        .build()
}

fn listen(addr: SocketAddr, setting: &str) -> anyhow::Result<TcpListener> {
    let listening = || {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // As every server does: the port of the one that was just stopped is free at once.
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        socket.listen(BACKLOG)
    };
    listening().with_context(|| format!("{setting}: cannot listen on {addr}"))
}

/// The order to stop.
#[derive(Clone, Default)]
struct Stop {
    /// The first SIGTERM or SIGINT, or the end of standard input where that was asked for.
    begun: CancellationToken,
    /// The second signal: whoever sends it knows that something is under way, and does not want to wait for it. What is in
    /// flight is handed over, and the end is as orderly as the other.
    hurried: CancellationToken,
}

impl Stop {
    fn at_signal(until_stdin_closes: bool) -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let stop = Self::default();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        if until_stdin_closes {
            let stop = stop.begun.clone();
            // A thread of its own: the runtime would wait for its own blocking read when the process ends by a signal.
            std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
                let end = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
                tracing::info!(error = end.err().map(tracing::field::display), "standard input has ended: stopping");
                stop.cancel();
            })?;
        }
        let ordered = stop.clone();
        worker::spawn("signals", async move {
            for (token, said) in [(&ordered.begun, "stopping"), (&ordered.hurried, "stopping without waiting")] {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                tracing::info!("{said}");
                token.cancel();
            }
        });
        Ok(stop)
    }
}

#[expect(clippy::print_stdout, reason = "the address is this command's output, for the program that called it")]
fn say_address(url: &str) {
    println!("{url}");
}
