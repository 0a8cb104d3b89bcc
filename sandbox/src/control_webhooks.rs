//! The control surface of events: endpoints with a known secret, rotation, deliveries, and events that a test wants to see on
//! the wire.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::{Answer, Refusal};
use crate::control::{change, read};
use crate::delivery::{self, Sent};
use crate::events;
use crate::faults::{Fault, Kind};
use crate::ids;
use crate::records::{Endpoint, Event, Snapshot};
use crate::state::Put;
use crate::{Sandbox, webhooks};

/// The most copies that one call sends.
const MAX_TIMES: u32 = 50;
/// How long an old secret is valid after a rotation, unless the call says.
const OLD_SECRET_VALID: Duration = Duration::from_hours(24);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndpointOrder {
    url: String,
    secret: Option<String>,
    #[serde(default)]
    enabled_events: Vec<String>,
}

/// Makes an endpoint, or gives the one with this address another secret and other events.
pub async fn set_endpoint(State(sandbox): State<Arc<Sandbox>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let order: EndpointOrder = match read(&headers, &body) {
        Ok(order) => order,
        Err(refusal) => return refusal.answer().into_response(),
    };
    change(&sandbox, "set_endpoint", |change, now_ms| {
        let known = change.state.endpoints.oldest_rows_first().find(|endpoint| endpoint.url == order.url).cloned();
        let made = match known {
            Some(old) => Endpoint {
                secret: order.secret.or(old.secret),
                enabled_events: if order.enabled_events.is_empty() { old.enabled_events } else { order.enabled_events },
                disabled: false,
                ..old
            },
            None => webhooks::endpoint(change.state, &order.url, order.enabled_events, order.secret, now_ms / 1000)?,
        };
        change.put(Put::Endpoint(made.clone()));
        Ok(with_secret(&made))
    })
    .await
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rotation {
    secret: Option<String>,
    old_valid_ms: Option<u64>,
}

/// Gives an endpoint a new secret; the old one signs as well until it expires.
pub async fn rotate(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let order: Rotation = match read(&headers, &body) {
        Ok(order) => order,
        Err(refusal) => return refusal.answer().into_response(),
    };
    change(&sandbox, "rotate", |change, now_ms| {
        let mut endpoint = webhooks::find(change.state, &id)?;
        let valid = order.old_valid_ms.map_or(OLD_SECRET_VALID, Duration::from_millis);
        let until_ms = now_ms.saturating_add(i64::try_from(valid.as_millis()).unwrap_or(i64::MAX));
        let old = webhooks::secret(&endpoint, &sandbox.config.webhooks.endpoints).map(str::to_owned);
        endpoint.secret = Some(order.secret.unwrap_or_else(|| ids::new("whsec")));
        endpoint.old_secrets.retain(|(_, until)| *until > now_ms);
        if let Some(old) = old {
            endpoint.old_secrets.insert(0, (old, until_ms));
        }
        change.put(Put::Endpoint(endpoint.clone()));
        Ok(with_secret(&endpoint))
    })
    .await
}

fn with_secret(endpoint: &Endpoint) -> Value {
    let mut body = webhooks::render(endpoint);
    if let Some(fields) = body.as_object_mut() {
        fields.insert("secret".into(), json!(endpoint.secret));
    }
    body
}

/// Which deliveries are wanted.
#[derive(Debug, Default, Deserialize)]
pub struct Filter {
    event: Option<String>,
    endpoint: Option<String>,
    order: Option<String>,
    payment_intent: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// The newest tries, oldest first.
pub async fn deliveries(State(sandbox): State<Arc<Sandbox>>, Query(filter): Query<Filter>) -> Response<Body> {
    let found = sandbox.courier.log.list(|delivery| {
        let kind = delivery.kind.as_deref().unwrap_or_default();
        (filter.event.is_none() || delivery.event == filter.event)
            && filter.endpoint.as_ref().is_none_or(|endpoint| delivery.endpoint == *endpoint)
            && (filter.order.is_none() || delivery.order == filter.order)
            && (filter.payment_intent.is_none() || delivery.payment_intent == filter.payment_intent)
            && filter.kind.as_ref().is_none_or(|wanted| events::is_one_of(kind, std::slice::from_ref(wanted)))
    });
    let unsettled = sandbox.world().state.unsettled.len();
    Answer::json(200, &json!({ "deliveries": found, "unsettled": unsettled })).into_response()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Again {
    endpoint: Option<String>,
    times: Option<u32>,
    #[serde(default)]
    faults: Vec<Fault>,
}

/// Delivers an event again, to all endpoints or to one, and answers when every copy was answered.
pub async fn deliver(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let sent = async {
        let order: Again = read(&headers, &body)?;
        let times = check_times(order.times)?;
        check_faults(&order.faults)?;
        let endpoints = {
            let world = sandbox.world();
            world.state.events.row(&id).ok_or_else(|| Refusal::no_such("event", "id", &id))?;
            endpoints(&world.state, order.endpoint.as_deref())?
        };
        let ids: Vec<String> = endpoints.into_iter().map(|endpoint| endpoint.id).collect();
        Ok(delivery::send_again(&sandbox, &id, &ids, times, order.faults).await)
    };
    told(sent.await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Injection {
    /// An event of this type, about `object`: listed and delivered as any other.
    #[serde(rename = "type")]
    kind: Option<String>,
    object: Option<Value>,
    /// Or these bytes, signed rightly and sent once, whatever they are.
    body: Option<String>,
    endpoint: Option<String>,
    times: Option<u32>,
    #[serde(default)]
    faults: Vec<Fault>,
}

/// Makes an event that nothing caused, or sends a body that is none.
pub async fn inject(State(sandbox): State<Arc<Sandbox>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let order: Injection = match read(&headers, &body) {
        Ok(order) => order,
        Err(refusal) => return refusal.answer().into_response(),
    };
    match (order.kind, order.object, order.body) {
        (Some(kind), Some(object), None) => {
            change(&sandbox, "inject", |change, now_ms| {
                let wanted = change.state.endpoints.oldest_rows_first().filter(|it| webhooks::wants(it, &kind));
                let endpoints = wanted.map(|endpoint| endpoint.id.clone()).collect();
                let event = Event {
                    id: ids::new("evt"),
                    kind,
                    created: now_ms / 1000,
                    request_id: None,
                    idempotency_key: None,
                    snapshot: Snapshot::Other(Box::new(object)),
                    endpoints,
                };
                let id = event.id.clone();
                change.tell(event);
                Ok(json!({ "id": id }))
            })
            .await
        }
        (None, None, Some(text)) => {
            let sent = async {
                let times = check_times(order.times)?;
                check_faults(&order.faults)?;
                let endpoints = endpoints(&sandbox.world().state, order.endpoint.as_deref())?;
                let plan = sandbox.faults.plan(order.faults);
                let copies = endpoints.iter().flat_map(|endpoint| (0..times).map(move |_| endpoint));
                let sends = copies.map(|endpoint| delivery::send_body(&sandbox, endpoint, &text, &plan));
                Ok(futures::future::join_all(sends).await)
            };
            told(sent.await)
        }
        _ => Refusal::invalid("An event has either type and object, or body.").answer().into_response(),
    }
}

fn check_times(times: Option<u32>) -> Result<u32, Refusal> {
    let times = times.unwrap_or(1);
    if (1..=MAX_TIMES).contains(&times) {
        return Ok(times);
    }
    Err(Refusal::invalid(format!("times is between 1 and {MAX_TIMES}.")))
}

fn check_faults(faults: &[Fault]) -> Result<(), Refusal> {
    let known = [Kind::Forged, Kind::WrongAmount, Kind::WrongCurrency, Kind::WrongMode];
    if faults.iter().all(|fault| known.contains(&fault.kind)) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("faults are of the kinds {}.", known.map(Kind::name).join(", "))))
}

fn endpoints(state: &crate::state::State, id: Option<&str>) -> Result<Vec<Endpoint>, Refusal> {
    match id {
        Some(id) => Ok(vec![webhooks::find(state, id)?]),
        None => Ok(state.endpoints.oldest_rows_first().cloned().collect()),
    }
}

fn told(sent: Result<Vec<Sent>, Refusal>) -> Response<Body> {
    let lines = |sent: Vec<Sent>| {
        sent.into_iter()
            .map(|sent| {
                let (status, error) = match sent.answer {
                    Ok(status) => (Some(status), None),
                    Err(error) => (None, Some(error)),
                };
                json!({"endpoint": sent.endpoint, "outcome": sent.outcome, "status": status, "error": error})
            })
            .collect::<Vec<_>>()
    };
    match sent {
        Ok(sent) => Answer::json(200, &json!({ "sent": lines(sent) })).into_response(),
        Err(refusal) => refusal.answer().into_response(),
    }
}
