//! The bank's step: a page where the customer approves or refuses a payment, as 3-D Secure asks. Each visit has a number;
//! a decision counts for the visit it was made in and counts once, so approving twice charges once and an old page decides
//! nothing.

use crate::answer::{Answer, Refusal};
use crate::cards;
use crate::intents::{charge, return_address};
use crate::pages;
use crate::records::{BankStep, CardError, Intent, IntentStatus};
use crate::request::Call;
use crate::routes::Done;
use crate::state::{Change, Put, State};

/// What `GET /bank/{intent}` shows.
pub fn page(state: &State, id: &str) -> Answer {
    let Some(intent) = state.intents.row(id) else { return unknown() };
    match &intent.step {
        Some(step) if step.decided.is_none() && intent.status == IntentStatus::RequiresAction => {
            Answer::html(200, pages::bank(intent, step.number))
        }
        Some(_) | None => over(intent),
    }
}

/// The customer's decision: `decision` is `approve` or `refuse`, `step` the visit's number.
pub fn decide(change: &mut Change<'_>, call: &Call, id: &str) -> Done {
    let Some(intent) = change.state.intents.row(id).cloned() else { return Done::read(unknown()) };
    let number = call.params.integer("step").ok().flatten().and_then(|number| u32::try_from(number).ok());
    let approved = match call.params.text("decision") {
        Some("approve") => true,
        Some("refuse") => false,
        Some(_) | None => return Done::read(page(change.state, id)),
    };
    let Some(step) = intent.step.clone().filter(|step| Some(step.number) == number) else {
        return Done::read(over(&intent));
    };
    if let Some(succeeded) = step.decided {
        return Done::read(send_back(&intent, &step, succeeded));
    }
    if intent.status != IntentStatus::RequiresAction {
        return Done::read(over(&intent));
    }
    let method = intent.payment_method.as_deref().and_then(|id| change.state.methods.row(id)).cloned();
    let Some(method) = method else { return Done::read(over(&intent)) };

    let decline = if approved { method.conduct.decline.as_deref() } else { Some("authentication_failed") };
    let decline = decline.map(cards::card_error);
    let succeeded = decline.is_none();
    let step = BankStep { decided: Some(succeeded), ..step };
    let intent = Intent { step: Some(step.clone()), ..intent };
    let intent = if approved {
        charge(change, intent, &method, decline, step.idempotency_key.clone(), call.now())
    } else {
        refuse(change, intent, decline.map(|error| CardError { payment_method: Some(method.id), ..error }))
    };
    Done::executed(send_back(&intent, &step, succeeded))
}

/// The bank stops waiting: as if the customer had refused, but nobody was there to be sent back.
pub fn expire(change: &mut Change<'_>, id: &str) -> Result<Intent, Refusal> {
    let found = change.state.intents.row(id).cloned();
    let intent = found.ok_or_else(|| Refusal::no_such("payment_intent", "intent", id))?;
    let step = intent.step.clone().filter(|step| step.decided.is_none());
    let Some(step) = step.filter(|_| intent.status == IntentStatus::RequiresAction) else {
        return Err(Refusal::invalid("The bank does not wait for this payment."));
    };
    let payment_method = intent.payment_method.clone();
    let error = CardError { payment_method, ..cards::card_error("authentication_failed") };
    let intent = Intent { step: Some(BankStep { decided: Some(false), ..step }), ..intent };
    Ok(refuse(change, intent, Some(error)))
}

/// Without the customer's approval the card is not even asked: no charge is made.
fn refuse(change: &mut Change<'_>, mut intent: Intent, error: Option<CardError>) -> Intent {
    intent.status = IntentStatus::RequiresPaymentMethod;
    intent.payment_method = None;
    intent.last_error = error;
    change.put(Put::Intent(intent.clone()));
    intent
}

fn send_back(intent: &Intent, step: &BankStep, succeeded: bool) -> Answer {
    let address = step.return_url.as_deref().and_then(|url| return_address(url, &intent.id, succeeded));
    address.map_or_else(|| over(intent), |address| Answer::see_other(&address))
}

fn over(intent: &Intent) -> Answer {
    let what = match intent.status {
        IntentStatus::Succeeded => "The payment was made. You can close this page and go back to the shop.",
        IntentStatus::Canceled => "The payment was cancelled, and nothing was charged. Please go back to the shop.",
        IntentStatus::RequiresPaymentMethod | IntentStatus::RequiresAction => {
            "This page is no longer needed, and nothing was charged by it. Please go back to the shop."
        }
    };
    Answer::html(200, pages::problem("Nothing to decide here", what))
}

fn unknown() -> Answer {
    let what = "There is no payment at this address. Please go back to the shop.";
    Answer::html(404, pages::problem("Payment not found", what))
}
