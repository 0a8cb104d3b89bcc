//! The provider's memory: one file of JSON lines that only grows. A line holds all changes of one call, so that a crash
//! keeps all of them or none. One thread writes; whoever answers waits until everything the answer may rest on is written
//! (and flushed to the disk, if so configured), and many calls share one flush. A torn last line is cut off at the next
//! start; damage anywhere else stops the start, since money is not to be guessed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::SandboxError;
use crate::state::{Put, State};

const FILE_NAME: &str = "journal.jsonl";
/// How many waiting lines one flush may cover.
const MAX_BATCH: usize = 1024;

/// One line of the journal.
#[derive(Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Milliseconds since 1970.
    pub at: i64,
    /// Which call made the change, e.g. `confirm`.
    pub call: String,
    pub put: Vec<Put>,
}

/// The journal can no longer be written, or is closed.
#[derive(Debug)]
pub struct Gone;

enum Order {
    Line(u64, Vec<u8>),
    Erase(u64),
    Close,
}

/// How far the writer is.
#[derive(Clone, Debug)]
enum Progress {
    Written(u64),
    Failed(String),
}

/// The writing end.
pub struct Journal {
    orders: mpsc::Sender<Order>,
    newest: AtomicU64,
    progress: watch::Receiver<Progress>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Journal {
    /// Opens the journal in the folder, reads it, and begins to write behind its last whole line.
    pub fn open(folder: &Path, sync: bool) -> Result<(Self, State), SandboxError> {
        let path = folder.join(FILE_NAME);
        let failed = |source| SandboxError::Journal { path: path.clone(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SandboxError::InUse { path }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let state = replay(&mut file, &path)?;

        let (orders, inbox) = mpsc::channel();
        let (progress_sender, progress) = watch::channel(Progress::Written(0));
        let writer = std::thread::Builder::new()
            .name("sandbox-journal".into())
            .spawn(move || write(&mut file, &inbox, &progress_sender, sync))
            .map_err(failed)?;
        let writer = Mutex::new(Some(writer));
        Ok((Self { orders, newest: AtomicU64::new(0), progress, writer }, state))
    }

    /// Hands a line over and returns its number. Call it under the lock that guards the state, so that the lines come in
    /// the order of the changes.
    pub fn append(&self, entry: &Entry) -> u64 {
        let number = self.next();
        // Records of plain texts and numbers always serialise; an empty line would be refused by the next start.
        let mut line = serde_json::to_vec(entry).unwrap_or_default();
        line.push(b'\n');
        // A closed channel is noticed by whoever waits for the number.
        self.orders.send(Order::Line(number, line)).ok();
        number
    }

    /// Forgets everything that was written.
    pub fn erase(&self) -> u64 {
        let number = self.next();
        self.orders.send(Order::Erase(number)).ok();
        number
    }

    /// The number of the newest line, written or not: what an answer that only reads has to wait for.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Waits until the line and all before it are safe.
    pub async fn flushed(&self, number: u64) -> Result<(), Gone> {
        let mut progress = self.progress.clone();
        let reached = progress
            .wait_for(|progress| match progress {
                Progress::Written(written) => *written >= number,
                Progress::Failed(_) => true,
            })
            .await
            .map_err(|_closed| Gone)?;
        match &*reached {
            Progress::Written(_) => Ok(()),
            Progress::Failed(_) => Err(Gone),
        }
    }

    /// Resolves when the journal cannot be written any more, with the reason; never otherwise.
    pub async fn failure(&self) -> String {
        let mut progress = self.progress.clone();
        // The guard that `wait_for` gives must not live across an await, so the reason is taken out first.
        let reason = match progress.wait_for(|progress| matches!(progress, Progress::Failed(_))).await.as_deref() {
            Ok(Progress::Failed(reason)) => Some(reason.clone()),
            Ok(Progress::Written(_)) | Err(_) => None,
        };
        match reason {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    /// Writes what is left and lets go of the file.
    pub async fn close(&self) {
        self.orders.send(Order::Close).ok();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            tokio::task::spawn_blocking(move || writer.join().ok()).await.ok();
        }
    }

    fn next(&self) -> u64 {
        self.newest.fetch_add(1, Ordering::AcqRel) + 1
    }
}

/// The writer's thread: takes what is waiting, writes it in one go, flushes once, tells how far it is.
fn write(file: &mut File, inbox: &mpsc::Receiver<Order>, progress: &watch::Sender<Progress>, sync: bool) {
    while let Ok(first) = inbox.recv() {
        let mut bytes = Vec::new();
        let mut newest = 0;
        let mut erase = false;
        let mut close = false;
        for order in std::iter::once(first).chain(inbox.try_iter()).take(MAX_BATCH) {
            match order {
                Order::Line(number, mut line) => {
                    bytes.append(&mut line);
                    newest = number;
                }
                Order::Erase(number) => {
                    bytes.clear();
                    erase = true;
                    newest = number;
                }
                Order::Close => {
                    close = true;
                    break;
                }
            }
        }
        let written = (|| {
            if erase {
                file.set_len(0)?;
            }
            file.write_all(&bytes)?;
            if sync { file.sync_data() } else { Ok(()) }
        })();
        match written {
            Ok(()) if newest > 0 => drop(progress.send_replace(Progress::Written(newest))),
            Ok(()) => {}
            Err(error) => {
                progress.send_replace(Progress::Failed(error.to_string()));
                return;
            }
        }
        if close {
            return;
        }
    }
}

/// Reads the journal from its beginning and leaves the file ending with a whole line.
fn replay(file: &mut File, path: &Path) -> Result<State, SandboxError> {
    let failed = |source| SandboxError::Journal { path: path.to_owned(), source };
    let mut state = State::default();
    let mut whole_bytes: u64 = 0;
    let mut number: usize = 0;
    let mut line = Vec::new();
    let mut torn = None;
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut reader = BufReader::new(&*file);
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(failed)?;
        if length == 0 {
            break;
        }
        if let Some(what) = torn.take() {
            return Err(damaged(path, number, what));
        }
        number += 1;
        match serde_json::from_slice::<Entry>(&line) {
            Ok(entry) if line.ends_with(b"\n") => {
                entry.put.into_iter().for_each(|put| state.apply(put));
                whole_bytes = whole_bytes.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
            }
            // Whole but without its end: nobody was answered on it, since the end is written with it.
            Ok(_) => torn = Some("it has no end".to_owned()),
            Err(error) => torn = Some(error.to_string()),
        }
    }
    if torn.is_some() {
        tracing::warn!(line = number, path = %path.display(), "cut the torn last line of the sandbox's journal");
        file.set_len(whole_bytes).map_err(failed)?;
        file.sync_data().map_err(failed)?;
    }
    Ok(state)
}

fn damaged(path: &Path, line: usize, what: String) -> SandboxError {
    SandboxError::Damaged { path: PathBuf::from(path), line, what }
}
