//! The folder of the cluster: where it is, whose it is, and that only one server uses it.
//!
//! ```text
//! folder/            the server's own (mode 0711 where the server is root, else 0700)
//!   lock             held as long as the server lives; holds its process id
//!   password         mode 0600
//!   pg_hba.conf      who may connect how
//!   postgres.log
//!   cluster/         PostgreSQL's data, the account's own, mode 0700
//!   socket/          the only way in, the account's own, mode 0700
//!   programs/        PostgreSQL itself, where it had to be downloaded
//! ```
//!
//! Root never writes inside a folder of the account: a link planted there would lead the write elsewhere.

use std::{
    fs::{self, File, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use crate::{EmbeddedPostgresError as Error, account::Account};

/// Where root keeps a cluster whose account cannot reach the data folder.
const REACHABLE: &str = "/var/lib/payonce";
/// The longest path of a Unix socket on every system (macOS: 103 bytes), less the socket's own name.
const SOCKET_FOLDER_BYTES_MAX: usize = 103 - "/.s.PGSQL.5432.lock".len();
/// The server's log is moved aside at a start when it is larger.
const LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// The folder of the cluster, locked for this process.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) folder: PathBuf,
    pub(crate) account: Account,
    /// Held for its lock, which the system releases however this process ends.
    _lock: File,
}

impl Home {
    pub(crate) fn prepare(wanted: &Path) -> Result<Self, Error> {
        let (folder, account) = find_or_make(wanted)?;
        let owner = fs::metadata(&folder).map_err(Error::files("reading", &folder))?.uid();
        // Root, too, keeps to its own: what it writes in another's folder, that one could lead elsewhere.
        if owner != geteuid().as_raw() {
            return Err(Error::Foreign { folder, uid: owner });
        }
        let lock = lock(&folder)?;
        Ok(Self { folder, account, _lock: lock })
    }

    pub(crate) fn cluster(&self) -> PathBuf {
        self.folder.join("cluster")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("postgres.log")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// An empty folder for the account, mode 0700. What was there before is removed.
    pub(crate) fn fresh_folder(&self, path: &Path) -> Result<(), Error> {
        if fs::symlink_metadata(path).is_ok() {
            fs::remove_dir_all(path).map_err(Error::files("removing", path))?;
        }
        fs::DirBuilder::new().mode(0o700).create(path).map_err(Error::files("making", path))?;
        self.account.own(path).map_err(Error::files("handing over", path))
    }

    /// Where the socket goes: into the home if a socket's path may be that long and PostgreSQL can read it from a list, else
    /// into a new folder with a short name. Each start makes the folder afresh.
    pub(crate) fn socket_folder(&self) -> PathBuf {
        let folder = self.file("socket");
        if fits_a_socket(&folder) {
            return folder;
        }
        Path::new("/tmp").join(format!("payonce-{:016x}", rand::random::<u64>()))
    }

    /// Writes a file of the server's own, whole or not at all.
    pub(crate) fn write(&self, name: &str, mode: u32, text: &str) -> Result<(), Error> {
        let path = self.file(name);
        let new = self.file(&format!("{name}.new"));
        let written = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&new).and_then(
            |mut file| {
                // The mode of an existing file, and one that the umask narrowed, have to be set by hand.
                file.set_permissions(fs::Permissions::from_mode(mode))?;
                file.write_all(text.as_bytes())?;
                file.sync_all()
            },
        );
        written.and_then(|()| fs::rename(&new, &path)).map_err(Error::files("writing", &path))
    }

    /// The log, to append to.
    pub(crate) fn open_log(&self) -> Result<File, Error> {
        let path = self.log();
        if fs::metadata(&path).is_ok_and(|log| log.len() > LOG_BYTES_MAX) {
            fs::rename(&path, self.file("postgres.log.1")).map_err(Error::files("moving", &path))?;
        }
        fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path).map_err(Error::files("opening", &path))
    }
}

/// The real folder and the account that PostgreSQL gets.
fn find_or_make(wanted: &Path) -> Result<(PathBuf, Account), Error> {
    // A link is either ours, to a reachable place, or somebody's own arrangement: both are followed.
    if fs::symlink_metadata(wanted).is_ok() {
        let folder = fs::canonicalize(wanted).map_err(Error::files("following", wanted))?;
        let account = Account::choose(&folder.join("cluster"))?;
        return Ok((folder, account));
    }
    let parent = wanted.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(Error::files("making", parent))?;
    let parent = fs::canonicalize(parent).map_err(Error::files("following", parent))?;
    let folder = parent.join(wanted.file_name().unwrap_or("postgres".as_ref()));
    let account = Account::choose(&folder.join("cluster"))?;
    if account.reaches(&parent) {
        make_folder(&folder, account)?;
        return Ok((folder, account));
    }
    let elsewhere = Path::new(REACHABLE).join(format!("{:016x}", rand::random::<u64>()));
    fs::create_dir_all(REACHABLE).map_err(Error::files("making", REACHABLE))?;
    if !account.reaches(Path::new(REACHABLE)) {
        let open = fs::Permissions::from_mode(0o711);
        fs::set_permissions(REACHABLE, open).map_err(Error::files("opening", REACHABLE))?;
    }
    make_folder(&elsewhere, account)?;
    symlink(&elsewhere, &folder).map_err(Error::files("linking", &folder))?;
    tracing::info!(
        "PostgreSQL does not run as root, and its account cannot enter {}; the database is in {}, with a link to it",
        parent.display(),
        elsewhere.display()
    );
    Ok((elsewhere, account))
}

fn make_folder(folder: &Path, account: Account) -> Result<(), Error> {
    let mode = if account.steps_down() { 0o711 } else { 0o700 };
    fs::DirBuilder::new().mode(mode).create(folder).map_err(Error::files("making", folder))?;
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).map_err(Error::files("opening", folder))
}

/// One server per cluster: a second one is told who is first.
fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join("lock");
    let mut file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(Error::files("opening", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            file.read_to_string(&mut pid).map_err(Error::files("reading", &path))?;
            return Err(Error::InUse { folder: folder.to_owned(), pid: pid.trim().to_owned() });
        }
        Err(TryLockError::Error(error)) => return Err(Error::files("locking", &path)(error)),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(Error::files("writing", &path))?;
    Ok(file)
}

/// Whether PostgreSQL can listen there: the path is short enough, and holds nothing that has to be quoted in a list of
/// folders or in a URL.
fn fits_a_socket(folder: &Path) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    let bytes = folder.as_os_str().as_encoded_bytes();
    bytes.len() <= SOCKET_FOLDER_BYTES_MAX && bytes.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::fits_a_socket;

    #[test]
    fn long_and_odd_paths_get_no_socket() {
        assert!(fits_a_socket(Path::new("/srv/shop/.payonce/postgres/socket")));
        assert!(!fits_a_socket(&Path::new("/srv").join("x".repeat(100))));
        assert!(!fits_a_socket(Path::new("/srv/my shop/socket")));
        assert!(!fits_a_socket(Path::new("/srv/a,b/socket")));
    }
}
