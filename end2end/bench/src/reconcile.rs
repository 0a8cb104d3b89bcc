//! A million charges of the provider's compared with a million orders: how long it takes, and in how much memory. The provider is the
//! sandbox, whose charges follow a pattern; our side is laid into the tables. One charge has no order: it has to be found.

use std::{
    net::SocketAddr,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use sqlx::{Connection as _, Executor as _, PgConnection};
use tokio::{process::Command, time::sleep};

use crate::{
    Plan,
    client::Connection,
    report::{Better, Report, progress},
    shop::{Running, free_port, pinned, ready_to_connect},
};

/// When the first charge was made: 2026-01-01.
const CREATED: i64 = 1_767_225_600;
const PER_SECOND: i64 = 10;
/// What all ids of the provider's have in common.
const PREFIX: &str = "benchmark001";
/// The charge that has no order.
const LOST: i64 = 4_321;
/// Rows that one statement of the filling makes.
const ROWS: i64 = 50_000;
/// The two cores that everything shares.
const CORES: &str = "0,1";

pub async fn measure(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let charges: i64 = if plan.quick { 10_000 } else { 1_000_000 };
    let data = tempfile::Builder::new().prefix("payonce-bench-").tempdir()?;
    let payonce = plan.payonce.to_string_lossy();
    let mut postgres = pinned(CORES, &payonce);
    postgres.args(["postgres", "--until-stdin-closes"]).env("PAYONCE_DATA_DIR", data.path());
    let (_postgres, database) = Running::start_and_read_line(postgres)?;
    let mut migrate = Command::from(pinned(CORES, &payonce));
    ensure!(migrate.arg("migrate").env("DATABASE_URL", &database).status().await?.success(), "the schema");
    let provider = free_port()?;
    let mut sandbox = pinned(CORES, &payonce);
    sandbox.args(["sandbox", "--until-stdin-closes"]).stderr(Stdio::null());
    sandbox.env("PAYONCE_SANDBOX_ADDR", provider.to_string()).env("PAYONCE_DATA_DIR", data.path());
    let sandbox = Running::start(sandbox)?;
    ready_to_connect(provider).await?;

    charge(provider, charges).await?;
    let began = Instant::now();
    fill(&database, charges).await?;
    progress(&format!("{charges} orders were laid into the tables in {:.0} s", began.elapsed().as_secs_f64()));

    let run = Run { payonce: &payonce, database: &database, provider };
    let tenth = run.reconcile(charges / 10).await?;
    let before = processor_seconds(sandbox.id())?;
    let all = run.reconcile(charges).await?;
    let of_provider = processor_seconds(sandbox.id())? - before;
    report.heading(&format!("{charges} charges compared with as many orders, on two cores"));
    report.value("seconds", all.seconds, Some((60.0, Better::Lower)));
    report.value("charges compared in a second", charges as f64 / all.seconds, None);
    report.value("seconds of processor of the one that compares", all.processor, None);
    report.value("seconds of processor of the provider", of_provider, None);
    report.value("memory at most, MiB", all.peak_kb as f64 / 1024.0, None);
    report.value("memory at most, by that of a tenth of the charges", all.peak_kb as f64 / tenth.peak_kb as f64, None);
    Ok(())
}

/// Charges at the provider, in one call.
async fn charge(provider: SocketAddr, count: i64) -> anyhow::Result<()> {
    let order = json!({
        "count": count, "created": CREATED, "per_second": PER_SECOND, "amount": 4990, "currency": "eur", "prefix": PREFIX,
        "metadata": {"order": "00000000-0000-4000-8000-{hex}"}
    });
    let body = Bytes::from(order.to_string());
    let answer = Connection::open(provider, None).await?.post("/_sandbox/charges/bulk", body).await?;
    ensure!(answer.status == 200, "{}", String::from_utf8_lossy(&answer.body));
    Ok(())
}

/// The orders of these charges, each paid by its intent and booked, but for the lost one. Triggers and foreign keys have nothing
/// to say to rows that are right by construction, so that they are left out for this one session.
async fn fill(database: &str, count: i64) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(database).await?;
    connection.execute("set session_replication_role = replica").await?;
    for first in (0..count).step_by(usize::try_from(ROWS)?) {
        sqlx::query(
            "with numbers as (
                select n, ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid as id,
                    'pi_' || $3 || lpad(n::text, 12, '0') as payment_intent, 'ch_' || $3 || lpad(n::text, 12, '0') as charge,
                    to_timestamp($4 + n / $5) as paid_at
                from generate_series($1::bigint, $1 + $2 - 1) as n
                where n <> $6
            ),
            ordered as (
                insert into orders (
                    id, token, reference, cart_id, content_hash, currency, amount_minor, offered_intent,
                    provider_payment_intent, state, paid_intent, charge, paid_at, created_at
                )
                select id, 'b' || lpad(n::text, 21, '0'), 'B' || n, id, sha256(int8send(n)), 'EUR', 4990, id,
                    payment_intent, 'paid', id, charge, paid_at, paid_at
                from numbers
            ),
            paid as (
                insert into intents (
                    operation, order_id, id, fingerprint, state, amount_minor, currency, provider_payment_intent, owner,
                    charge, paid_at, archive_status, archive_content_type, archive_body, created_at, finished_at, purged_at
                )
                select 'pay', id, id, sha256(int8send(n)), 'succeeded', 4990, 'EUR', payment_intent, id,
                    charge, paid_at, 200, 'application/json', '', paid_at, paid_at, paid_at
                from numbers
            )
            insert into ledger_entries (operation, order_id, intent_id, account, amount_minor, currency, charge, created_at)
            select 'pay', id, id, e.account, e.sign * 4990, 'EUR', charge, paid_at
            from numbers
            cross join (values ('provider_receivable', 1), ('sales', -1)) as e (account, sign)",
        )
        .bind(first)
        .bind(ROWS.min(count - first))
        .bind(PREFIX)
        .bind(CREATED)
        .bind(PER_SECOND)
        .bind(LOST)
        .execute(&mut connection)
        .await?;
    }
    connection.execute("vacuum (analyze) orders, intents, ledger_entries").await?;
    connection.close().await?;
    Ok(())
}

struct Run<'a> {
    payonce: &'a str,
    database: &'a str,
    provider: SocketAddr,
}

struct Measured {
    seconds: f64,
    processor: f64,
    peak_kb: i64,
}

impl Run<'_> {
    /// Compares the first so many charges; makes sure that all were, and that what is lost was found.
    async fn reconcile(&self, charges: i64) -> anyhow::Result<Measured> {
        let mut command = Command::from(pinned(CORES, self.payonce));
        let since = rfc3339(CREATED - 3_600)?;
        let until = rfc3339(CREATED + charges / PER_SECOND)?;
        command.args(["reconcile", "--json", "--since", &since, "--until", &until]);
        command.env("DATABASE_URL", self.database).env("PAYONCE_SANDBOX_ADDR", self.provider.to_string());
        let began = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let pid = child.id().context("its process")?;
        let mut ending = std::pin::pin!(child.wait_with_output());
        let (mut peak_kb, mut processor) = (0, 0.0);
        let output = loop {
            tokio::select! {
                output = &mut ending => break output?,
                () = sleep(Duration::from_millis(50)) => {
                    // Gone for a moment before its end is seen.
                    peak_kb = crate::in_flight::status(pid, "VmHWM:").unwrap_or(peak_kb);
                    processor = processor_seconds(pid).unwrap_or(processor);
                }
            }
        };
        let seconds = began.elapsed().as_secs_f64();
        let report: Value = serde_json::from_slice(&output.stdout).context("its report")?;
        let counts = [&report["charges"]["theirs"][0]["count"], &report["charges"]["ours"][0]["count"]];
        let lost = format!("ch_{PREFIX}{LOST:012}");
        ensure!(report["ended_early"].is_null() && counts == [&json!(charges), &json!(charges - 1)], "{report}");
        ensure!(report["open_total"] == 1 && report["open"][0]["charge"] == lost.as_str(), "{report}");
        ensure!(output.status.code() == Some(1), "something is open: {}", output.status);
        progress(&format!("{charges} charges in {seconds:.1} s, {} MiB at most", peak_kb / 1024));
        Ok(Measured { seconds, processor, peak_kb })
    }
}

fn rfc3339(seconds: i64) -> anyhow::Result<String> {
    Ok(time::OffsetDateTime::from_unix_timestamp(seconds)?.format(&time::format_description::well_known::Rfc3339)?)
}

/// What a process has used by now, in user and system mode.
fn processor_seconds(pid: u32) -> anyhow::Result<f64> {
    // Fields 14 and 15, in hundredths of a second; the second field is a name in parentheses.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit_once(')').context("a name")?.1.split_whitespace().skip(11).take(2);
    let ticks: i64 = fields.map(|field| field.parse::<i64>().unwrap_or(0)).sum();
    Ok(ticks as f64 / 100.0)
}
