//! The way of a call: read and checked, then executed in a task of its own, so that a client who hangs up stops nothing.
//! The answer leaves when everything it rests on is in the journal.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};

use crate::answer::Answer;
use crate::calls::{Entry, Outcome};
use crate::events::API_VERSION;
use crate::faults::{Hangup, Kind, Plan, Subject, Turn};
use crate::idempotency::{self, Admission};
use crate::net::Wire;
use crate::request::{self, Call, VERSION_HEADER};
use crate::routes::{self, Done};
use crate::state::{Change, Put};
use crate::strike::{self, Ending};
use crate::written::Written;
use crate::{Sandbox, clock, ids};

const BROWSER_PATH: &str = "/v1/payment_methods";

/// Answers every call of the API.
pub async fn handle(
    State(sandbox): State<Arc<Sandbox>>,
    Extension(wire): Extension<Wire>,
    request: Request,
) -> Response<Body> {
    let for_browsers = request.uri().path() == BROWSER_PATH;
    let request_id = ids::new("req");
    let mut version = API_VERSION.to_owned();
    let ending = match request::read(&sandbox, request, &request_id).await {
        Err(refusal) => Ending::Answer(refusal.answer()),
        Ok(call) => {
            version.clone_from(&call.version);
            let running = sandbox.stop.clone().run_until_cancelled_owned(run(Arc::clone(&sandbox), call));
            // A call that was stopped, or that panicked, has no answer: its client learns that something went wrong.
            sandbox.tasks.spawn(running).await.ok().flatten().unwrap_or(Ending::Hangup(Hangup::Reset))
        }
    };
    let mut response = match ending {
        Ending::Answer(answer) => {
            answer.header("request-id", &request_id).header(VERSION_HEADER, &version).into_response()
        }
        Ending::Hangup(how) => wire.end_with(Vec::new(), how),
        Ending::Half(answer) => {
            let (whole, half) = (answer.body.len(), answer.body.len() / 2);
            let mut bytes = format!(
                "HTTP/1.1 {} Answer\r\ncontent-type: {}\r\ncontent-length: {whole}\r\n\r\n",
                answer.status, answer.content_type
            )
            .into_bytes();
            bytes.extend(answer.body.bytes().take(half));
            wire.end_with(bytes, Hangup::Close)
        }
    };
    if for_browsers {
        open_to_browsers(response.headers_mut());
    }
    response
}

/// Answers a browser's question whether a page of another origin may send a card.
pub async fn preflight() -> Response<Body> {
    let mut response = Answer::stored(204, String::new())
        .header("access-control-allow-methods", "POST")
        .header("access-control-allow-headers", "authorization, content-type, idempotency-key, stripe-version")
        .header("access-control-allow-private-network", "true")
        .header("access-control-max-age", "60")
        .into_response();
    open_to_browsers(response.headers_mut());
    response
}

fn open_to_browsers(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    let exposed = HeaderValue::from_static("request-id, idempotent-replayed, retry-after");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}

/// Executes a call and keeps the log of calls.
async fn run(sandbox: Arc<Sandbox>, mut call: Call) -> Ending {
    let subject = request::subject(&sandbox.world().state, &call);
    let entry = request::entry(call.op.name(), &call.method, &call.path, call.key.clone(), &call.request_id);
    let entry = Entry { order: subject.order.clone(), payment_intent: subject.payment_intent.clone(), ..entry };
    let number = sandbox.calls.begin(entry);
    let ending = perform(&sandbox, &mut call, &subject).await;
    let (outcome, status, replayed) = match &ending {
        Ending::Answer(answer) => {
            let replayed = answer.headers.iter().any(|(name, _)| *name == "idempotent-replayed");
            (Outcome::Answered, Some(answer.status), replayed)
        }
        Ending::Hangup(_) | Ending::Half(_) => (Outcome::Dropped, None, false),
    };
    sandbox.calls.end(number, outcome, status, replayed);
    tracing::debug!(call = call.op.name(), request_id = %call.request_id, ?outcome, status, replayed, "sandbox call");
    ending
}

async fn perform(sandbox: &Arc<Sandbox>, call: &mut Call, subject: &Subject) -> Ending {
    call.ignores_key = sandbox.faults.strike(subject, &[Turn::AtTheDoor]).has(Kind::IgnoreKey).is_some();
    let admission = idempotency::admit(sandbox, call);
    if let Admission::Refused(refusal) = admission {
        return Ending::Answer(refusal.answer());
    }
    let plan = sandbox.faults.strike(subject, &[Turn::Before, Turn::During, Turn::After]);
    for fault in plan.at(Turn::Before) {
        plan.wait(fault).await;
        if let Some(ending) = strike::before(sandbox, call, &admission, fault).await {
            return ending;
        }
    }

    call.at_ms = clock::now_ms();
    call.decline = plan.has(Kind::Decline).and_then(|fault| fault.code.clone());
    let (answer, written) = match &admission {
        Admission::Replay(answer) => (answer.clone(), Written::read(sandbox)),
        Admission::Fresh { .. } => execute(sandbox, call, &plan),
        Admission::Refused(refusal) => (refusal.clone().answer(), Written::read(sandbox)),
    };
    if written.flushed_and_told(sandbox).await.is_err() {
        return Ending::Hangup(Hangup::Reset);
    }
    strike::after(sandbox, &plan, answer).await
}

/// Executes the call: one step under the lock, one line in the journal.
fn execute(sandbox: &Sandbox, call: &Call, plan: &Plan) -> (Answer, Written) {
    let mut world = sandbox.world();
    let mut change = Change::new(&mut world.state);
    let Done { mut answer, executed } =
        routes::act(&mut change, call).unwrap_or_else(|refusal| Done::read(refusal.answer()));
    if executed {
        if plan.has(Kind::ChargeThen500).is_some_and(|fault| fault.remember) {
            answer = strike::internal_error();
        }
        if let Some(record) = idempotency::record(call, &answer) {
            change.put(Put::Key(record));
        }
    }
    let written = Written::change(sandbox, change, &call.cause());
    drop(world);
    (answer, written)
}
