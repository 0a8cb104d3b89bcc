//! The provider's official client libraries, for Node and for Python, against the sandbox: what others wrote decides whether it
//! speaks the provider's language. Each runs against a sandbox of its own.

use std::{fs, net::SocketAddr, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, bail};

use crate::{
    command::{command, root, target, without_settings},
    files, node, python,
    serving::{self, Serving},
};

/// The oldest Node that the library runs on.
const NODE_MAJOR_MIN: u32 = 20;
const START_WAIT: Duration = Duration::from_secs(20);

/// A sandbox that runs.
pub struct Sandbox {
    server: Serving,
    address: SocketAddr,
}

impl Sandbox {
    /// Starts the release binary's sandbox with an empty journal.
    pub fn start(name: &str) -> anyhow::Result<Self> {
        let folder = target("test-data").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
        }
        let address = serving::free_address()?;
        let mut serve = command(target("release/payonce"), &["--until-stdin-closes", "sandbox"]);
        without_settings(&mut serve)
            .env("PAYONCE_SANDBOX_ADDR", address.to_string())
            .env("PAYONCE_DATA_DIR", &folder)
            .env("PAYONCE_LOG", "warn");
        let mut server = Serving::start(&mut serve)?;
        if let Err(error) = server.until_it_answers(address, "/", START_WAIT) {
            server.kill();
            return Err(error);
        }
        Ok(Self { server, address })
    }

    pub fn stop(self) -> anyhow::Result<()> {
        self.server.stop()
    }

    fn drive(&self, mut command: Command) -> Command {
        command.env("SANDBOX_URL", format!("http://{}", self.address));
        command
    }
}

/// The library for Node. It ends with `…; N passed, M failed`, as the other does.
pub fn for_node(sandbox: &Sandbox) -> anyhow::Result<Command> {
    if !node::is_at_least(NODE_MAJOR_MIN) {
        bail!("the provider's library for Node needs Node {NODE_MAJOR_MIN} or newer with npm");
    }
    let (from, to) = (root().join("sandbox/clients/node"), target("tools/stripe-node"));
    node::install_copy(&from, &to)?;
    // Beside its packages, where Node looks for them.
    copy(&from, &to, "check.mjs")?;
    Ok(sandbox.drive(command("node", &[&to.join("check.mjs").to_string_lossy()])))
}

/// The library for Python.
pub fn for_python(sandbox: &Sandbox) -> anyhow::Result<Command> {
    let folder = root().join("sandbox/clients/python");
    let python = python::environment("stripe-python", &folder.join("requirements.txt"))?;
    Ok(sandbox.drive(command(python, &["-B", &folder.join("check.py").to_string_lossy()])))
}

fn copy(from: &Path, to: &Path, name: &str) -> anyhow::Result<()> {
    files::write(&to.join(name), &files::read(&from.join(name))?)
}
