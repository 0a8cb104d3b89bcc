//! Who waits for which intent on this replica, and how they learn of its end.
//!
//! Nobody who waits holds a database connection. What an executor of this replica settles is told at once; for intents that
//! another replica runs, one batched query asks once per tick, and only while somebody waits. Intents that are run here are
//! asked for more rarely: another replica may have heard from the provider while our own call still waits for its answer.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use super::{Intent, IntentKey, Standing, State, store};
use crate::{
    Ctx,
    limits::{OWN_INTENTS_TICKS, WAITERS_BATCH},
    pool::{StoreError, keyed},
};

/// The hub of one replica.
#[derive(Debug, Default)]
pub struct Waiters {
    slots: Mutex<HashMap<IntentKey, Slot>>,
    ticking: AtomicBool,
}

/// One intent that somebody waits for or works on.
#[derive(Debug)]
struct Slot {
    news: watch::Sender<Option<News>>,
    /// Executors of this replica at work on it; while there is one, the database is asked rarely.
    executors: usize,
    waiting: usize,
    /// Those of the waiting for whom a bank step is not the end of the wait.
    watching: usize,
}

/// What those who wait are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The intent stands there now.
    Standing(Standing),
    /// Nothing was sent, and the reservation is gone.
    Released,
}

impl News {
    /// Whether waiting longer is of no use.
    fn ends_the_wait(&self) -> bool {
        match self {
            Self::Standing(Standing::Pending | Standing::Unknown) => false,
            Self::Standing(Standing::ActionRequired { .. } | Standing::Succeeded { .. } | Standing::Failed { .. })
            | Self::Released => true,
        }
    }

    fn is_final(&self) -> bool {
        match self {
            Self::Standing(standing) => standing.state().is_final(),
            Self::Released => false,
        }
    }
}

impl Waiters {
    /// Begins to wait. To be called before the state is looked at, so that no news falls between the two.
    pub(crate) fn wait_for(self: &Arc<Self>, key: IntentKey) -> Waiting {
        let mut slots = self.lock();
        let slot = slots.entry(key).or_insert_with(Slot::empty);
        slot.waiting += 1;
        Waiting { hub: Arc::clone(self), key, news: slot.news.subscribe(), watches: false }
    }

    /// Begins to watch: as waiting, and a bank step is not the end of it.
    pub(crate) fn watch(self: &Arc<Self>, key: IntentKey) -> Waiting {
        let mut waiting = self.wait_for(key);
        waiting.watches = true;
        self.leave(&key, |slot| slot.watching += 1);
        waiting
    }

    /// Begins to work on a new reservation. What was told of a released one under the same key is forgotten.
    pub(crate) fn work_on(self: &Arc<Self>, key: IntentKey) -> Working {
        let mut slots = self.lock();
        let slot = slots.entry(key).or_insert_with(Slot::empty);
        slot.executors += 1;
        slot.news.send_replace(None);
        Working { hub: Arc::clone(self), key }
    }

    /// Tells everybody who waits for this intent. An end that was told is never replaced by something older.
    pub(crate) fn publish(&self, key: &IntentKey, news: News) {
        if let Some(slot) = self.lock().get(key) {
            slot.news.send_if_modified(|present| {
                let is_news = present.as_ref() != Some(&news) && !present.as_ref().is_some_and(News::is_final);
                if is_news {
                    *present = Some(news);
                }
                is_news
            });
        }
    }

    /// The intents that executors of this replica are at work on.
    pub(crate) fn worked_on(&self) -> Vec<IntentKey> {
        self.lock().iter().filter(|(_, slot)| slot.executors > 0).map(|(key, _)| *key).collect()
    }

    /// How many intents are waited for or worked on; for metrics and tests.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nobody waits and nobody works.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Intents that somebody waits for in vain: those that nobody here works on, or all of them.
    fn waited_for(&self, all: bool) -> Vec<IntentKey> {
        let in_vain = |slot: &Slot| {
            let news = slot.news.borrow();
            let told = news.as_ref().is_some_and(News::ends_the_wait);
            let waiting = (all || slot.executors == 0) && slot.waiting > 0 && !told;
            // Who is at the bank takes minutes, and those who watch are asked for as rarely as those whose executor is here.
            waiting || (all && slot.watching > 0 && !news.as_ref().is_some_and(News::is_final))
        };
        self.lock().iter().filter(|(_, slot)| in_vain(slot)).map(|(key, _)| *key).collect()
    }

    /// Changes a slot and removes it once it serves nobody.
    fn leave(&self, key: &IntentKey, change: impl FnOnce(&mut Slot)) {
        let mut slots = self.lock();
        if let Some(slot) = slots.get_mut(key) {
            change(slot);
            if slot.executors == 0 && slot.waiting == 0 {
                slots.remove(key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IntentKey, Slot>> {
        // Every change under the lock is whole, so that a panic elsewhere leaves nothing broken behind.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn empty() -> Self {
        Self { news: watch::Sender::new(None), executors: 0, waiting: 0, watching: 0 }
    }
}

/// Somebody who waits. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    hub: Arc<Waiters>,
    key: IntentKey,
    news: watch::Receiver<Option<News>>,
    watches: bool,
}

impl Waiting {
    /// Waits for an end, a bank step or a release, at most until `until`. Returns the last news; `None` when there were none.
    pub(crate) async fn until(mut self, ctx: &Ctx, until: Instant) -> Option<News> {
        tick_for_those_who_wait(ctx);
        loop {
            let present = self.news.borrow_and_update().clone();
            let over = present.as_ref().is_some_and(News::ends_the_wait);
            if over || !matches!(timeout_at(until, self.news.changed()).await, Ok(Ok(()))) {
                return present;
            }
        }
    }

    /// Waits until the intent stands elsewhere than where it was seen, at most until `until`. Whether it does is for the caller to
    /// look up: what is told here may be older than what it saw.
    pub(crate) async fn past(mut self, ctx: &Ctx, seen: State, until: Instant) {
        tick_for_those_who_wait(ctx);
        let elsewhere = |news: &Option<News>| match news {
            None => false,
            Some(News::Standing(standing)) => standing.state() != seen,
            Some(News::Released) => true,
        };
        // Nobody who tells is gone while somebody waits: the wait ends by itself or by its time.
        let _ = timeout_at(until, self.news.wait_for(elsewhere)).await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let watches = usize::from(self.watches);
        self.hub.leave(&self.key, |slot| {
            slot.waiting -= 1;
            slot.watching -= watches;
        });
    }
}

/// An executor at work. Dropping it, also by a panic, hands those who wait over to the query.
#[derive(Debug)]
pub(crate) struct Working {
    hub: Arc<Waiters>,
    key: IntentKey,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.hub.leave(&self.key, |slot| slot.executors -= 1);
    }
}

/// Sees to it that one task asks the database while somebody waits.
fn tick_for_those_who_wait(ctx: &Ctx) {
    if ctx.waiters.ticking.swap(true, Ordering::AcqRel) {
        return;
    }
    let ctx = ctx.settling();
    ctx.clone().detach(async move {
        // Cleared also when the task panics, so that the next one who waits starts another.
        let ticking = Ticking(Arc::clone(&ctx.waiters));
        let mut tick = 0_u32;
        while !ctx.waiters.is_empty() {
            sleep(ctx.limits.waiters_tick).await;
            tick = (tick + 1) % OWN_INTENTS_TICKS;
            for keys in ctx.waiters.waited_for(tick == 0).chunks(WAITERS_BATCH) {
                if let Err(error) = ask_for(&ctx, keys).await {
                    tracing::warn!(%error, intents = keys.len(), "could not ask for intents that are waited for");
                }
            }
        }
        drop(ticking);
        // Somebody may have come between the last look and the clearing.
        if !ctx.waiters.is_empty() {
            tick_for_those_who_wait(&ctx);
        }
    });
}

/// The mark that a task is ticking.
struct Ticking(Arc<Waiters>);

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.ticking.store(false, Ordering::Release);
    }
}

async fn ask_for(ctx: &Ctx, keys: &[IntentKey]) -> Result<(), StoreError> {
    for row in keyed(&ctx.limits, || store::list_moved(&ctx.pool, keys)).await? {
        let intent = Intent::try_from(row)?;
        ctx.waiters.publish(&intent.key, News::Standing(intent.standing));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::{News, Waiters};
    use crate::{
        ids::{IntentId, OrderId},
        intent::{
            IntentKey, Standing,
            archive::{Archive, Archived},
        },
        provider::{ContinueUrl, DeclineReason},
    };

    fn key() -> IntentKey {
        IntentKey::pay(OrderId(Uuid::from_u128(1)), IntentId(Uuid::from_u128(2)))
    }

    fn failed() -> News {
        News::Standing(Standing::Failed {
            reason: DeclineReason::Generic,
            failed_at: OffsetDateTime::UNIX_EPOCH,
            archive: Archived::Kept(Archive::stored(402, "application/json".to_owned(), b"{}".to_vec())),
        })
    }

    #[test]
    fn an_end_is_not_replaced_by_what_was_read_before() {
        let hub = Arc::new(Waiters::default());
        let waiting = hub.wait_for(key());
        hub.publish(&key(), failed());
        hub.publish(&key(), News::Standing(Standing::Unknown));
        assert_eq!(*waiting.news.borrow(), Some(failed()));
    }

    #[test]
    fn a_new_reservation_does_not_hear_of_the_released_one() {
        let hub = Arc::new(Waiters::default());
        let old = hub.wait_for(key());
        hub.publish(&key(), News::Released);
        let new = hub.wait_for(key());
        let working = hub.work_on(key());
        assert_eq!(*new.news.borrow(), None);
        drop((old, new, working));
        assert!(hub.is_empty());
    }

    #[test]
    fn who_watches_is_asked_for_beyond_the_bank_step_and_not_beyond_the_end() {
        let hub = Arc::new(Waiters::default());
        let watching = hub.watch(key());
        let at_the_bank =
            Standing::ActionRequired { continue_url: ContinueUrl::parse("https://bank.example/1").unwrap() };
        hub.publish(&key(), News::Standing(at_the_bank));
        assert!(hub.waited_for(false).is_empty(), "not at every tick");
        assert_eq!(hub.waited_for(true), [key()]);
        hub.publish(&key(), failed());
        assert!(hub.waited_for(true).is_empty());
        drop(watching);
        assert!(hub.is_empty());
    }

    #[test]
    fn intents_that_others_run_are_asked_for_at_each_tick() {
        let hub = Arc::new(Waiters::default());
        let waiting = hub.wait_for(key());
        assert_eq!(hub.waited_for(false), [key()]);
        let working = hub.work_on(key());
        assert!(hub.waited_for(false).is_empty());
        assert_eq!(hub.worked_on(), [key()]);
        assert_eq!(hub.waited_for(true), [key()], "another replica may know more than our own executor");
        drop(working);
        assert!(hub.worked_on().is_empty());
        assert_eq!(hub.waited_for(false), [key()], "an executor that died leaves its intent to the query");
        hub.publish(&key(), failed());
        assert!(hub.waited_for(true).is_empty());
        drop(waiting);
        assert!(hub.is_empty());
    }
}
