//! The log of calls: the newest thousand, in memory. It holds method, address, key and what became of a call; never a
//! query, a body or an authorization.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

const MAX_CALLS: usize = 1000;

/// One call.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// The call's number since the start, from 1.
    pub number: u64,
    /// Milliseconds since 1970 at arrival.
    pub at: i64,
    /// Its name, as faults match it; `unknown` for addresses that are none.
    pub call: &'static str,
    pub method: String,
    pub path: String,
    pub idempotency_key: Option<String>,
    pub request_id: String,
    /// `metadata[order]` of the payment intent it is about.
    pub order: Option<String>,
    pub payment_intent: Option<String>,
    pub outcome: Outcome,
    /// The status that was sent, once it was.
    pub status: Option<u16>,
    /// Whether the answer came from the key's memory.
    pub replayed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Running,
    Answered,
    /// The connection was ended without a whole answer.
    Dropped,
}

/// The log.
#[derive(Default)]
pub struct Calls {
    log: Mutex<(u64, VecDeque<Entry>)>,
}

impl Calls {
    /// Notes an arrival and returns the call's number.
    pub fn begin(&self, mut entry: Entry) -> u64 {
        let mut guard = self.lock();
        let (count, log) = &mut *guard;
        *count += 1;
        entry.number = *count;
        if log.len() == MAX_CALLS {
            log.pop_front();
        }
        log.push_back(entry);
        *count
    }

    /// Notes how the call ended.
    pub fn end(&self, number: u64, outcome: Outcome, status: Option<u16>, replayed: bool) {
        let mut guard = self.lock();
        if let Some(entry) = guard.1.iter_mut().rev().find(|entry| entry.number == number) {
            (entry.outcome, entry.status, entry.replayed) = (outcome, status, replayed);
        }
    }

    /// The calls that hold, oldest first.
    pub fn list(&self, holds: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        self.lock().1.iter().filter(|entry| holds(entry)).cloned().collect()
    }

    pub fn clear(&self) {
        self.lock().1.clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, VecDeque<Entry>)> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
