//! How many connections the system lets this process have. Every connection is an open file, and most shells and supervisors
//! start processes with room for only 1,024 of them, but allow them to ask for more.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// One part in this many of the open files is left for calls to the provider, the database, and files: with all of them taken
/// by customers, nobody could pay.
const KEPT_PART: u64 = 4;

/// Raises the limit to what is allowed, and gives how many connections there may be: `wanted`, or as many as fit.
pub fn connections(wanted: usize) -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    let fit = fitting(getrlimit(Resource::Nofile).current);
    if fit < wanted {
        tracing::warn!(wanted, fit, "the limit of open files (ulimit -n) allows fewer connections than were asked for");
    }
    wanted.min(fit)
}

/// `None` is no limit.
fn fitting(open_files: Option<u64>) -> usize {
    let fit = open_files.map(|files| files - files / KEPT_PART);
    fit.and_then(|fit| usize::try_from(fit).ok()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_are_left_for_paying() {
        assert_eq!(fitting(Some(1_024)), 768);
        assert_eq!(fitting(None), usize::MAX);
    }

    #[test]
    fn the_limit_is_raised_as_far_as_it_may_be() {
        assert!(connections(100) <= 100);
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
