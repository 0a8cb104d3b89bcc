//! The `payonce` binary: command line → settings → logs → [`server::boot`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use server::{
    api_keys, boot,
    config::{Cli, Command, Settings},
    reconcile, telemetry,
};

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let settings = match Settings::from_environment(&cli) {
        Ok(settings) => settings,
        Err(problems) => {
            let failed = fail(&problems);
            return if matches!(cli.command, Command::Reconcile(_)) { reconcile::not_done() } else { failed };
        }
    };
    telemetry::start(&settings.log);
    let end = match cli.command {
        // On the heap: the future of the whole server is too large for a stack.
        Command::Serve => Box::pin(boot::serve(settings)).await,
        Command::Sandbox => boot::sandbox(settings).await,
        Command::Migrate => boot::migrate(settings).await,
        Command::Postgres => boot::postgres(settings).await,
        Command::ApiKey { command } => api_keys::run(&settings, command).await,
        Command::Reconcile(args) => match Box::pin(reconcile::run(&settings, args)).await {
            Ok(code) => return code,
            Err(error) => {
                fail(&format_args!("{error:#}"));
                return reconcile::not_done();
            }
        },
        Command::Openapi => {
            api_keys::describe();
            Ok(())
        }
    };
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format_args!("{error:#}")),
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the last word of a command goes to the person who typed it, also when logs are filtered away"
)]
fn fail(reason: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("payonce: {reason}");
    ExitCode::FAILURE
}
