//! Which connections are still good, and when the last answer came. Reads no clock but the monotonic one.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

/// Which connections are still good, and when the last statement was answered. Times are microseconds since the pool was made.
pub(super) struct Freshness {
    since: Instant,
    oldest: AtomicU64,
    /// Told when connections became old, to those who still hope for an answer on one.
    aged: watch::Sender<()>,
    answered: AtomicU64,
}

impl Freshness {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            oldest: AtomicU64::new(0),
            aged: watch::Sender::new(()),
            answered: AtomicU64::new(0),
        }
    }

    fn micros(&self, when: Instant) -> u64 {
        u64::try_from(when.saturating_duration_since(self.since).as_micros()).unwrap_or(u64::MAX)
    }

    /// From now on, no connection is used that was made before.
    pub(super) fn forget_older(&self) {
        self.oldest.fetch_max(self.micros(Instant::now()), Ordering::AcqRel);
        self.aged.send_replace(());
    }

    /// Hears when the connections of now have become old.
    pub(super) fn listener(&self) -> watch::Receiver<()> {
        self.aged.subscribe()
    }

    pub(super) fn is_fresh(&self, age: Duration) -> bool {
        let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        self.micros(Instant::now()).saturating_sub(age) >= self.oldest.load(Ordering::Acquire)
    }

    pub(super) fn answered(&self) {
        self.answered.fetch_max(self.micros(Instant::now()), Ordering::AcqRel);
    }

    pub(super) fn answered_since(&self, when: Instant) -> bool {
        self.answered.load(Ordering::Acquire) > self.micros(when)
    }

    pub(super) fn answered_within(&self, time: Duration) -> bool {
        Instant::now().checked_sub(time).is_some_and(|when| self.answered_since(when))
    }
}
