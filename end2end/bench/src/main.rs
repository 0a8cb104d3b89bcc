//! Measures the release binary from outside: numbers with their floors, never a test's verdict on speed. What is asserted is
//! that everything measured really happened: each payment one charge, each repeat the archived bytes.
//!
//! Reading order: [`paid`], [`replay`], [`in_flight`], [`reconcile`] are the four parts; [`shop`] runs what is measured, [`orders`] makes what
//! is paid, [`provider`] charges, [`client`] and [`load`] send, [`recorded`] and [`pgbench`] are what Postgres is measured by.

#![expect(clippy::print_stdout, reason = "a command-line tool answers on standard output")]
#![expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    reason = "measurements are no money: ratios are what they are for"
)]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of a benchmark are far below 2^52"
)]

mod client;
mod in_flight;
mod load;
mod orders;
mod paid;
mod pgbench;
mod provider;
mod reconcile;
mod recorded;
mod replay;
mod report;
mod select;
mod shop;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};

use crate::report::Report;

/// Measures Payonce.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything, or what was asked for.
    Run(Plan),
    /// The provider of the measurements, as a process of its own.
    Provider {
        addr: SocketAddr,
        /// How long each confirm takes.
        delay_ms: u64,
        /// How many confirms must have come before the first is answered.
        gather: usize,
    },
    /// A server that answers each request by one look-up of a primary key.
    Select { addr: SocketAddr, database: String },
    /// One process of senders; its result is JSON on standard output.
    Send(load::Sending),
}

/// What is measured, and how long.
#[derive(Clone, Debug, clap::Args)]
pub struct Plan {
    /// The binary to measure.
    #[arg(long)]
    payonce: PathBuf,
    /// The commands of Postgres, with pgbench.
    #[arg(long)]
    postgres_bin: PathBuf,
    /// The recorded queries, `.sqlx`.
    #[arg(long)]
    queries: PathBuf,
    /// Where the numbers go, as JSON.
    #[arg(long)]
    out: PathBuf,
    /// Only show that everything still runs: seconds instead of minutes, and no floors.
    #[arg(long)]
    quick: bool,
    /// Only these parts: paid, replay, in-flight, reconcile.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

impl Plan {
    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == part)
    }

    fn rounds(&self) -> usize {
        if self.quick { 1 } else { 5 }
    }

    fn round(&self) -> Duration {
        Duration::from_secs(if self.quick { 2 } else { 10 })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Provider { addr, delay_ms, gather } => {
            until_stdin_closes(provider::serve(addr, Duration::from_millis(delay_ms), gather)).await
        }
        Command::Select { addr, database } => until_stdin_closes(select::serve(addr, &database)).await,
        Command::Send(sending) => load::send_and_tell(sending).await,
        Command::Run(plan) => run(&plan).await,
    }
}

/// Serves until whoever started it is gone.
async fn until_stdin_closes(serving: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let (gone, end) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        drop(gone);
    });
    tokio::select! {
        served = serving => served,
        _ = end => Ok(()),
    }
}

async fn run(plan: &Plan) -> anyhow::Result<()> {
    let mut report = Report::new(plan.quick);
    if plan.wants("paid") || plan.wants("replay") {
        let shop = shop::Shop::start(plan, shop::Size::one()).await?;
        report.durability(&shop.durability().await?);
        if plan.wants("paid") {
            paid::measure(plan, &shop, &mut report).await?;
        }
        if plan.wants("replay") {
            replay::measure(plan, &shop, &mut report).await?;
        }
        shop.stop().await;
    }
    if plan.wants("in-flight") {
        let sizes: &[usize] = if plan.quick { &[200] } else { &[2_000, 10_000] };
        for payments in sizes {
            in_flight::measure(plan, *payments, &mut report).await?;
        }
    }
    if plan.wants("reconcile") {
        reconcile::measure(plan, &mut report).await?;
    }
    report.write(&plan.out)
}
