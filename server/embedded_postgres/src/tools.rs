//! The programs of an installed PostgreSQL, for who runs servers of his own kind: tests that need a standby, or a disk that
//! is full. Promises the same account and environment as for the cluster; promises nothing about what is run.

use std::{io, path::Path};

use tokio::process::Command;

use crate::{EmbeddedPostgresError, account::Account, download, process, programs::Programs};

/// Where the programs are, and the account they run under.
#[derive(Clone, Debug)]
pub struct Tools {
    programs: Programs,
    account: Account,
}

impl Tools {
    /// The newest PostgreSQL that is installed.
    ///
    /// # Errors
    /// When none is installed, or root has no account to step down to.
    pub async fn find() -> Result<Self, EmbeddedPostgresError> {
        let account = Account::choose(Path::new(""))?;
        let programs = Programs::installed(Path::new(""), account, None).await.ok_or_else(|| {
            EmbeddedPostgresError::NoPrograms { wanted: download::wanted(None), cause: "not tried".to_owned() }
        })?;
        Ok(Self { programs, account })
    }

    /// One of the programs, such as `initdb`, in a process group of its own.
    pub fn command(&self, program: &str) -> Command {
        process::command(&self.programs.program(program), self.account)
    }

    /// Hands a file or folder over to the account.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn own(&self, path: &Path) -> io::Result<()> {
        self.account.own(path)
    }
}
