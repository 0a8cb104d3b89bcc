//! Running PostgreSQL's programs: under the account, in an environment of their own, and with their output kept.

use std::{
    ffi::OsStr,
    path::Path,
    process::{Output, Stdio},
};

use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::{EmbeddedPostgresError as Error, account::Account, home::Home};

/// A command under the account. The server's environment, with its secrets, is not passed on: the account, or a core dump,
/// might show it.
pub(crate) fn command(program: &Path, account: Account) -> Command {
    let mut command = Command::new(program);
    let folder = program.parent().unwrap_or(Path::new("/"));
    let mut path = folder.as_os_str().to_owned();
    path.push(":/usr/bin:/bin");
    command
        .env_clear()
        .env("PATH", path)
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        // A process group of its own: Ctrl-C in a terminal must reach the server only, which stops the database last.
        .process_group(0);
    account.apply(&mut command);
    command
}

/// Runs a program to its end, feeding it `input`.
pub(crate) async fn run(home: &Home, program: &Path, arguments: &[&OsStr], input: &str) -> Result<String, Error> {
    let failed = |output: String| Error::Program { program: program.to_owned(), output, log: home.log() };
    let output = run_with_input(command(program, home.account).args(arguments), input)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(format!("{} ({})", last_lines(&said), output.status)))
}

async fn run_with_input(command: &mut Command, input: &str) -> std::io::Result<Output> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early closes its input; its exit status tells why.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    child.wait_with_output().await
}

/// The last three lines, on one: enough to name the cause in an error.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}
