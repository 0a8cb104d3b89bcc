//! The turns of the faults in the way of a call: before it is executed, and after its changes are safe. Nothing here
//! touches money; a remembered error is the only thing that a fault writes.

use crate::Sandbox;
use crate::answer::{Answer, Refusal};
use crate::faults::{Fault, Hangup, Kind, Plan, Turn};
use crate::idempotency::{self, Admission};
use crate::intents;
use crate::request::Call;
use crate::state::Put;

/// How a call ends on the wire.
pub enum Ending {
    Answer(Answer),
    Hangup(Hangup),
    /// The head and the first half of the body, then the end.
    Half(Answer),
}

/// The fault's turn before the call is executed; the ending, if it ends the call.
pub async fn before(sandbox: &Sandbox, call: &Call, admission: &Admission, fault: &Fault) -> Option<Ending> {
    let answer = if fault.kind == Kind::DropBefore {
        return Some(Ending::Hangup(fault.how));
    } else if fault.kind == Kind::Error500 {
        internal_error()
    } else if fault.kind == Kind::Conflict409 {
        idempotency::key_in_use().answer()
    } else if fault.kind == Kind::Status {
        status_answer(fault)
    } else {
        return None;
    };
    let fresh = matches!(admission, Admission::Fresh { .. });
    if let Some(record) = idempotency::record(call, &answer).filter(|_| fault.remember && fresh) {
        let number = {
            let mut world = sandbox.world();
            let put = Put::Key(record);
            world.state.apply(put.clone());
            sandbox.write(call.op.name(), call.at_ms, vec![put])
        };
        if sandbox.journal.flushed(number).await.is_err() {
            return Some(Ending::Hangup(Hangup::Reset));
        }
    }
    Some(Ending::Answer(answer))
}

/// The faults' turns after the call's changes are written.
pub async fn after(sandbox: &Sandbox, plan: &Plan, mut answer: Answer) -> Ending {
    for fault in plan.at(Turn::After) {
        if fault.kind == Kind::RefuseAfter {
            sandbox.door.close(fault.ms).await;
            continue;
        }
        plan.wait(fault).await;
        if fault.kind == Kind::ChargeThenDrop {
            return Ending::Hangup(fault.how);
        } else if fault.kind == Kind::ChargeThen500 {
            return Ending::Answer(internal_error());
        } else if fault.kind == Kind::Garbage {
            let body = "<!doctype html><title>Welcome</title><p>This is not the answer that you expect.".to_owned();
            return Ending::Answer(Answer::html(200, body));
        } else if fault.kind == Kind::HalfBody {
            return Ending::Half(answer);
        } else if fault.kind == Kind::WrongAmount {
            answer.body = intents::with_wrong("amount", &answer.body);
        } else if fault.kind == Kind::WrongCurrency {
            answer.body = intents::with_wrong("currency", &answer.body);
        }
    }
    Ending::Answer(answer)
}

/// What a provider says that broke.
pub fn internal_error() -> Answer {
    Refusal::new(500, "api_error", "Something went wrong inside the provider.").answer()
}

fn status_answer(fault: &Fault) -> Answer {
    let status = fault.status.unwrap_or(503);
    let (kind, code) = match status {
        429 => ("invalid_request_error", Some("rate_limit")),
        500..=599 => ("api_error", None),
        _ => ("invalid_request_error", None),
    };
    let mut refusal = Refusal::new(status, kind, format!("The provider answers {status} as it was told to."));
    if let Some(code) = fault.code.as_deref().or(code) {
        refusal = refusal.code(code);
    }
    let mut answer = refusal.answer();
    if let Some(seconds) = fault.retry_after {
        answer = answer.header("retry-after", &seconds.to_string());
    }
    if let Some(location) = &fault.location {
        answer = answer.header("location", location);
    }
    answer
}
