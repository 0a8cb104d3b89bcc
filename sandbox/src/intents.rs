//! Payment intents: create, confirm, cancel. The promise: a payment intent is charged at most once, whatever keys its
//! confirms carry, and never after it was cancelled. The bank page ends in the same `charge`.

use std::borrow::Cow;

use serde_json::json;
use url::Url;

use crate::answer::{Answer, Refusal};
use crate::cards;
use crate::disputes;
use crate::form::Params;
use crate::ids;
use crate::money;
use crate::records::{BankStep, CardError, Charge, Intent, IntentStatus, Method};
use crate::render::Renderer;
use crate::request::Call;
use crate::routes::Done;
use crate::state::{Change, Put, State};

const CREATE_PARAMS: &[&str] = &[
    "payment_method_types",
    "allowed_payment_method_types",
    "amount",
    "automatic_payment_methods",
    "capture_method",
    "confirmation_method",
    "currency",
    "description",
    "expand",
    "metadata",
    "receipt_email",
    "statement_descriptor",
    "statement_descriptor_suffix",
];
/// The same without the first, which the newer versions have given another name.
const NEW_CREATE_PARAMS: &[&str] = CREATE_PARAMS.split_at(1).1;
/// The first version that does not know it any more.
const TYPES_RENAMED_IN: &str = "2026-09-30";
const CONFIRM_PARAMS: &[&str] =
    &["expand", "off_session", "payment_method", "receipt_email", "return_url", "use_stripe_sdk"];
const CANCEL_PARAMS: &[&str] = &["cancellation_reason", "expand"];
const CANCEL_REASONS: &[&str] = &["abandoned", "duplicate", "fraudulent", "requested_by_customer"];
const EXPANDABLE: &[&str] = &["latest_charge", "payment_method"];
const MAX_DESCRIPTION_CHARS: usize = 1000;

pub fn create(change: &mut Change<'_>, call: &Call) -> Result<Done, Refusal> {
    let params = &call.params;
    params.only(if knows_types_by_their_old_name(&call.version) { CREATE_PARAMS } else { NEW_CREATE_PARAMS })?;
    params.required("amount")?;
    let currency = money::currency(params.required("currency")?)?;
    let amount = params.integer("amount")?.unwrap_or(0);
    money::check_charge(amount, &currency)?;
    let metadata = params.metadata()?;
    let description = params.text("description").map(|text| text.chars().take(MAX_DESCRIPTION_CHARS).collect());
    automatic_only(params)?;
    Renderer::new(change.state, &call.base, params, EXPANDABLE)?;

    let id = ids::new("pi");
    let intent = Intent {
        client_secret: format!("{id}_secret_{}", ids::random()),
        id,
        amount,
        currency,
        status: IntentStatus::RequiresPaymentMethod,
        description,
        receipt_email: params.text("receipt_email").map(str::to_owned),
        metadata,
        payment_method: None,
        latest_charge: None,
        last_error: None,
        step: None,
        created: call.now(),
        canceled_at: None,
        cancellation_reason: None,
    };
    change.put(Put::Intent(intent.clone()));
    answer(change.state, call, &intent)
}

pub fn retrieve(state: &State, call: &Call, id: &str) -> Result<Done, Refusal> {
    call.params.only(&["client_secret", "expand"])?;
    let intent = find(state, id)?;
    let body = Renderer::new(state, &call.base, &call.params, EXPANDABLE)?.intent(&intent);
    Ok(Done::read(Answer::json(200, &body)))
}

pub fn confirm(change: &mut Change<'_>, call: &Call, id: &str) -> Result<Done, Refusal> {
    let params = &call.params;
    params.only(CONFIRM_PARAMS)?;
    let return_url = params.address("return_url")?.map(String::from);
    Renderer::new(change.state, &call.base, params, EXPANDABLE)?;
    let mut intent = find(change.state, id)?.into_owned();
    if !intent.status.is_open() {
        return unexpected_state(change.state, call, &intent, "confirmed");
    }
    let chosen = params.text("payment_method").or(intent.payment_method.as_deref()).ok_or_else(|| {
        let what = "There is nothing to pay with: payment_method is required.";
        Refusal::invalid(what).code("parameter_missing").param("payment_method")
    })?;
    let method = find_or_make_method(change, chosen, call.now())?;

    if let Some(email) = params.text("receipt_email") {
        intent.receipt_email = Some(email.to_owned());
    }
    let decline = call.decline.as_deref();
    if method.conduct.bank_step && decline.is_none() {
        let number = intent.step.as_ref().map_or(1, |step| step.number + 1);
        intent.status = IntentStatus::RequiresAction;
        intent.payment_method = Some(method.id);
        intent.last_error = None;
        let expires_ms = Some(call.at_ms.saturating_add(call.bank_wait_ms()));
        intent.step =
            Some(BankStep { number, return_url, idempotency_key: call.key.clone(), decided: None, expires_ms });
        change.put(Put::Intent(intent.clone()));
        return answer(change.state, call, &intent);
    }
    let decline = decline.or(method.conduct.decline.as_deref()).map(cards::card_error);
    let intent = charge(change, intent, &method, decline, call.key.clone(), call.now());
    match &intent.last_error {
        None => answer(change.state, call, &intent),
        Some(error) => {
            let body = renderer(change.state, call)?.card_error(error, &intent);
            Ok(Done::executed(Answer::json(402, &body)))
        }
    }
}

pub fn cancel(change: &mut Change<'_>, call: &Call, id: &str) -> Result<Done, Refusal> {
    let params = &call.params;
    params.only(CANCEL_PARAMS)?;
    let reason = params.text("cancellation_reason");
    if reason.is_some_and(|reason| !CANCEL_REASONS.contains(&reason)) {
        let known = CANCEL_REASONS.join(", ");
        return Err(Refusal::invalid(format!("cancellation_reason is one of {known}.")).param("cancellation_reason"));
    }
    Renderer::new(change.state, &call.base, params, EXPANDABLE)?;
    let mut intent = find(change.state, id)?.into_owned();
    if !intent.status.is_open() {
        return unexpected_state(change.state, call, &intent, "canceled");
    }
    intent.status = IntentStatus::Canceled;
    intent.canceled_at = Some(call.now());
    intent.cancellation_reason = reason.map(str::to_owned);
    change.put(Put::Intent(intent.clone()));
    answer(change.state, call, &intent)
}

/// The one place where money moves: makes the charge, good or declined, and moves the intent with it.
pub fn charge(
    change: &mut Change<'_>,
    mut intent: Intent,
    method: &Method,
    decline: Option<CardError>,
    idempotency_key: Option<String>,
    now: i64,
) -> Intent {
    debug_assert!(intent.status.is_open(), "a closed payment intent must not be charged");
    let id = ids::new("ch");
    let error =
        decline.map(|error| CardError { charge: Some(id.clone()), payment_method: Some(method.id.clone()), ..error });
    intent.latest_charge = Some(id.clone());
    intent.last_error.clone_from(&error);
    if error.is_none() {
        intent.status = IntentStatus::Succeeded;
        intent.payment_method = Some(method.id.clone());
    } else {
        intent.status = IntentStatus::RequiresPaymentMethod;
        intent.payment_method = None;
    }
    let charge = Charge {
        id,
        amount: intent.amount,
        amount_refunded: 0,
        amount_disputed: 0,
        dispute: None,
        currency: intent.currency.clone(),
        payment_intent: intent.id.clone(),
        payment_method: method.clone(),
        description: intent.description.clone(),
        metadata: intent.metadata.clone(),
        idempotency_key,
        error,
        created: now,
    };
    change.put(Put::Charge(charge.clone()));
    change.put(Put::Intent(intent.clone()));
    if let Some(reason) = method.conduct.dispute.as_deref().filter(|_| charge.succeeded()) {
        // The table of test cards has no reason that is none.
        disputes::open(change, charge, None, reason, now).ok();
    }
    intent
}

fn find<'a>(state: &'a State, id: &str) -> Result<Cow<'a, Intent>, Refusal> {
    state.intents.get(id).ok_or_else(|| Refusal::no_such("payment_intent", "intent", id))
}

/// The payment method with this id; a test token becomes a payment method of its own, as the provider does it.
fn find_or_make_method(change: &mut Change<'_>, id: &str, now: i64) -> Result<Method, Refusal> {
    if let Some(method) = change.state.methods.get(id) {
        return Ok(method.into_owned());
    }
    let card = cards::find_by_token(id).ok_or_else(|| Refusal::missing("payment method", "payment_method", id))?;
    let method = Method {
        brand: card.brand().to_owned(),
        last4: card.last4().to_owned(),
        conduct: card.conduct(),
        ..cards::plain_method(ids::new("pm"), now)
    };
    change.put(Put::Method(method.clone()));
    Ok(method)
}

/// Versions begin with their date, so that their order is that of their texts.
fn knows_types_by_their_old_name(version: &str) -> bool {
    version < TYPES_RENAMED_IN
}

fn automatic_only(params: &Params) -> Result<(), Refusal> {
    for (name, allowed) in
        [("capture_method", &["automatic", "automatic_async"][..]), ("confirmation_method", &["automatic"])]
    {
        if params.text(name).is_some_and(|value| !allowed.contains(&value)) {
            return Err(Refusal::invalid(format!("The sandbox knows {name}={} only.", allowed[0])).param(name));
        }
    }
    // The newer versions of the API name the list anew.
    for name in ["payment_method_types", "allowed_payment_method_types"] {
        if params.list(name).iter().any(|kind| *kind != "card") {
            return Err(Refusal::invalid("The sandbox takes cards only.").param(name));
        }
    }
    Ok(())
}

/// The answer to a call that came too late. It was executed, so its key remembers it.
fn unexpected_state(state: &State, call: &Call, intent: &Intent, what: &str) -> Result<Done, Refusal> {
    let status = intent.status.name();
    let refusal = Refusal::invalid(format!("A payment intent whose status is {status} cannot be {what}."))
        .code("payment_intent_unexpected_state")
        .with("payment_intent", renderer(state, call)?.intent(intent));
    Ok(Done::executed(refusal.answer()))
}

fn answer(state: &State, call: &Call, intent: &Intent) -> Result<Done, Refusal> {
    Ok(Done::executed(Answer::json(200, &renderer(state, call)?.intent(intent))))
}

fn renderer<'a>(state: &'a State, call: &'a Call) -> Result<Renderer<'a>, Refusal> {
    Renderer::new(state, &call.base, &call.params, EXPANDABLE)
}

/// Adds what the shop learns when the bank sends the customer back; the query that was there stays.
pub fn return_address(return_url: &str, intent: &str, succeeded: bool) -> Option<String> {
    let mut url = Url::parse(return_url).ok()?;
    let status = if succeeded { "succeeded" } else { "failed" };
    crate::hosted::set_query(&mut url, &[("payment_intent", intent), ("redirect_status", status)]);
    Some(url.into())
}

/// For the garbled-answer faults: the object with another amount than was asked for and charged.
pub fn with_wrong(field: &str, body: &str) -> String {
    let Ok(mut object) = serde_json::from_str::<serde_json::Value>(body) else { return body.to_owned() };
    set_wrong(&mut object, field);
    object.to_string()
}

/// Changes a field of an object that is told wrongly.
pub fn set_wrong(object: &mut serde_json::Value, field: &str) {
    if let Some(value) = object.get_mut(field) {
        *value = match value.as_i64() {
            Some(amount) => json!(amount + 1),
            None if value == "xts" => json!("xxx"),
            None => json!("xts"),
        };
    }
}
