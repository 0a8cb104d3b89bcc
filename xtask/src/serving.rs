//! Servers that run beside us, and that cannot outlive us.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::command::line_of;

/// How long an orderly end may take: payments in flight get 20 s, then the database is stopped.
const STOP_SECONDS_MAX: u64 = 50;
const LOOK_PAUSE: Duration = Duration::from_millis(50);
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// A running server. It stops when its standard input closes, which happens also when this process is killed.
pub struct Serving {
    child: Child,
    line: String,
}

impl Serving {
    /// Starts it. It is no member of the terminal's group: Ctrl-C comes to us, and we pass it on in order.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let line = line_of(command);
        let child = command
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("`{line}` could not be started"))?;
        Ok(Self { child, line })
    }

    /// The first line of its output, which must have been piped.
    pub fn first_line(&mut self) -> anyhow::Result<String> {
        let output = self.child.stdout.take().context("its output was not piped")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.trim().is_empty() {
            let status = self.child.wait()?;
            bail!("`{}` ended before it was ready ({status})", self.line);
        }
        Ok(line.trim().to_owned())
    }

    /// Waits until it answers at a path.
    pub fn until_it_answers(&mut self, address: SocketAddr, path: &str, most: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        while !answers(address, path) {
            if let Some(status) = self.ended()? {
                bail!("`{}` ended before it was ready ({status})", self.line);
            }
            if started.elapsed() > most {
                bail!("`{}` was not ready within {} s", self.line, most.as_secs());
            }
            pause();
        }
        Ok(())
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Ends it in order, or by force when it takes too long.
    pub fn stop(mut self) -> anyhow::Result<()> {
        drop(self.child.stdin.take());
        let started = Instant::now();
        while started.elapsed().as_secs() < STOP_SECONDS_MAX {
            if let Some(status) = self.child.try_wait()? {
                if !status.success() {
                    bail!("`{}` did not stop in order ({status})", self.line);
                }
                return Ok(());
            }
            pause();
        }
        self.kill();
        bail!(
            "`{}` did not stop within {STOP_SECONDS_MAX} s and was killed; the next start recovers its data",
            self.line
        )
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of this machine that nobody listens on now.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?)
}

/// Waits a moment before looking again.
pub fn pause() {
    #[expect(clippy::disallowed_methods, reason = "this tool has one thread and nothing else to do meanwhile")]
    std::thread::sleep(LOOK_PAUSE);
}

/// Whether a server answers 200 at a path.
pub fn answers(address: SocketAddr, path: &str) -> bool {
    ask(address, path).is_ok_and(|status_line| status_line.starts_with("HTTP/1.1 200"))
}

fn ask(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut start = [0; 16];
    let length = stream.read(&mut start)?;
    Ok(String::from_utf8_lossy(&start[..length]).into_owned())
}
