//! Lists of objects: newest first, in pages, with the provider's cursors and date filters. A page is never longer than 100.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::answer::{Answer, Refusal};
use crate::events;
use crate::form::Params;
use crate::records::{Dispute, Event, Refund};
use crate::render::{self, Renderer};
use crate::request::Call;
use crate::routes::Done;
use crate::state::State;
use crate::table::{Cursor, Row, Table};
use crate::webhooks;

const PAGE_PARAMS: [&str; 5] = ["created", "ending_before", "expand", "limit", "starting_after"];
const DEFAULT_LIMIT: i64 = 10;
const MAX_LIMIT: i64 = 100;
const MAX_EVENT_TYPES: usize = 20;

pub fn intents(state: &State, call: &Call) -> Result<Done, Refusal> {
    call.params.only(&PAGE_PARAMS)?;
    let expandable = &["data.latest_charge", "data.payment_method"];
    let renderer = Renderer::new(state, &call.base, &call.params, expandable)?;
    page(&state.intents, call, |_| true, |intent| renderer.intent(intent))
}

pub fn charges(state: &State, call: &Call) -> Result<Done, Refusal> {
    only_page_and(&call.params, &["payment_intent"])?;
    let renderer = Renderer::new(state, &call.base, &call.params, &["data.payment_intent"])?;
    let Some(id) = call.params.text("payment_intent") else {
        return page(&state.charges, call, |_| true, |charge| renderer.charge(charge));
    };
    // Its charges are known: no reason to look at a million others.
    let mut few = Table::default();
    if let Some(intent) = state.intents.get(id) {
        for charge in state.charges_of(&intent).filter_map(|id| state.charges.get(id)) {
            few.put(charge.into_owned());
        }
    }
    page(&few, call, |_| true, |charge| renderer.charge(charge))
}

pub fn refunds(state: &State, call: &Call) -> Result<Done, Refusal> {
    only_page_and(&call.params, &["charge", "payment_intent"])?;
    let renderer = Renderer::new(state, &call.base, &call.params, &["data.charge", "data.payment_intent"])?;
    let (charge, intent) = (call.params.text("charge"), call.params.text("payment_intent"));
    let keep = |refund: &Refund| {
        charge.is_none_or(|id| refund.charge == id) && intent.is_none_or(|id| refund.payment_intent == id)
    };
    page(&state.refunds, call, keep, |refund| renderer.refund(refund))
}

pub fn disputes(state: &State, call: &Call) -> Result<Done, Refusal> {
    only_page_and(&call.params, &["charge", "payment_intent"])?;
    let (charge, intent) = (call.params.text("charge"), call.params.text("payment_intent"));
    let keep = |dispute: &Dispute| {
        charge.is_none_or(|id| dispute.charge == id) && intent.is_none_or(|id| dispute.payment_intent == id)
    };
    page(&state.disputes, call, keep, render::dispute)
}

pub fn events(state: &State, call: &Call) -> Result<Done, Refusal> {
    let params = &call.params;
    only_page_and(params, &["type", "types", "delivery_success"])?;
    let (kind, kinds) = (params.text("type"), params.list("types"));
    if kind.is_some() && !kinds.is_empty() {
        return Err(Refusal::invalid("type and types exclude each other.").param("type"));
    }
    if kinds.len() > MAX_EVENT_TYPES {
        return Err(Refusal::invalid(format!("types has at most {MAX_EVENT_TYPES} values.")).param("types"));
    }
    let kinds = if let Some(kind) = kind { vec![kind] } else { kinds };
    let delivered = params.text("delivery_success").map(|text| text == "true");
    let keep = |event: &Event| {
        (kinds.is_empty() || events::is_one_of(&event.kind, &kinds))
            && delivered.is_none_or(|delivered| delivered != state.unsettled.contains_key(&event.id))
    };
    page(&state.events, call, keep, |event| events::render(state, &call.base, event, None))
}

pub fn endpoints(state: &State, call: &Call) -> Result<Done, Refusal> {
    only_page_and(&call.params, &[])?;
    page(&state.endpoints, call, |_| true, webhooks::render)
}

fn only_page_and(params: &Params, filters: &[&str]) -> Result<(), Refusal> {
    params.only(&[&PAGE_PARAMS, filters].concat())
}

fn page<T: Row>(
    table: &Table<T>,
    call: &Call,
    keep: impl Fn(&T) -> bool,
    render: impl Fn(&T) -> Value,
) -> Result<Done, Refusal> {
    let params = &call.params;
    let limit = params.integer("limit")?.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        let what = format!("limit must be between 1 and {MAX_LIMIT}.");
        return Err(Refusal::invalid(what).code("parameter_invalid_integer").param("limit"));
    }
    let limit = usize::try_from(limit).unwrap_or(1);
    let dates = Dates::read(params)?;
    let cursor = cursor(params)?;
    let no_such = || match cursor {
        Cursor::Newest => Refusal::invalid("This list has no beginning."),
        Cursor::OlderThan(id) => Refusal::missing("object", "starting_after", id),
        Cursor::NewerThan(id) => Refusal::missing("object", "ending_before", id),
    };
    // One more than asked for tells whether there is another page.
    let listed = table.list(dates.from, dates.to, cursor).ok_or_else(no_such)?;
    let mut rows: Vec<Cow<'_, T>> = listed.filter(|row| keep(row)).take(limit + 1).collect();
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    if matches!(cursor, Cursor::NewerThan(_)) {
        rows.reverse();
    }
    let data: Vec<Value> = rows.iter().map(|row| render(row)).collect();
    let body = json!({"object": "list", "data": data, "has_more": has_more, "url": call.path});
    Ok(Done::read(Answer::json(200, &body)))
}

fn cursor(params: &Params) -> Result<Cursor<'_>, Refusal> {
    match (params.text("starting_after"), params.text("ending_before")) {
        (Some(_), Some(_)) => {
            let what = "starting_after and ending_before exclude each other.";
            Err(Refusal::invalid(what).param("starting_after"))
        }
        (Some(id), None) => Ok(Cursor::OlderThan(id)),
        (None, Some(id)) => Ok(Cursor::NewerThan(id)),
        (None, None) => Ok(Cursor::Newest),
    }
}

/// `created=…` or `created[gte]=…` and its like, in seconds since 1970.
struct Dates {
    from: i64,
    to: i64,
}

impl Dates {
    fn read(params: &Params) -> Result<Self, Refusal> {
        let mut dates = Self { from: i64::MIN, to: i64::MAX };
        let at_least = |from: &mut i64, value: i64| *from = value.max(*from);
        let at_most = |to: &mut i64, value: i64| *to = value.min(*to);
        if let Some(exactly) = params.integer("created")? {
            dates = Self { from: exactly, to: exactly };
        }
        if let Some(value) = params.integer("created.gte")? {
            at_least(&mut dates.from, value);
        }
        if let Some(value) = params.integer("created.gt")? {
            at_least(&mut dates.from, value.saturating_add(1));
        }
        if let Some(value) = params.integer("created.lte")? {
            at_most(&mut dates.to, value);
        }
        if let Some(value) = params.integer("created.lt")? {
            at_most(&mut dates.to, value.saturating_sub(1));
        }
        Ok(dates)
    }
}
