//! Breaks Payonce from outside and counts what was charged.
//!
//! Nothing of the product is linked in and nothing of it knows of these tests: replicas, provider and Postgres are child
//! processes of the release binary, and what lies between them are proxies of ours. A proxy recognises each message, can hold it
//! at its boundary (before it is delivered, or between its execution and its answer), and there the test kills or pauses.
//!
//! Reading order: [`process`] and what it runs ([`cluster`], [`server`], `disk`, [`mod@clock`], [`sandbox`], [`shop`]), [`gate`], [`strikes`] and [`proxy`] (what stands between
//! them), [`world`] (all of it put together), [`customer`] (who pays), [`books`] (the invariants, as one function).

pub mod books;
pub mod clock;
pub mod cluster;
pub mod customer;
#[cfg(target_os = "linux")]
pub mod disk;
pub mod events;
pub mod gate;
pub mod process;
pub mod proxy;
pub mod sandbox;
pub mod server;
pub mod shop;
pub mod strikes;
pub mod world;

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep};

/// Longest call of ours to a shop or the sandbox: above the longest wait of Pay.
const CALL_SECONDS_MAX: Duration = Duration::from_secs(40);
/// Pause between two looks at something that is waited for.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A client with a deadline that follows no redirects.
///
/// # Errors
/// When the system has no randomness or the like.
pub fn http_client() -> anyhow::Result<reqwest::Client> {
    let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
    Ok(builder.timeout(CALL_SECONDS_MAX).tls_certs_only([]).build()?)
}

/// Waits until `holds` gives true, looking again and again; gives how long it took.
///
/// # Errors
/// When it is not true after `patience`, or cannot be looked at.
pub async fn until<F>(what: &str, patience: Duration, holds: impl Fn() -> F) -> anyhow::Result<Duration>
where
    F: Future<Output = anyhow::Result<bool>>,
{
    let since = Instant::now();
    while !holds().await? {
        if since.elapsed() > patience {
            bail!("waited {patience:?} for: {what}");
        }
        sleep(LOOK_PAUSE).await;
    }
    Ok(since.elapsed())
}
