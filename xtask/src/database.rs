//! A database for the tests: a private cluster of their own, run by the release binary as it runs its own.

use std::{fs, path::Path, process::Stdio};

use anyhow::Context as _;

use crate::{
    apt,
    command::{find, first_line, run, target, without_settings},
    report,
    serving::{Payonce, payonce},
};

/// A running cluster for tests.
pub struct TestDatabase {
    pub url: String,
    process: Payonce,
}

impl TestDatabase {
    /// Starts an empty one.
    pub fn start() -> anyhow::Result<Self> {
        ensure_installed();
        let data = target("test-data");
        remove(&data)?;
        let mut command = payonce("postgres");
        without_settings(&mut command)
            .env("PAYONCE_DATA_DIR", &data)
            .env("PAYONCE_LOG", "warn,embedded_postgres=info")
            .stdout(Stdio::piped());
        let mut process = Payonce::start(&mut command)?;
        let url = process.first_line().context("the database for the tests did not start")?;
        Ok(Self { url, process })
    }

    /// Brings the schema to this version.
    pub fn migrate(&self) -> anyhow::Result<()> {
        let mut command = payonce("migrate");
        run(without_settings(&mut command).env("DATABASE_URL", &self.url).env("PAYONCE_LOG", "warn"))
    }

    pub fn stop(self) -> anyhow::Result<()> {
        self.process.stop()
    }
}

/// Removes a data folder, also where the cluster is elsewhere with a link to it.
fn remove(data: &Path) -> anyhow::Result<()> {
    if let Ok(cluster) = fs::canonicalize(data.join("postgres")) {
        fs::remove_dir_all(&cluster).with_context(|| format!("{} cannot be removed", cluster.display()))?;
    }
    if data.exists() {
        fs::remove_dir_all(data).with_context(|| format!("{} cannot be removed", data.display()))?;
    }
    Ok(())
}

/// Installs PostgreSQL where there is none and Debian's packages can be had; else the server downloads one or says what to do.
pub fn ensure_installed() {
    if is_installed() || !apt::can_install() {
        return;
    }
    if let Err(error) = apt::install(&["postgresql"]) {
        report::note(format_args!("{error:#}; the server will try to download PostgreSQL"));
    }
}

fn is_installed() -> bool {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    find("postgres").is_some()
        || first_line("pg_config", &["--bindir"]).is_some_and(|folder| Path::new(&folder).join("postgres").exists())
        || versions.into_iter().any(|version| version.path().join("bin/postgres").exists())
}
