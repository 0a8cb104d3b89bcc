//! The control surface of money that moves without the shop: payments and refunds made elsewhere, disputes, and what would
//! happen by itself later, now.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Refusal;
use crate::bulk::Bulk;
use crate::control::{change, read};
use crate::records::{Charge, DisputeStatus, Intent, IntentStatus, RefundStatus};
use crate::refunds::{No, Wanted};
use crate::render::{self, Renderer};
use crate::state::{Change, Put, State as Records};
use crate::{Sandbox, bank, cards, disputes, ids, intents, money, refunds};

/// The most payments that one call makes.
const MAX_BULK: u64 = 10_000_000;
const PREFIX_LENGTH: usize = 12;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Elsewhere {
    amount: i64,
    currency: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    /// In seconds since 1970; now if it is not given.
    created: Option<i64>,
    /// A token of a test card.
    payment_method: Option<String>,
    receipt_email: Option<String>,
    /// Whether there are no events of it.
    #[serde(default)]
    silent: bool,
}

/// A payment that the shop did not make: payment intent and charge at once.
pub async fn charge(State(sandbox): State<Arc<Sandbox>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let order: Elsewhere = match read(&headers, &body) {
        Ok(order) => order,
        Err(refusal) => return refusal.answer().into_response(),
    };
    change(&sandbox, "elsewhere", |change, now_ms| pay(change, order, now_ms, &sandbox.address)).await
}

fn pay(change: &mut Change<'_>, order: Elsewhere, now_ms: i64, address: &str) -> Result<Value, Refusal> {
    if order.silent {
        change.be_silent();
    }
    let currency = money::currency(&order.currency)?;
    money::check_charge(order.amount, &currency)?;
    let token = order.payment_method.as_deref().unwrap_or("pm_card_visa");
    let card =
        cards::find_by_token(token).ok_or_else(|| Refusal::missing("payment method", "payment_method", token))?;
    let created = order.created.unwrap_or(now_ms / 1000);
    let plain = cards::plain_method(ids::new("pm"), created);
    let method = crate::records::Method { conduct: card.conduct(), ..plain };
    change.put(Put::Method(method.clone()));
    let id = ids::new("pi");
    let intent = Intent {
        client_secret: format!("{id}_secret_{}", ids::random()),
        id,
        amount: order.amount,
        currency,
        status: IntentStatus::RequiresPaymentMethod,
        description: None,
        receipt_email: order.receipt_email,
        metadata: order.metadata,
        payment_method: None,
        latest_charge: None,
        last_error: None,
        step: None,
        created,
        canceled_at: None,
        cancellation_reason: None,
    };
    change.put(Put::Intent(intent.clone()));
    let decline = method.conduct.decline.as_deref().map(cards::card_error);
    let intent = intents::charge(change, intent, &method, decline, None, created);
    let base = format!("http://{address}");
    let renderer = Renderer { state: change.state, base: &base, expand: Vec::new() };
    let made = intent.latest_charge.as_deref().and_then(|id| change.state.charges.row(id));
    Ok(json!({"payment_intent": renderer.intent(&intent), "charge": made.map(|charge| renderer.charge(charge))}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BulkOrder {
    count: u64,
    /// Of the first one.
    created: i64,
    #[serde(default = "one")]
    per_second: u64,
    amount: i64,
    #[serde(default = "one")]
    amounts: u64,
    currency: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    /// 12 letters and digits; random ones if they are not given.
    prefix: Option<String>,
}

fn one() -> u64 {
    1
}

/// Many payments that follow a pattern. They are as good as others, but there are no events of them.
pub async fn bulk(State(sandbox): State<Arc<Sandbox>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let order: BulkOrder = match read(&headers, &body) {
        Ok(order) => order,
        Err(refusal) => return refusal.answer().into_response(),
    };
    change(&sandbox, "bulk", |change, _now_ms| {
        let bulk = check_bulk(change.state, order)?;
        let (first, last) = (bulk.intent(0), bulk.intent(bulk.count - 1));
        let body = json!({
            "count": bulk.count,
            "prefix": bulk.prefix,
            "first": {"payment_intent": first.id, "charge": first.latest_charge, "created": first.created},
            "last": {"payment_intent": last.id, "charge": last.latest_charge, "created": last.created},
        });
        change.put(Put::Bulk(bulk));
        Ok(body)
    })
    .await
}

fn check_bulk(state: &Records, order: BulkOrder) -> Result<Bulk, Refusal> {
    let currency = money::currency(&order.currency)?;
    money::check_charge(order.amount, &currency)?;
    let prefix = order.prefix.unwrap_or_else(|| ids::random().chars().take(PREFIX_LENGTH).collect());
    let fits = prefix.len() == PREFIX_LENGTH && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_new = state.intents.get(&format!("pi_{prefix}{:012}", 0)).is_none();
    let bounded = (1..=MAX_BULK).contains(&order.count)
        && (1..=MAX_BULK).contains(&order.per_second)
        && (1..=MAX_BULK).contains(&order.amounts);
    if !(fits && is_new && bounded) {
        let what = format!(
            "A bulk has 1 to {MAX_BULK} payments, as many in a second and different amounts at most, and a prefix of \
             {PREFIX_LENGTH} letters and digits that no other bulk has."
        );
        return Err(Refusal::invalid(what));
    }
    Ok(Bulk {
        prefix,
        count: order.count,
        created: order.created,
        per_second: order.per_second,
        amount: order.amount,
        amounts: order.amounts,
        currency,
        metadata: order.metadata,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefundElsewhere {
    charge: Option<String>,
    payment_intent: Option<String>,
    amount: Option<i64>,
    reason: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    status: Option<RefundStatus>,
    #[serde(default)]
    silent: bool,
}

/// A refund that the shop did not make.
pub async fn refund(State(sandbox): State<Arc<Sandbox>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let order: RefundElsewhere = match read(&headers, &body) {
        Ok(order) => order,
        Err(refusal) => return refusal.answer().into_response(),
    };
    let wait_ms = i64::try_from(sandbox.config.refund_wait.as_millis()).unwrap_or(i64::MAX);
    change(&sandbox, "refund_elsewhere", |change, now_ms| {
        if order.silent {
            change.be_silent();
        }
        if order.status.is_some_and(|status| !status.counts()) {
            return Err(Refusal::invalid("A new refund has not failed yet, and is not canceled.").param("status"));
        }
        let wanted = Wanted {
            charge: order.charge.as_deref(),
            payment_intent: order.payment_intent.as_deref(),
            amount: order.amount,
            reason: order.reason.as_deref(),
            metadata: order.metadata,
            idempotency_key: None,
            now_ms,
            wait_ms,
            status: order.status,
        };
        let refund = refunds::make(change, wanted).map_err(|no| match no {
            No::Refused(refusal) | No::NotRefundable(refusal) => refusal,
        })?;
        Ok(Renderer { state: change.state, base: "", expand: Vec::new() }.refund(&refund))
    })
    .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefundEnd {
    status: RefundStatus,
    failure_reason: Option<String>,
}

/// Lets a refund succeed or fail now.
pub async fn settle_refund(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let order: RefundEnd = match read(&headers, &body) {
        Ok(order) => order,
        Err(refusal) => return refusal.answer().into_response(),
    };
    change(&sandbox, "settle_refund", |change, _now_ms| {
        let refund = refunds::settle(change, &id, order.status, order.failure_reason.as_deref())?;
        Ok(Renderer { state: change.state, base: "", expand: Vec::new() }.refund(&refund))
    })
    .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DisputeOrder {
    charge: Option<String>,
    payment_intent: Option<String>,
    amount: Option<i64>,
    reason: Option<String>,
}

/// Opens a dispute.
pub async fn dispute(State(sandbox): State<Arc<Sandbox>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let order: DisputeOrder = match read(&headers, &body) {
        Ok(order) => order,
        Err(refusal) => return refusal.answer().into_response(),
    };
    change(&sandbox, "dispute", |change, now_ms| {
        let charge = named_charge(change.state, order.charge.as_deref(), order.payment_intent.as_deref())?;
        let reason = order.reason.as_deref().unwrap_or("fraudulent");
        Ok(render::dispute(&disputes::open(change, charge, order.amount, reason, now_ms / 1000)?))
    })
    .await
}

fn named_charge(state: &Records, charge: Option<&str>, intent: Option<&str>) -> Result<Charge, Refusal> {
    let of_intent = intent.and_then(|id| state.intents.get(id)).and_then(|intent| intent.latest_charge.clone());
    let id = charge.map(str::to_owned).or(of_intent);
    let found = id.and_then(|id| state.charges.get(&id).map(std::borrow::Cow::into_owned));
    found.ok_or_else(|| Refusal::invalid("There is no such charge. Name charge or payment_intent."))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DisputeEnd {
    status: DisputeStatus,
}

/// Closes a dispute as won or lost, or lets the bank look at it.
pub async fn settle_dispute(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let order: DisputeEnd = match read(&headers, &body) {
        Ok(order) => order,
        Err(refusal) => return refusal.answer().into_response(),
    };
    change(&sandbox, "settle_dispute", |change, _now_ms| {
        Ok(render::dispute(&disputes::settle(change, &id, order.status)?))
    })
    .await
}

/// Lets the bank stop waiting now.
pub async fn expire(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    if let Err(refusal) = read::<BTreeMap<String, String>>(&headers, &body) {
        return refusal.answer().into_response();
    }
    change(&sandbox, "expire", |change, _now_ms| {
        let intent = bank::expire(change, &id)?;
        Ok(Renderer { state: change.state, base: "", expand: Vec::new() }.intent(&intent))
    })
    .await
}
