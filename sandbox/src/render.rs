//! The provider's JSON objects, as clients see them. Pure: the same records always give the same bytes.

use serde_json::{Map, Value, json};

use crate::answer::Refusal;
use crate::form::Params;
use crate::records::{CardError, Charge, Dispute, DisputeStatus, Intent, IntentStatus, Method, Refund, Session};
use crate::state::State;

const MAX_EXPANSIONS: usize = 8;
/// How long a shop has to answer a dispute.
const DISPUTE_SECONDS: i64 = 7 * 24 * 3600;

/// Renders objects for one call: with its view of the state, the address it came to, and what it wants expanded.
pub struct Renderer<'a> {
    pub state: &'a State,
    /// Where the customer's browser reaches the bank page, e.g. `http://127.0.0.1:3001`.
    pub base: &'a str,
    pub expand: Vec<String>,
}

impl<'a> Renderer<'a> {
    /// `expandable` are the fields of the object that can be expanded; lists take them as `data.<field>`.
    pub fn new(state: &'a State, base: &'a str, params: &Params, expandable: &[&str]) -> Result<Self, Refusal> {
        let expand = expansions(params, expandable)?;
        Ok(Self { state, base, expand })
    }

    pub fn intent(&self, intent: &Intent) -> Value {
        let received = if intent.status == IntentStatus::Succeeded { intent.amount } else { 0 };
        json!({
            "id": intent.id,
            "object": "payment_intent",
            "amount": intent.amount,
            "amount_capturable": 0,
            "amount_received": received,
            "canceled_at": intent.canceled_at,
            "cancellation_reason": intent.cancellation_reason,
            "capture_method": "automatic",
            "client_secret": intent.client_secret,
            "confirmation_method": "automatic",
            "created": intent.created,
            "currency": intent.currency,
            "customer": null,
            "description": intent.description,
            "last_payment_error": intent.last_error.as_ref().map(|error| self.last_error(error)),
            "latest_charge": self.reference("latest_charge", intent.latest_charge.as_deref()),
            "livemode": false,
            "metadata": intent.metadata,
            "next_action": self.next_action(intent),
            "payment_method": self.reference("payment_method", intent.payment_method.as_deref()),
            "payment_method_types": ["card"],
            "receipt_email": intent.receipt_email,
            "status": intent.status.name(),
        })
    }

    pub fn charge(&self, charge: &Charge) -> Value {
        let paid = charge.succeeded();
        let outcome = match &charge.error {
            None => json!({"network_status": "approved_by_network", "type": "authorized", "reason": null}),
            Some(error) => json!({
                "network_status": "declined_by_network",
                "type": "issuer_declined",
                "reason": error.decline_code.as_ref().unwrap_or(&error.code),
            }),
        };
        json!({
            "id": charge.id,
            "object": "charge",
            "amount": charge.amount,
            "amount_captured": if paid { charge.amount } else { 0 },
            "amount_refunded": charge.amount_refunded,
            "balance_transaction": null,
            "billing_details": billing_details(charge.payment_method.name.as_ref(), charge.payment_method.email.as_ref()),
            "captured": paid,
            "created": charge.created,
            "currency": charge.currency,
            "description": charge.description,
            "disputed": charge.dispute.is_some(),
            "failure_code": charge.error.as_ref().map(|error| &error.code),
            "failure_message": charge.error.as_ref().map(|error| &error.message),
            "livemode": false,
            "metadata": charge.metadata,
            "outcome": outcome,
            "paid": paid,
            "payment_intent": self.reference("payment_intent", Some(&charge.payment_intent)),
            "payment_method": charge.payment_method.id,
            "payment_method_details": {"type": "card", "card": card(&charge.payment_method)},
            "refunded": paid && charge.amount_refunded == charge.amount,
            "status": if paid { "succeeded" } else { "failed" },
        })
    }

    pub fn refund(&self, refund: &Refund) -> Value {
        let mut object = json!({
            "id": refund.id,
            "object": "refund",
            "amount": refund.amount,
            "balance_transaction": null,
            "charge": self.reference("charge", Some(&refund.charge)),
            "created": refund.created,
            "currency": refund.currency,
            "destination_details": {"card": {"type": "refund"}, "type": "card"},
            "metadata": refund.metadata,
            "payment_intent": self.reference("payment_intent", Some(&refund.payment_intent)),
            "reason": refund.reason,
            "status": refund.status.name(),
        });
        if let (Some(reason), Some(fields)) = (&refund.failure_reason, object.as_object_mut()) {
            fields.insert("failure_reason".into(), json!(reason));
            fields.insert("failure_balance_transaction".into(), Value::Null);
        }
        object
    }

    /// The error object of a card that was not charged, with the payment intent as it is now.
    pub fn card_error(&self, error: &CardError, intent: &Intent) -> Value {
        let mut object = self.last_error(error);
        if let Some(fields) = object.as_object_mut() {
            fields.insert("payment_intent".into(), self.intent(intent));
        }
        json!({ "error": object })
    }

    fn last_error(&self, error: &CardError) -> Value {
        let mut object = Map::new();
        object.insert("type".into(), json!("card_error"));
        object.insert("code".into(), json!(error.code));
        object.insert("message".into(), json!(error.message));
        let method = error.payment_method.as_deref().and_then(|id| self.state.methods.row(id)).map(method);
        let optional = [
            ("decline_code", error.decline_code.as_ref().map(|code| json!(code))),
            ("param", error.param.as_ref().map(|param| json!(param))),
            ("charge", error.charge.as_ref().map(|charge| json!(charge))),
            ("payment_method", method),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                object.insert(name.into(), value);
            }
        }
        Value::Object(object)
    }

    fn next_action(&self, intent: &Intent) -> Value {
        let step = intent.step.as_ref().filter(|_| intent.status == IntentStatus::RequiresAction);
        step.map_or(Value::Null, |step| {
            let url = format!("{}/bank/{}", self.base, intent.id);
            json!({"type": "redirect_to_url", "redirect_to_url": {"url": url, "return_url": step.return_url}})
        })
    }

    /// The id of another object, or the object itself where the call wants it expanded.
    fn reference(&self, field: &str, id: Option<&str>) -> Value {
        let Some(id) = id else { return Value::Null };
        if !self.expand.iter().any(|wanted| wanted == field) {
            return json!(id);
        }
        let plain = Renderer { state: self.state, base: self.base, expand: Vec::new() };
        let object = match field {
            "latest_charge" | "charge" => self.state.charges.get(id).map(|charge| plain.charge(&charge)),
            "payment_intent" => self.state.intents.get(id).map(|intent| plain.intent(&intent)),
            "payment_method" => self.state.methods.row(id).map(method),
            _ => None,
        };
        object.unwrap_or_else(|| json!(id))
    }
}

pub fn method(method: &Method) -> Value {
    json!({
        "id": method.id,
        "object": "payment_method",
        "billing_details": billing_details(method.name.as_ref(), method.email.as_ref()),
        "card": card(method),
        "created": method.created,
        "customer": null,
        "livemode": false,
        "metadata": {},
        "type": "card",
    })
}

pub fn dispute(dispute: &Dispute) -> Value {
    let is_answered = dispute.status != DisputeStatus::NeedsResponse && dispute.has_evidence;
    json!({
        "id": dispute.id,
        "object": "dispute",
        "amount": dispute.amount,
        "balance_transactions": [],
        "charge": dispute.charge,
        "created": dispute.created,
        "currency": dispute.currency,
        "enhanced_eligibility_types": [],
        "evidence": {},
        "evidence_details": {
            "due_by": dispute.created + DISPUTE_SECONDS,
            "has_evidence": dispute.has_evidence,
            "past_due": false,
            "submission_count": u8::from(is_answered),
        },
        "is_charge_refundable": false,
        "livemode": false,
        "metadata": dispute.metadata,
        "payment_intent": dispute.payment_intent,
        "reason": dispute.reason,
        "status": dispute.status.name(),
    })
}

pub fn session(state: &State, session: &Session) -> Value {
    let method = session.payment_method.as_deref().and_then(|id| state.methods.row(id));
    let error = session.error_code.as_ref().map(|code| json!({"code": code, "param": session.error_param}));
    json!({
        "id": session.id,
        "object": "card_session",
        "payment_method": session.payment_method,
        "card": method.map(|method| json!({"brand": method.brand, "last4": method.last4})),
        "billing_details": {"name": session.name, "email": session.email},
        "error": error,
        "intent": session.intent,
        "created": session.created,
        "livemode": false,
    })
}

fn card(method: &Method) -> Value {
    json!({
        "brand": method.brand,
        "exp_month": method.exp_month,
        "exp_year": method.exp_year,
        "funding": "credit",
        "last4": method.last4,
    })
}

fn billing_details(name: Option<&String>, email: Option<&String>) -> Value {
    json!({"address": null, "email": email, "name": name, "phone": null})
}

fn expansions(params: &Params, expandable: &[&str]) -> Result<Vec<String>, Refusal> {
    let mut wanted = Vec::new();
    for path in params.list("expand").into_iter().take(MAX_EXPANSIONS) {
        if !expandable.contains(&path) {
            let shown: String = path.chars().take(64).collect();
            return Err(Refusal::invalid(format!("'{shown}' cannot be expanded here.")).param("expand"));
        }
        wanted.push(path.strip_prefix("data.").unwrap_or(path).to_owned());
    }
    Ok(wanted)
}
