//! What happens by itself: a refund that succeeds or fails after a while, and the bank that stops waiting. The plan is part of
//! the records, so that it survives a restart. It never moves money that a call would not have moved.

use std::sync::Arc;
use std::time::Duration;

use crate::answer::Refusal;
use crate::events::Cause;
use crate::refunds;
use crate::state::{Change, State};
use crate::written::Written;
use crate::{Sandbox, bank, clock};

/// The clock is looked at again after this, in case it jumped.
const MAX_SLEEP: Duration = Duration::from_mins(1);

/// Does what is due, one object after the other, until the sandbox stops.
pub async fn run(sandbox: Arc<Sandbox>) {
    loop {
        let next = sandbox.world().state.due.first().cloned();
        let wait = match &next {
            None => MAX_SLEEP,
            Some((at_ms, _)) => {
                let ms = u64::try_from(at_ms.saturating_sub(clock::now_ms())).unwrap_or(0);
                Duration::from_millis(ms).min(MAX_SLEEP)
            }
        };
        if !wait.is_zero() {
            tokio::time::timeout(wait, sandbox.alarm.notified()).await.ok();
            continue;
        }
        let step = next.and_then(|(at_ms, id)| act(&sandbox, at_ms, &id));
        if let Some(step) = step {
            // A journal that cannot be written ends the sandbox anyway.
            if step.flushed_and_told(&sandbox).await.is_err() {
                return;
            }
        }
    }
}

fn act(sandbox: &Sandbox, at_ms: i64, id: &str) -> Option<Written> {
    let now_ms = clock::now_ms();
    let mut world = sandbox.world();
    if !world.state.due.contains(&(at_ms, id.to_owned())) {
        return None;
    }
    let mut change = Change::new(&mut world.state);
    if due(&mut change, id).is_err() {
        // Only a plan that fits its record is made; one that does not is dropped, so that it is not tried for ever.
        change.state.due.remove(&(at_ms, id.to_owned()));
    }
    Some(Written::change(sandbox, change, &Cause::own("later", now_ms)))
}

fn due(change: &mut Change<'_>, id: &str) -> Result<(), Refusal> {
    if id.starts_with("pi_") {
        return bank::expire(change, id).map(|_intent| ());
    }
    let later = later_of(change.state, id).ok_or_else(|| Refusal::no_such("refund", "id", id))?;
    refunds::settle(change, id, later, None).map(|_refund| ())
}

fn later_of(state: &State, id: &str) -> Option<crate::records::RefundStatus> {
    Some(state.refunds.row(id)?.later?.status)
}
