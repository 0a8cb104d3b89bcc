//! Windows: the time to compare, cut into pieces that can be read side by side. Pure.

use time::{Duration, OffsetDateTime};

use crate::limits::{RECONCILE_WINDOW_MIN, RECONCILE_WINDOWS};

/// From one whole second to before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: OffsetDateTime,
    /// Absent in the last one, which has no end: clocks differ.
    pub(super) until: Option<OffsetDateTime>,
}

impl Window {
    /// Its end, or one that nothing reaches.
    pub(super) fn end(self) -> OffsetDateTime {
        self.until.unwrap_or(self.from + Duration::days(36_500))
    }
}

/// Windows that follow each other without a gap, the oldest first.
pub(super) fn cut(from: OffsetDateTime, until: Option<OffsetDateTime>, now: OffsetDateTime) -> Vec<Window> {
    let from = whole(from);
    let until_whole = until.map(|until| whole(until + Duration::seconds(1) - Duration::nanoseconds(1)));
    let seconds = (until_whole.unwrap_or(now) - from).whole_seconds().max(1);
    let least = i64::try_from(RECONCILE_WINDOW_MIN.as_secs()).unwrap_or(1);
    // Rounded up, so that there are no more windows than that.
    let length = ((seconds + RECONCILE_WINDOWS - 1) / RECONCILE_WINDOWS).max(least);
    let mut windows = Vec::new();
    let mut begin = 0;
    while begin < seconds {
        let end = (begin + length).min(seconds);
        let is_last = end == seconds;
        let until = if is_last { until_whole } else { Some(from + Duration::seconds(end)) };
        windows.push(Window { from: from + Duration::seconds(begin), until });
        begin = end;
    }
    windows
}

fn whole(instant: OffsetDateTime) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(instant.unix_timestamp()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::{Duration, OffsetDateTime};

    use super::cut;
    use crate::limits::RECONCILE_WINDOWS;

    proptest! {
        /// Nothing falls between two windows, and nothing is in two.
        #[test]
        fn windows_follow_each_other_without_a_gap(begin in 0_i64..2_000_000_000, length in 0_i64..2_000_000_000, nanos in 0_i64..1_000_000_000, ends: bool) {
            let from = OffsetDateTime::UNIX_EPOCH + Duration::seconds(begin) + Duration::nanoseconds(nanos);
            let now = from + Duration::seconds(length);
            let windows = cut(from, ends.then_some(now), now);
            prop_assert!(!windows.is_empty() && windows.len() <= usize::try_from(RECONCILE_WINDOWS).expect("few"));
            prop_assert!(windows[0].from <= from);
            for pair in windows.windows(2) {
                prop_assert_eq!(pair[0].until, Some(pair[1].from));
            }
            let last = windows[windows.len() - 1];
            prop_assert_eq!(last.until.is_some(), ends);
            prop_assert!(last.until.is_none_or(|until| until >= now));
            prop_assert!(windows.iter().all(|window| window.from < window.end()));
        }
    }
}
