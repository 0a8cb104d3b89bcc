//! The provider: `payonce sandbox` as a process of its own, and its control surface. Its ledger has the last word.

use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use reqwest::{Client, Response};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    cluster::Place,
    process::{Process, Says},
};

/// A running sandbox with a journal of its own.
#[derive(Debug)]
pub struct Sandbox {
    /// Its address.
    pub url: String,
    http: Client,
    _process: Process,
    _journal: TempDir,
}

impl Sandbox {
    /// Starts one on a free port.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start() -> anyhow::Result<Self> {
        let journal = tempfile::tempdir()?;
        let settings = [
            ("PAYONCE_SANDBOX_ADDR".to_owned(), "127.0.0.1:0".to_owned()),
            ("PAYONCE_DATA_DIR".to_owned(), journal.path().display().to_string()),
        ];
        let is_address = |line: &str| line.split_once("sandbox provider on ").map(|(_, url)| url.trim().to_owned());
        let (process, url) = Process::start("sandbox", "sandbox", &settings, Says::Log, is_address).await?;
        Ok(Self { url, http: crate::http_client()?, _process: process, _journal: journal })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Never, for the addresses that it prints.
    pub fn place(&self) -> anyhow::Result<Place> {
        let address: SocketAddr = self.url.trim_start_matches("http://").parse().context("the sandbox's address")?;
        Ok(Place::Tcp(address.ip().to_string(), address.port()))
    }

    /// The charges that were really made for an order (by its id).
    ///
    /// # Errors
    /// When the sandbox does not answer.
    pub async fn charges(&self, order: &str) -> anyhow::Result<Vec<Value>> {
        self.list(&format!("ledger?order={order}"), "charges").await
    }

    /// The calls of the shop about an order, oldest first; of the newest thousand calls.
    ///
    /// # Errors
    /// When the sandbox does not answer.
    pub async fn calls(&self, order: &str) -> anyhow::Result<Vec<Value>> {
        self.list(&format!("calls?order={order}"), "calls").await
    }

    /// Makes it misbehave, e.g. `{"match":{"path":"confirm"},"fault":{"kind":"charge_then_drop"},"next":1}`.
    ///
    /// # Errors
    /// When there is no such fault.
    pub async fn fault(&self, fault: &Value) -> anyhow::Result<()> {
        ok(self.http.post(self.address_of("faults")).json(fault).send().await?).await.map(drop)
    }

    /// Lets something happen there that the shop did not ask for, as `disputes`.
    ///
    /// # Errors
    /// When it cannot happen.
    pub async fn control(&self, what: &str, body: &Value) -> anyhow::Result<Value> {
        Ok(ok(self.http.post(self.address_of(what)).json(body).send().await?).await?.json().await?)
    }

    async fn list(&self, path: &str, of: &str) -> anyhow::Result<Vec<Value>> {
        let answer: Value = ok(self.http.get(self.address_of(path)).send().await?).await?.json().await?;
        let list = answer.as_array().or_else(|| answer[of].as_array());
        list.cloned().with_context(|| format!("a list of {of}, not {answer}"))
    }

    fn address_of(&self, path: &str) -> String {
        format!("{}/_sandbox/{path}", self.url)
    }
}

async fn ok(answer: Response) -> anyhow::Result<Response> {
    let status = answer.status();
    if !status.is_success() {
        bail!("the sandbox answers {status}: {}", answer.text().await.unwrap_or_default());
    }
    Ok(answer)
}
