//! Lists of objects: newest first, in pages, with the provider's cursors and date filters. A page is never longer than 100.

use serde_json::{Value, json};

use crate::answer::{Answer, Refusal};
use crate::form::Params;
use crate::render::Renderer;
use crate::request::Call;
use crate::routes::Done;
use crate::state::{Row, State, Table};

const PAGE_PARAMS: [&str; 5] = ["created", "ending_before", "expand", "limit", "starting_after"];
const DEFAULT_LIMIT: i64 = 10;
const MAX_LIMIT: i64 = 100;

pub fn intents(state: &State, call: &Call) -> Result<Done, Refusal> {
    call.params.only(&PAGE_PARAMS)?;
    let expandable = &["data.latest_charge", "data.payment_method"];
    let renderer = Renderer::new(state, &call.base, &call.params, expandable)?;
    page(&state.intents, call, |_| true, |intent| renderer.intent(intent))
}

pub fn charges(state: &State, call: &Call) -> Result<Done, Refusal> {
    only_page_and(&call.params, &["payment_intent"])?;
    let renderer = Renderer::new(state, &call.base, &call.params, &["data.payment_intent"])?;
    let wanted = call.params.text("payment_intent");
    let keep = |charge: &crate::state::Charge| wanted.is_none_or(|id| charge.payment_intent == id);
    page(&state.charges, call, keep, |charge| renderer.charge(charge))
}

pub fn refunds(state: &State, call: &Call) -> Result<Done, Refusal> {
    only_page_and(&call.params, &["charge", "payment_intent"])?;
    let renderer = Renderer::new(state, &call.base, &call.params, &["data.charge", "data.payment_intent"])?;
    let (charge, intent) = (call.params.text("charge"), call.params.text("payment_intent"));
    let keep = |refund: &crate::state::Refund| {
        charge.is_none_or(|id| refund.charge == id) && intent.is_none_or(|id| refund.payment_intent == id)
    };
    page(&state.refunds, call, keep, |refund| renderer.refund(refund))
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
    let wanted = |row: &&T| keep(row) && dates.hold(row.created());
    let no_such = |name: &str, id: &str| Refusal::missing("object", name, id);

    // One more than asked for tells whether there is another page.
    let mut rows: Vec<&T> = match (params.text("starting_after"), params.text("ending_before")) {
        (Some(_), Some(_)) => {
            let what = "starting_after and ending_before exclude each other.";
            return Err(Refusal::invalid(what).param("starting_after"));
        }
        (Some(id), None) => {
            let older = table.older_than(id).ok_or_else(|| no_such("starting_after", id))?;
            older.filter(wanted).take(limit + 1).collect()
        }
        (None, Some(id)) => {
            let newer = table.newer_than(id).ok_or_else(|| no_such("ending_before", id))?;
            newer.filter(wanted).take(limit + 1).collect()
        }
        (None, None) => table.newest_first().filter(wanted).take(limit + 1).collect(),
    };
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    if params.text("ending_before").is_some() {
        rows.reverse();
    }
    let data: Vec<Value> = rows.into_iter().map(render).collect();
    let body = json!({"object": "list", "data": data, "has_more": has_more, "url": call.path});
    Ok(Done::read(Answer::json(200, &body)))
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

    fn hold(&self, created: i64) -> bool {
        (self.from..=self.to).contains(&created)
    }
}
