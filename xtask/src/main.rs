//! `cargo xtask`: everything that people and CI do with this repository, each as one command that does its own set-up.
//!
//! It never needs a tool that it cannot find, install or name: what cannot be had gets one clear line with the way out. Whatever
//! it starts, it stops.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a command-line tool answers on standard output")]

mod api;
mod apt;
mod bench;
mod browser;
mod chaos;
mod chromium;
mod clients;
mod command;
mod database;
mod files;
mod node;
mod python;
mod report;
mod run;
mod rust;
mod serving;
mod sqlx;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, runs and tests Payonce.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Subcommand)]
enum Command {
    /// Build everything and run the shop with its sandbox provider and database, until Ctrl-C.
    Run,
    /// Check formatting and lints, run every test, Rust's and the browser's, and sum up.
    Test,
    /// Build the browser's files and the server, and print what the page weighs.
    Build,
    /// Kill, pause and cut off replicas at every step of a payment, and count what was charged.
    Chaos,
    /// Measure the release binary: payments against pgbench, repeats against a look-up, thousands in flight.
    Bench {
        /// What the measurements are told, such as `--quick` or `--only paid`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Describe the queries in `.sqlx` anew, after a change of a query or of the schema.
    Sqlx {
        /// Only tell whether they are up to date.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let end = match cli.command {
        Command::Run => run::run(),
        Command::Test => return test::test(),
        Command::Build => build(),
        Command::Chaos => chaos::chaos(),
        Command::Bench { arguments } => bench::bench(&arguments),
        Command::Sqlx { check } => sqlx::command(check),
    };
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::failure(&error);
            ExitCode::FAILURE
        }
    }
}

/// Everything that `payonce serve` needs.
fn build() -> anyhow::Result<()> {
    rust::ensure_wasm_target()?;
    browser::build()?;
    rust::build_server()
}
