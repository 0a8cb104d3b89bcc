//! Node and npm packages: needed for the browser tests, and to make the page smaller.

use std::{fs, path::Path};

use anyhow::Context as _;

use crate::{
    command::{command, find, first_line, run_quietly},
    files::{Stamp, fingerprint, read},
    report,
};

/// The oldest Node that runs the tools.
const MAJOR_MIN: u32 = 18;

/// Whether there is a Node that is new enough, with npm.
pub fn is_there() -> bool {
    is_at_least(MAJOR_MIN)
}

/// Whether there is a Node of this major version or a newer one, with npm.
pub fn is_at_least(wanted: u32) -> bool {
    let version = first_line("node", &["--version"]).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    major.is_some_and(|major| major >= wanted) && find("npm").is_some()
}

/// Installs exactly what the folder's lock file names, unless that was done before.
pub fn install(folder: &Path) -> anyhow::Result<()> {
    let lock = read(&folder.join("package-lock.json"))?;
    let name = format!("npm-{}.stamp", folder.file_name().unwrap_or_default().to_string_lossy());
    let stamp = Stamp::new(&name, fingerprint([lock.as_slice(), folder.as_os_str().as_encoded_bytes()]));
    if stamp.is_current() && folder.join("node_modules").is_dir() {
        return Ok(());
    }
    report::timed(format_args!("installing the npm packages of {}", folder.display()), || {
        // None of the packages needs its install script, and what does not run cannot harm.
        let mut npm = command("npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        run_quietly(npm.current_dir(folder))
            .context("without npm's registry there are no browser tests, and the page is larger")
    })?;
    stamp.set()
}

/// Puts the files of `from` into `to` and installs there, to keep `node_modules` out of the sources.
pub fn install_copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("{} cannot be made", to.display()))?;
    for name in ["package.json", "package-lock.json", ".npmrc"] {
        crate::files::write(&to.join(name), &read(&from.join(name))?)?;
    }
    install(to)
}
