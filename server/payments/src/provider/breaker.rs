//! The breaker: spares a provider that is down, and its customers the wait for it.
//!
//! Promise: it queues nothing and repeats nothing. While it is open a call ends at once, with what is then proven: not sent, not
//! asked, unavailable. It opens after many faults in a short time, and after a few calls that hung to their end, however slowly those
//! came. After a pause, a bounded number of calls may try; the first that gets an answer closes it. Only what speaks of
//! the provider's health counts: a decline is a healthy answer, and so is a key that the provider refuses. Never: it makes
//! an outcome better than the call found it.

mod calls;

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Bounds of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerLimits {
    /// So many faults with no healthy answer among them open it. Above what a few unlucky calls make, and reached at once
    /// when a busy shop's provider goes away.
    pub faults: u32,
    /// Faults that are further apart than this have nothing to do with each other.
    pub window: Duration,
    /// So many calls that got no answer at all open it too, if no healthy answer came among them and each began within the
    /// window after the one before had ended. A call that hangs costs its customer the whole time limit, and where few pay,
    /// one after the other, ten of them would never come together in the window.
    pub silences: u32,
    /// How long it stays open before calls may try. The customer is told to come back after about as long.
    pub pause: Duration,
    /// How many calls may try at the same time. One is enough to learn whether the provider is back.
    pub trials: u32,
}

/// Longest pause of a breaker.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How often the pause fits into the lease, at least, so that recovery is hardly held up.
const PAUSES_PER_LEASE: u32 = 10;

impl BreakerLimits {
    /// The bounds for executors that own an intent for so long.
    #[must_use]
    pub fn for_lease(lease: Duration) -> Self {
        Self {
            faults: 10,
            window: Duration::from_secs(30),
            // One may be a packet that got lost, two a bad moment.
            silences: 3,
            pause: PAUSE_MAX.min(lease / PAUSES_PER_LEASE),
            trials: 1,
        }
    }
}

/// A provider behind a breaker.
#[derive(Debug)]
pub struct Breaker<P> {
    provider: P,
    limits: BreakerLimits,
    gate: Mutex<Gate>,
}

impl<P> Breaker<P> {
    /// Stands before `provider`, closed.
    pub fn new(provider: P, limits: BreakerLimits) -> Self {
        let gate = Gate { state: State::closed(Instant::now()), era: 0, opened: None };
        Self { provider, limits, gate: Mutex::new(gate) }
    }

    /// Lets a call through, or not. Whoever is let through reports how it went.
    fn admit(&self) -> Option<Pass<'_, P>> {
        let now = Instant::now();
        let mut gate = self.gate();
        if let State::Open { until } = gate.state
            && now >= until
        {
            gate.turn(State::HalfOpen { trials: 0 });
        }
        let may_go = match &mut gate.state {
            State::Closed { .. } => true,
            State::HalfOpen { trials } if *trials < self.limits.trials => {
                *trials += 1;
                true
            }
            State::Open { .. } | State::HalfOpen { .. } => false,
        };
        may_go.then(|| Pass { breaker: self, era: gate.era, began: now, is_reported: false })
    }

    /// Whether lists may be read. They can wait: they neither try whether the provider is back, nor does what becomes of them
    /// say anything of payments.
    fn is_closed(&self) -> bool {
        matches!(self.gate().state, State::Closed { .. })
    }

    /// Nothing that holds the gate can panic half-way, so that it is whole in any case.
    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Gate {
    state: State,
    /// Counts the changes of state, so that the news of an earlier one change nothing.
    era: u64,
    /// When it opened, unless it is closed.
    opened: Option<Instant>,
}

#[derive(Debug)]
enum State {
    Closed {
        /// Faults since the last healthy answer.
        faults: u32,
        /// When the first of them was.
        first: Instant,
        /// Calls without any answer since the last healthy one.
        silences: u32,
        /// When the last of them ended.
        silent: Instant,
    },
    Open {
        until: Instant,
    },
    HalfOpen {
        /// Calls that try now.
        trials: u32,
    },
}

impl State {
    /// Closed, with nothing known against the provider.
    const fn closed(now: Instant) -> Self {
        Self::Closed { faults: 0, first: now, silences: 0, silent: now }
    }
}

impl Gate {
    fn turn(&mut self, state: State) {
        self.state = state;
        self.era += 1;
    }

    fn close(&mut self, now: Instant) {
        self.turn(State::closed(now));
        if let Some(opened) = self.opened.take() {
            let seconds = now.duration_since(opened).as_secs();
            tracing::info!(seconds, "the provider answers again");
        }
    }

    fn open(&mut self, now: Instant, pause: Duration) {
        self.turn(State::Open { until: now + pause });
        if self.opened.is_none() {
            self.opened = Some(now);
            tracing::error!(
                pause_ms = pause.as_millis(),
                "the provider does not answer; until it does, payments are turned away"
            );
        }
    }

    /// Learns how a call went that began then.
    fn note(&mut self, health: Health, began: Instant, limits: &BreakerLimits) {
        let now = Instant::now();
        match (&mut self.state, health) {
            (state @ State::Closed { .. }, Health::Healthy) => *state = State::closed(now),
            (State::Closed { faults, first, silences, silent }, Health::Faulty | Health::Silent) => {
                if *faults == 0 || now.duration_since(*first) > limits.window {
                    (*faults, *first) = (0, now);
                }
                *faults += 1;
                if health == Health::Silent {
                    if began.saturating_duration_since(*silent) > limits.window {
                        *silences = 0;
                    }
                    (*silences, *silent) = (*silences + 1, now);
                }
                if *faults >= limits.faults || *silences >= limits.silences {
                    self.open(now, limits.pause);
                }
            }
            (State::HalfOpen { .. }, Health::Healthy) => self.close(now),
            // What tells nothing does not prove that the provider is back.
            (State::HalfOpen { .. }, Health::Faulty | Health::Silent | Health::Untold) => self.open(now, limits.pause),
            (State::Closed { .. }, Health::Untold) | (State::Open { .. }, _) => {}
        }
    }
}

/// What the end of a call tells of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// It answered.
    Healthy,
    /// It cannot be reached, breaks off, or says itself that something is broken.
    Faulty,
    /// It was asked, and said nothing until the time was over.
    Silent,
    /// Nothing.
    Untold,
}

/// The right to make one call. Dropped without a report, as when its caller is gone, it says nothing and leaves its place to
/// another.
struct Pass<'a, P> {
    breaker: &'a Breaker<P>,
    era: u64,
    began: Instant,
    is_reported: bool,
}

impl<P> Pass<'_, P> {
    fn report(mut self, health: Health) {
        self.is_reported = true;
        let mut gate = self.breaker.gate();
        if gate.era == self.era {
            gate.note(health, self.began, &self.breaker.limits);
        }
    }
}

impl<P> Drop for Pass<'_, P> {
    fn drop(&mut self) {
        if self.is_reported {
            return;
        }
        let mut gate = self.breaker.gate();
        if gate.era == self.era
            && let State::HalfOpen { trials } = &mut gate.state
        {
            *trials -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
