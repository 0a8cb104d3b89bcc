//! A browser for the tests: one that is there, else Debian's, else Playwright's own.

use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::{
    apt,
    command::{command, find, first_line, run},
    report,
};

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const APPLICATIONS: [&str; 2] = [
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
];

/// The path of a browser; `None` when Playwright brought one that it finds itself.
pub fn ensure(end2end: &Path) -> anyhow::Result<Option<PathBuf>> {
    if let Some(browser) = installed() {
        return Ok(Some(browser));
    }
    if apt::can_install() {
        match apt::install(&["chromium", "fonts-liberation"]) {
            // Ubuntu's package only points to a snap, which a container cannot run.
            Ok(()) => match installed() {
                Some(browser) => return Ok(Some(browser)),
                None => report::note("the package brought no browser that runs"),
            },
            Err(error) => report::note(format_args!("{error:#}")),
        }
    }
    report::step("downloading a browser (Playwright's Chromium, some 170 MB)");
    let mut playwright = command("npx", &["playwright", "install", "chromium"]);
    if let Err(error) = run(playwright.current_dir(end2end)) {
        bail!(
            "no browser for the tests ({error}); install chromium or google-chrome, so that it is on the PATH \
             (Debian: `apt-get install chromium`)"
        );
    }
    Ok(None)
}

fn installed() -> Option<PathBuf> {
    let named = NAMES.iter().filter_map(|name| find(name));
    let applications = APPLICATIONS.iter().map(|path| (*path).to_owned());
    named.chain(applications).find(|path| first_line(path, &["--version"]).is_some()).map(PathBuf::from)
}
