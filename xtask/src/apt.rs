//! Debian's packages, where they can be had: only as root, and only what a step cannot do without.

use crate::{
    command::{command, find, first_line, run_quietly},
    report,
};

/// Whether packages can be installed.
pub fn can_install() -> bool {
    first_line("id", &["-u"]).as_deref() == Some("0") && find("apt-get").is_some()
}

/// Installs packages. The lists of packages are brought up to date first: a fresh container has none.
pub fn install(packages: &[&str]) -> anyhow::Result<()> {
    report::timed(format_args!("installing {} (apt-get)", packages.join(", ")), || {
        let apt = |arguments: &[&str]| {
            let mut apt = command("apt-get", arguments);
            apt.env("DEBIAN_FRONTEND", "noninteractive");
            run_quietly(&mut apt)
        };
        // A source that is down may not be the one that has the package.
        if let Err(error) = apt(&["update"]) {
            report::note(format_args!("the lists of packages are not quite up to date: {error:#}"));
        }
        apt(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
    })
}
