//! Which PostgreSQL runs: the newest one that is installed and fits, else a download.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::process::Command;

use crate::{EmbeddedPostgresError as Error, account::Account, download, home::Home, process};

/// The oldest PostgreSQL that is tried: the oldest that its makers still care for.
const MAJOR_MIN: u32 = 14;

/// Folders that hold one folder per version, and where the programs are in those.
const USUAL_FOLDERS: [(&str, &str); 7] = [
    ("/usr/lib/postgresql", "bin"),
    ("/usr", "bin"),
    ("/opt/homebrew/opt", "bin"),
    ("/usr/local/opt", "bin"),
    ("/home/linuxbrew/.linuxbrew/opt", "bin"),
    ("/Applications/Postgres.app/Contents/Versions", "bin"),
    ("/opt", "bin"),
];

/// The programs of one PostgreSQL.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) folder: PathBuf,
    pub(crate) version: Version,
}

/// A version as `postgres --version` tells it; betas count as their release's minor 0.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Version {
    major: u32,
    minor: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

impl Programs {
    /// The newest that fits the cluster: its own major version, if there is a cluster.
    pub(crate) async fn find(home: &Home) -> Result<Self, Error> {
        let major = cluster_major(&home.cluster())?;
        if let Some(newest) = Self::installed(&home.file("programs"), home.account, major).await {
            return Ok(newest);
        }
        let (folder, wanted) = (download::fetch(&home.file("programs"), major).await?, download::wanted(major));
        let version = version_of(&folder, home.account).await.ok_or_else(|| Error::NoPrograms {
            wanted,
            cause: format!("what came into {} does not run here", folder.display()),
        })?;
        Ok(Self { folder, version })
    }

    /// The newest that is installed, or was downloaded into this folder before.
    pub(crate) async fn installed(downloads: &Path, account: Account, major: Option<u32>) -> Option<Self> {
        let mut found = Vec::new();
        for folder in candidates(downloads).await {
            if let Some(version) = version_of(&folder, account).await {
                tracing::debug!("found PostgreSQL {version} in {}", folder.display());
                found.push(Self { folder, version });
            }
        }
        newest_that_fits(found, major)
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Whether the statistics of statements can be loaded; Debian ships them with the server, others apart from it.
    pub(crate) fn has_statement_statistics(&self) -> bool {
        let folders = ["../lib", "../lib/postgresql", "../lib64", "../lib64/pgsql"];
        let names = ["pg_stat_statements.so", "pg_stat_statements.dylib"];
        folders.iter().any(|folder| names.iter().any(|name| self.folder.join(folder).join(name).is_file()))
    }
}

fn newest_that_fits(found: Vec<Programs>, major: Option<u32>) -> Option<Programs> {
    found
        .into_iter()
        .filter(|programs| major.map_or(programs.version.major >= MAJOR_MIN, |major| programs.version.major == major))
        .max_by_key(|programs| programs.version)
}

/// The major version that made the cluster; `None` where there is none yet.
fn cluster_major(cluster: &Path) -> Result<Option<u32>, Error> {
    let path = cluster.join("PG_VERSION");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().parse().ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::files("reading", path)(error)),
    }
}

/// Folders that may hold the programs, each once.
async fn candidates(downloads: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    folders.extend(answer("pg_config --bindir").await);
    folders.extend(answer("command -v postgres").await.and_then(|path| path.parent().map(Path::to_owned)));
    let usual = USUAL_FOLDERS.iter().map(|(folder, programs)| (Path::new(folder), *programs));
    for (folder, programs) in usual.chain([(downloads, "bin")]) {
        let versions = fs::read_dir(folder).into_iter().flatten().flatten();
        folders.extend(versions.map(|version| version.path().join(programs)));
    }
    let mut folders: Vec<PathBuf> = folders
        .into_iter()
        // A link to the program leads to the folder that has the others, and the libraries, beside it.
        .filter_map(|folder| fs::canonicalize(folder.join("postgres")).ok()?.parent().map(Path::to_owned))
        .filter(|folder| folder.join("initdb").is_file())
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

/// The first line that a shell command prints, if it succeeds: the shell looks along the PATH for us.
async fn answer(line: &str) -> Option<PathBuf> {
    let output =
        Command::new("sh").args(["-c", line]).stdin(Stdio::null()).stderr(Stdio::null()).output().await.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.lines().next().map(PathBuf::from)).flatten()
}

/// Asks the program itself, under the account: what that cannot run is of no use.
async fn version_of(folder: &Path, account: Account) -> Option<Version> {
    let output = process::command(&folder.join("postgres"), account).arg("--version").output().await.ok()?;
    parse_version(&String::from_utf8(output.stdout).ok()?)
}

/// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)` or `postgres (PostgreSQL) 19beta1`.
fn parse_version(text: &str) -> Option<Version> {
    let version = text.split("(PostgreSQL) ").nth(1)?.split_whitespace().next()?;
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let leading = |text: &str| text.split(|letter: char| !letter.is_ascii_digit()).next().map(str::to_owned);
    Some(Version { major: leading(major)?.parse().ok()?, minor: leading(minor)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::{Programs, Version, newest_that_fits, parse_version};

    fn installed(versions: &[(u32, u32)]) -> Vec<Programs> {
        let programs = |&(major, minor): &(u32, u32)| Programs {
            folder: format!("/pg/{major}.{minor}").into(),
            version: Version { major, minor },
        };
        versions.iter().map(programs).collect()
    }

    fn check(versions: &[(u32, u32)], cluster: Option<u32>, expect: Option<&str>) {
        let newest = newest_that_fits(installed(versions), cluster).map(|programs| programs.version.to_string());
        assert_eq!(newest.as_deref(), expect);
    }

    #[test]
    fn the_newest_one_wins_and_old_ones_are_not_taken() {
        check(&[(15, 9), (16, 2), (15, 18)], None, Some("16.2"));
        check(&[(13, 20), (9, 6)], None, None);
    }

    #[test]
    fn a_cluster_keeps_its_major_version() {
        check(&[(15, 9), (16, 2), (15, 18)], Some(15), Some("15.18"));
        check(&[(16, 2)], Some(15), None);
    }

    #[test]
    fn versions_are_read_as_distributions_write_them() {
        let parsed = |text| parse_version(text).map(|version| version.to_string());
        assert_eq!(parsed("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n").as_deref(), Some("15.18"));
        assert_eq!(parsed("postgres (PostgreSQL) 19beta1\n").as_deref(), Some("19.0"));
        assert_eq!(parsed("pgbench 15"), None);
    }
}
