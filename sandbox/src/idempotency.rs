//! Idempotency keys: a repeat gets the remembered bytes, a repeat while the first call runs gets a conflict, and the same
//! key with another request is an error. Also the lock on a payment intent: while one call may change it, others are told
//! to come again. Locks end with the call, however it ends.

use std::collections::HashSet;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::Sandbox;
use crate::answer::{Answer, Refusal};
use crate::form::Params;
use crate::records::KeyRecord;
use crate::request::Call;
use crate::state::State;

const MAX_KEY_CHARS: usize = 255;

/// What is under way just now; never written down, since nothing is under way after a start.
#[derive(Debug, Default)]
pub struct UnderWay {
    keys: HashSet<String>,
    intents: HashSet<String>,
}

/// Whether a call may go on.
pub enum Admission {
    /// It may; the locks are held until this is dropped.
    Fresh {
        _locks: Busy,
    },
    /// It was answered before.
    Replay(Answer),
    Refused(Refusal),
}

/// The locks of a call.
pub struct Busy {
    sandbox: Arc<Sandbox>,
    key: Option<String>,
    intent: Option<String>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut world = self.sandbox.world();
        if let Some(key) = &self.key {
            world.under_way.keys.remove(key);
        }
        if let Some(intent) = &self.intent {
            world.under_way.intents.remove(intent);
        }
    }
}

/// Looks a call's key up and takes its locks.
pub fn admit(sandbox: &Arc<Sandbox>, call: &Call) -> Admission {
    let mut world = sandbox.world();
    world.state.keys.forget_until(oldest_remembered(sandbox, call.at_ms));
    let key = call.memory_key();
    if let Some(key) = key {
        if world.under_way.keys.contains(key) {
            return Admission::Refused(key_in_use());
        }
        if let Some(record) = world.state.keys.get(key) {
            return replay(record, call);
        }
    }
    let intent = call.op.locks();
    if intent.is_some_and(|intent| world.under_way.intents.contains(intent)) {
        return Admission::Refused(locked());
    }
    if let Some(key) = key {
        world.under_way.keys.insert(key.to_owned());
    }
    if let Some(intent) = intent {
        world.under_way.intents.insert(intent.to_owned());
    }
    let (key, intent) = (key.map(str::to_owned), intent.map(str::to_owned));
    drop(world);
    Admission::Fresh { _locks: Busy { sandbox: Arc::clone(sandbox), key, intent } }
}

/// Keys that were remembered at this instant or before are forgotten.
fn oldest_remembered(sandbox: &Sandbox, now_ms: i64) -> i64 {
    let memory_ms = i64::try_from(sandbox.config.key_memory.as_millis()).unwrap_or(i64::MAX);
    now_ms.saturating_sub(memory_ms)
}

/// The record that makes later repeats get this answer.
pub fn record(call: &Call, answer: &Answer) -> Option<KeyRecord> {
    Some(KeyRecord {
        key: call.memory_key()?.to_owned(),
        endpoint: call.endpoint(),
        fingerprint: call.fingerprint.clone(),
        status: answer.status,
        body: answer.body.clone(),
        request_id: call.request_id.clone(),
        at_ms: call.at_ms,
    })
}

fn replay(record: &KeyRecord, call: &Call) -> Admission {
    let refused = |what: &str| Admission::Refused(Refusal::new(400, "idempotency_error", what));
    if record.endpoint != call.endpoint() {
        refused("This idempotency key was first used for another call. Use a key for one call only.")
    } else if record.fingerprint != call.fingerprint {
        refused("This idempotency key was first used with other parameters. Use a new key for another request.")
    } else {
        Admission::Replay(
            Answer::stored(record.status, record.body.clone())
                .header("idempotent-replayed", "true")
                .header("original-request", &record.request_id),
        )
    }
}

/// The answer to a repeat while the first call with the key runs.
pub fn key_in_use() -> Refusal {
    let what = "Another request with this idempotency key is under way. Please try again in a moment.";
    Refusal::new(409, "idempotency_error", what).code("idempotency_key_in_use")
}

fn locked() -> Refusal {
    let what = "Another request is changing this object. Please try again in a moment.";
    Refusal::new(429, "invalid_request_error", what).code("lock_timeout")
}

/// A key of the header, if it is one.
pub fn check_key(key: &str) -> Result<String, Refusal> {
    let printable = key.chars().all(|letter| !letter.is_control());
    if key.is_empty() || key.chars().count() > MAX_KEY_CHARS || !printable {
        let what = format!("An idempotency key has 1 to {MAX_KEY_CHARS} printable characters.");
        return Err(Refusal::new(400, "idempotency_error", what));
    }
    Ok(key.to_owned())
}

/// A hash of the canonical parameters. Card secrets are taken out before, since a hash of a card number can be undone by
/// trying all numbers.
pub fn fingerprint(params: &Params) -> String {
    let canonical = serde_json::to_vec(&params.clone().without_card_secrets()).unwrap_or_default();
    hex::encode(Sha256::digest(canonical))
}

/// How many keys are remembered.
pub fn remembered(state: &State) -> usize {
    state.keys.len()
}
