//! Time, as a parameter: the only place of this crate that reads the machine's clock.
//!
//! Leases and everything else that replicas must agree on use the database's clock; this one writes instants into answers
//! and ids.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use time::OffsetDateTime;

/// Where instants come from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's clock.
    System,
    /// A clock that moves only when told, in whole seconds since 1970; for tests.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// A clock that stands at `start` until [`Clock::advance`] moves it.
    pub fn manual(start: OffsetDateTime) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(start.unix_timestamp())))
    }

    /// Now, in UTC.
    pub fn now(&self) -> OffsetDateTime {
        match self {
            Self::System => OffsetDateTime::now_utc(),
            Self::Manual(seconds) => OffsetDateTime::from_unix_timestamp(seconds.load(Ordering::Relaxed))
                .unwrap_or(OffsetDateTime::UNIX_EPOCH),
        }
    }

    /// Moves a manual clock; the machine's stays as it is.
    pub fn advance(&self, by_seconds: i64) {
        if let Self::Manual(seconds) = self {
            seconds.fetch_add(by_seconds, Ordering::Relaxed);
        }
    }
}
