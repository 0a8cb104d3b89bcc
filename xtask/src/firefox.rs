//! A Firefox for the tests: one that is there, else Debian's. Without one the step fails; it is never left out.

use std::path::PathBuf;

use anyhow::bail;

use crate::{
    apt,
    command::{find, first_line},
    report,
};

const NAMES: [&str; 2] = ["firefox-esr", "firefox"];
const APPLICATION: &str = "/Applications/Firefox.app/Contents/MacOS/firefox";

/// The path of a browser that runs.
pub fn ensure() -> anyhow::Result<PathBuf> {
    if let Some(browser) = installed() {
        return Ok(browser);
    }
    if apt::can_install() {
        if let Err(error) = apt::install(&["firefox-esr"]) {
            report::note(format_args!("{error:#}"));
        }
        if let Some(browser) = installed() {
            return Ok(browser);
        }
    }
    bail!("no Firefox for the tests; install it, so that it is on the PATH (Debian: `apt-get install firefox-esr`)");
}

fn installed() -> Option<PathBuf> {
    let named = NAMES.iter().filter_map(|name| find(name));
    // Ubuntu's package only points to a snap, which a container cannot run.
    named.chain([APPLICATION.to_owned()]).find(|path| first_line(path, &["--version"]).is_some()).map(PathBuf::from)
}
