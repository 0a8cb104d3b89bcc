//! What every case needs: replicas on one or more servers, a provider, customers who press Pay, and the books.

use std::{fs::Permissions, net::SocketAddr, os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

use anyhow::{Context as _, ensure};
use chaos::{
    books::{self, Account, Heard},
    customer::{Answer, Customer, GOOD_CARD, Payment},
    sandbox::Sandbox,
    shop::{Plan, Shop},
    until,
};
use futures::future::join_all;
use serde_json::json;
use sqlx::PgPool;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// How long an executor owns an intent here.
pub const LEASE: Duration = Duration::from_secs(2);
/// After this long, once the faults have stopped, every intent is final (L1).
pub const FINAL_AFTER: Duration = Duration::from_secs(4);
/// Longest time until a press of Pay is answered while the database is gone: a clear no, or "under way".
pub const CLEAR_ANSWER: Duration = Duration::from_secs(9);
/// How long a customer goes on pressing.
const PRESSING_SECONDS_MAX: Duration = Duration::from_mins(1);
const PRESS_PAUSE: Duration = Duration::from_millis(150);

/// Folders, provider and customer of one case.
pub struct Stand {
    pub sandbox: Sandbox,
    pub customer: Customer,
    folder: TempDir,
}

impl Stand {
    pub async fn new() -> anyhow::Result<Self> {
        // Open enough for the account that the servers run under where the test is root.
        let folder = tempfile::Builder::new().prefix("chaos-").permissions(Permissions::from_mode(0o711)).tempdir()?;
        Ok(Self { sandbox: Sandbox::start().await?, customer: Customer::new()?, folder })
    }

    /// A place for something that is not there yet.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub async fn shop(&self, name: &str, database_url: &str) -> anyhow::Result<Shop> {
        // Longer than any clock here is wrong: one that jumps ahead closes orders that many hours too soon.
        let hold = ("PAYONCE_ORDER_HOLD_MS".to_owned(), (4 * 60 * 60 * 1000).to_string());
        let plan = Plan { lease: LEASE, pay_wait: Duration::from_secs(6), more: vec![hold], ..Plan::default() };
        Shop::start(name, database_url, &self.sandbox.url, &plan).await
    }

    /// So many orders that wait to be paid.
    pub async fn payments(&self, shop: &Shop, db: &PgPool, count: usize) -> anyhow::Result<Vec<Payment>> {
        let url = shop.url();
        let mut payments = Vec::new();
        for _ in 0..count {
            let order = self.customer.order(&url, db, "mug").await?;
            payments.push(Payment::of(&order, GOOD_CARD));
        }
        Ok(payments)
    }

    /// Every confirm takes this much longer, so that an outage finds payments at every step.
    pub async fn slow_confirms(&self, milliseconds: u64) -> anyhow::Result<()> {
        let fault = json!({"match": {"path": "confirm"}, "fault": {"kind": "delay_before", "ms": milliseconds}});
        self.sandbox.fault(&fault).await
    }

    /// How many of these orders have been charged.
    pub async fn charged(&self, payments: &[Payment]) -> anyhow::Result<usize> {
        let mut charged = 0;
        for payment in payments {
            charged += self.sandbox.charges(&payment.order.id.to_string()).await?.len();
        }
        Ok(charged)
    }

    /// Everybody presses until there is an end; then the books must balance, every order be paid by one charge.
    pub async fn all_end_paid(
        &self,
        db: &PgPool,
        shops: &[SocketAddr],
        payments: &[Payment],
        heard: Vec<Heard>,
    ) -> anyhow::Result<()> {
        for account in self.all_end(db, shops, payments, heard).await? {
            ensure!(account.state.as_deref() == Some("succeeded") && account.charges == 1, "{account:?}");
        }
        Ok(())
    }

    /// Everybody presses until there is an end; then the books must balance. Gives how each payment ended.
    pub async fn all_end(
        &self,
        db: &PgPool,
        shops: &[SocketAddr],
        payments: &[Payment],
        mut heard: Vec<Heard>,
    ) -> anyhow::Result<Vec<Account>> {
        for more in join_all(payments.iter().map(|payment| press_until_final(shops, payment))).await {
            heard.extend(more?);
        }
        books::check(db, &self.sandbox, payments, &heard).await
    }
}

/// One press of Pay for each, some milliseconds apart, in turn at each of the shops. Connections that end are no answer.
pub async fn press_each(shops: &[SocketAddr], payments: &[Payment], apart: Duration) -> anyhow::Result<Vec<Heard>> {
    let pressed = payments.iter().zip(shops.iter().cycle()).zip(0_u32..).map(async |((payment, shop), n)| {
        sleep(apart * n).await;
        let since = Instant::now();
        let answer = payment.pay(*shop).await.ok();
        ensure!(since.elapsed() < CLEAR_ANSWER, "a press of Pay took {:?}: {answer:?}", since.elapsed());
        Ok(answer.map(|answer| Heard { payment: payment.clone(), answer }))
    });
    join_all(pressed).await.into_iter().filter_map(Result::transpose).collect()
}

/// Presses again and again, at one shop after the other; gives all that was heard.
pub async fn press_until_final(shops: &[SocketAddr], payment: &Payment) -> anyhow::Result<Vec<Heard>> {
    let (mut heard, since) = (Vec::new(), Instant::now());
    for shop in shops.iter().cycle() {
        let answer = payment.pay(*shop).await.ok();
        let is_final = answer.as_ref().is_some_and(Answer::is_final);
        heard.extend(answer.map(|answer| Heard { payment: payment.clone(), answer }));
        if is_final {
            break;
        }
        ensure!(since.elapsed() < PRESSING_SECONDS_MAX, "no end after {} presses: {:?}", heard.len(), heard.last());
        sleep(PRESS_PAUSE).await;
    }
    Ok(heard)
}

/// Waits until nothing that was reserved is without an end, without anybody pressing; no longer than is promised.
pub async fn all_reserved_are_final(db: &PgPool) -> anyhow::Result<Duration> {
    until("every intent is final", FINAL_AFTER, || async { Ok(open_intents(db).await? == 0) })
        .await
        .context("the lease + 2 s after the end of the outage")
}

pub async fn open_intents(db: &PgPool) -> anyhow::Result<i64> {
    count(db, "select count(*) from intents where finished_at is null").await
}

/// Counts. The test's own connections die with the server as well, and are made again.
pub async fn count(db: &PgPool, sql: &'static str) -> anyhow::Result<i64> {
    let since = Instant::now();
    loop {
        match sqlx::query_scalar(sql).fetch_one(db).await {
            Err(sqlx::Error::Io(_)) if since.elapsed() < Duration::from_secs(2) => sleep(PRESS_PAUSE).await,
            end => return Ok(end?),
        }
    }
}

/// What `/readyz` says.
pub async fn is_ready(shop: &Shop) -> anyhow::Result<bool> {
    let answer = chaos::http_client()?.get(format!("{}/readyz", shop.url())).send().await?;
    Ok(answer.status().is_success())
}
