//! The primary is lost, and its synchronous standby takes over.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use chaos::{books::Heard, clock, server::Server, until};
use sqlx::PgPool;
use tokio::time::{Instant, sleep};

use crate::stand::{LEASE, Stand, all_reserved_are_final, count, is_ready, press_each};

/// The primary acknowledges nothing that the standby has not.
const SYNCHRONOUS: &[&str] = &["synchronous_standby_names=heir"];

async fn promote(standby: &PgPool) -> anyhow::Result<()> {
    let promoted: bool = sqlx::query_scalar("select pg_promote(true, 20)").fetch_one(standby).await?;
    ensure!(promoted, "the standby was not promoted");
    Ok(())
}

async fn follows(primary: &PgPool) -> anyhow::Result<()> {
    let sql = "select count(*) from pg_stat_replication where application_name = 'heir' and sync_state = 'sync'";
    until("the standby follows", Duration::from_secs(20), || async { Ok(count(primary, sql).await? == 1) }).await?;
    Ok(())
}

/// P4: the primary is killed among payments, its standby promoted. Two replicas that know both servers go on by themselves; what
/// was paid stays paid. Then the old primary comes back by itself: nobody follows it, not even a replica that starts anew and
/// reads its name first.
pub async fn standby_promoted() -> anyhow::Result<String> {
    let stand = Stand::new().await?;
    let mut old = Server::make(&stand.folder("old"), None, SYNCHRONOUS).await?;
    let heir = old.standby(&stand.folder("heir"), &[]).await?;
    let url = Server::url(&[&old, &heir]);
    follows(&old.looking()).await?;
    let (one, two) = (stand.shop("one", &url).await?, stand.shop("two", &url).await?);
    let (shops, db) = ([one.address(), two.address()], heir.looking());
    let payments = stand.payments(&one, &old.looking(), 80).await?;
    stand.slow_confirms(150).await?;
    let (heard, moved) = tokio::join!(press_each(&shops, &payments, Duration::from_millis(40)), async {
        sleep(Duration::from_millis(1_500)).await;
        old.kill().await?;
        sleep(Duration::from_millis(500)).await;
        promote(&db).await?;
        let since = Instant::now();
        one.ready().await?;
        two.ready().await?;
        anyhow::Ok(since.elapsed())
    });
    let (heard, moved) = (heard?, moved?);
    let answered = heard.iter().filter(|heard| heard.answer.is_final()).count();
    let took = all_reserved_are_final(&db).await?;
    stand.all_end_paid(&db, &shops, &payments, heard).await?;
    let fences = "select count(*) - count(distinct fence) from intents";
    ensure!(count(&db, fences).await? == 0, "no fence was drawn twice, on whichever timeline");

    old.start().await.context("the old primary comes back by itself")?;
    let late = stand.shop("late", &url).await?;
    let more = stand.payments(&late, &db, 4).await.context("orders are on the new primary")?;
    let shops = [one.address(), two.address(), late.address()];
    stand.all_end_paid(&db, &shops, &more, Vec::new()).await?;
    Ok(format!(
        "ready {moved:.1?} after the promotion, {answered} of 80 presses answered paid at once, all reserved final after {took:.1?}"
    ))
}

/// P5: the standby is down, and somebody cancels the wait for it. The primary then says "committed", the charge is made, and the
/// failover loses the row. Nobody was told that it is paid; the same press reserves again and finds the same charge.
pub async fn wait_cancelled() -> anyhow::Result<String> {
    let stand = Stand::new().await?;
    let mut old = Server::make(&stand.folder("old"), None, SYNCHRONOUS).await?;
    let mut heir = old.standby(&stand.folder("heir"), &[]).await?;
    let url = Server::url(&[&old, &heir]);
    let db = old.looking();
    follows(&db).await?;
    let shop = stand.shop("shop", &url).await?;
    let (payments, shops) = (stand.payments(&shop, &db, 1).await?, [shop.address()]);
    heir.stop().await?;

    let (heard, cancelled) = tokio::join!(press_each(&shops, &payments, Duration::ZERO), async {
        let charged = async || anyhow::Ok(stand.charged(&payments).await? == 1);
        let cancel = "select count(pg_cancel_backend(pid)) from pg_stat_activity
                      where wait_event = 'SyncRep' and query like 'with the_order as (%'";
        until("a reservation waits for the standby", Duration::from_secs(10), || async {
            Ok(count(&db, cancel).await? > 0)
        })
        .await?;
        until("the charge", Duration::from_secs(10), charged).await?;
        let waiting = "select count(*) from pg_stat_activity
                       where wait_event = 'SyncRep' and query like '%set state = ''succeeded''%'";
        until("the settle waits", Duration::from_secs(10), || async { Ok(count(&db, waiting).await? > 0) }).await?;
        old.kill().await?;
        heir.start().await?;
        promote(&heir.looking()).await?;
        anyhow::Ok(())
    });
    cancelled?;
    let heard: Vec<Heard> = heard?;
    ensure!(!heard.iter().any(|heard| heard.answer.is_final()), "nobody was told an end: {heard:?}");
    let db = heir.looking();
    ensure!(count(&db, "select count(*) from intents").await? == 0, "the row was lost");
    shop.ready().await?;
    ensure!(is_ready(&shop).await?, "ready");
    stand.all_end_paid(&db, &shops, &payments, heard).await?;
    Ok("the reservation was lost after its charge; reserved again, one charge, one answer".to_owned())
}

/// T2: the clock of the standby that takes over is an hour off. One of two replicas dies in the same moment and leaves leases that
/// have ended long ago, or would end in an hour. Fences decide who may write, and nothing stays unresolved for the hour: each
/// payment is paid by one charge, or cancelled at the provider.
pub async fn clocks_differ(ahead: &'static str) -> anyhow::Result<String> {
    const PRESSES: usize = 24;
    let stand = Stand::new().await?;
    let mut old = Server::make(&stand.folder("old"), None, SYNCHRONOUS).await?;
    let heir = old.standby(&stand.folder("heir"), &[&format!("clock.ahead={ahead}")]).await?;
    let url = Server::url(&[&old, &heir]);
    follows(&old.looking()).await?;
    clock::install(&old.looking()).await?;
    let (mut one, two) = (stand.shop("one", &url).await?, stand.shop("two", &url).await?);
    let (shops, db) = ([one.address(), two.address()], heir.looking());
    let payments = stand.payments(&two, &old.looking(), PRESSES).await?;
    stand.slow_confirms(300).await?;
    let open = "select count(*) from intents where finished_at is null";
    let (heard, left) = tokio::join!(press_each(&shops, &payments, Duration::from_millis(40)), async {
        sleep(Duration::from_millis(600)).await;
        one.kill().await?;
        old.kill().await?;
        let left = count(&db, open).await?;
        promote(&db).await?;
        anyhow::Ok(left)
    });
    let (heard, left) = (heard?, left?);
    ensure!(left > 0, "nothing was left to be finished");
    let patience = LEASE * 3 + Duration::from_secs(2);
    let took = until("every intent is final", patience, || async { Ok(count(&db, open).await? == 0) }).await?;
    let (mut paid, mut cancelled) = (0, 0);
    for account in stand.all_end(&db, &[two.address()], &payments, heard).await? {
        match (account.state.as_deref(), account.charges) {
            (Some("succeeded"), 1) => paid += 1,
            (Some("failed"), 0) => cancelled += 1,
            _ => bail!("{account:?}"),
        }
    }
    Ok(format!(
        "{left} left open, final after another {took:.1?}: {paid} paid by one charge each, {cancelled} cancelled"
    ))
}
