//! The API against its own description: schemathesis (Python), in an environment of its own, against a server of its own.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, bail};

use crate::{
    command::{command, root, target, without_settings},
    python,
    serving::{self, Serving},
};

/// How long the server may take until it answers: it makes a database first.
const START_SECONDS_MAX: u64 = 60;

/// A shop for this run alone, with the sandbox and a database of its own.
pub struct ApiRun {
    server: Serving,
    address: SocketAddr,
    key: String,
    python: PathBuf,
}

impl ApiRun {
    /// Installs what is needed, and starts the shop.
    pub fn start() -> anyhow::Result<Self> {
        let python = python::environment("schemathesis", &root().join("end2end/api/requirements.txt"))
            .context("without it there are no API tests")?;
        let folder = target("test-data/api");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
        }
        let (address, sandbox) = (serving::free_address()?, serving::free_address()?);
        let mut serve = payonce(&folder, &["--until-stdin-closes", "serve"]);
        serve
            .env("PAYONCE_ADDR", address.to_string())
            .env("PAYONCE_SANDBOX_ADDR", sandbox.to_string())
            .env("PAYONCE_SITE_ROOT", target("site"))
            // What is tried here is what the API answers, not how often.
            .env("PAYONCE_API_RATE_PER_SECOND", "0")
            .env("PAYONCE_ADDRESS_RATE_PER_SECOND", "0")
            .env("PAYONCE_LOG", "warn,payments=error");
        let server = Serving::start(&mut serve)?;
        let mut run = Self { server, address, key: String::new(), python };
        let ready = run.server.until_it_answers(address, "/readyz", Duration::from_secs(START_SECONDS_MAX));
        match ready.and_then(|()| make_key(&folder)) {
            Ok(key) => Ok(Self { key, ..run }),
            Err(error) => {
                run.server.kill();
                Err(error)
            }
        }
    }

    /// The run itself. It prints what was answered, and ends with `… N passed, M failed`.
    pub fn command(&self) -> Command {
        let mut command = command(&self.python, &[&root().join("end2end/api/run.py").to_string_lossy()]);
        command.env("API_URL", format!("http://{}", self.address)).env("API_KEY", &self.key);
        command
    }

    pub fn stop(self) -> anyhow::Result<()> {
        self.server.stop()
    }
}

fn payonce(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = command(target("release/payonce"), arguments);
    without_settings(&mut command).env("PAYONCE_DATA_DIR", folder);
    command
}

/// A key, made as an operator makes one: beside the running shop.
fn make_key(folder: &Path) -> anyhow::Result<String> {
    let output =
        payonce(folder, &["api-key", "create", "schemathesis"]).output().context("no API key could be made")?;
    if !output.status.success() {
        bail!("no API key could be made: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
