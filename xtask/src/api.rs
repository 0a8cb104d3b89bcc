//! The API against its own description: schemathesis (Python), in an environment of its own, against a server of its own.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::{
    apt,
    command::{command, find, first_line, root, run_quietly, target, without_settings},
    files::{Stamp, fingerprint, read},
    report,
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
        let python = install()?;
        let folder = target("test-data/api");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
        }
        let (address, sandbox) = (free_address()?, free_address()?);
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
        match run.wait().and_then(|()| make_key(&folder)) {
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

    fn wait(&mut self) -> anyhow::Result<()> {
        let started = Instant::now();
        while !serving::answers(self.address, "/readyz") {
            if let Some(status) = self.server.ended()? {
                bail!("the server for the API tests ended before it was ready ({status})");
            }
            if started.elapsed() > Duration::from_secs(START_SECONDS_MAX) {
                bail!("the server for the API tests was not ready within {START_SECONDS_MAX} s");
            }
            serving::pause();
        }
        Ok(())
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

/// A Python environment with exactly what the requirements name, unless that was made before.
fn install() -> anyhow::Result<PathBuf> {
    let requirements = root().join("end2end/api/requirements.txt");
    let folder = target("tools/schemathesis");
    let python = folder.join("bin/python");
    let wanted = fingerprint([read(&requirements)?.as_slice(), folder.as_os_str().as_encoded_bytes()]);
    let stamp = Stamp::new("schemathesis.stamp", wanted);
    if stamp.is_current() && python.exists() {
        return Ok(python);
    }
    ensure_python();
    let Some(found) = find_python() else {
        bail!(
            "the API tests need Python 3.10 or newer with its venv module (Debian: `apt-get install python3-venv`, \
             macOS: `brew install python3`)"
        );
    };
    report::timed("installing schemathesis", || {
        run_quietly(&mut command(&found, &["-m", "venv", "--clear", &folder.to_string_lossy()]))
            .context("Python made no environment (Debian: `apt-get install python3-venv`)")?;
        let requirements = requirements.to_string_lossy();
        let arguments = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
        run_quietly(&mut command(&python, &[&arguments[..], &[&requirements]].concat()))
            .context("without PyPI there are no API tests")
    })?;
    stamp.set()?;
    Ok(python)
}

fn ensure_python() {
    let is_complete =
        find_python().is_some_and(|python| first_line(&python, &["-c", "import ensurepip; print(1)"]).is_some());
    if is_complete || !apt::can_install() {
        return;
    }
    if let Err(error) = apt::install(&["python3", "python3-venv"]) {
        report::note(format_args!("{error:#}"));
    }
}

/// A Python that schemathesis runs on.
fn find_python() -> Option<String> {
    let is_new = "import sys; print('yes' if sys.version_info >= (3, 10) else 'no')";
    find("python3").filter(|python| first_line(python, &["-c", is_new]).as_deref() == Some("yes"))
}

/// An address of this machine that nobody listens on now.
fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?)
}
