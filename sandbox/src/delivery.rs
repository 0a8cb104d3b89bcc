//! Sends events to webhook endpoints, in the background: no answer of the API waits for a delivery, unless a fault wants just
//! that. An event is tried again, with growing pauses, until its endpoint answers 2xx or the tries are used up; what was not
//! settled at the end of the process is tried again after the next start. The events of one call are first sent in their
//! order; otherwise there is no promise of an order, as with the real provider. Never: a delivery changes no money.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::deliveries::{Deliveries, Delivery, Outcome};
use crate::faults::{Fault, Kind, Plan, Subject, Turn};
use crate::records::{Endpoint, Event};
use crate::signing::{self, Forgery};
use crate::state::Put;
use crate::{Sandbox, clock, events, intents, webhooks};

/// How many events may be on the wire at once: more than the copies that a fault can ask for.
const MAX_AT_ONCE: usize = 128;
/// The longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_hours(1);
/// How much of an endpoint's answer is read, so that the connection can be used again.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// What an event that waits for a younger one waits at most, unless the fault says.
const OUT_OF_ORDER_MS: u64 = 10_000;

/// How events are delivered.
#[derive(Clone, Debug)]
pub struct Webhooks {
    /// Endpoints that are there from the start.
    pub endpoints: Vec<webhooks::SetEndpoint>,
    /// How long an endpoint may take to answer.
    pub timeout: Duration,
    /// The pause before the second try; each one after it is twice as long.
    pub first_pause: Duration,
    /// How often an event is tried at most.
    pub attempts: u32,
}

impl Default for Webhooks {
    /// The provider tries for three days; here a minute stands for them.
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            timeout: Duration::from_secs(10),
            first_pause: Duration::from_millis(500),
            attempts: 8,
        }
    }
}

/// What sends.
pub struct Courier {
    client: Result<reqwest::Client, String>,
    at_once: Semaphore,
    pub log: Deliveries,
}

impl Courier {
    pub fn new(webhooks: &Webhooks) -> Self {
        let builder = || {
            reqwest::Client::builder()
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .timeout(webhooks.timeout)
                .user_agent("Stripe/1.0 (+https://stripe.com/docs/webhooks)")
        };
        // A machine without root certificates can still post to http addresses.
        let client = builder().build().or_else(|_no_certificates| builder().tls_certs_only([]).build());
        let client = client.map_err(|error| error.to_string());
        Self { client, at_once: Semaphore::new(MAX_AT_ONCE), log: Deliveries::default() }
    }
}

/// One event on its way to one endpoint.
struct Parcel {
    sandbox: Arc<Sandbox>,
    event: Arc<Event>,
    endpoint: String,
    plan: Plan,
}

/// Begins to deliver the events of one call. Returns when those have arrived that a fault wants to be early.
pub async fn dispatch(sandbox: &Arc<Sandbox>, events: &[Arc<Event>]) {
    let planned: Vec<(Arc<Event>, Plan)> = {
        let world = sandbox.world();
        let reached = events.iter().filter(|event| !event.endpoints.is_empty());
        reached
            .map(|event| (Arc::clone(event), sandbox.faults.strike(&subject(&world.state, event), &[Turn::Delivery])))
            .collect()
    };
    let mut endpoints: Vec<&String> = planned.iter().flat_map(|(event, _)| &event.endpoints).collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    let mut early = Vec::new();
    for endpoint in endpoints {
        let parcels: Vec<Parcel> = planned
            .iter()
            .filter(|(event, _)| event.endpoints.contains(endpoint))
            .map(|(event, plan)| Parcel {
                sandbox: Arc::clone(sandbox),
                event: Arc::clone(event),
                endpoint: endpoint.clone(),
                plan: plan.clone(),
            })
            .collect();
        let is_early = parcels.iter().any(|parcel| parcel.plan.has(Kind::Early).is_some());
        let sending = spawn(sandbox, send_in_order(parcels));
        if is_early {
            early.push(sending);
        }
    }
    join_all(early).await;
}

/// Takes up again what an earlier process did not finish.
pub fn resume(sandbox: &Arc<Sandbox>) {
    let left: Vec<Parcel> = {
        let world = sandbox.world();
        let state = &world.state;
        let events = state.events.oldest_rows_first();
        events
            .filter_map(|event| Some((Arc::new(event.clone()), state.unsettled.get(&event.id)?)))
            .flat_map(|(event, endpoints)| {
                endpoints.iter().map(move |endpoint| (Arc::clone(&event), endpoint.clone())).collect::<Vec<_>>()
            })
            .map(|(event, endpoint)| Parcel {
                sandbox: Arc::clone(sandbox),
                event,
                endpoint,
                plan: sandbox.faults.none(),
            })
            .collect()
    };
    if !left.is_empty() {
        drop(spawn(sandbox, send_in_order(left)));
    }
}

fn spawn(
    sandbox: &Arc<Sandbox>,
    work: impl Future<Output = ()> + Send + 'static,
) -> tokio::task::JoinHandle<Option<()>> {
    sandbox.tasks.spawn(sandbox.stop.clone().run_until_cancelled_owned(work))
}

/// The first try of each, one after the other; what is held back or failed goes on by itself.
async fn send_in_order(parcels: Vec<Parcel>) {
    for parcel in parcels {
        let plan = parcel.plan.clone();
        if plan.has(Kind::Never).is_some() {
            parcel.drop_it();
            continue;
        }
        let is_held = plan.has(Kind::Late).is_some() || plan.has(Kind::OutOfOrder).is_some();
        let sandbox = Arc::clone(&parcel.sandbox);
        if is_held {
            drop(spawn(&sandbox, parcel.hold_and_send()));
        } else if !parcel.try_once(1).await {
            drop(spawn(&sandbox, parcel.try_again()));
        }
    }
}

impl Parcel {
    async fn hold_and_send(self) {
        if let Some(fault) = self.plan.has(Kind::Late) {
            self.plan.wait(fault).await;
        }
        if let Some(fault) = self.plan.has(Kind::OutOfOrder) {
            let newest = self.sandbox.courier.log.newest();
            let intent = self.subject().payment_intent;
            let other = |delivery: &Delivery| {
                delivery.event.as_deref() != Some(self.event.id.as_str()) && delivery.payment_intent == intent
            };
            let ms = if fault.ms > 0 { fault.ms } else { OUT_OF_ORDER_MS };
            let overtaken = self.sandbox.courier.log.until_ended(newest, other);
            tokio::time::timeout(Duration::from_millis(ms), overtaken).await.ok();
        }
        if !self.try_once(1).await {
            self.try_again().await;
        }
    }

    async fn try_again(self) {
        let webhooks = &self.sandbox.config.webhooks;
        let mut pause = webhooks.first_pause;
        for attempt in 2..=webhooks.attempts {
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(MAX_PAUSE);
            if self.try_once(attempt).await {
                return;
            }
        }
        self.sandbox.settle(&self.event.id, &self.endpoint);
    }

    /// Whether nothing is left to do: it arrived, or event or endpoint are gone.
    async fn try_once(&self, attempt: u32) -> bool {
        let copies = self.plan.has(Kind::Duplicate).map_or(1, |fault| fault.times.max(1));
        let tries = (0..copies).map(|_| send(&self.sandbox, &self.event.id, &self.endpoint, attempt, &self.plan));
        let ended = join_all(tries).await;
        if ended.iter().any(|sent| sent.as_ref().is_none_or(|sent| sent.outcome == Outcome::Delivered)) {
            self.sandbox.settle(&self.event.id, &self.endpoint);
            return true;
        }
        false
    }

    fn drop_it(&self) {
        let Some(endpoint) = self.sandbox.world().state.endpoints.row(&self.endpoint).cloned() else { return };
        let delivery = note(Some((&self.event, self.subject())), &endpoint, 1, &self.plan, Outcome::Dropped);
        self.sandbox.courier.log.begin(delivery);
        self.sandbox.settle(&self.event.id, &self.endpoint);
    }

    fn subject(&self) -> Subject {
        subject(&self.sandbox.world().state, &self.event)
    }
}

/// How one try ended.
pub struct Sent {
    pub endpoint: String,
    pub outcome: Outcome,
    pub answer: Result<u16, String>,
}

/// Sends an event to an endpoint once; `None` if one of the two is gone.
pub async fn send(sandbox: &Sandbox, event: &str, endpoint: &str, attempt: u32, plan: &Plan) -> Option<Sent> {
    let (endpoint, body, delivery) = {
        let world = sandbox.world();
        let state = &world.state;
        let (event, endpoint) = (state.events.row(event)?, state.endpoints.row(endpoint)?.clone());
        let object = events::render(state, &format!("http://{}", sandbox.address), event, Some(&endpoint));
        let about = subject(state, event);
        let delivery = note(Some((event, about)), &endpoint, attempt, plan, Outcome::Running);
        (endpoint, altered(object, plan), delivery)
    };
    // Laid out over lines, as the provider does it: whoever reads it and writes it again gets other bytes.
    let body = serde_json::to_string_pretty(&body).unwrap_or_default();
    Some(post(sandbox, &endpoint, &body, delivery, plan).await)
}

/// Sends any body, rightly signed unless the plan says otherwise.
pub async fn send_body(sandbox: &Sandbox, endpoint: &Endpoint, body: &str, plan: &Plan) -> Sent {
    let delivery = note(None, endpoint, 0, plan, Outcome::Running);
    post(sandbox, endpoint, body, delivery, plan).await
}

async fn post(sandbox: &Sandbox, endpoint: &Endpoint, body: &str, delivery: Delivery, plan: &Plan) -> Sent {
    let courier = &sandbox.courier;
    // The semaphore is never closed.
    let _permit = courier.at_once.acquire().await;
    let number = courier.log.begin(delivery);
    let started = Instant::now();
    let answer =
        exchange(sandbox, endpoint, body, plan.has(Kind::Forged).map(|fault| fault.forgery.unwrap_or_default())).await;
    let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let outcome = courier.log.end(number, &answer, ms);
    Sent { endpoint: endpoint.id.clone(), outcome, answer }
}

async fn exchange(sandbox: &Sandbox, endpoint: &Endpoint, body: &str, forgery: Option<Forgery>) -> Result<u16, String> {
    let now_ms = clock::now_ms();
    let signed = signing::sign(
        body,
        webhooks::secrets(endpoint, &sandbox.config.webhooks.endpoints, now_ms),
        now_ms / 1000,
        forgery,
    );
    let client = sandbox.courier.client.as_ref().map_err(Clone::clone)?;
    let mut request = client
        .post(&endpoint.url)
        .header("content-type", "application/json; charset=utf-8")
        .header("accept", "*/*; q=0.5, application/xml")
        .body(signed.body);
    if let Some(header) = signed.header {
        request = request.header("stripe-signature", header);
    }
    let mut answer = request.send().await.map_err(|error| cause(&error))?;
    let status = answer.status().as_u16();
    let mut read = 0;
    while let Ok(Some(chunk)) = answer.chunk().await {
        read += chunk.len();
        if read > MAX_ANSWER_BYTES {
            break;
        }
    }
    Ok(status)
}

/// The innermost error says what happened; the others would only add the address.
fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// What the faults make of the event.
fn altered(mut event: Value, plan: &Plan) -> Value {
    let wrong = [
        (Kind::WrongAmount, &["amount", "amount_received", "amount_captured"][..]),
        (Kind::WrongCurrency, &["currency"]),
    ];
    for (kind, fields) in wrong {
        if let Some(object) = event.pointer_mut("/data/object").filter(|_| plan.has(kind).is_some()) {
            for field in fields {
                intents::set_wrong(object, field);
            }
        }
    }
    if plan.has(Kind::WrongMode).is_some() {
        for path in ["/livemode", "/data/object/livemode"] {
            if let Some(mode) = event.pointer_mut(path) {
                *mode = json!(true);
            }
        }
    }
    event
}

fn note(
    event: Option<(&Event, Subject)>,
    endpoint: &Endpoint,
    attempt: u32,
    plan: &Plan,
    outcome: Outcome,
) -> Delivery {
    let about = event.as_ref().map(|(_, about)| about);
    Delivery {
        number: 0,
        at: clock::now_ms(),
        event: event.as_ref().map(|(event, _)| event.id.clone()),
        kind: event.as_ref().map(|(event, _)| event.kind.clone()),
        endpoint: endpoint.id.clone(),
        url: endpoint.url.clone(),
        attempt,
        order: about.and_then(|about| about.order.clone()),
        payment_intent: about.and_then(|about| about.payment_intent.clone()),
        faults: plan.names(),
        outcome,
        status: None,
        error: None,
        ms: None,
    }
}

/// What faults can know of an event.
fn subject(state: &crate::state::State, event: &Event) -> Subject {
    let (intent, order) = events::subject(state, event);
    Subject { call: "webhook", order, payment_intent: intent.map(str::to_owned), event: Some(event.kind.clone()) }
}

impl Sandbox {
    /// Notes that an event needs not be sent to an endpoint any more. Nobody waits for the line: without it the event would
    /// only be sent once more.
    fn settle(&self, event: &str, endpoint: &str) {
        let mut world = self.world();
        let waits = world.state.unsettled.get(event).is_some_and(|waiting| waiting.iter().any(|it| it == endpoint));
        if waits {
            let put = Put::Settled { event: event.to_owned(), endpoint: endpoint.to_owned() };
            world.state.apply(put.clone());
            self.write("webhook", clock::now_ms(), vec![put]);
        }
    }
}

/// Sends an event again, as often as a test wants and all copies at once.
pub async fn send_again(
    sandbox: &Sandbox,
    event: &str,
    endpoints: &[String],
    times: u32,
    faults: Vec<Fault>,
) -> Vec<Sent> {
    let plan = sandbox.faults.plan(faults);
    let tries = endpoints.iter().flat_map(|endpoint| (0..times).map(move |_| endpoint));
    let sent = join_all(tries.map(|endpoint| send(sandbox, event, endpoint, 0, &plan))).await;
    let sent: Vec<Sent> = sent.into_iter().flatten().collect();
    for arrived in sent.iter().filter(|sent| sent.outcome == Outcome::Delivered) {
        sandbox.settle(event, &arrived.endpoint);
    }
    sent
}
