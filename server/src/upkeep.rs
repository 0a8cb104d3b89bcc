//! What a replica does beside answering: it finishes what others left, takes up events, closes what nobody
//! pays, and forgets what is old. Replicas do
//! this side by side; each step is bounded, and one that fails is tried again at its next turn.

use std::{future::Future, time::Duration};

use payments::{Ctx, expire::Expired};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::worker;

/// How often expired leases are looked for: an intent whose server died is finished this much later.
const RECOVERY_PAUSE: Duration = Duration::from_secs(1);
/// How often events are looked for that were kept and not handled, as after a crash. The provider delivers again only later.
const INBOX_PAUSE: Duration = Duration::from_secs(2);
/// How often orders are looked for that nobody has paid in time. Their hold time is an hour, so that some seconds are nothing.
const EXPIRE_PAUSE: Duration = Duration::from_secs(5);
/// How often what is old is looked for. It is kept for hours, so that a minute more is nothing.
const PURGE_PAUSE: Duration = Duration::from_mins(1);

/// How often is looked whether events were missed, and whether the reconciliation is due. The database says whether they are, so
/// that one replica of many does it.
const LISTS_PAUSE: Duration = Duration::from_mins(1);

/// Starts them all; the reconciliation only where there is a time for it. Each ends when `stop` is cancelled, after the step that it is at.
pub fn start(
    ctx: &Ctx,
    reconcile_every: Option<Duration>,
    stop: &CancellationToken,
) -> Vec<(&'static str, JoinHandle<()>)> {
    let mut all = vec![
        ("recovery", repeat("recovery", RECOVERY_PAUSE, ctx, stop, recover)),
        ("refunds", repeat("refunds", RECOVERY_PAUSE, ctx, stop, recover_refunds)),
        // A clock that fell back is found out within a lease, and costs another one.
        ("leases", repeat("leases", ctx.limits.lease, ctx, stop, after_clock_jump)),
        ("the inbox", repeat("inbox", INBOX_PAUSE, ctx, stop, take_up_events)),
        ("missed events", repeat("missed events", LISTS_PAUSE, ctx, stop, take_in_missed_events)),
        ("unpaid orders", repeat("unpaid orders", EXPIRE_PAUSE, ctx, stop, expire)),
        ("the purge", repeat("purge", PURGE_PAUSE, ctx, stop, purge)),
    ];
    if let Some(every) = reconcile_every {
        let ctx = ctx.clone();
        let step = move || reconcile(ctx.clone(), every);
        all.push(("the reconciliation", worker::repeat("reconciliation", LISTS_PAUSE, stop.clone(), step)));
    }
    all
}

fn repeat<F>(
    name: &'static str,
    pause: Duration,
    ctx: &Ctx,
    stop: &CancellationToken,
    step: fn(Ctx) -> F,
) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let ctx = ctx.clone();
    worker::repeat(name, pause, stop.clone(), move || step(ctx.clone()))
}

async fn recover(ctx: Ctx) {
    match payments::recover::run_once(&ctx).await {
        Ok(0) => {}
        // Abandoned bank steps are looked at for a long time.
        Ok(intents) => tracing::debug!(intents, "recovery looked after intents that had no owner"),
        Err(error) => tracing::warn!(%error, "recovery could not look for intents without an owner"),
    }
}

async fn recover_refunds(ctx: Ctx) {
    match payments::refund::run_once(&ctx).await {
        Ok(0) => {}
        Ok(refunds) => tracing::debug!(refunds, "recovery looked after refunds that had no owner"),
        Err(error) => tracing::warn!(%error, "recovery could not look for refunds without an owner"),
    }
}

async fn after_clock_jump(ctx: Ctx) {
    match payments::recover::after_clock_jump(&ctx).await {
        Ok(0) => {}
        Ok(intents) => tracing::warn!(intents, "the database's clock has fallen back; their leases end sooner"),
        Err(error) => tracing::warn!(%error, "could not look for leases from a clock that fell back"),
    }
}

async fn take_up_events(ctx: Ctx) {
    match payments::inbox::run_once(&ctx).await {
        Ok(0) => {}
        Ok(events) => tracing::info!(events, "took up events whose handling had not ended"),
        Err(error) => tracing::warn!(%error, "could not look for events that wait"),
    }
}

async fn take_in_missed_events(ctx: Ctx) {
    match payments::inbox::missed::run_once(&ctx).await {
        // Those that were missed are told where they are taken in.
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "could not read the provider's list of events; the next run goes on"),
    }
}

async fn reconcile(ctx: Ctx, every: Duration) {
    match payments::reconcile::run_if_due(&ctx, every).await {
        Ok(None) => {}
        Ok(Some(report)) => {
            let (tally, open) = (&report.tally, report.open_total);
            let (theirs, ours) = (tally.charges_theirs.count(), tally.charges_ours.count());
            tracing::info!(theirs, ours, settled = tally.settled, recovered = tally.recovered, open, "reconciled");
            if let Some(reason) = report.ended_early {
                tracing::warn!(reason, "the reconciliation did not come to its end; the next run begins where it did");
            }
        }
        Err(error) => tracing::warn!(%error, "could not reconcile; the next run does"),
    }
}

async fn expire(ctx: Ctx) {
    match payments::expire::run(&ctx).await {
        Ok(Expired { closed: 0, paid: 0, held: 0 }) => {}
        Ok(Expired { closed, paid, held }) => {
            tracing::info!(closed, paid, held, "looked after orders that were not paid in time");
        }
        Err(error) => tracing::warn!(%error, "could not look for orders that were not paid in time"),
    }
}

async fn purge(ctx: Ctx) {
    match payments::purge::run(&ctx).await {
        Ok(0) => {}
        Ok(intents) => tracing::info!(intents, "purged the archived answers of intents that ended long ago"),
        Err(error) => tracing::warn!(%error, "could not purge archived answers; they stay until the next run"),
    }
    match payments::order::by_key::purge(&ctx).await {
        Ok(0) => {}
        Ok(keys) => tracing::info!(keys, "purged the archived answers to the making of orders"),
        Err(error) => tracing::warn!(%error, "could not purge archived answers to the making of orders"),
    }
    match payments::inbox::purge(&ctx).await {
        Ok(0) => {}
        Ok(events) => tracing::info!(events, "forgot events that were handled long ago"),
        Err(error) => tracing::warn!(%error, "could not forget old events"),
    }
}
