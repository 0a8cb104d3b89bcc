//! The log of deliveries: the newest ten thousand, in memory. It holds what was sent where and how that ended; never a secret,
//! a signature or a body.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::sync::watch;

const MAX_DELIVERIES: usize = 10_000;

/// One try to deliver an event to an endpoint.
#[derive(Clone, Debug, Serialize)]
pub struct Delivery {
    /// Its number since the start, from 1.
    pub number: u64,
    /// Milliseconds since 1970 when it began.
    pub at: i64,
    /// `None` for a body that is no event of the sandbox.
    pub event: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub endpoint: String,
    pub url: String,
    /// From 1; a delivery that a test asked for has 0.
    pub attempt: u32,
    pub order: Option<String>,
    pub payment_intent: Option<String>,
    /// The kinds of the faults that struck it.
    pub faults: Vec<&'static str>,
    pub outcome: Outcome,
    /// What the endpoint answered.
    pub status: Option<u16>,
    /// Why there was no answer.
    pub error: Option<String>,
    /// How long the endpoint took.
    pub ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Running,
    /// The endpoint answered 2xx.
    Delivered,
    /// It answered something else, or nothing.
    Failed,
    /// A fault kept it from being sent.
    Dropped,
}

/// The log.
pub struct Deliveries {
    log: Mutex<(u64, VecDeque<Delivery>)>,
    /// The number of changes, for whoever waits for one.
    changes: watch::Sender<u64>,
}

impl Default for Deliveries {
    fn default() -> Self {
        Self { log: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

impl Deliveries {
    /// Notes a try and returns its number.
    pub fn begin(&self, mut delivery: Delivery) -> u64 {
        let number = {
            let mut guard = self.lock();
            let (count, log) = &mut *guard;
            *count += 1;
            delivery.number = *count;
            if log.len() == MAX_DELIVERIES {
                log.pop_front();
            }
            log.push_back(delivery);
            *count
        };
        self.changes.send_modify(|changes| *changes += 1);
        number
    }

    /// Notes how a try ended: what was answered after how many milliseconds, or why nothing was.
    pub fn end(&self, number: u64, answer: &Result<u16, String>, ms: u64) -> Outcome {
        let (outcome, status, error) = match answer {
            Ok(status) if (200..300).contains(status) => (Outcome::Delivered, Some(*status), None),
            Ok(status) => (Outcome::Failed, Some(*status), None),
            Err(error) => (Outcome::Failed, None, Some(error.clone())),
        };
        {
            let mut guard = self.lock();
            if let Some(delivery) = guard.1.iter_mut().rev().find(|delivery| delivery.number == number) {
                (delivery.outcome, delivery.status, delivery.error) = (outcome, status, error);
                delivery.ms = Some(ms);
            }
        }
        self.changes.send_modify(|changes| *changes += 1);
        outcome
    }

    /// The tries that hold, oldest first.
    pub fn list(&self, holds: impl Fn(&Delivery) -> bool) -> Vec<Delivery> {
        self.lock().1.iter().filter(|delivery| holds(delivery)).cloned().collect()
    }

    /// The number of the newest try.
    pub fn newest(&self) -> u64 {
        self.lock().0
    }

    /// Returns when a try that is younger than a number, and that holds, has ended.
    pub async fn until_ended(&self, after: u64, holds: impl Fn(&Delivery) -> bool) {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let ended = |delivery: &&Delivery| delivery.number > after && delivery.outcome != Outcome::Running;
            if self.lock().1.iter().rev().filter(ended).any(&holds) {
                return;
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    pub fn clear(&self) {
        self.lock().1.clear();
    }

    fn lock(&self) -> MutexGuard<'_, (u64, VecDeque<Delivery>)> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
