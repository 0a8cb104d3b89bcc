//! `cargo xtask chaos`: the tests of `end2end/chaos`, which break the release binary from outside.

use std::process::Command;

use crate::{
    command::{cargo, run, target, without_settings},
    database,
    rust::build_server,
};

/// The package, and those whose dependencies it shares: named together, their features are the same as in every other build, and
/// nothing is built twice.
pub const PACKAGES: [&str; 12] = [
    "--package",
    "chaos",
    "--package",
    "app",
    "--package",
    "server",
    "--package",
    "payments",
    "--package",
    "embedded_postgres",
    "--package",
    "sandbox",
];

/// Its targets; the other packages have none of these names.
pub const TARGETS: [&str; 6] = ["--test", "crash", "--test", "faults", "--test", "database"];

/// Builds the server, then runs them all.
pub fn chaos() -> anyhow::Result<()> {
    build_server()?;
    database::ensure_installed();
    run(&mut tests())
}

/// The tests, against a server that was built before.
pub fn tests() -> Command {
    let mut command = cargo(&["test", "--release", "--no-fail-fast"]);
    command.args(PACKAGES).args(TARGETS);
    without_settings(&mut command).env("PAYONCE_BIN", target("release/payonce"));
    command
}
