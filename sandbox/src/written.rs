//! What a step left: the line of the journal that its answer has to wait for, and the events that are told once the line is
//! safe. No event leaves before the change that it tells of is in the journal.

use std::sync::Arc;

use crate::events::Cause;
use crate::journal::Gone;
use crate::records::Event;
use crate::state::Change;
use crate::{Sandbox, delivery};

/// A step that was written, or that only read.
#[must_use]
pub struct Written {
    number: u64,
    events: Vec<Arc<Event>>,
}

impl Written {
    /// Writes the changes of a step. The caller holds the world's lock, so that lines come in the order of changes.
    pub fn change(sandbox: &Sandbox, change: Change<'_>, cause: &Cause) -> Self {
        if change.is_empty() {
            return Self::read(sandbox);
        }
        if !change.state.due.is_empty() {
            sandbox.alarm.notify_one();
        }
        let (puts, events) = change.finish(cause);
        Self { number: sandbox.write(cause.call, cause.at_ms, puts), events }
    }

    /// Of a step that changed nothing, but may have seen what is not written yet.
    pub fn read(sandbox: &Sandbox) -> Self {
        Self { number: sandbox.journal.newest(), events: Vec::new() }
    }

    /// Waits until the line is safe, and then begins to deliver the events.
    pub async fn flushed_and_told(self, sandbox: &Arc<Sandbox>) -> Result<(), Gone> {
        sandbox.journal.flushed(self.number).await?;
        if !self.events.is_empty() {
            delivery::dispatch(sandbox, &self.events).await;
        }
        Ok(())
    }
}
