//! Thousands of payments in flight at once, each sent three times over two replicas, while the provider takes its time. It
//! answers the first only when all have come.

use std::{process::Stdio, time::Duration};

use anyhow::{Context as _, ensure};

use crate::{
    Plan,
    load::Sent,
    orders,
    report::{Better, Report, progress},
    shop::{Shop, Size},
};

/// How long the provider takes for each confirm.
const PROVIDER_DELAY: Duration = Duration::from_secs(10);
/// Processes that send; each may open only so many files.
const SENDERS: usize = 2;

pub async fn measure(plan: &Plan, payments: usize, report: &mut Report) -> anyhow::Result<()> {
    let provider_delay = if plan.quick { Duration::from_secs(1) } else { PROVIDER_DELAY };
    let shop = Shop::start(plan, Size { replicas: 2, provider_delay, gather: payments }).await?;
    let count = i64::try_from(payments)?;
    orders::make(&shop.database, 1, count).await?;
    let rest = memory_kb(&shop)?;

    let started = std::time::Instant::now();
    let (sent, most_connections) = send(&shop, count).await?;
    let seconds = started.elapsed().as_secs_f64();
    let peak = peak_kb(&shop)?;
    let counts = shop.counts().await?;
    let (paid, not_charged): (i64, i64) = sqlx::query_as(
        "select count(*) filter (where i.state = 'succeeded' and o.state = 'paid'), count(*) filter (where i.state = 'failed')
        from intents i join orders o on o.id = i.order_id",
    )
    .fetch_one(&shop.database)
    .await?;
    let final_ones = paid + not_charged;

    report.heading(&format!(
        "{payments} payments in flight at once, each sent three times: the first given up, the others compared"
    ));
    report.value("confirms that waited at the provider at once", counts.most_in_flight as f64, None);
    report.value("requests to pay: three for each, and again after \"not now\"", sent.requests as f64, None);
    report.value("charges", counts.charges as f64, None);
    report.value("proven not charged: cancelled, since no answer came", not_charged as f64, None);
    report.value("double charges", counts.doubled as f64, Some((0.0, Better::Lower)));
    report.value("lost outcomes", (count - final_ones) as f64, Some((0.0, Better::Lower)));
    report.value("payments whose answers differ or are missing", sent.differing as f64, Some((0.0, Better::Lower)));
    report.value("connections to the database, at most, both replicas", most_connections as f64, None);
    report.value("memory of a payment in flight, KiB", (peak - rest) as f64 / payments as f64, None);
    report.value("seconds", seconds, None);
    for (fault, times) in &sent.faults {
        progress(&format!("{times} × {fault}"));
    }
    shop.stop().await;
    ensure!(
        counts.doubled == 0 && i64::try_from(counts.charges)? == paid,
        "I1: {} charges for {paid} paid of {payments}",
        counts.charges
    );
    ensure!(counts.most_in_flight >= payments, "only {} of {payments} were in flight at once", counts.most_in_flight);
    ensure!(sent.requests >= 3 * payments, "{} requests for {payments} payments", sent.requests);
    ensure!(final_ones == count, "{final_ones} of {count} payments have their outcome");
    ensure!(sent.differing == 0, "I5: {} payments did not get the same bytes: {:?}", sent.differing, sent.faults);
    Ok(())
}

/// Sends all of them; gives how that ended, and how many connections to the database there were at most.
async fn send(shop: &Shop, count: i64) -> anyhow::Result<(Sent, i64)> {
    let replicas: Vec<String> = shop.replicas.iter().map(|replica| replica.addr.to_string()).collect();
    let own = std::env::current_exe()?;
    let share = count / i64::try_from(SENDERS)?;
    let mut senders = Vec::new();
    for sender in 0..SENDERS {
        let first = 1 + share * i64::try_from(sender)?;
        let mut command = shop.beside(&own.to_string_lossy());
        command.args(["send", "--replicas", &replicas.join(",")]);
        command.args([
            "--first",
            &first.to_string(),
            "--count",
            &share.to_string(),
            "--sender",
            &(sender + 1).to_string(),
        ]);
        let mut command = tokio::process::Command::from(command);
        senders
            .push(command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?.wait_with_output());
    }
    let mut most_connections = 0;
    let mut sending = std::pin::pin!(futures::future::try_join_all(senders));
    let outputs = loop {
        tokio::select! {
            outputs = &mut sending => break outputs?,
            () = tokio::time::sleep(Duration::from_millis(200)) => {
                most_connections = most_connections.max(connections(shop).await?);
            }
        }
    };
    let mut sent = Sent::default();
    for output in outputs {
        let told: Sent = serde_json::from_slice(&output.stdout).context("a sender ended without its result")?;
        sent.same += told.same;
        sent.differing += told.differing;
        sent.requests += told.requests;
        for (fault, times) in told.faults {
            *sent.faults.entry(fault).or_default() += times;
        }
    }
    Ok((sent, most_connections))
}

async fn connections(shop: &Shop) -> anyhow::Result<i64> {
    let sql = "select count(*) from pg_stat_activity where application_name = 'payonce'";
    Ok(sqlx::query_scalar(sql).fetch_one(&shop.database).await?)
}

/// Resident memory of all replicas now.
fn memory_kb(shop: &Shop) -> anyhow::Result<i64> {
    shop.replicas.iter().map(|replica| status(replica.pid, "VmRSS:")).sum()
}

/// The most that all replicas had.
fn peak_kb(shop: &Shop) -> anyhow::Result<i64> {
    shop.replicas.iter().map(|replica| status(replica.pid, "VmHWM:")).sum()
}

/// A number of a process, such as its memory in KiB.
pub fn status(pid: u32, name: &str) -> anyhow::Result<i64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).with_context(|| name.to_owned())?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}
