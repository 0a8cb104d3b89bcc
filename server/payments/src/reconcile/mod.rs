//! Reconciliation: compares the provider's charges and refunds with our books, repairs what is certain, and tells the rest.
//!
//! Promise: after a run that came to its end, every charge that the provider lists for its time is booked, or an open discrepancy
//! (L2); one odd entry stops nothing; whatever differs is told once, and closed when it heals. Repairs are the guarded writes of
//! everybody else, so that a fact that came meanwhile wins, and two runs at once do no harm. Never: it asks the provider to move
//! money, or concludes from a list alone that something is not there: what one list lacks is asked for by its id.
//!
//! Reading order: this file (a run) → `charges` (both lists side by side) → `judge` (what a charge without a counterpart is) →
//! `refunds` → `recheck` (what is still open).

mod charges;
pub mod finding;
mod judge;
mod recheck;
mod refunds;
pub mod report;
mod second_charge;
mod store;
mod windows;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use time::OffsetDateTime;
use tokio::{sync::watch, time::Instant};

use self::{
    finding::{Finding, Kind},
    report::{Report, Tally},
    windows::{Window, cut},
};
use crate::{
    Ctx,
    limits::{JUDGED_AT_ONCE, RECONCILE_FIRST_LOOK_BACK, RECONCILE_READERS, REPORT_ROWS},
    lists::{Stop, patiently},
    pool::{StoreError, keyed},
    reading::{self, List, Reading},
};

/// What is compared.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// From when on; else from where the last run ended, less an overlap.
    pub since: Option<OffsetDateTime>,
    /// Until when; else until now and all that comes.
    pub until: Option<OffsetDateTime>,
    /// Looks and reports, and writes nothing.
    pub dry_run: bool,
    /// Is told how far it is.
    pub progress: Option<watch::Sender<Tally>>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// Another run is under way.
    #[error("another reconciliation is under way")]
    UnderWay,
    /// The database cannot answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Compares, repairs and reports. Whoever asked may go away meanwhile.
///
/// # Errors
/// See [`ReconcileError`]. A run that could not come to its end has a report, which says so.
pub async fn run(ctx: &Ctx, request: Request) -> Result<Report, ReconcileError> {
    let task = ctx.clone();
    let work = ctx.detach(async move {
        if request.dry_run {
            return run_on(&task, &request, None).boxed().await;
        }
        let reading = reading::claim(&task, List::Reconciliation, false).await?.ok_or(ReconcileError::UnderWay)?;
        let ran = run_on(&task, &request, Some(&reading)).boxed().await;
        // A person's run does not put off that of the clock.
        reading::end(&task, &reading, None).await;
        ran
    });
    work.await.unwrap_or(Err(ReconcileError::Store(StoreError::Impossible("end of a reconciliation"))))
}

/// Runs, if the last run is `every` ago and no other is under way. `None`: it is not time.
///
/// # Errors
/// When the database cannot answer.
pub async fn run_if_due(ctx: &Ctx, every: Duration) -> Result<Option<Report>, ReconcileError> {
    let task = ctx.clone();
    let work = ctx.detach(async move {
        let Some(reading) = reading::claim(&task, List::Reconciliation, true).await? else { return Ok(None) };
        let ran = run_on(&task, &Request::default(), Some(&reading)).boxed().await;
        reading::end(&task, &reading, Some(every)).await;
        ran.map(Some)
    });
    work.await.unwrap_or(Err(ReconcileError::Store(StoreError::Impossible("end of a reconciliation"))))
}

async fn run_on(ctx: &Ctx, request: &Request, reading: Option<&Reading>) -> Result<Report, ReconcileError> {
    let began = reading.map_or_else(|| ctx.clock.now(), |reading| reading.now);
    let kept = reading.and_then(|reading| reading.read_until);
    let from = match (request.since, kept) {
        (Some(since), _) => since,
        (None, Some(kept)) => kept - ctx.limits.reconcile_overlap,
        (None, None) => beginning(ctx, began).await? - ctx.limits.reconcile_overlap,
    };
    let work = Work::new(ctx, reading, request, began);

    let compared = async {
        compare(&work, from, request.until).await?;
        // All up to the beginning of this run has been compared, if nothing before it was left out.
        let reaches_back = kept.is_none_or(|kept| from <= kept);
        if let (None, true, Some(reading)) = (request.until, reaches_back, reading) {
            reading::keep(ctx, reading, None, began).await?;
        }
        Ok::<_, Stop>(())
    };
    let ended = compared.await.err().map(|stop| {
        tracing::warn!(error = ?stop, "a reconciliation ends early");
        stop.to_string()
    });
    work.shared.is_over.store(true, Ordering::Relaxed);
    Ok(work.report(from, request.until, ended).await?)
}

/// Since when there can be charges of ours.
async fn beginning(ctx: &Ctx, now: OffsetDateTime) -> Result<OffsetDateTime, StoreError> {
    let first = keyed(&ctx.limits, || store::find_beginning(&ctx.pool)).await?;
    Ok(first.unwrap_or(now - RECONCILE_FIRST_LOOK_BACK))
}

/// Everything, in order: what differs now, then what differed before.
async fn compare(work: &Work, from: OffsetDateTime, until: Option<OffsetDateTime>) -> Result<(), Stop> {
    let windows = cut(from, until, work.began);
    // A task for each, so that all cores read.
    let readers = windows.iter().map(|window| {
        let (task, window) = (work.clone(), *window);
        async move {
            let ctx = task.ctx.clone();
            ctx.detach(async move { charges::compare(&task, window).await }).await.unwrap_or(Err(Stop::Ended))
        }
        .boxed()
    });
    at_once(readers.collect(), RECONCILE_READERS).await?;
    for window in windows {
        refunds::compare(work, window).await?;
    }
    recheck::run(work).await
}

/// Looks into several things, a few side by side, until one of the looks ends the run.
async fn side_by_side(looks: Vec<BoxFuture<'_, Result<(), Stop>>>) -> Result<(), Stop> {
    at_once(looks, JUDGED_AT_ONCE).await
}

async fn at_once(looks: Vec<BoxFuture<'_, Result<(), Stop>>>, at_once: usize) -> Result<(), Stop> {
    let mut looking = stream::iter(looks).buffer_unordered(at_once);
    while let Some(looked) = looking.next().await {
        looked?;
    }
    Ok(())
}

/// What the parts of one run share. Cheap to clone.
#[derive(Clone)]
struct Work {
    ctx: Ctx,
    reading: Option<Reading>,
    dry_run: bool,
    began: OffsetDateTime,
    shared: Arc<Shared>,
}

struct Shared {
    tally: Mutex<Tally>,
    progress: Option<watch::Sender<Tally>>,
    /// What a dry run found, and nobody was told.
    untold: Mutex<Vec<Finding>>,
    go_on_at: Mutex<Instant>,
    /// One of the readers ended the run; the others end at their next step.
    is_over: AtomicBool,
}

impl Work {
    fn new(ctx: &Ctx, reading: Option<&Reading>, request: &Request, began: OffsetDateTime) -> Self {
        let shared = Shared {
            tally: Mutex::default(),
            progress: request.progress.clone(),
            untold: Mutex::default(),
            go_on_at: Mutex::new(Instant::now()),
            is_over: AtomicBool::new(false),
        };
        Self { ctx: ctx.clone(), reading: reading.cloned(), dry_run: request.dry_run, began, shared: shared.into() }
    }

    /// Counts something.
    fn count(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut lock(&self.shared.tally));
    }

    /// Between two steps: shows how far it is, and whether it may go on.
    async fn step(&self) -> Result<(), Stop> {
        if let Some(progress) = &self.shared.progress {
            progress.send_replace(lock(&self.shared.tally).clone());
        }
        if self.ctx.tasks.is_closed() || self.shared.is_over.load(Ordering::Relaxed) {
            return Err(Stop::Ended);
        }
        let Some(reading) = &self.reading else { return Ok(()) };
        {
            let mut at = lock(&self.shared.go_on_at);
            if at.elapsed() < self.ctx.limits.reading_lease / 4 {
                return Ok(());
            }
            *at = Instant::now();
        }
        if reading::go_on(&self.ctx, reading).await? { Ok(()) } else { Err(Stop::Overtaken) }
    }

    /// Tells a difference, once.
    async fn tell(&self, finding: Finding) -> Result<(), Stop> {
        if self.dry_run {
            let mut untold = lock(&self.shared.untold);
            let is_known = untold.iter().any(|other| {
                (other.kind, &other.charge, &other.refund) == (finding.kind, &finding.charge, &finding.refund)
            });
            if !is_known && untold.len() < usize::try_from(REPORT_ROWS).unwrap_or(usize::MAX) {
                untold.push(finding);
                drop(untold);
                self.count(|tally| tally.told += 1);
            }
            return Ok(());
        }
        let told = patiently(&self.ctx, || store::tell(&self.ctx.pool, &finding)).await?;
        if told {
            tracing::error!(
                kind = finding.kind.as_str(),
                charge = finding.charge,
                refund = finding.refund,
                "a discrepancy"
            );
            self.count(|tally| tally.told += 1);
        }
        Ok(())
    }

    /// An entry that is not understood.
    async fn tell_unreadable(&self, kind: Kind, id: &str) -> Result<(), Stop> {
        let id = Some(id.to_owned());
        let (charge, refund) = if kind == Kind::UnreadableCharge { (id, None) } else { (None, id) };
        self.tell(Finding { charge, refund, ..Finding::of(kind) }).await
    }

    async fn report(
        &self,
        from: OffsetDateTime,
        until: Option<OffsetDateTime>,
        ended_early: Option<String>,
    ) -> Result<Report, StoreError> {
        let (pool, limits) = (&self.ctx.pool, &self.ctx.limits);
        let mut open = keyed(limits, || store::list_open(pool)).await?;
        let mut open_total = u64::try_from(keyed(limits, || store::count_open(pool)).await?).unwrap_or_default();
        for finding in std::mem::take(&mut *lock(&self.shared.untold)) {
            let finding = finding.open(self.began);
            let is_listed = open.iter().any(|other| {
                (&other.kind, &other.charge, &other.refund) == (&finding.kind, &finding.charge, &finding.refund)
            });
            if !is_listed {
                open.push(finding);
                open_total += 1;
            }
        }
        let tally = lock(&self.shared.tally).clone();
        Ok(Report { from, until, dry_run: self.dry_run, tally, open, open_total, ended_early })
    }
}

/// Nothing that holds one of them can panic half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
