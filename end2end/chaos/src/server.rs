//! A Postgres server whose parent is the test: killed, paused, followed by a standby, promoted, on a disk that fills up.
//!
//! Promise: whatever becomes of the test, the server ends. Nothing but its own processes gets a signal.

use std::{
    ffi::OsString,
    fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use embedded_postgres::Tools;
use rustix::process::{Pid, Signal, kill_process};
use sqlx::{
    ConnectOptions as _, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions, PgSslMode},
};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use crate::until;

/// How long a start may take, with a recovery before it.
const START_SECONDS_MAX: Duration = Duration::from_secs(30);
/// How long the end may take after a signal that orders it.
const STOP_SECONDS_MAX: Duration = Duration::from_secs(20);
/// The superuser, and whom the shop connects as.
const USER: &str = "payonce";
/// Connections of a test's own: it only looks.
const LOOKING_CONNECTIONS: u32 = 3;
/// Each test has a few clients; more would only need more memory.
const CONNECTIONS_MAX: u32 = 60;

/// One server and its files.
#[derive(Debug)]
pub struct Server {
    tools: Tools,
    folder: PathBuf,
    port: u16,
    settings: Vec<String>,
    running: Option<Running>,
}

/// A postmaster, and what ends it when the test is killed.
#[derive(Debug)]
struct Running {
    postmaster: Child,
    /// Waits for the end of its input, which is the end of the test.
    _watch: Child,
}

impl Server {
    /// Makes an empty cluster in a folder that is not there yet, with the log of its writes in another where that is given,
    /// and starts it.
    ///
    /// # Errors
    /// When PostgreSQL is missing or refuses.
    pub async fn make(folder: &Path, log_of_writes: Option<&Path>, settings: &[&str]) -> anyhow::Result<Self> {
        let mut server = Self::prepare(folder, settings).await?;
        let mut initdb = server.tools.command("initdb");
        // Small pieces of the log, so that a small disk is full soon.
        initdb.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--wal-segsize=1", "--username", USER]);
        if let Some(elsewhere) = log_of_writes {
            server.tools.own(elsewhere)?;
            initdb.arg("--waldir").arg(elsewhere.join("log"));
        }
        run(initdb.arg("--pgdata").arg(folder)).await?;
        server.start().await?;
        Ok(server)
    }

    /// Copies this server into a standby that follows it under the name `heir`, and starts that with settings of its own.
    ///
    /// # Errors
    /// When the copy fails or does not start.
    pub async fn standby(&self, folder: &Path, settings: &[&str]) -> anyhow::Result<Self> {
        let mut standby = Self::prepare(folder, settings).await?;
        let from = format!("host=127.0.0.1 port={} user={USER} application_name=heir", self.port);
        let mut copy = self.tools.command("pg_basebackup");
        copy.args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--dbname", &from]);
        run(copy.arg("--pgdata").arg(folder)).await?;
        standby.start().await?;
        Ok(standby)
    }

    /// Starts it, after whatever end, and waits until it answers.
    ///
    /// # Errors
    /// When it does not answer within half a minute; with its log.
    pub async fn start(&mut self) -> anyhow::Result<()> {
        let since = Instant::now();
        let looking = PgPoolOptions::new().max_connections(1).acquire_timeout(Duration::from_millis(500));
        let looking = looking.connect_lazy_with(self.options());
        loop {
            if self.has_ended() {
                // Also again: backends of a killed postmaster that are still ending keep the next one from starting.
                self.launch()?;
            }
            if sqlx::query("select").execute(&looking).await.is_ok() {
                return Ok(());
            }
            if since.elapsed() > START_SECONDS_MAX {
                bail!("the server did not start:\n{}", self.log());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// SIGKILL to the postmaster: its backends see that and end.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        let mut running = self.running.take().context("the server does not run")?;
        running.postmaster.kill().await.context("the postmaster cannot be killed")
    }

    /// SIGKILL to all of its processes, and waits until none is left: none of them learns of another's end. They should stand
    /// still, so that none is being born.
    ///
    /// # Errors
    /// When it does not run, or one does not end.
    pub async fn kill_all(&mut self) -> anyhow::Result<()> {
        let children = children(self.pid()?)?;
        children.iter().try_for_each(|child| signal(*child, Signal::KILL))?;
        self.kill().await?;
        until("all its processes have ended", STOP_SECONDS_MAX, || async {
            Ok(!children.iter().any(|child| is_running(*child)))
        })
        .await?;
        Ok(())
    }

    /// Stops it at once without writing anything out, as a crash of the machine would, but for the files.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        signal(self.pid()?, Signal::QUIT)?;
        let mut running = self.running.take().context("the server does not run")?;
        timeout(STOP_SECONDS_MAX, running.postmaster.wait()).await.context("the server does not stop")??;
        Ok(())
    }

    /// SIGSTOP to the postmaster and then to all its children: the kernel still takes connections and bytes, nobody reads them.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self) -> anyhow::Result<()> {
        let postmaster = self.pid()?;
        signal(postmaster, Signal::STOP)?;
        children(postmaster)?.into_iter().try_for_each(|child| signal(child, Signal::STOP))
    }

    /// SIGCONT to all of them.
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self) -> anyhow::Result<()> {
        let postmaster = self.pid()?;
        children(postmaster)?.into_iter().try_for_each(|child| signal(child, Signal::CONT))?;
        signal(postmaster, Signal::CONT)
    }

    /// SIGKILL to one backend, by the id that the server gives it. The server ends all others and recovers.
    ///
    /// # Errors
    /// When it is no child of this server.
    pub fn kill_backend(&self, pid: i32) -> anyhow::Result<()> {
        let backend = Pid::from_raw(pid).context("an id")?;
        ensure!(children(self.pid()?)?.contains(&backend), "process {pid} is no backend of this server");
        signal(backend, Signal::KILL)
    }

    /// Whether the postmaster has ended, by itself or by a signal.
    pub fn has_ended(&mut self) -> bool {
        self.running.as_mut().is_none_or(|running| running.postmaster.try_wait().is_ok_and(|end| end.is_some()))
    }

    /// Where it listens: host and port.
    pub fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The address of the shop's database on one or more servers.
    pub fn url(servers: &[&Self]) -> String {
        let places: Vec<String> = servers.iter().map(|server| server.place()).collect();
        format!("postgres://{USER}@{}/postgres?sslmode=disable&target_session_attrs=read-write", places.join(","))
    }

    /// Connections of the test's own, made when they are used.
    pub fn looking(&self) -> PgPool {
        let patience = Duration::from_secs(5);
        PgPoolOptions::new()
            .max_connections(LOOKING_CONNECTIONS)
            .acquire_timeout(patience)
            .connect_lazy_with(self.options())
    }

    /// Hands a folder over to the account that the server runs under.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn own(&self, folder: &Path) -> anyhow::Result<()> {
        Ok(self.tools.own(folder)?)
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        let text = fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    async fn prepare(folder: &Path, settings: &[&str]) -> anyhow::Result<Self> {
        let tools = Tools::find().await?;
        fs::DirBuilder::new().mode(0o700).create(folder)?;
        tools.own(folder)?;
        // Free now; nobody else on a test's machine takes it within the second.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Ok(Self { tools, folder: folder.to_owned(), port, settings, running: None })
    }

    fn launch(&mut self) -> anyhow::Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file())?;
        let fixed = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", self.port),
            format!("max_connections={CONNECTIONS_MAX}"),
            "unix_socket_directories=".to_owned(),
            "fsync=on".to_owned(),
            "synchronous_commit=on".to_owned(),
            "shared_buffers=16MB".to_owned(),
        ];
        let settings = fixed.iter().chain(&self.settings).flat_map(|setting| ["-c", setting]).map(OsString::from);
        let mut command = self.tools.command("postgres");
        command.arg("-D").arg(&self.folder).args(settings).kill_on_drop(true);
        let postmaster = command.stdout(Stdio::from(log.try_clone()?)).stderr(Stdio::from(log)).spawn()?;
        let id = postmaster.id().context("a postmaster that was just started")?;
        let mut watch = Command::new("sh");
        watch.args(["-c", "read -r _; kill -QUIT \"$0\"", &id.to_string()]);
        let watch = watch.stdin(Stdio::piped()).kill_on_drop(true).process_group(0).spawn()?;
        self.running = Some(Running { postmaster, _watch: watch });
        Ok(())
    }

    fn options(&self) -> PgConnectOptions {
        let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(self.port).username(USER);
        options.database("postgres").ssl_mode(PgSslMode::Disable).disable_statement_logging()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.with_extension("log")
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        let running = self.running.as_ref().context("the server does not run")?;
        let id = running.postmaster.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        id.context("the postmaster has ended")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A paused one would not even be killed in order: its children would stay.
        let _ = self.resume();
        if let Ok(postmaster) = self.pid() {
            let _ = signal(postmaster, Signal::QUIT);
        }
    }
}

fn signal(pid: Pid, signal: Signal) -> anyhow::Result<()> {
    match kill_process(pid, signal) {
        // A backend that ended in between is no fault.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// State and parent of a process, of `pid (name) state parent …`, where a name may hold blanks and brackets.
fn stat(pid: Pid) -> Option<(String, i32)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}

/// Whether it can still do anything; one that has ended may wait for its parent to notice.
fn is_running(pid: Pid) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state.as_str(), "Z" | "X"))
}

/// The processes whose parent this is.
fn children(parent: Pid) -> anyhow::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else { continue };
        if stat(pid).is_some_and(|(_, of)| of == parent.as_raw_nonzero().get()) {
            found.push(pid);
        }
    }
    Ok(found)
}

async fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = timeout(START_SECONDS_MAX * 2, command.kill_on_drop(true).output()).await??;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
