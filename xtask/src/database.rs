//! A database for the tests: a private cluster of their own, run as the server runs its own.

use std::{fs, path::Path, process::Stdio};

use anyhow::Context as _;

use crate::{
    apt,
    command::{cargo, command, find, first_line, root, run, target},
    report,
    serving::Serving,
};

/// A running cluster for tests, with the newest schema in its database.
pub struct TestDatabase {
    pub url: String,
    process: Serving,
}

impl TestDatabase {
    /// Starts an empty one.
    pub fn start() -> anyhow::Result<Self> {
        ensure_installed();
        let example = "migrated_cluster";
        report::timed("building what runs the database", || {
            run(&mut cargo(&["build", "--release", "--example", example]))
        })?;
        let folder = target("test-data/postgres");
        remove(&folder)?;
        let (folder, migrations) = (folder.to_string_lossy(), root().join("migrations"));
        let program = target("release/examples").join(example);
        let mut command = command(program, &[&folder, &migrations.to_string_lossy()]);
        let mut process = Serving::start(command.stdout(Stdio::piped()))?;
        let url = process.first_line().context("the database for the tests did not start")?;
        Ok(Self { url, process })
    }

    pub fn stop(self) -> anyhow::Result<()> {
        self.process.stop()
    }
}

/// Removes a cluster, also where it is elsewhere with a link to it.
fn remove(folder: &Path) -> anyhow::Result<()> {
    let Ok(cluster) = fs::canonicalize(folder) else { return Ok(()) };
    fs::remove_dir_all(&cluster).with_context(|| format!("{} cannot be removed", cluster.display()))?;
    if fs::symlink_metadata(folder).is_ok() {
        fs::remove_file(folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
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
