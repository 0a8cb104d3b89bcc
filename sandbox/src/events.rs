//! Events: what happened, each with the object as it was at that moment. They are found by comparing a record with the one
//! that it replaces, and written with the change that they tell of, so that no change is without its events and no event
//! without its change.

use serde_json::{Value, json};

use crate::answer::{Answer, Refusal};
use crate::ids;
use crate::records::{Charge, Dispute, Endpoint, Event, Intent, IntentStatus, Refund, RefundStatus, Snapshot};
use crate::render::{self, Renderer};
use crate::request::Call;
use crate::routes::Done;
use crate::state::{Put, State};
use crate::webhooks;

/// The version of the API whose shapes the sandbox has, where a call or an endpoint names none: the one that the official
/// client libraries of the day name.
pub const API_VERSION: &str = "2026-10-28.endive";

/// What happened, before it is an event.
pub struct Happening {
    pub kind: &'static str,
    pub snapshot: Snapshot,
}

/// What made a change.
pub struct Cause {
    pub call: &'static str,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// Of a call of the shop; what happens by itself or at the bank has none.
    pub request_id: Option<String>,
    pub idempotency_key: Option<String>,
}

impl Cause {
    /// Something that no call of the shop did.
    pub fn own(call: &'static str, at_ms: i64) -> Self {
        Self { call, at_ms, request_id: None, idempotency_key: None }
    }
}

/// What happens when a record is put into the state that holds the older one.
pub fn of(state: &State, put: &Put) -> Vec<Happening> {
    match put {
        Put::Intent(new) => of_intent(state.intents.get(&new.id).as_deref(), new),
        Put::Charge(new) => of_charge(state.charges.get(&new.id).as_deref(), new),
        Put::Refund(new) => of_refund(state.refunds.get(&new.id).as_deref(), new),
        Put::Dispute(new) => of_dispute(state.disputes.get(&new.id).as_deref(), new),
        Put::Method(_)
        | Put::Session(_)
        | Put::Key(_)
        | Put::KeysForgotten { .. }
        | Put::Event(_)
        | Put::Settled { .. }
        | Put::Endpoint(_)
        | Put::EndpointGone { .. }
        | Put::Bulk(_) => Vec::new(),
    }
}

fn of_intent(old: Option<&Intent>, new: &Intent) -> Vec<Happening> {
    let happening = |kind| Happening { kind, snapshot: Snapshot::Intent(Box::new(new.clone())) };
    let mut kinds = Vec::new();
    if old.is_none() {
        kinds.push("payment_intent.created");
    }
    let moved = old.is_none_or(|old| old.status != new.status);
    let step = |intent: &Intent| intent.step.as_ref().map(|step| step.number);
    match new.status {
        IntentStatus::Succeeded if moved => kinds.push("payment_intent.succeeded"),
        IntentStatus::Canceled if moved => kinds.push("payment_intent.canceled"),
        IntentStatus::RequiresAction if moved || old.and_then(step) != step(new) => {
            kinds.push("payment_intent.requires_action");
        }
        // A declined try leaves the status as it was; its charge tells it from other changes.
        IntentStatus::RequiresPaymentMethod
            if new.last_error.is_some() && old.is_some_and(|old| moved || old.latest_charge != new.latest_charge) =>
        {
            kinds.push("payment_intent.payment_failed");
        }
        IntentStatus::Succeeded
        | IntentStatus::Canceled
        | IntentStatus::RequiresAction
        | IntentStatus::RequiresPaymentMethod => {}
    }
    kinds.into_iter().map(happening).collect()
}

fn of_charge(old: Option<&Charge>, new: &Charge) -> Vec<Happening> {
    let kind = match old {
        None if new.succeeded() => "charge.succeeded",
        None => "charge.failed",
        Some(old) if new.amount_refunded > old.amount_refunded => "charge.refunded",
        Some(old) if (&old.description, &old.metadata) != (&new.description, &new.metadata) => "charge.updated",
        // A refund that failed or a dispute tells of itself.
        Some(_) => return Vec::new(),
    };
    vec![Happening { kind, snapshot: Snapshot::Charge(Box::new(new.clone())) }]
}

fn of_refund(old: Option<&Refund>, new: &Refund) -> Vec<Happening> {
    let kinds: &[&str] = match old {
        None => &["refund.created"],
        Some(old) if old.status != new.status && new.status == RefundStatus::Failed => {
            &["refund.updated", "refund.failed", "charge.refund.updated"]
        }
        Some(old) if old.status != new.status || old.metadata != new.metadata => {
            &["refund.updated", "charge.refund.updated"]
        }
        Some(_) => &[],
    };
    kinds.iter().map(|kind| Happening { kind, snapshot: Snapshot::Refund(Box::new(new.clone())) }).collect()
}

fn of_dispute(old: Option<&Dispute>, new: &Dispute) -> Vec<Happening> {
    let closed = old.is_some_and(|old| old.status.is_open()) && !new.status.is_open();
    let kinds: &[&str] = match old {
        None => &["charge.dispute.created", "charge.dispute.funds_withdrawn"],
        Some(_) if closed && new.status == crate::records::DisputeStatus::Won => {
            &["charge.dispute.funds_reinstated", "charge.dispute.closed"]
        }
        Some(_) if closed => &["charge.dispute.closed"],
        Some(_) => &["charge.dispute.updated"],
    };
    kinds.iter().map(|kind| Happening { kind, snapshot: Snapshot::Dispute(Box::new(new.clone())) }).collect()
}

/// The record of what happened, for the endpoints that are there now.
pub fn event(state: &State, happening: Happening, cause: &Cause) -> Event {
    let endpoints = state.endpoints.oldest_rows_first().filter(|endpoint| webhooks::wants(endpoint, happening.kind));
    Event {
        id: ids::new("evt"),
        kind: happening.kind.to_owned(),
        created: cause.at_ms / 1000,
        request_id: cause.request_id.clone(),
        idempotency_key: cause.idempotency_key.clone(),
        snapshot: happening.snapshot,
        endpoints: endpoints.map(|endpoint| endpoint.id.clone()).collect(),
    }
}

/// The event as clients see it.
pub fn render(state: &State, base: &str, event: &Event, endpoint: Option<&Endpoint>) -> Value {
    let renderer = Renderer { state, base, expand: Vec::new() };
    let object = match &event.snapshot {
        Snapshot::Intent(intent) => renderer.intent(intent),
        Snapshot::Charge(charge) => renderer.charge(charge),
        Snapshot::Refund(refund) => renderer.refund(refund),
        Snapshot::Dispute(dispute) => render::dispute(dispute),
        Snapshot::Other(object) => (**object).clone(),
    };
    json!({
        "id": event.id,
        "object": "event",
        "api_version": endpoint.and_then(|endpoint| endpoint.api_version.as_deref()).unwrap_or(API_VERSION),
        "created": event.created,
        "data": {"object": object},
        "livemode": false,
        "pending_webhooks": state.unsettled.get(&event.id).map_or(0, Vec::len),
        "request": {"id": event.request_id, "idempotency_key": event.idempotency_key},
        "type": event.kind,
    })
}

pub fn retrieve(state: &State, call: &Call, id: &str) -> Result<Done, Refusal> {
    call.params.only(&["expand"])?;
    let event = state.events.get(id).ok_or_else(|| Refusal::no_such("event", "id", id))?;
    Ok(Done::read(Answer::json(200, &render(state, &call.base, &event, None))))
}

/// Whether an event's type is one of the wanted ones: `*`, `charge.*` or the whole name.
pub fn is_one_of(kind: &str, wanted: &[impl AsRef<str>]) -> bool {
    wanted.iter().map(AsRef::as_ref).any(|wanted| match wanted.strip_suffix('*') {
        Some(start) => kind.starts_with(start),
        None => kind == wanted,
    })
}

/// The payment intent and the order that an event is about.
pub fn subject<'a>(state: &'a State, event: &'a Event) -> (Option<&'a str>, Option<String>) {
    let text = |value: &'a Value, name: &str| value.get(name).and_then(Value::as_str);
    let intent = match &event.snapshot {
        Snapshot::Intent(intent) => Some(intent.id.as_str()),
        Snapshot::Charge(charge) => Some(charge.payment_intent.as_str()),
        Snapshot::Refund(refund) => Some(refund.payment_intent.as_str()),
        Snapshot::Dispute(dispute) => Some(dispute.payment_intent.as_str()),
        Snapshot::Other(object) if text(object, "object") == Some("payment_intent") => text(object, "id"),
        Snapshot::Other(object) => text(object, "payment_intent"),
    };
    let order = intent.and_then(|id| state.intents.get(id)).and_then(|intent| intent.metadata.get("order").cloned());
    (intent, order)
}
