//! Charges and refunds. Refunds of a charge never add up to more than the charge: the sum is kept on the charge itself and
//! changes in the same step as the refund is made.

use crate::answer::{Answer, Refusal};
use crate::ids;
use crate::money;
use crate::render::Renderer;
use crate::request::Call;
use crate::routes::Done;
use crate::state::{Change, Charge, IntentStatus, Put, Refund, State};

const REFUND_PARAMS: &[&str] = &["amount", "charge", "expand", "metadata", "payment_intent", "reason"];
const REFUND_REASONS: &[&str] = &["duplicate", "fraudulent", "requested_by_customer"];
const CHARGE_EXPANDABLE: &[&str] = &["payment_intent"];
const REFUND_EXPANDABLE: &[&str] = &["charge", "payment_intent"];

pub fn retrieve(state: &State, call: &Call, id: &str) -> Result<Done, Refusal> {
    call.params.only(&["expand"])?;
    let charge = state.charges.get(id).ok_or_else(|| Refusal::no_such("charge", "id", id))?;
    let body = Renderer::new(state, &call.base, &call.params, CHARGE_EXPANDABLE)?.charge(charge);
    Ok(Done::read(Answer::json(200, &body)))
}

pub fn retrieve_refund(state: &State, call: &Call, id: &str) -> Result<Done, Refusal> {
    call.params.only(&["expand"])?;
    let refund = state.refunds.get(id).ok_or_else(|| Refusal::no_such("refund", "id", id))?;
    let body = Renderer::new(state, &call.base, &call.params, REFUND_EXPANDABLE)?.refund(refund);
    Ok(Done::read(Answer::json(200, &body)))
}

pub fn refund(change: &mut Change<'_>, call: &Call) -> Result<Done, Refusal> {
    let params = &call.params;
    params.only(REFUND_PARAMS)?;
    let asked = params.integer("amount")?;
    if asked.is_some_and(|amount| amount < 1) {
        let what = "The amount of a refund must be at least 1.";
        return Err(Refusal::invalid(what).code("parameter_invalid_integer").param("amount"));
    }
    let reason = params.text("reason");
    if reason.is_some_and(|reason| !REFUND_REASONS.contains(&reason)) {
        let known = REFUND_REASONS.join(", ");
        return Err(Refusal::invalid(format!("reason is one of {known}.")).param("reason"));
    }
    let metadata = params.metadata()?;
    Renderer::new(change.state, &call.base, params, REFUND_EXPANDABLE)?;
    let mut source = find_charge(change.state, call)?.clone();

    let left = source.amount - source.amount_refunded;
    let amount = asked.unwrap_or(left);
    if let Some(refusal) = not_refundable(&source, left, amount) {
        return Ok(Done::executed(refusal.answer()));
    }
    let refund = Refund {
        id: ids::new("re"),
        charge: source.id.clone(),
        payment_intent: source.payment_intent.clone(),
        amount,
        currency: source.currency.clone(),
        reason: reason.map(str::to_owned),
        metadata,
        idempotency_key: call.key.clone(),
        created: call.now(),
    };
    source.amount_refunded += amount;
    change.put(Put::Charge(source));
    change.put(Put::Refund(refund.clone()));
    let body = Renderer::new(change.state, &call.base, params, REFUND_EXPANDABLE)?.refund(&refund);
    Ok(Done::executed(Answer::json(200, &body)))
}

fn not_refundable(charge: &Charge, left: i64, amount: i64) -> Option<Refusal> {
    if !charge.succeeded() {
        let what = "This charge did not succeed, so nothing of it can be refunded.";
        Some(Refusal::invalid(what).param("charge"))
    } else if left == 0 {
        Some(Refusal::invalid("This charge was refunded completely before.").code("charge_already_refunded"))
    } else if amount > left {
        let (amount, left) = (money::display(amount, &charge.currency), money::display(left, &charge.currency));
        Some(Refusal::invalid(format!("{amount} is more than the {left} that are left to refund.")).param("amount"))
    } else {
        None
    }
}

fn find_charge<'a>(state: &'a State, call: &Call) -> Result<&'a Charge, Refusal> {
    match (call.params.text("charge"), call.params.text("payment_intent")) {
        (Some(id), None) => state.charges.get(id).ok_or_else(|| Refusal::missing("charge", "charge", id)),
        (None, Some(id)) => {
            let missing = || Refusal::missing("payment_intent", "payment_intent", id);
            let intent = state.intents.get(id).ok_or_else(missing)?;
            let charge = intent.latest_charge.as_deref().and_then(|id| state.charges.get(id));
            charge.filter(|_| intent.status == IntentStatus::Succeeded).ok_or_else(|| {
                Refusal::invalid("This payment intent has no successful charge to refund.").param("payment_intent")
            })
        }
        (Some(_), Some(_)) => Err(Refusal::invalid("Name either charge or payment_intent, not both.").param("charge")),
        (None, None) => {
            let what = "Name what to refund: charge or payment_intent.";
            Err(Refusal::invalid(what).code("parameter_missing").param("charge"))
        }
    }
}
