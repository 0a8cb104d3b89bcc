//! The sandbox's only view of the time. It never decides anything by itself: callers get plain numbers.

use std::time::UNIX_EPOCH;

use time::OffsetDateTime;

/// Milliseconds since 1970 in UTC.
pub fn now_ms() -> i64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The instant as people read it, e.g. `2026-01-02 03:04 UTC`.
pub fn display(unix_seconds: i64) -> String {
    OffsetDateTime::from_unix_timestamp(unix_seconds).map_or_else(
        |_| unix_seconds.to_string(),
        |at| {
            let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
            format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", at.hour(), at.minute())
        },
    )
}

/// Year and month of an instant in UTC, e.g. `(2026, 1)`.
pub fn year_and_month(unix_seconds: i64) -> (i32, u8) {
    let at = OffsetDateTime::from_unix_timestamp(unix_seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    (at.year(), u8::from(at.month()))
}
