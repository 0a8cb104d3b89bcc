//! Where messages are held. Proxies show every message at each of its boundaries to a gate, and do with it what the gate says.
//!
//! A [`Held`] that is dropped lets its message go on, so that a test that fails leaves nobody waiting.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::bail;
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};

use crate::strikes::Strikes;

/// How long a message may take to come to where it is waited for.
const REACH_SECONDS_MAX: Duration = Duration::from_secs(15);

/// What is said: a statement to Postgres or a call to the provider, by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// Reserves an intent, or finds how it stands.
    Reserve,
    /// Takes a reservation back.
    Release,
    /// Takes over one intent that has no owner.
    Claim,
    /// Recovery's look for all intents that are due and have no owner.
    Sweep,
    /// Lets go of an intent whose outcome is not known.
    Rest,
    /// The bank wants to see the customer.
    WaitForBank,
    /// Settles as paid.
    Succeed,
    /// Settles as not paid.
    Fail,
    /// Books money for an intent that had its end.
    BookLate,
    /// Keeps an event of the provider's.
    Keep,
    /// Any other statement.
    OtherStatement,
    /// `POST /v1/payment_intents`.
    Create,
    /// `POST /v1/payment_intents/{id}/confirm`.
    Confirm,
    /// `POST /v1/payment_intents/{id}/cancel`.
    Cancel,
    /// `GET /v1/payment_intents/{id}`.
    Retrieve,
    /// Any other call.
    OtherCall,
}

/// A boundary of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// It has left its sender, and nobody else has seen it.
    Sent,
    /// It was executed, and nobody has seen the answer; or the other side has ended the connection instead of answering.
    Answered,
    /// The answer, or the end of the connection, has arrived at the sender's machine, whether or not it was read.
    Heard,
}

/// What becomes of a message, or of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Deliver,
    /// It does not, and the connection ends.
    Lose,
}

/// One proxy's gate. Clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    armed: Mutex<Vec<Armed>>,
    passed: watch::Sender<HashMap<(Message, Moment), usize>>,
    strikes: Strikes,
}

#[derive(Debug)]
struct Armed {
    message: Message,
    moment: Moment,
    /// How many such messages pass before it.
    after: usize,
    decision: Decision,
}

#[derive(Debug)]
enum Decision {
    /// Decided before it came.
    Now(Fate),
    /// Whoever holds it is told that it is there, and decides.
    Later(oneshot::Sender<()>, oneshot::Receiver<Fate>),
}

impl Armed {
    /// Whether nobody waits for it any more.
    fn is_given_up(&self) -> bool {
        matches!(&self.decision, Decision::Later(reached, _) if reached.is_closed())
    }
}

/// A message that is held, or will be.
#[derive(Debug)]
pub struct Held {
    what: (Message, Moment),
    reached: oneshot::Receiver<()>,
    fate: oneshot::Sender<Fate>,
}

impl Gate {
    /// Which statements fail here.
    pub fn strikes(&self) -> &Strikes {
        &self.0.strikes
    }

    /// Holds the next such message.
    pub fn hold(&self, message: Message, moment: Moment) -> Held {
        self.hold_after(message, moment, 0)
    }

    /// Holds one such message after `after` others have passed.
    pub fn hold_after(&self, message: Message, moment: Moment, after: usize) -> Held {
        let (reached, is_reached) = oneshot::channel();
        let (decide, fate) = oneshot::channel();
        self.armed().push(Armed { message, moment, after, decision: Decision::Later(reached, fate) });
        Held { what: (message, moment), reached: is_reached, fate: decide }
    }

    /// Loses the next such message.
    pub fn lose(&self, message: Message, moment: Moment) {
        self.armed().push(Armed { message, moment, after: 0, decision: Decision::Now(Fate::Lose) });
    }

    /// How many such messages have come to this boundary, held ones included.
    pub fn count(&self, message: Message, moment: Moment) -> usize {
        self.0.passed.borrow().get(&(message, moment)).copied().unwrap_or_default()
    }

    /// Waits until this many have come to this boundary since the start.
    ///
    /// # Errors
    /// When they do not.
    pub async fn counts(&self, message: Message, moment: Moment, count: usize) -> anyhow::Result<()> {
        let mut passed = self.0.passed.subscribe();
        let enough = passed.wait_for(|passed| passed.get(&(message, moment)).copied().unwrap_or_default() >= count);
        let waited = timeout(REACH_SECONDS_MAX, enough).await.map(|result| result.map(drop));
        match waited {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => {
                bail!("{} of {count} messages came: {message:?} {moment:?}", self.count(message, moment))
            }
        }
    }

    /// Called by proxies: shows a message, and learns what becomes of it.
    pub(crate) async fn pass(&self, message: Message, moment: Moment) -> Fate {
        let armed = self.take(message, moment);
        self.0.passed.send_modify(|passed| *passed.entry((message, moment)).or_default() += 1);
        match armed.map(|armed| armed.decision) {
            None => Fate::Deliver,
            Some(Decision::Now(fate)) => fate,
            Some(Decision::Later(reached, fate)) => {
                // Given up at this very moment, it goes on.
                let _ = reached.send(());
                fate.await.unwrap_or(Fate::Deliver)
            }
        }
    }

    fn take(&self, message: Message, moment: Moment) -> Option<Armed> {
        let mut armed = self.armed();
        armed.retain(|one| !one.is_given_up());
        let first = armed.iter().position(|one| (one.message, one.moment) == (message, moment))?;
        if armed[first].after > 0 {
            armed[first].after -= 1;
            return None;
        }
        Some(armed.remove(first))
    }

    fn armed(&self) -> MutexGuard<'_, Vec<Armed>> {
        self.0.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Waits until the message is there.
    ///
    /// # Errors
    /// When it does not come within a bound.
    pub async fn reached(&mut self) -> anyhow::Result<()> {
        match timeout(REACH_SECONDS_MAX, &mut self.reached).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => bail!("never came: {:?} {:?}", self.what.0, self.what.1),
        }
    }

    /// Decides. A message that has not come yet is no longer waited for, and goes on when it comes.
    pub fn let_go(self, fate: Fate) {
        // Whoever held it may be gone with its connection.
        let _ = self.fate.send(fate);
    }
}
