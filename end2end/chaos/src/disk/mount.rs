//! The disk as a folder of this machine.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use fuser::{BackgroundSession, Config, MountOption, SessionACL, spawn_mount};
use rustix::mount::{UnmountFlags, unmount};
use tokio::process::{Child, Command};

use super::{Lost, files::Files, fuse::Mounted};
use crate::until;

/// How long the last user of the disk may take to be gone.
const UNUSED_SECONDS_MAX: Duration = Duration::from_secs(10);

/// A mounted disk.
#[derive(Debug)]
pub struct Disk {
    /// Where it is mounted.
    pub folder: PathBuf,
    files: Arc<Mutex<Files>>,
    session: Option<BackgroundSession>,
    /// Waits for the end of its input, which is the end of the test, and unmounts what would have nobody behind it.
    _watch: Child,
}

impl Disk {
    /// An empty one, in a folder that is not there yet.
    ///
    /// # Errors
    /// Where file systems of processes cannot be mounted, which needs Linux's FUSE, and root.
    pub fn mount(folder: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir(&folder)?;
        let files = Arc::new(Mutex::new(Files::new()));
        let session = serve(&files, &folder)?;
        let mut watch = Command::new("sh");
        watch.args(["-c", "read -r _; umount --lazy \"$0\" 2> /dev/null"]).arg(&folder);
        let watch = watch.stdin(Stdio::piped()).process_group(0).spawn()?;
        Ok(Self { folder, files, session: Some(session), _watch: watch })
    }

    /// Syncs everything, as the kernel does now and then by itself.
    pub fn sync(&self) {
        self.files().sync_all();
    }

    /// Cuts the power. From now on whoever uses the disk gets errors; what it held in trust is gone.
    pub fn cut(&self) -> Lost {
        self.files().lose()
    }

    /// The power is back. Mounted anew, so that the kernel remembers nothing of before; all who used it must have ended.
    ///
    /// # Errors
    /// When somebody still uses it.
    pub async fn power(&mut self) -> anyhow::Result<()> {
        until("nobody uses the disk without power", UNUSED_SECONDS_MAX, || async {
            Ok(unmount(&self.folder, UnmountFlags::empty()).is_ok())
        })
        .await?;
        if let Some(session) = self.session.take() {
            tokio::task::spawn_blocking(|| session.join()).await??;
        }
        self.files().is_on = true;
        self.session = Some(serve(&self.files, &self.folder)?);
        Ok(())
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, since a server may still be ending on it. Nobody is left to tell of a failure.
        let _ = unmount(&self.folder, UnmountFlags::DETACH);
    }
}

fn serve(files: &Arc<Mutex<Files>>, folder: &Path) -> anyhow::Result<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options =
        vec![MountOption::FSName("disk".to_owned()), MountOption::DefaultPermissions, MountOption::NoAtime];
    // The server runs under another account than the test.
    config.acl = SessionACL::All;
    spawn_mount(Mounted(Arc::clone(files)), folder, &config).context(
        "this case needs a disk that loses what was not synced: a FUSE file system, mounted as root (with CAP_SYS_ADMIN) by \
         way of /dev/fuse (kernel module `fuse`); no package is needed",
    )
}
