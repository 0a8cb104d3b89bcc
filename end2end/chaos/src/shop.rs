//! A replica of the shop: `payonce serve` as a child process that can be killed, paused, and started again.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep};

use crate::process::{Process, Says};

/// How long a replica may take from its start until it is ready.
const READY_SECONDS_MAX: Duration = Duration::from_secs(30);

/// How a replica runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How long an executor owns an intent.
    pub lease: Duration,
    /// How long one call to the provider may take.
    pub provider_timeout: Duration,
    /// How long Pay waits for an outcome.
    pub pay_wait: Duration,
    /// Connections to the database.
    pub pool_size: u32,
    /// Further settings.
    pub more: Vec<(String, String)>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(2),
            provider_timeout: Duration::from_secs(1),
            pay_wait: Duration::from_secs(20),
            pool_size: 6,
            more: Vec::new(),
        }
    }
}

/// One replica, running or not.
#[derive(Debug)]
pub struct Shop {
    name: String,
    settings: Vec<(String, String)>,
    process: Option<Process>,
    address: SocketAddr,
    /// What the one said that was killed last.
    last_words: String,
}

impl Shop {
    /// Starts a replica on a free port and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start; with its log.
    pub async fn start(name: &str, database_url: &str, provider_url: &str, plan: &Plan) -> anyhow::Result<Self> {
        let milliseconds = |duration: Duration| duration.as_millis().to_string();
        let mut settings = vec![
            ("PAYONCE_ADDR".to_owned(), "127.0.0.1:0".to_owned()),
            ("DATABASE_URL".to_owned(), database_url.to_owned()),
            ("PAYONCE_PROVIDER_URL".to_owned(), provider_url.to_owned()),
            ("PAYONCE_LEASE_MS".to_owned(), milliseconds(plan.lease)),
            ("PAYONCE_PROVIDER_TIMEOUT_MS".to_owned(), milliseconds(plan.provider_timeout)),
            ("PAYONCE_PAY_WAIT_MS".to_owned(), milliseconds(plan.pay_wait)),
            ("PAYONCE_DATABASE_POOL_SIZE".to_owned(), plan.pool_size.to_string()),
        ];
        settings.extend(plan.more.iter().cloned());
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut shop =
            Self { name: name.to_owned(), settings, process: None, address: nowhere, last_words: String::new() };
        shop.restart().await?;
        Ok(shop)
    }

    /// Starts it again, on another port, and waits until it is ready. What still runs is killed first.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.kill().await?;
        let is_address =
            |line: &str| line.split_once("shop on http://").and_then(|(_, address)| address.trim().parse().ok());
        let (process, address) = Process::start(&self.name, "serve", &self.settings, Says::Log, is_address).await?;
        (self.process, self.address) = (Some(process), address);
        self.ready().await
    }

    /// Waits until `/readyz` says so.
    ///
    /// # Errors
    /// When it does not within half a minute.
    pub async fn ready(&self) -> anyhow::Result<()> {
        let (http, since) = (crate::http_client()?, Instant::now());
        loop {
            let asked = http.get(format!("{}/readyz", self.url())).send().await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            if since.elapsed() > READY_SECONDS_MAX {
                bail!("{} is not ready:\n{}", self.name, self.log());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Its address for clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// SIGKILL, and waits for the end. Nothing happens where none runs.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => {
                self.last_words = process.log();
                process.kill().await
            }
            None => Ok(()),
        }
    }

    /// Lets it stop in order. Nothing happens where none runs.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => {
                let stopped = process.stop().await;
                self.last_words = process.log();
                stopped
            }
            None => Ok(()),
        }
    }

    /// SIGSTOP: it stands still, with all its connections open.
    ///
    /// # Errors
    /// When none runs.
    pub async fn pause(&self) -> anyhow::Result<()> {
        self.process()?.pause().await
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// When none runs.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.process()?.resume()
    }

    /// The end of its log, and before it of the one that was killed last.
    pub fn log(&self) -> String {
        let log = self.process.as_ref().map(Process::log).unwrap_or_default();
        format!("  {}:\n{}    (killed)\n{log}", self.name, self.last_words)
    }

    fn process(&self) -> anyhow::Result<&Process> {
        self.process.as_ref().with_context(|| format!("{} does not run", self.name))
    }
}
