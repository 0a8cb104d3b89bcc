//! What is measured, as processes: Postgres on the first core, the shop, its provider and the load on the others.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail};
use sqlx::{PgPool, Row as _, postgres::PgPoolOptions};
use tokio::time::{Instant, sleep};

use crate::{Plan, client::Connection, provider::Counts};

/// Connections of each replica to the database, as by default.
pub const POOL_SIZE: u32 = 16;
/// Longest start of anything.
const START_SECONDS_MAX: u64 = 60;
/// Longest orderly end of anything.
const STOP_SECONDS_MAX: u64 = 30;
/// The core that Postgres has to itself.
const POSTGRES_CORE: usize = 0;

/// How much of a shop.
#[derive(Clone, Copy)]
pub struct Size {
    pub replicas: usize,
    pub provider_delay: Duration,
    /// How many confirms the provider lets gather before it answers the first.
    pub gather: usize,
}

impl Size {
    pub const fn one() -> Self {
        Self { replicas: 1, provider_delay: Duration::ZERO, gather: 0 }
    }
}

pub struct Shop {
    pub replicas: Vec<Replica>,
    pub database: PgPool,
    pub database_url: String,
    provider: SocketAddr,
    others: String,
    /// In the order in which they end.
    children: Vec<Running>,
    _data: tempfile::TempDir,
}

pub struct Replica {
    pub addr: SocketAddr,
    pub pid: u32,
}

/// A child process. payonce ends when its standard input does, and takes its Postgres with it; the rest is killed.
pub struct Running(Child);

impl Shop {
    pub async fn start(plan: &Plan, size: Size) -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism()?.get();
        if cores < 2 {
            bail!("Postgres gets a core of its own, so this takes at least two");
        }
        let others = if cores == 2 { "1".to_owned() } else { format!("1-{}", cores - 1) };
        let data = tempfile::Builder::new().prefix("payonce-bench-").tempdir()?;
        let mut postgres = pinned(&POSTGRES_CORE.to_string(), &plan.payonce.to_string_lossy());
        postgres.args(["postgres", "--until-stdin-closes"]).env("PAYONCE_DATA_DIR", data.path());
        let (postgres, database_url) = Running::start_and_read_line(postgres)?;

        let provider = free_port()?;
        let own = std::env::current_exe()?;
        let mut command = pinned(&others, &own.to_string_lossy());
        command.args(["provider", &provider.to_string(), &size.provider_delay.as_millis().to_string()]);
        command.arg(size.gather.to_string());
        let mut children = vec![Running::start(command)?];
        let mut replicas = Vec::new();
        for _ in 0..size.replicas {
            let addr = free_port()?;
            let mut command = pinned(&others, &plan.payonce.to_string_lossy());
            command
                .args(["serve", "--until-stdin-closes"])
                .env("PAYONCE_DATA_DIR", data.path())
                .env("PAYONCE_ADDR", addr.to_string())
                .env("DATABASE_URL", &database_url)
                .env("PAYONCE_DATABASE_POOL_SIZE", POOL_SIZE.to_string())
                .env("PAYONCE_PROVIDER_URL", format!("http://{provider}"))
                // One address sends all the load.
                .env("PAYONCE_ADDRESS_RATE_PER_SECOND", "0")
                // Ten seconds of provider are the point of a measurement here, not a fault.
                .env("PAYONCE_PROVIDER_TIMEOUT_MS", "100000")
                .env("PAYONCE_PAY_WAIT_MS", "30000")
                .env("PAYONCE_LEASE_MS", "120000")
                .stderr(log(plan, size.gather, addr)?);
            let child = Running::start(command)?;
            replicas.push(Replica { addr, pid: child.0.id() });
            children.insert(0, child);
            ready(addr, "/readyz").await?;
        }
        ready(provider, "/counts").await?;
        children.push(postgres);
        let database = PgPoolOptions::new().max_connections(2).connect(&database_url).await?;
        Ok(Self { replicas, database, database_url, provider, others, children, _data: data })
    }

    /// A command beside the shop, on its cores.
    pub fn beside(&self, program: &str) -> Command {
        pinned(&self.others, program)
    }

    /// What the provider counted.
    pub async fn counts(&self) -> anyhow::Result<Counts> {
        let answer = Connection::open(self.provider, None).await?.get("/counts").await?;
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// The settings that a fast number could have been bought with, as the running server says.
    pub async fn durability(&self) -> anyhow::Result<Vec<(String, String)>> {
        let rows = sqlx::query(
            "select name, setting from pg_settings where name in ('fsync', 'synchronous_commit', 'full_page_writes',
                'wal_sync_method', 'commit_delay', 'wal_level', 'shared_buffers', 'server_version') order by name",
        )
        .fetch_all(&self.database)
        .await?;
        let settings: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        for name in ["fsync", "synchronous_commit", "full_page_writes"] {
            if !settings.iter().any(|(setting, value)| setting == name && value == "on") {
                bail!("{name} is not on: such a number would be worth nothing");
            }
        }
        Ok(settings)
    }

    /// Stops everything, in the order of its dependence.
    pub async fn stop(self) {
        self.database.close().await;
        drop(self.children);
    }
}

impl Running {
    pub fn start(mut command: Command) -> anyhow::Result<Self> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Ok(Self(child.with_context(|| format!("cannot start {command:?}"))?))
    }

    pub fn start_and_read_line(mut command: Command) -> anyhow::Result<(Self, String)> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        if line.trim().is_empty() {
            bail!("{command:?} ended without a word");
        }
        Ok((Self(child), line.trim().to_owned()))
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Closes its standard input, and kills it if that does not end it.
    fn stop(&mut self) {
        drop(self.0.stdin.take());
        let until = std::time::Instant::now() + Duration::from_secs(STOP_SECONDS_MAX);
        while matches!(self.0.try_wait(), Ok(None)) {
            if std::time::Instant::now() > until {
                // Fails only for a process that has ended.
                let _ = self.0.kill();
            }
            #[expect(clippy::disallowed_methods, reason = "the measurement is over, and a drop cannot await")]
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The child runs the program itself, so that its id is the program's.
pub fn pinned(cores: &str, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", cores, program]);
    #[expect(clippy::disallowed_methods, reason = "only the names are read, to take them away from a child")]
    let names = std::env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| name == "DATABASE_URL" || name.to_string_lossy().starts_with("PAYONCE_")) {
        command.env_remove(name);
    }
    command
}

pub fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Until somebody listens there.
pub async fn ready_to_connect(addr: SocketAddr) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(START_SECONDS_MAX);
    while Connection::open(addr, None).await.is_err() {
        if Instant::now() > until {
            bail!("nobody listens at {addr} after {START_SECONDS_MAX} s");
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

pub async fn ready(addr: SocketAddr, path: &str) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(START_SECONDS_MAX);
    loop {
        if let Ok(mut connection) = Connection::open(addr, None).await
            && connection.get(path).await.is_ok_and(|answer| answer.status == 200)
        {
            return Ok(());
        }
        if Instant::now() > until {
            bail!("{addr}{path} was not ready after {START_SECONDS_MAX} s");
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// What is logged costs what it costs; where it goes is not ours to measure. Of thousands in flight it is kept beside the numbers,
/// to be read should one of them have no end.
fn log(plan: &Plan, gather: usize, addr: SocketAddr) -> anyhow::Result<Stdio> {
    if gather == 0 {
        return Ok(Stdio::null());
    }
    let path = plan.out.with_file_name(format!("replica-{}.log", addr.port()));
    Ok(std::fs::File::create(&path).with_context(|| path.display().to_string())?.into())
}
