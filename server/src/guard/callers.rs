//! API keys that were looked up a moment ago, so that a busy program does not ask the database with each call.
//!
//! Bounded in time, so that a revoked key ends within that time on every replica, and in size. Holds hashes, never keys; and
//! only of keys that are good, so that guesses take no room.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use payments::api_key::ApiKeyId;

/// How long a look-up is believed, in seconds: as long as a revoked key may go on.
pub const MEMORY_SECONDS: u64 = 2;

/// Most keys that are remembered; a shop has a handful. Beyond it, all are forgotten.
const CALLERS_MAX: usize = 1_000;

/// The keys of the last moments.
#[derive(Default)]
pub struct Callers(Mutex<HashMap<[u8; 32], (ApiKeyId, Instant)>>);

impl Callers {
    /// Whose key this hash is of, if that was found out within the memory's time.
    pub fn find(&self, hash: &[u8; 32]) -> Option<ApiKeyId> {
        let (id, seen_at) = *self.lock().get(hash)?;
        (seen_at.elapsed() < Duration::from_secs(MEMORY_SECONDS)).then_some(id)
    }

    /// Remembers a key that was found good.
    pub fn remember(&self, hash: [u8; 32], id: ApiKeyId) {
        let mut known = self.lock();
        if known.len() >= CALLERS_MAX {
            known.clear();
        }
        known.insert(hash, (id, Instant::now()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], (ApiKeyId, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Callers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Callers(…)")
    }
}
