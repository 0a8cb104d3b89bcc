//! Stripe's lists of events, charges and refunds, and single ones of them.
//!
//! Promise: the page itself is read strictly, each entry for itself: one that is odd is told as such and hides no other. Amounts
//! are translated as everywhere. Never: an entry without an id is passed over, since the next page hangs on it.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use time::OffsetDateTime;

use super::{
    classify::{Verdict, classify},
    http::{Reply, Silence},
    units::Units,
    webhook,
    wire::{self, ErrorBody, read},
};
use crate::provider::{
    NotSentReason, ProviderChargeId, ProviderEvent, ProviderPaymentIntentId, UnknownReason,
    ids::is_id,
    lists::{Entry, FindOutcome, ListOutcome, ListPage, Listed, ListedCharge, ListedRefund, ListedState, Place},
};

/// Longest word for an order that is handed on; ours have 36 characters.
const ORDER_MAX_BYTES: usize = 64;

/// A list as it comes, its entries unread.
#[derive(Deserialize)]
struct Page<'a> {
    object: String,
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
    has_more: bool,
}

/// What every entry has.
#[derive(Deserialize)]
struct Named {
    id: String,
    /// Whatever it is: an odd time must not hide the name.
    #[serde(default)]
    created: Value,
}

#[derive(Deserialize)]
struct Charge {
    id: String,
    amount: i64,
    #[serde(default)]
    amount_captured: Option<i64>,
    #[serde(default)]
    amount_refunded: i64,
    currency: String,
    created: i64,
    status: String,
    #[serde(default)]
    payment_intent: Option<String>,
    #[serde(default)]
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    order: Option<String>,
}

#[derive(Deserialize)]
struct Refund {
    id: String,
    amount: i64,
    currency: String,
    created: i64,
    status: String,
    #[serde(default)]
    charge: Option<String>,
}

/// The parameters of a page.
pub(super) fn query(page: &ListPage) -> Vec<(&'static str, String)> {
    let mut query = vec![("limit", page.limit.to_string())];
    let mut add = |name, value: Option<String>| query.extend(value.map(|value| (name, value)));
    add("created[gte]", page.from.map(|from| from.unix_timestamp().to_string()));
    add("created[lt]", page.until.map(|until| until.unix_timestamp().to_string()));
    match &page.place {
        Place::Newest => {}
        Place::OlderThan(id) => add("starting_after", Some(id.clone())),
        Place::NewerThan(id) => add("ending_before", Some(id.clone())),
    }
    query
}

/// What a page of events ended with.
pub(super) fn events(
    answer: Result<Reply, Silence>,
    now: OffsetDateTime,
    live: bool,
    units: Units,
) -> ListOutcome<ProviderEvent> {
    page(answer, |entry| webhook::open(entry, now, live, units))
}

/// What a page of charges ended with.
pub(super) fn charges(answer: Result<Reply, Silence>, units: Units) -> ListOutcome<ListedCharge> {
    page(answer, |entry| charge(entry, units))
}

/// What a page of refunds ended with.
pub(super) fn refunds(answer: Result<Reply, Silence>, units: Units) -> ListOutcome<ListedRefund> {
    page(answer, |entry| refund(entry, units))
}

/// What the look for one charge found.
pub(super) fn found_charge(answer: Result<Reply, Silence>, units: Units) -> FindOutcome<ListedCharge> {
    found(answer, |body| charge(body, units))
}

/// What the look for one refund found.
pub(super) fn found_refund(answer: Result<Reply, Silence>, units: Units) -> FindOutcome<ListedRefund> {
    found(answer, |body| refund(body, units))
}

fn page<T>(answer: Result<Reply, Silence>, entry: impl Fn(&[u8]) -> Option<T>) -> ListOutcome<T> {
    let reply = match checked(answer) {
        Ok(reply) => reply,
        Err(UnknownReason::NotFound) => return ListOutcome::NoSuchPlace,
        Err(reason) => return ListOutcome::CannotTell(reason),
    };
    read_page(&reply.body, entry).map_or(ListOutcome::CannotTell(UnknownReason::Unreadable), ListOutcome::Page)
}

fn read_page<T>(body: &[u8], entry: impl Fn(&[u8]) -> Option<T>) -> Option<Listed<T>> {
    let text = std::str::from_utf8(body).ok()?;
    let page: Page<'_> = serde_json::from_str(text).ok()?;
    if page.object != "list" {
        return None;
    }
    // The ends are where the next pages begin. Without their ids, there is no going on.
    let (newest, oldest) = match (page.data.first(), page.data.last()) {
        (Some(newest), Some(oldest)) => (Some(name(newest)?.id), Some(name(oldest)?.id)),
        (None, _) | (_, None) => (None, None),
    };
    let read_entry = |raw: &&RawValue| entry(raw.get().as_bytes()).map_or_else(|| unreadable(raw), Entry::Read);
    Some(Listed { entries: page.data.iter().map(read_entry).collect(), newest, oldest, has_more: page.has_more })
}

fn name(raw: &RawValue) -> Option<Named> {
    read::<Named>(raw.get().as_bytes()).filter(|named| is_id(&named.id))
}

fn unreadable<T>(raw: &RawValue) -> Entry<T> {
    let named = name(raw);
    let made = named.as_ref().and_then(|named| named.created.as_i64()).and_then(instant);
    Entry::Unreadable { id: named.map_or_else(|| "unnamed".to_owned(), |named| named.id), made }
}

fn found<T>(answer: Result<Reply, Silence>, object: impl Fn(&[u8]) -> Option<T>) -> FindOutcome<T> {
    match checked(answer) {
        Ok(reply) => object(&reply.body).map_or(FindOutcome::CannotTell(UnknownReason::Unreadable), FindOutcome::Found),
        Err(UnknownReason::NotFound) => FindOutcome::Missing,
        Err(reason) => FindOutcome::CannotTell(reason),
    }
}

/// An answer that says yes, or why there is none.
fn checked(answer: Result<Reply, Silence>) -> Result<Reply, UnknownReason> {
    let reply = match answer {
        Ok(reply) => reply,
        Err(Silence::NotSent(NotSentReason::NotConnected)) => return Err(UnknownReason::NotConnected),
        Err(Silence::NotSent(_)) => return Err(UnknownReason::NotAsked),
        Err(Silence::Unknown(reason)) => return Err(reason),
    };
    if reply.status == 200 {
        return Ok(reply);
    }
    let error = read::<ErrorBody>(&reply.body).map(|body| body.error);
    // A place in a list that is gone is a bad parameter to some versions, and a missing object to others.
    if matches!(reply.status, 400 | 404) && error.as_ref().is_some_and(is_missing) {
        return Err(UnknownReason::NotFound);
    }
    Err(match classify(reply.status, error.as_ref(), None) {
        Verdict::KeyRefused | Verdict::RateLimited => UnknownReason::NotAsked,
        Verdict::Busy => UnknownReason::Busy,
        // Only the provider's own word counts for "there is none", not that of something in between.
        Verdict::Declined | Verdict::Refused | Verdict::Unknown(UnknownReason::NotFound) => UnknownReason::Unlisted,
        Verdict::Unknown(reason) => reason,
    })
}

fn is_missing(error: &wire::ApiError) -> bool {
    error.kind == "invalid_request_error" && error.code.as_deref() == Some("resource_missing")
}

fn charge(body: &[u8], units: Units) -> Option<ListedCharge> {
    let charge = read::<Charge>(body)?;
    let state = match charge.status.as_str() {
        // Taken in part is nothing that this shop ever asks for.
        "succeeded" if charge.amount_captured.is_some_and(|captured| captured != charge.amount) => return None,
        "succeeded" => ListedState::Succeeded,
        "pending" => ListedState::Pending,
        "failed" => ListedState::Failed,
        _ => return None,
    };
    let money = units.incoming(charge.amount, &charge.currency)?;
    let refunded = Some(charge.amount_refunded).filter(|amount| *amount > 0);
    Some(ListedCharge {
        id: ProviderChargeId::parse(&charge.id).ok()?,
        money,
        created: instant(charge.created)?,
        state,
        payment_intent: charge.payment_intent.map(|id| ProviderPaymentIntentId::parse(&id)).transpose().ok()?,
        order: charge.metadata.and_then(|metadata| metadata.order).filter(|order| order.len() <= ORDER_MAX_BYTES),
        refunded_minor: refunded
            .map_or(Some(0), |amount| units.incoming(amount, &charge.currency).map(|money| money.minor))?,
    })
}

fn refund(body: &[u8], units: Units) -> Option<ListedRefund> {
    let refund = read::<Refund>(body)?;
    let state = match refund.status.as_str() {
        "succeeded" => ListedState::Succeeded,
        "pending" | "requires_action" => ListedState::Pending,
        "failed" | "canceled" => ListedState::Failed,
        _ => return None,
    };
    Some(ListedRefund {
        id: Some(refund.id).filter(|id| is_id(id))?,
        money: units.incoming(refund.amount, &refund.currency)?,
        created: instant(refund.created)?,
        state,
        charge: refund.charge.map(|id| ProviderChargeId::parse(&id)).transpose().ok()?,
    })
}

fn instant(seconds: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(seconds).ok()
}

#[cfg(test)]
#[path = "lists_tests.rs"]
mod tests;
