//! The server is killed or stands still, and comes back.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use chaos::{server::Server, until};
use tokio::time::{Instant, sleep};

use crate::stand::{CLEAR_ANSWER, Stand, all_reserved_are_final, count, is_ready, press_each};

/// Presses per case, and how far apart: some seconds of payments, with outages among them.
const PRESSES: usize = 80;
const APART: Duration = Duration::from_millis(40);
/// How long one payment is at the provider.
const CONFIRM_MS: u64 = 150;

/// Longest time from the return of the server until the shop uses it. Half a second is the aim; the rest is for a busy machine.
const HEALED_AFTER: Duration = Duration::from_secs(2);

/// P1: `kill -9` of a backend. Postgres ends all backends then, and recovers as after a crash.
pub async fn backend_killed() -> anyhow::Result<String> {
    let stand = Stand::new().await?;
    let server = Server::make(&stand.folder("server"), None, &[]).await?;
    let (shop, db) = (stand.shop("shop", &Server::url(&[&server])).await?, server.looking());
    let (payments, shops) = (stand.payments(&shop, &db, PRESSES).await?, [shop.address()]);
    stand.slow_confirms(CONFIRM_MS).await?;
    let (heard, killed) = tokio::join!(press_each(&shops, &payments, APART), async {
        let mut killed = 0;
        for _ in 0..3 {
            sleep(Duration::from_millis(900)).await;
            let sql =
                "select pid from pg_stat_activity where application_name = 'payonce' order by query_start desc limit 1";
            let since = Instant::now();
            // None for a moment, where the last one was killed a moment ago.
            let pid: i32 = loop {
                if let Ok(Some(pid)) = sqlx::query_scalar(sql).fetch_optional(&db).await {
                    break pid;
                }
                ensure!(since.elapsed() < HEALED_AFTER, "no connection of the shop after {:?}", since.elapsed());
            };
            server.kill_backend(pid)?;
            killed += 1;
        }
        anyhow::Ok(killed)
    });
    let (heard, killed) = (heard?, killed?);
    let answered = heard.iter().filter(|heard| heard.answer.is_final()).count();
    let took = all_reserved_are_final(&db).await?;
    stand.all_end_paid(&db, &shops, &payments, heard).await?;
    Ok(format!(
        "{killed} kills, {answered} of {PRESSES} presses answered paid at once, all reserved final after {took:.1?}"
    ))
}

/// P2: `kill -9` of the postmaster, three times over the stream, each time started again at once.
pub async fn server_killed() -> anyhow::Result<String> {
    let stand = Stand::new().await?;
    let mut server = Server::make(&stand.folder("server"), None, &[]).await?;
    let url = Server::url(&[&server]);
    let (one, two) = (stand.shop("one", &url).await?, stand.shop("two", &url).await?);
    let (shops, db) = ([one.address(), two.address()], server.looking());
    let payments = stand.payments(&one, &db, PRESSES).await?;
    stand.slow_confirms(CONFIRM_MS).await?;
    let (heard, healed) = tokio::join!(press_each(&shops, &payments, APART), async {
        let mut healed = Vec::new();
        for _ in 0..3 {
            sleep(Duration::from_millis(500)).await;
            server.kill().await?;
            sleep(Duration::from_millis(300)).await;
            server.start().await?;
            let back = Instant::now();
            one.ready().await?;
            healed.push(back.elapsed());
            ensure!(back.elapsed() < HEALED_AFTER, "ready {:?} after the return", back.elapsed());
        }
        anyhow::Ok(healed)
    });
    let (heard, healed) = (heard?, healed?);
    let answered = heard.iter().filter(|heard| heard.answer.is_final()).count();
    let took = all_reserved_are_final(&db).await?;
    stand.all_end_paid(&db, &shops, &payments, heard).await?;
    Ok(format!(
        "ready {healed:.1?} after each return, {answered} of {PRESSES} presses answered paid at once, \
         all reserved final after {took:.1?}"
    ))
}

/// P6: every process of the server stands still. The kernel takes what is sent, and no answer comes.
pub async fn server_paused() -> anyhow::Result<String> {
    const PAUSE: Duration = Duration::from_secs(10);
    let stand = Stand::new().await?;
    let server = Server::make(&stand.folder("server"), None, &[]).await?;
    let (shop, db) = (stand.shop("shop", &Server::url(&[&server])).await?, server.looking());
    let mut payments = stand.payments(&shop, &db, 24).await?;
    let during = payments.split_off(8);
    let shops = [shop.address()];
    stand.slow_confirms(600).await?;
    let (heard, seen) = tokio::join!(press_each(&shops, &payments, Duration::ZERO), async {
        until("eight are at the provider", Duration::from_secs(10), || async {
            Ok(count(&db, "select count(*) from intents where state = 'pending'").await? == 8)
        })
        .await?;
        server.pause()?;
        let since = Instant::now();
        let no = press_each(&shops, &during, Duration::from_millis(50)).await?;
        let took = since.elapsed();
        ensure!(no.len() == during.len(), "each was answered: {}", no.len());
        if let Some(other) = no.iter().find(|heard| heard.answer.status != 503) {
            anyhow::bail!("503, not {}", other.answer);
        }
        ensure!(stand.charged(&during).await? == 0, "nothing is charged that is not reserved");
        let asked = Instant::now();
        ensure!(!is_ready(&shop).await?, "not ready");
        let readiness = asked.elapsed();
        ensure!(readiness < Duration::from_secs(3), "/readyz took {readiness:?}");
        ensure!(stand.charged(&payments).await? == 8, "what was at the provider is charged");
        sleep(PAUSE.checked_sub(since.elapsed()).unwrap_or_default()).await;
        server.resume()?;
        anyhow::Ok((took, Instant::now()))
    });
    let (took, back) = seen?;
    shop.ready().await.context("ready again, with no restart")?;
    let ready = back.elapsed();
    all_reserved_are_final(&db).await?;
    payments.extend(during);
    stand.all_end_paid(&db, &shops, &payments, heard?).await?;
    Ok(format!("16 presses told 503 within {took:.1?} (limit {CLEAR_ANSWER:?}), ready {ready:.1?} after the pause"))
}
