//! `cargo xtask bench`: the numbers of `end2end/bench`, of the release binary, on this machine.

use std::{fs, path::PathBuf};

use anyhow::Context as _;

use crate::{
    command::{cargo, command, root, run, target, without_settings},
    database,
    rust::build_server,
};

/// Named together with the packages whose dependencies it shares, so that their features are the same as in every other build.
pub const PACKAGES: [&str; 12] = [
    "--package",
    "bench",
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

/// Builds the server and the measurements, and runs them; `arguments` go to them as they are.
pub fn bench(arguments: &[String]) -> anyhow::Result<()> {
    build_server()?;
    database::ensure_installed();
    run(cargo(&["build", "--release", "--bin", "bench"]).args(PACKAGES))?;

    let mut measure = command(target("release/bench"), &["run"]);
    measure.arg("--payonce").arg(target("release/payonce"));
    measure.arg("--postgres-bin").arg(postgres_bin()?);
    measure.arg("--queries").arg(root().join(".sqlx"));
    measure.arg("--out").arg(target("bench/numbers.json"));
    run(without_settings(&mut measure).args(arguments))
}

/// Where the newest installed Postgres has its commands; pgbench comes with the server.
fn postgres_bin() -> anyhow::Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions
        .map(|version| version.path().join("bin"))
        .chain(std::iter::once(PathBuf::from("/usr/bin")))
        .filter(|folder| folder.join("pgbench").is_file())
        .collect();
    found.sort();
    found
        .pop()
        .context("pgbench is not installed: it comes with PostgreSQL's server package, as `apt install postgresql`")
}
