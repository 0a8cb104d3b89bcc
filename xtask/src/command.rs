//! Running other programs, always at the root of the repository, and saying which one failed.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};

/// The root of the repository.
pub fn root() -> &'static Path {
    // Compiled in, which is right as long as nobody moves the repository without building again.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// A path in cargo's target folder.
pub fn target(path: impl AsRef<Path>) -> PathBuf {
    root().join("target").join(path)
}

/// A command at the root.
pub fn command(program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Cargo, building into the one target folder that every step shares.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = command("cargo", arguments);
    command.env("CARGO_TARGET_DIR", target(""));
    // What the cargo that runs us says of our own package. Some build scripts look at such names and would build their packages,
    // and all that stands on them, once for us and once for cargo when called by hand.
    without(&mut command, |name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
    command
}

/// Takes the settings of whoever runs this away from a program under test.
pub fn without_settings(command: &mut Command) -> &mut Command {
    without(command, |name| name == "DATABASE_URL" || name.starts_with("PAYONCE_"));
    command
}

#[expect(clippy::disallowed_methods, reason = "only the names are read, to take them away from a child")]
fn without(command: &mut Command, unwanted: impl Fn(&str) -> bool) {
    for (name, _value) in std::env::vars_os().filter(|(name, _value)| unwanted(&name.to_string_lossy())) {
        command.env_remove(name);
    }
}

/// Runs a command to its end; its output goes to ours.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = line_of(command);
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("`{line}` could not be started"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs a command quietly; its output is shown only if it fails.
pub fn run_quietly(command: &mut Command) -> anyhow::Result<()> {
    let line = line_of(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("`{line}` could not be started"))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("`{line}` failed ({}):\n{}", output.status, String::from_utf8_lossy(&said).trim_end());
    }
    Ok(())
}

/// The first line a program prints, if it is there and succeeds.
pub fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = command(program, arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Where a program is, along the PATH.
pub fn find(program: &str) -> Option<String> {
    first_line("sh", &["-c", &format!("command -v {program}")]).filter(|path| !path.is_empty())
}

/// A command as one would type it.
pub fn line_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
