//! Python environments: each with exactly what its requirements name, apart from whatever else this machine has.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::{
    apt,
    command::{command, find, first_line, run_quietly, target},
    files::{Stamp, fingerprint, read},
    report,
};

/// The Python of an environment that has what the requirements name; it is made unless that was done before.
pub fn environment(name: &str, requirements: &Path) -> anyhow::Result<PathBuf> {
    let folder = target("tools").join(name);
    let python = folder.join("bin/python");
    let wanted = fingerprint([read(requirements)?.as_slice(), folder.as_os_str().as_encoded_bytes()]);
    let stamp = Stamp::new(&format!("{name}.stamp"), wanted);
    if stamp.is_current() && python.exists() {
        return Ok(python);
    }
    ensure_python();
    let Some(found) = find_python() else {
        bail!(
            "this needs Python 3.10 or newer with its venv module (Debian: `apt-get install python3-venv`, macOS: \
             `brew install python3`)"
        );
    };
    report::timed(format_args!("installing {name}"), || {
        run_quietly(&mut command(&found, &["-m", "venv", "--clear", &folder.to_string_lossy()]))
            .context("Python made no environment (Debian: `apt-get install python3-venv`)")?;
        let requirements = requirements.to_string_lossy();
        let arguments = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
        run_quietly(&mut command(&python, &[&arguments[..], &[&requirements]].concat()))
            .context("PyPI could not be reached")
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

/// A Python that is new enough.
fn find_python() -> Option<String> {
    let is_new = "import sys; print('yes' if sys.version_info >= (3, 10) else 'no')";
    find("python3").filter(|python| first_line(python, &["-c", is_new]).as_deref() == Some("yes"))
}
