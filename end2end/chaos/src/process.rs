//! Child processes: the release binary, started and ended from outside.
//!
//! Promise: whatever becomes of the test, its children end. They are killed when they are dropped, and when the test itself is
//! killed, their standard input ends and they stop by themselves. A signal goes to a child by its id while that child is not
//! yet waited for, so never to a stranger.

use std::{
    collections::VecDeque,
    env,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, BufReader},
    process::{Child, Command},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

/// How long a start may take: the slowest is a new cluster on a busy machine.
const START_SECONDS_MAX: Duration = Duration::from_mins(1);
/// How long a signal may take to arrive.
const SIGNAL_SECONDS_MAX: Duration = Duration::from_secs(10);
/// How many lines of a log are kept for the report of a failure.
const LOG_LINES_MAX: usize = 200;

/// The binary under test: `PAYONCE_BIN`, else the one in the workspace's target folder.
///
/// # Errors
/// When it is not there.
#[expect(clippy::disallowed_methods, reason = "these tests have no settings of their own but this one")]
pub fn payonce() -> anyhow::Result<PathBuf> {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/payonce");
    let path = env::var_os("PAYONCE_BIN").map_or_else(|| PathBuf::from(built), PathBuf::from);
    if !path.is_file() {
        bail!("{} is not there: build it (`cargo xtask build`) or name it in PAYONCE_BIN", path.display());
    }
    Ok(path)
}

/// A running child and the end of its log.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: Log,
    /// Reads what the child says, so that it never waits for a full pipe.
    _readers: JoinSet<()>,
}

/// Where a child says that it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// On standard output.
    Output,
    /// In its log, on standard error.
    Log,
}

impl Process {
    /// Starts `payonce <command>` with these settings and no others, and waits until a line is `ready`; gives what that made
    /// of it.
    ///
    /// # Errors
    /// When it ends or says nothing for a minute; with its log.
    pub async fn start<T>(
        name: &str,
        command: &str,
        settings: &[(String, String)],
        says: Says,
        ready: impl Fn(&str) -> Option<T>,
    ) -> anyhow::Result<(Self, T)> {
        let mut command = prepare(&[command, "--until-stdin-closes"])?;
        command.envs(settings.iter().map(|(name, value)| (name, value)));
        let mut child = command.spawn().with_context(|| format!("{name} could not be started"))?;
        let output = child.stdout.take().context("its output is piped")?;
        let errors = child.stderr.take().context("its log is piped")?;
        let log = Log::default();
        let mut readers = JoinSet::new();
        let wait = async {
            match says {
                Says::Output => {
                    readers.spawn(read(BufReader::new(errors), log.clone()));
                    first(output, &log, ready, &mut readers).await
                }
                Says::Log => {
                    readers.spawn(read(BufReader::new(output), log.clone()));
                    first(errors, &log, ready, &mut readers).await
                }
            }
        };
        let told = timeout(START_SECONDS_MAX, wait).await.ok().flatten();
        let process = Self { name: name.to_owned(), child, log, _readers: readers };
        match told {
            Some(told) => Ok((process, told)),
            None => bail!("{name} did not start:\n{}", process.log()),
        }
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// SIGKILL, and waits until the process and its connections are gone.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.start_kill().with_context(|| format!("{} cannot be killed", self.name))?;
        match timeout(SIGNAL_SECONDS_MAX, self.child.wait()).await {
            Ok(ended) => Ok(ended.map(drop)?),
            Err(_) => bail!("{} does not end", self.name),
        }
    }

    /// Lets it stop in order, and waits for its end.
    ///
    /// # Errors
    /// When it does not end within a minute.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        self.close_input();
        match timeout(START_SECONDS_MAX, self.child.wait()).await {
            Ok(ended) => Ok(ended.map(drop)?),
            Err(_) => bail!("{} does not stop:\n{}", self.name, self.log()),
        }
    }

    /// SIGSTOP, and waits until every thread of it stands still.
    ///
    /// # Errors
    /// When it does not stop.
    pub async fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)?;
        let since = Instant::now();
        // Only looked at, not taken: the end of the child stays for whoever waits for it.
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while !waitid(WaitId::Pid(self.pid()?), look)?.is_some_and(|status| status.stopped()) {
            if since.elapsed() > SIGNAL_SECONDS_MAX {
                bail!("{} does not stop", self.name);
            }
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// When it has ended.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Ends its standard input, upon which it stops in order.
    pub fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Whether it has ended; does not wait.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(self.pid()?, signal).with_context(|| format!("{} cannot be signalled", self.name))
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        id.with_context(|| format!("{} has ended", self.name))
    }
}

/// Runs `payonce <words>` with this setting to its end; gives what it printed.
///
/// # Errors
/// When it fails, with what it said, or does not end within a minute.
pub async fn run(words: &[&str], setting: (&str, &str)) -> anyhow::Result<String> {
    let mut command = prepare(words)?;
    let output = timeout(START_SECONDS_MAX, command.env(setting.0, setting.1).output()).await??;
    ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// The command without the settings of whoever runs the tests.
#[expect(clippy::disallowed_methods, reason = "only the names are read, to take them away from a child")]
fn prepare(words: &[&str]) -> anyhow::Result<Command> {
    let mut prepared = Command::new(payonce()?);
    prepared.args(words);
    prepared.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    // Ctrl-C comes to the test alone, which ends its children in order.
    prepared.process_group(0);
    for (name, _value) in env::vars_os() {
        if name == "DATABASE_URL" || name.to_string_lossy().starts_with("PAYONCE_") {
            prepared.env_remove(name);
        }
    }
    Ok(prepared)
}

/// Reads until a line is the awaited one; then goes on reading in the background.
async fn first<T>(
    from: impl AsyncRead + Send + Unpin + 'static,
    log: &Log,
    ready: impl Fn(&str) -> Option<T>,
    readers: &mut JoinSet<()>,
) -> Option<T> {
    let mut from = BufReader::new(from);
    while let Some(line) = next_line(&mut from).await {
        log.push(line.clone());
        if let Some(told) = ready(&line) {
            readers.spawn(read(from, log.clone()));
            return Some(told);
        }
    }
    None
}

async fn read(mut from: impl AsyncBufRead + Send + Unpin + 'static, log: Log) {
    while let Some(line) = next_line(&mut from).await {
        log.push(line);
    }
}

async fn next_line(from: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    let read = from.read_until(b'\n', &mut bytes).await.ok()?;
    (read > 0).then(|| String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// The newest lines of what a child said.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<VecDeque<String>>>);

impl Log {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LOG_LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().fold(String::new(), |text, line| text + "    " + line + "\n")
    }
}
