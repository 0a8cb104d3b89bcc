//! Rate limits: a bucket for each key, which refills steadily. Bounded in memory.

use std::{
    fmt,
    hash::Hash,
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use governor::{
    DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota,
    clock::{Clock as _, DefaultClock},
};

/// Most keys that have buckets of their own: some 100 bytes each. Full buckets are dropped first; should that not help, all
/// that come newly share one.
const KEYS_MAX: usize = 50_000;

/// Pause between two searches for buckets to drop, each of which looks at all of them.
const CLEANING_PAUSE: Duration = Duration::from_secs(1);

/// How often something is allowed: steadily, and at once after a rest. Without a number per second there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    pub per_second: Option<NonZeroU32>,
    pub burst: Option<NonZeroU32>,
}

/// Too often. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany {
    /// After how many seconds there is room again, rounded up.
    pub retry_after_seconds: u32,
}

/// One bucket for each key.
pub struct Limiter<K: Hash + Eq + Clone>(Option<Buckets<K>>);

struct Buckets<K: Hash + Eq + Clone> {
    own: DefaultKeyedRateLimiter<K>,
    shared: DefaultDirectRateLimiter,
    cleaned_at: Mutex<Instant>,
}

impl<K: Hash + Eq + Clone> Limiter<K> {
    /// Full buckets for everybody.
    pub fn new(rate: Rate) -> Self {
        Self(rate.per_second.map(|per_second| {
            let quota = Quota::per_second(per_second).allow_burst(rate.burst.unwrap_or(per_second));
            Buckets {
                own: DefaultKeyedRateLimiter::hashmap(quota),
                shared: DefaultDirectRateLimiter::direct(quota),
                cleaned_at: Mutex::new(Instant::now()),
            }
        }))
    }

    /// Takes one out of the bucket of `key`.
    ///
    /// # Errors
    /// When it is empty.
    pub fn admit(&self, key: K) -> Result<(), TooMany> {
        let Some(buckets) = &self.0 else { return Ok(()) };
        buckets.admit(&key)
    }
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn admit(&self, key: &K) -> Result<(), TooMany> {
        let admitted = if self.has_room() { self.own.check_key(key) } else { self.shared.check() };
        admitted.map_err(|not_until| {
            let wait = not_until.wait_time_from(DefaultClock::default().now());
            let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            TooMany { retry_after_seconds: seconds }
        })
    }

    fn has_room(&self) -> bool {
        if self.own.len() < KEYS_MAX {
            return true;
        }
        let mut cleaned_at = self.cleaned_at.lock().unwrap_or_else(PoisonError::into_inner);
        if cleaned_at.elapsed() >= CLEANING_PAUSE {
            *cleaned_at = Instant::now();
            self.own.retain_recent();
            self.own.shrink_to_fit();
        }
        self.own.len() < KEYS_MAX
    }
}

impl<K: Hash + Eq + Clone> fmt::Debug for Limiter<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Limiter(…)" } else { "Limiter(off)" })
    }
}

#[cfg(test)]
mod tests {
    use super::{KEYS_MAX, Limiter, Rate};

    fn rate(per_second: u32, burst: u32) -> Rate {
        Rate { per_second: per_second.try_into().ok(), burst: burst.try_into().ok() }
    }

    #[test]
    fn each_key_has_a_burst_of_its_own_and_is_told_when_to_come_back() {
        let limiter = Limiter::new(rate(1, 3));
        for _ in 0..3 {
            assert_eq!(limiter.admit("a"), Ok(()));
        }
        let refused = limiter.admit("a").expect_err("the bucket is empty");
        assert!((1..=2).contains(&refused.retry_after_seconds));
        assert_eq!(limiter.admit("b"), Ok(()));
    }

    #[test]
    fn nothing_set_is_no_limit() {
        let limiter = Limiter::new(Rate::default());
        assert!((0..10_000).all(|_| limiter.admit(1).is_ok()));
    }

    #[test]
    fn a_flood_of_keys_ends_in_one_bucket_and_lets_nobody_through_without_counting() {
        let limiter = Limiter::new(rate(1, 5));
        let admitted = (0..KEYS_MAX + 1_000).filter(|key| limiter.admit(*key).is_ok()).count();
        assert!((KEYS_MAX..KEYS_MAX + 100).contains(&admitted), "{admitted}");
    }
}
