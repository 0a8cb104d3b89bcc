//! Under which account PostgreSQL runs: the server's own, except that root steps down.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use rustix::process::geteuid;
use tokio::process::Command;

use crate::EmbeddedPostgresError;

/// The accounts that root may step down to, first the one that Debian's package makes.
const CANDIDATES: [&str; 3] = ["postgres", "_postgres", "nobody"];

/// An account to step down to; `None` in [`Account::step_down`] means that nothing changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    /// The user and group to change to; only root has to, and can.
    step_down: Option<(u32, u32)>,
}

impl Account {
    /// The owner of an existing cluster, or the first candidate that this machine knows.
    pub(crate) fn choose(existing_cluster: &Path) -> Result<Self, EmbeddedPostgresError> {
        if !geteuid().is_root() {
            return Ok(Self { uid: geteuid().as_raw(), step_down: None });
        }
        if let Ok(owner) = fs::metadata(existing_cluster)
            && owner.uid() != 0
        {
            return Ok(Self { uid: owner.uid(), step_down: Some((owner.uid(), owner.gid())) });
        }
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let (uid, gid) =
            CANDIDATES.iter().find_map(|name| find_in_passwd(&passwd, name)).ok_or(EmbeddedPostgresError::NoAccount)?;
        Ok(Self { uid, step_down: Some((uid, gid)) })
    }

    /// Whether the server itself is root.
    pub(crate) fn steps_down(self) -> bool {
        self.step_down.is_some()
    }

    /// Hands a file over to the account.
    pub(crate) fn own(self, path: &Path) -> io::Result<()> {
        match self.step_down {
            Some((uid, gid)) => std::os::unix::fs::chown(path, Some(uid), Some(gid)),
            None => Ok(()),
        }
    }

    /// Makes a command run under the account. The other groups of root are dropped with it.
    pub(crate) fn apply(self, command: &mut Command) {
        if let Some((uid, gid)) = self.step_down {
            command.uid(uid).gid(gid);
        }
    }

    /// Whether the account can go through every folder down to `folder`, judged by owner, group and mode.
    pub(crate) fn reaches(self, folder: &Path) -> bool {
        let Some((uid, gid)) = self.step_down else { return true };
        folder.ancestors().all(|ancestor| {
            fs::metadata(ancestor).is_ok_and(|ancestor| {
                let execute_bit = if ancestor.uid() == uid {
                    0o100
                } else if ancestor.gid() == gid {
                    0o010
                } else {
                    0o001
                };
                ancestor.mode() & execute_bit != 0
            })
        })
    }
}

/// User and group id of an account in the text of `/etc/passwd`; root itself is not accepted.
fn find_in_passwd(passwd: &str, name: &str) -> Option<(u32, u32)> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let uid: u32 = fields.next()?.parse().ok()?;
    let gid: u32 = fields.next()?.parse().ok()?;
    (uid != 0).then_some((uid, gid))
}

#[cfg(test)]
mod tests {
    use super::find_in_passwd;

    const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nmy_postgres:x:7:7::/:/\npostgres:x:101:104:,,,:/var/lib:/bin/sh\n\
                          nobody:*:-2:-2::/:/usr/bin/false\n";

    #[test]
    fn accounts_are_found_by_their_whole_name() {
        assert_eq!(find_in_passwd(PASSWD, "postgres"), Some((101, 104)));
        assert_eq!(find_in_passwd(PASSWD, "_postgres"), None);
    }

    #[test]
    fn root_and_unreadable_ids_are_not_accounts_to_step_down_to() {
        assert_eq!(find_in_passwd(PASSWD, "root"), None);
        assert_eq!(find_in_passwd(PASSWD, "nobody"), None);
    }
}
