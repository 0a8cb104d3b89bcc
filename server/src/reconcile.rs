//! `payonce reconcile`: compares the provider's charges and refunds with our books, and says what is open.
//!
//! The report is the one thing on standard output. Exit codes, for cron: 0 nothing is open, 1 something is, 2 it could not run, or
//! not to its end. Needs the database and the provider, and no shop that runs.

mod csv;
mod table;

use std::{io::IsTerminal as _, process::ExitCode, sync::Arc};

use anyhow::Context as _;
use clap::Args;
use embedded_postgres::{EmbeddedOptions, EmbeddedPostgres};
use payments::{
    Ctx,
    clock::Clock,
    ids::Ids,
    pool::Pool,
    provider::breaker::{Breaker, BreakerLimits},
    reconcile::{
        self, Request,
        finding::Open,
        report::{Report, Sums, Tally},
    },
};
use serde_json::{Value, json};
use time::{Date, OffsetDateTime, format_description::well_known::Rfc3339, macros::format_description};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    boot::{self, DatabaseRun},
    config::{Database, Settings},
    worker,
};

/// Connections that one run needs: its readers beside each other.
const POOL_SIZE: u32 = 8;
/// Something is open.
const OPEN: u8 = 1;
/// It could not run, or not to its end.
const NOT_DONE: u8 = 2;

/// What `payonce reconcile` is asked for.
#[derive(Args, Clone, Debug, Default, Eq, PartialEq)]
pub struct ReconcileArgs {
    /// From when on, as 2026-01-31 or 2026-01-31T12:00:00Z; else from where the last run ended.
    #[arg(long, value_parser = instant)]
    pub since: Option<OffsetDateTime>,
    /// Until when; else until now.
    #[arg(long, value_parser = instant)]
    pub until: Option<OffsetDateTime>,
    /// Look and report; repair and store nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print the report as JSON.
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print the open discrepancies as CSV.
    #[arg(long)]
    pub csv: bool,
}

/// `payonce reconcile`. The exit code tells how it ended; the reason of a failure is told by the caller.
///
/// # Errors
/// When it could not run, which is exit code 2.
pub async fn run(settings: &Settings, args: ReconcileArgs) -> anyhow::Result<ExitCode> {
    // The embedded database of a shop that runs is used as it is; else it is started for the moment.
    if let Database::Embedded = settings.database
        && let Some(url) = EmbeddedPostgres::url_of_running(&EmbeddedOptions::in_data_dir(&settings.data_dir))
        && let Ok(pool) = payments::pool::connect(&url, POOL_SIZE).await
    {
        return run_on(settings, pool, &args).await;
    }
    let database = DatabaseRun::start(settings).await?;
    let done = match database.pool(settings).await {
        Ok(pool) => run_on(settings, pool, &args).await,
        Err(error) => Err(error),
    };
    database.stop().await;
    done
}

/// How a run that could not begin ends.
pub fn not_done() -> ExitCode {
    ExitCode::from(NOT_DONE)
}

async fn run_on(settings: &Settings, pool: Pool, args: &ReconcileArgs) -> anyhow::Result<ExitCode> {
    let provider = boot::stripe(settings, &boot::provider_url(settings)?)?;
    let breaker = Breaker::new(provider, BreakerLimits::for_lease(settings.lease));
    let ctx = Ctx::new(pool, Arc::new(breaker), Clock::System, Ids::secure(), boot::limits(settings));
    let (progress, shown) = show_progress();
    let request = Request { since: args.since, until: args.until, dry_run: args.dry_run, progress };
    let ran = reconcile::run(&ctx, request).await;
    if let Some(shown) = shown {
        // Ends with the run, which held the other end.
        let _ = shown.await;
    }
    ctx.pool.close().await;

    let report = ran.context("the reconciliation could not run")?;
    say(&match (args.json, args.csv) {
        (true, _) => serde_json::to_string_pretty(&as_json(&report)).context("the report as JSON")?,
        (false, true) => csv::of(&report.open),
        (false, false) => table::of(&report),
    });
    if let Some(reason) = &report.ended_early {
        tracing::error!(reason, "the reconciliation did not come to its end; the next run begins where this one did");
    }
    Ok(exit_code(&report))
}

fn exit_code(report: &Report) -> ExitCode {
    match (&report.ended_early, report.open_total) {
        (Some(_), _) => not_done(),
        (None, 0) => ExitCode::SUCCESS,
        (None, _) => ExitCode::from(OPEN),
    }
}

/// Shows a person how far it is.
fn show_progress() -> (Option<watch::Sender<Tally>>, Option<JoinHandle<()>>) {
    if !std::io::stderr().is_terminal() {
        return (None, None);
    }
    let (progress, mut seen) = watch::channel(Tally::default());
    let shown = worker::spawn("progress", async move {
        let mut shown_any = false;
        while seen.changed().await.is_ok() {
            let tally = seen.borrow_and_update().clone();
            let (theirs, ours) = (tally.charges_theirs.count(), tally.charges_ours.count());
            tell(&format!("\r{theirs} charges of the provider and {ours} of ours compared"));
            shown_any = true;
        }
        if shown_any {
            tell("\n");
        }
    });
    (Some(progress), Some(shown))
}

fn as_json(report: &Report) -> Value {
    let tally = &report.tally;
    json!({
        "from": rfc3339(report.from),
        "until": report.until.map(rfc3339),
        "dry_run": report.dry_run,
        "ended_early": report.ended_early,
        "charges": {"theirs": sums(&tally.charges_theirs), "ours": sums(&tally.charges_ours)},
        "refunds": {"theirs": sums(&tally.refunds_theirs), "ours": sums(&tally.refunds_ours)},
        "settled": tally.settled,
        "recovered": tally.recovered,
        "told": tally.told,
        "healed": tally.healed,
        "open_total": report.open_total,
        "open": report.open.iter().map(open).collect::<Vec<_>>(),
    })
}

fn sums(sums: &Sums) -> Value {
    // Numbers of JSON are exact up to 2^53 with many readers, so that sums are texts.
    let one = |(currency, sum): (&payments::money::Currency, &payments::reconcile::report::Sum)| json!({"currency": currency.code(), "count": sum.count, "minor": sum.minor.to_string()});
    Value::Array(sums.0.iter().map(one).collect())
}

fn open(open: &Open) -> Value {
    json!({
        "kind": open.kind,
        "order": open.order_id.map(|id| id.to_string()),
        "intent": open.intent_id.map(|id| id.to_string()),
        "charge": open.charge,
        "refund": open.refund,
        "payment_intent": open.payment_intent,
        "expected_minor": open.expected_minor,
        "expected_currency": open.expected_currency,
        "reported_minor": open.reported_minor,
        "reported_currency": open.reported_currency,
        "found_at": rfc3339(open.found_at),
    })
}

fn rfc3339(instant: OffsetDateTime) -> String {
    instant.format(&Rfc3339).unwrap_or_default()
}

/// A day, or an instant.
fn instant(text: &str) -> Result<OffsetDateTime, String> {
    if let Ok(day) = Date::parse(text, format_description!("[year]-[month]-[day]")) {
        return Ok(day.midnight().assume_utc());
    }
    OffsetDateTime::parse(text, &Rfc3339).map_err(|_not_an_instant| {
        "is neither a day, as 2026-01-31, nor an instant, as 2026-01-31T12:00:00Z".to_owned()
    })
}

#[expect(clippy::print_stdout, reason = "what was asked for is this command's output")]
fn say(text: &str) {
    println!("{}", text.trim_end());
}

#[expect(clippy::print_stderr, reason = "for the person who watches; logs have lines of their own")]
fn tell(text: &str) {
    eprint!("{text}");
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::instant;

    #[test]
    fn days_and_instants_are_read_and_nothing_else() {
        assert_eq!(instant("2026-01-31"), Ok(datetime!(2026-01-31 00:00 UTC)));
        assert_eq!(instant("2026-01-31T12:00:00+02:00"), Ok(datetime!(2026-01-31 10:00 UTC)));
        for wrong in ["", "yesterday", "2026-13-01", "31.01.2026", "2026-01-31 12:00"] {
            assert!(instant(wrong).is_err(), "{wrong}");
        }
    }
}
