//! The control surface: what was really charged, what was called, which faults are set, and forgetting. It has no key of
//! its own: whoever reaches the sandbox may use it. Pages of other origins cannot, since its writes need a preflight that
//! nobody answers.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Response, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::answer::{Answer, Refusal};
use crate::events::Cause;
use crate::faults::{FaultOrder, Kind};
use crate::journal::Gone;
use crate::records::{Charge, Refund};
use crate::state::{Change, Put, State as Records};
use crate::written::Written;
use crate::{Sandbox, bank, clock, idempotency, pages};

/// Which part of the ledger or of the log of calls is wanted.
#[derive(Debug, Default, Deserialize)]
pub struct Filter {
    order: Option<String>,
    payment_intent: Option<String>,
    call: Option<String>,
}

/// Money that really moved.
pub async fn ledger(State(sandbox): State<Arc<Sandbox>>, Query(filter): Query<Filter>) -> Response<Body> {
    let (body, number) = {
        let world = sandbox.world();
        (moved(&world.state, &filter), sandbox.journal.newest())
    };
    written(&sandbox, number, Answer::json(200, &body)).await
}

fn moved(state: &Records, filter: &Filter) -> Value {
    let wanted = |charge: &Charge| {
        filter.order.as_ref().is_none_or(|order| charge.metadata.get("order") == Some(order))
            && filter.payment_intent.as_ref().is_none_or(|intent| &charge.payment_intent == intent)
    };
    let charges = state.charges.oldest_rows_first().filter(|charge| charge.succeeded() && wanted(charge));
    let refunds =
        state.refunds.oldest_rows_first().filter(|refund| state.charges.row(&refund.charge).is_some_and(wanted));
    json!({
        "charges": charges.map(charge_line).collect::<Vec<_>>(),
        "refunds": refunds.map(refund_line).collect::<Vec<_>>(),
    })
}

fn charge_line(charge: &Charge) -> Value {
    json!({
        "id": charge.id,
        "amount": charge.amount,
        "currency": charge.currency,
        "payment_intent": charge.payment_intent,
        "metadata": charge.metadata,
        "idempotency_key": charge.idempotency_key,
        "created": charge.created,
        "status": "succeeded",
        "payment_method": charge.payment_method.id,
        "refunded": charge.amount_refunded,
        "disputed": charge.amount_disputed,
    })
}

fn refund_line(refund: &Refund) -> Value {
    json!({
        "id": refund.id,
        "charge": refund.charge,
        "amount": refund.amount,
        "currency": refund.currency,
        "payment_intent": refund.payment_intent,
        "metadata": refund.metadata,
        "idempotency_key": refund.idempotency_key,
        "created": refund.created,
        "status": refund.status.name(),
    })
}

/// The newest calls, oldest first.
pub async fn calls(State(sandbox): State<Arc<Sandbox>>, Query(filter): Query<Filter>) -> Response<Body> {
    let calls = sandbox.calls.list(|entry| {
        (filter.order.is_none() || entry.order == filter.order)
            && (filter.payment_intent.is_none() || entry.payment_intent == filter.payment_intent)
            && filter.call.as_ref().is_none_or(|call| entry.call == call)
    });
    Answer::json(200, &json!({ "calls": calls })).into_response()
}

pub async fn set_fault(State(sandbox): State<Arc<Sandbox>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let order: FaultOrder = match read(&headers, &body) {
        Ok(order) => order,
        Err(refusal) => return refusal.answer().into_response(),
    };
    let (kind, ms) = (order.fault.kind, order.fault.ms);
    match sandbox.faults.set(order) {
        Ok(id) => {
            if kind == Kind::Refuse {
                sandbox.door.close(ms).await;
            }
            Answer::json(200, &json!({ "id": id })).into_response()
        }
        Err(refusal) => refusal.answer().into_response(),
    }
}

pub async fn list_faults(State(sandbox): State<Arc<Sandbox>>) -> Response<Body> {
    Answer::json(200, &sandbox.faults.list()).into_response()
}

pub async fn clear_faults(State(sandbox): State<Arc<Sandbox>>) -> Response<Body> {
    sandbox.faults.clear();
    Answer::json(200, &json!({ "cleared": true })).into_response()
}

/// Forgets everything: records, keys and the log of calls. Faults stay.
pub async fn erase(State(sandbox): State<Arc<Sandbox>>) -> Response<Body> {
    let number = {
        let mut world = sandbox.world();
        world.state = Records::default();
        sandbox.journal.erase()
    };
    sandbox.calls.clear();
    sandbox.courier.log.clear();
    if let Err(error) = sandbox.bring_in_endpoints() {
        return Refusal::invalid(error.to_string()).answer().into_response();
    }
    written(&sandbox, number, Answer::json(200, &json!({ "erased": true }))).await
}

/// Forgets all idempotency keys, as if their time were over.
pub async fn forget_keys(State(sandbox): State<Arc<Sandbox>>) -> Response<Body> {
    let now_ms = clock::now_ms();
    let (count, number) = {
        let mut world = sandbox.world();
        let count = idempotency::remembered(&world.state);
        let put = Put::KeysForgotten { until_ms: now_ms };
        world.state.apply(put.clone());
        (count, sandbox.write("forget_keys", now_ms, vec![put]))
    };
    written(&sandbox, number, Answer::json(200, &json!({ "forgotten": count }))).await
}

/// The page for people.
pub async fn home(State(sandbox): State<Arc<Sandbox>>) -> Response<Body> {
    let faults = sandbox.faults.in_force();
    let (page, number) = {
        let world = sandbox.world();
        (pages::home(&world.state, &sandbox.address, faults), sandbox.journal.newest())
    };
    written(&sandbox, number, Answer::html(200, page)).await
}

/// The page where the customer approves or refuses a payment.
pub async fn bank_page(State(sandbox): State<Arc<Sandbox>>, Path(id): Path<String>) -> Response<Body> {
    let (answer, number) = {
        let world = sandbox.world();
        (bank::page(&world.state, &id), sandbox.journal.newest())
    };
    written(&sandbox, number, answer).await
}

/// Reads the JSON of a control call. Another content type is refused, so that pages of other origins need a preflight.
pub fn read<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/json") {
        return Err(Refusal::new(415, "invalid_request_error", "Control calls take application/json."));
    }
    serde_json::from_slice(body).map_err(|error| Refusal::invalid(format!("This cannot be read: {error}.")))
}

/// The way of a control call that changes something: one step, one line in the journal, then the events and the answer.
pub async fn change(
    sandbox: &Arc<Sandbox>,
    call: &'static str,
    act: impl FnOnce(&mut Change<'_>, i64) -> Result<Value, Refusal>,
) -> Response<Body> {
    let now_ms = clock::now_ms();
    let (answer, step) = {
        let mut world = sandbox.world();
        let mut change = Change::new(&mut world.state);
        let answer = match act(&mut change, now_ms) {
            Ok(body) => Answer::json(200, &body),
            Err(refusal) => refusal.answer(),
        };
        (answer, Written::change(sandbox, change, &Cause::own(call, now_ms)))
    };
    match step.flushed_and_told(sandbox).await {
        Ok(()) => answer.into_response(),
        Err(Gone) => journal_is_gone(),
    }
}

fn journal_is_gone() -> Response<Body> {
    Refusal::new(500, "api_error", "The journal cannot be written.").answer().into_response()
}

async fn written(sandbox: &Sandbox, number: u64, answer: Answer) -> Response<Body> {
    match sandbox.journal.flushed(number).await {
        Ok(()) => answer.into_response(),
        Err(Gone) => journal_is_gone(),
    }
}
