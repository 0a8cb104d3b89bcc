//! Runs the postmaster: one at a time, ready within a bound, stopped within a bound.

use std::{
    ffi::OsString,
    fs,
    io::{Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;

use crate::{EmbeddedPostgresError as Error, cluster::NAME, home::Home, process, programs::Programs};

/// How long a start may take: after a crash it has the log of the last five minutes at most to go through.
const READY_SECONDS_MAX: u64 = 60;
const PROGRESS_SECONDS: u64 = 5;
/// How often the state of the other process is looked at.
const LOOK_PAUSE: Duration = Duration::from_millis(25);
/// How long a fast shutdown may take, which writes everything out, and an immediate one, which does not.
const FAST_SECONDS_MAX: u64 = 20;
const IMMEDIATE_SECONDS_MAX: u64 = 10;
/// Backends that survive a killed postmaster notice it and end; until then a start is refused.
const REFUSED_STARTS_MAX: u32 = 40;
const REFUSED_PAUSE: Duration = Duration::from_millis(250);
const STILL_IN_USE: &str = "pre-existing shared memory block";
/// PostgreSQL's usual port: with sockets it is only a part of the file's name.
const PORT: &str = "5432";

/// A postmaster that is this process's child.
#[derive(Debug)]
pub(crate) struct Postmaster {
    child: Child,
    socket_folder: PathBuf,
}

impl Postmaster {
    /// Starts it and waits until it takes connections on a socket in the given folder.
    pub(crate) async fn launch(home: &Home, programs: &Programs, socket_folder: &Path) -> Result<Self, Error> {
        for _ in 0..REFUSED_STARTS_MAX {
            // What a killed postmaster left in it could stop the next one.
            home.fresh_folder(socket_folder)?;
            match launch_once(home, programs, socket_folder).await {
                Ok(postmaster) => return Ok(postmaster),
                Err(Error::Program { output, .. }) if output.contains(STILL_IN_USE) => {
                    tracing::debug!("backends of a killed PostgreSQL are still ending");
                    tokio::time::sleep(REFUSED_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        launch_once(home, programs, socket_folder).await
    }

    /// Waits until it ends by itself, which it should not.
    pub(crate) async fn ended(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Fast shutdown, then an immediate one, then the end.
    pub(crate) async fn stop(mut self) -> Result<(), Error> {
        for (signal, seconds) in [(Signal::INT, FAST_SECONDS_MAX), (Signal::QUIT, IMMEDIATE_SECONDS_MAX)] {
            self.signal(signal);
            if tokio::time::timeout(Duration::from_secs(seconds), self.child.wait()).await.is_ok() {
                // Empty now; one in the home may as well stay.
                let _ = fs::remove_dir(&self.socket_folder);
                return Ok(());
            }
            tracing::warn!("PostgreSQL has not stopped after {seconds} s");
        }
        // A child that cannot be killed has ended by itself.
        let _ = self.child.kill().await;
        Err(Error::Killed)
    }

    /// The child's id cannot have passed to another process: it is kept until the child was waited for.
    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.child.id().and_then(as_pid) {
            // It may end at this very moment, and then there is nothing to tell it.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Postmaster {
    fn drop(&mut self) {
        self.signal(Signal::INT);
    }
}

/// The folder's path and the password hold nothing that a URL has to quote; see [`Home::socket_folder`].
pub(crate) fn url(socket_folder: &Path, password: &str) -> String {
    format!("postgres://{NAME}:{password}@localhost:{PORT}/{NAME}?host={}", socket_folder.display())
}

async fn launch_once(home: &Home, programs: &Programs, socket_folder: &Path) -> Result<Postmaster, Error> {
    let log = home.open_log()?;
    let log_path = home.log();
    let log_start = log.metadata().map_err(Error::files("reading", &log_path))?.len();
    let twin = log.try_clone().map_err(Error::files("opening", &log_path))?;
    let program = programs.program("postgres");
    let failed = |output: String| Error::Program { program: program.clone(), output, log: home.log() };
    let child = process::command(&program, home.account)
        .args(arguments(home, programs, socket_folder))
        .stdout(Stdio::from(log))
        .stderr(Stdio::from(twin))
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let mut postmaster = Postmaster { child, socket_folder: socket_folder.to_owned() };

    let started = Instant::now();
    let mut next_progress = PROGRESS_SECONDS;
    loop {
        if let Some(status) = postmaster.child.try_wait().map_err(|error| failed(error.to_string()))? {
            return Err(failed(format!("{} ({status})", said_since(&log_path, log_start))));
        }
        if PidFile::read(&home.cluster()).is_some_and(|file| Some(file.pid) == postmaster.child.id() && file.ready) {
            return Ok(postmaster);
        }
        let seconds = started.elapsed().as_secs();
        if seconds >= READY_SECONDS_MAX {
            postmaster.stop().await?;
            return Err(Error::NotReady { waited: started.elapsed(), log: log_path });
        }
        if seconds >= next_progress {
            next_progress = next_progress.saturating_add(PROGRESS_SECONDS);
            tracing::info!("PostgreSQL is still starting ({seconds} s of at most {READY_SECONDS_MAX} s)");
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

fn arguments(home: &Home, programs: &Programs, socket_folder: &Path) -> Vec<OsString> {
    let mut settings: Vec<OsString> = [
        "listen_addresses=",
        "unix_socket_permissions=0700",
        "fsync=on",
        "synchronous_commit=on",
        "max_connections=200",
        "timezone=UTC",
        "log_timezone=UTC",
        "logging_collector=off",
        "log_destination=stderr",
    ]
    .iter()
    .map(OsString::from)
    .collect();
    settings.push(format!("port={PORT}").into());
    for (name, path) in [("unix_socket_directories=", socket_folder), ("hba_file=", &home.file("pg_hba.conf"))] {
        let mut setting = OsString::from(name);
        setting.push(path);
        settings.push(setting);
    }
    if programs.has_statement_statistics() {
        settings.push("shared_preload_libraries=pg_stat_statements".into());
    }
    let mut arguments = vec![OsString::from("-D"), home.cluster().into()];
    arguments.extend(settings.into_iter().flat_map(|setting| [OsString::from("-c"), setting]));
    arguments
}

/// Stops a postmaster that a killed server left running on this cluster. The lock of the home is held, so no living server
/// needs it.
pub(crate) async fn stop_orphan(home: &Home) -> Result<(), Error> {
    let cluster = home.cluster();
    let Some(PidFile { pid, .. }) = PidFile::read(&cluster) else { return Ok(()) };
    if !is_ours(pid, home) {
        // Its number may have passed to a stranger, for whose sake PostgreSQL would refuse to start.
        tracing::info!("PostgreSQL did not stop in order last time; it recovers now");
        let path = cluster.join("postmaster.pid");
        return fs::remove_file(&path).map_err(Error::files("removing", path));
    }
    tracing::info!("stopping PostgreSQL of an earlier run (process {pid})");
    for (signal, seconds) in [(Signal::INT, FAST_SECONDS_MAX), (Signal::QUIT, IMMEDIATE_SECONDS_MAX)] {
        if let Some(pid) = as_pid(pid) {
            // It may end at this very moment.
            let _ = kill_process(pid, signal);
        }
        let started = Instant::now();
        while started.elapsed().as_secs() < seconds {
            if !is_ours(pid, home) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
    Err(Error::OrphanStays { pid })
}

/// What a postmaster writes down about itself.
struct PidFile {
    pid: u32,
    ready: bool,
}

impl PidFile {
    fn read(cluster: &Path) -> Option<Self> {
        let text = fs::read_to_string(cluster.join("postmaster.pid")).ok()?;
        let mut lines = text.lines();
        let pid = lines.next()?.trim().parse().ok()?;
        // The eighth line is the state.
        Some(Self { pid, ready: lines.nth(6).is_some_and(|state| state.trim() == "ready") })
    }
}

/// Whether a process is a postmaster on this cluster: it belongs to the account and works in the cluster's folder.
fn is_ours(pid: u32, home: &Home) -> bool {
    let cluster = home.cluster();
    let process = PathBuf::from(format!("/proc/{pid}"));
    if Path::new("/proc/self").exists() {
        let owned = fs::metadata(&process).is_ok_and(|process| process.uid() == home.account.uid);
        // The folder of a process that has ended, but was not waited for, cannot be read.
        return owned && fs::read_link(process.join("cwd")).is_ok_and(|folder| folder == cluster);
    }
    // Where there is no /proc: the arguments hold the folder.
    let output = std::process::Command::new("ps").args(["-ww", "-o", "command=", "-p", &pid.to_string()]).output();
    output.is_ok_and(|output| {
        let command = String::from_utf8_lossy(&output.stdout).into_owned();
        command.contains("postgres") && command.contains(&*cluster.to_string_lossy())
    })
}

fn as_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// The end of what was logged since a start.
fn said_since(log: &Path, start: u64) -> String {
    let mut text = Vec::new();
    let read = fs::File::open(log).and_then(|mut log| {
        log.seek(SeekFrom::Start(start))?;
        log.read_to_end(&mut text)
    });
    match read {
        Ok(_) => process::last_lines(&String::from_utf8_lossy(&text)),
        Err(error) => format!("it said nothing that can be read: {error}"),
    }
}
