//! Every call of the provider's API on one screen: which method and address it has, who may make it, what it is named in
//! faults and in the log of calls, and which function answers it.

use axum::http::Method;

use crate::answer::{Answer, Refusal};
use crate::request::Call;
use crate::state::Change;
use crate::{bank, charges, disputes, events, hosted, intents, lists, refunds, webhooks};

/// One call of the API with the ids from its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    CreateIntent,
    ListIntents,
    RetrieveIntent(String),
    Confirm(String),
    Cancel(String),
    CreateMethod,
    RetrieveMethod(String),
    RetrieveSession(String),
    ListCharges,
    RetrieveCharge(String),
    Refund,
    ListRefunds,
    RetrieveRefund(String),
    UpdateCharge(String),
    UpdateRefund(String),
    CancelRefund(String),
    ListDisputes,
    RetrieveDispute(String),
    UpdateDispute(String),
    CloseDispute(String),
    ListEvents,
    RetrieveEvent(String),
    CreateEndpoint,
    ListEndpoints,
    RetrieveEndpoint(String),
    UpdateEndpoint(String),
    DeleteEndpoint(String),
    HostedCard,
    DecideAtBank(String),
}

/// An object of a payment, by its id.
pub enum Object<'a> {
    Intent(&'a str),
    Charge(&'a str),
    Refund(&'a str),
    Dispute(&'a str),
}

/// Who may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The shop's server, with the secret key.
    Server,
    /// A browser, with the publishable key; servers too.
    Browser,
    /// Whoever holds the address.
    Anyone,
}

/// What a call did.
pub struct Done {
    pub answer: Answer,
    /// Whether an idempotency key remembers the answer: whatever was executed is remembered, declines too.
    pub executed: bool,
}

impl Done {
    pub fn executed(answer: Answer) -> Self {
        Self { answer, executed: true }
    }

    pub fn read(answer: Answer) -> Self {
        Self { answer, executed: false }
    }
}

impl Op {
    /// The call behind an address, if there is one.
    pub fn find(method: &Method, path: &str) -> Option<Self> {
        let steps: Vec<&str> = path.split('/').skip(1).collect();
        Some(match (method.as_str(), steps.as_slice()) {
            ("POST", ["v1", "payment_intents"]) => Self::CreateIntent,
            ("GET", ["v1", "payment_intents"]) => Self::ListIntents,
            ("GET", ["v1", "payment_intents", id]) => Self::RetrieveIntent((*id).to_owned()),
            ("POST", ["v1", "payment_intents", id, "confirm"]) => Self::Confirm((*id).to_owned()),
            ("POST", ["v1", "payment_intents", id, "cancel"]) => Self::Cancel((*id).to_owned()),
            ("POST", ["v1", "payment_methods"]) => Self::CreateMethod,
            ("GET", ["v1", "payment_methods", id]) => Self::RetrieveMethod((*id).to_owned()),
            ("GET", ["v1", "card_sessions", id]) => Self::RetrieveSession((*id).to_owned()),
            ("GET", ["v1", "charges"]) => Self::ListCharges,
            ("GET", ["v1", "charges", id]) => Self::RetrieveCharge((*id).to_owned()),
            ("POST", ["v1", "refunds"]) => Self::Refund,
            ("GET", ["v1", "refunds"]) => Self::ListRefunds,
            ("GET", ["v1", "refunds", id]) => Self::RetrieveRefund((*id).to_owned()),
            ("POST", ["v1", "charges", id]) => Self::UpdateCharge((*id).to_owned()),
            ("POST", ["v1", "refunds", id]) => Self::UpdateRefund((*id).to_owned()),
            ("POST", ["v1", "refunds", id, "cancel"]) => Self::CancelRefund((*id).to_owned()),
            ("GET", ["v1", "disputes"]) => Self::ListDisputes,
            ("GET", ["v1", "disputes", id]) => Self::RetrieveDispute((*id).to_owned()),
            ("POST", ["v1", "disputes", id]) => Self::UpdateDispute((*id).to_owned()),
            ("POST", ["v1", "disputes", id, "close"]) => Self::CloseDispute((*id).to_owned()),
            ("GET", ["v1", "events"]) => Self::ListEvents,
            ("GET", ["v1", "events", id]) => Self::RetrieveEvent((*id).to_owned()),
            ("POST", ["v1", "webhook_endpoints"]) => Self::CreateEndpoint,
            ("GET", ["v1", "webhook_endpoints"]) => Self::ListEndpoints,
            ("GET", ["v1", "webhook_endpoints", id]) => Self::RetrieveEndpoint((*id).to_owned()),
            ("POST", ["v1", "webhook_endpoints", id]) => Self::UpdateEndpoint((*id).to_owned()),
            ("DELETE", ["v1", "webhook_endpoints", id]) => Self::DeleteEndpoint((*id).to_owned()),
            ("POST", ["hosted", "cards"]) => Self::HostedCard,
            ("POST", ["bank", id]) => Self::DecideAtBank((*id).to_owned()),
            _ => return None,
        })
    }

    /// The name of the call in faults and in the log of calls.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CreateIntent => "create",
            Self::RetrieveIntent(_) => "retrieve",
            Self::Confirm(_) => "confirm",
            Self::Cancel(_) => "cancel",
            Self::CreateMethod => "tokenize",
            Self::Refund => "refund",
            Self::HostedCard => "hosted",
            Self::DecideAtBank(_) => "bank",
            Self::UpdateCharge(_)
            | Self::UpdateRefund(_)
            | Self::CancelRefund(_)
            | Self::UpdateDispute(_)
            | Self::CloseDispute(_) => "update",
            Self::ListEvents => "events",
            Self::CreateEndpoint
            | Self::ListEndpoints
            | Self::RetrieveEndpoint(_)
            | Self::UpdateEndpoint(_)
            | Self::DeleteEndpoint(_) => "endpoints",
            Self::RetrieveMethod(_)
            | Self::RetrieveSession(_)
            | Self::RetrieveCharge(_)
            | Self::RetrieveRefund(_)
            | Self::RetrieveDispute(_)
            | Self::RetrieveEvent(_) => "read",
            Self::ListIntents | Self::ListCharges | Self::ListRefunds | Self::ListDisputes => "list",
        }
    }

    pub fn caller(&self) -> Caller {
        match self {
            Self::CreateMethod => Caller::Browser,
            Self::HostedCard | Self::DecideAtBank(_) => Caller::Anyone,
            Self::CreateIntent
            | Self::ListIntents
            | Self::RetrieveIntent(_)
            | Self::Confirm(_)
            | Self::Cancel(_)
            | Self::RetrieveMethod(_)
            | Self::RetrieveSession(_)
            | Self::ListCharges
            | Self::RetrieveCharge(_)
            | Self::Refund
            | Self::ListRefunds
            | Self::RetrieveRefund(_)
            | Self::UpdateCharge(_)
            | Self::UpdateRefund(_)
            | Self::CancelRefund(_)
            | Self::ListDisputes
            | Self::RetrieveDispute(_)
            | Self::UpdateDispute(_)
            | Self::CloseDispute(_)
            | Self::ListEvents
            | Self::RetrieveEvent(_)
            | Self::CreateEndpoint
            | Self::ListEndpoints
            | Self::RetrieveEndpoint(_)
            | Self::UpdateEndpoint(_)
            | Self::DeleteEndpoint(_) => Caller::Server,
        }
    }

    /// The payment intent that nobody else may change while this call is under way.
    pub fn locks(&self) -> Option<&str> {
        if let Self::Confirm(id) | Self::Cancel(id) = self { Some(id) } else { None }
    }

    /// The object that the address names, if it belongs to a payment.
    pub fn object(&self) -> Option<Object<'_>> {
        match self {
            Self::RetrieveIntent(id) | Self::DecideAtBank(id) | Self::Confirm(id) | Self::Cancel(id) => {
                Some(Object::Intent(id))
            }
            Self::RetrieveCharge(id) | Self::UpdateCharge(id) => Some(Object::Charge(id)),
            Self::RetrieveRefund(id) | Self::UpdateRefund(id) | Self::CancelRefund(id) => Some(Object::Refund(id)),
            Self::RetrieveDispute(id) | Self::UpdateDispute(id) | Self::CloseDispute(id) => Some(Object::Dispute(id)),
            Self::CreateIntent
            | Self::ListIntents
            | Self::CreateMethod
            | Self::RetrieveMethod(_)
            | Self::RetrieveSession(_)
            | Self::ListCharges
            | Self::Refund
            | Self::ListRefunds
            | Self::ListDisputes
            | Self::ListEvents
            | Self::RetrieveEvent(_)
            | Self::CreateEndpoint
            | Self::ListEndpoints
            | Self::RetrieveEndpoint(_)
            | Self::UpdateEndpoint(_)
            | Self::DeleteEndpoint(_)
            | Self::HostedCard => None,
        }
    }
}

/// Executes a call. Everything it changes goes through `change`; after the first change nothing can fail.
pub fn act(change: &mut Change<'_>, call: &Call) -> Result<Done, Refusal> {
    match &call.op {
        Op::CreateIntent => intents::create(change, call),
        Op::ListIntents => lists::intents(change.state, call),
        Op::RetrieveIntent(id) => intents::retrieve(change.state, call, id),
        Op::Confirm(id) => intents::confirm(change, call, id),
        Op::Cancel(id) => intents::cancel(change, call, id),
        Op::CreateMethod => hosted::create_method(change, call),
        Op::RetrieveMethod(id) => hosted::retrieve_method(change.state, id),
        Op::RetrieveSession(id) => hosted::retrieve_session(change.state, id),
        Op::ListCharges => lists::charges(change.state, call),
        Op::RetrieveCharge(id) => charges::retrieve(change.state, call, id),
        Op::Refund => refunds::create(change, call),
        Op::UpdateCharge(id) => charges::update(change, call, id),
        Op::UpdateRefund(id) => refunds::update(change, call, id),
        Op::CancelRefund(id) => refunds::cancel(change, call, id),
        Op::ListDisputes => lists::disputes(change.state, call),
        Op::RetrieveDispute(id) => disputes::retrieve(change.state, call, id),
        Op::UpdateDispute(id) => disputes::update(change, call, id),
        Op::CloseDispute(id) => disputes::close(change, call, id),
        Op::ListRefunds => lists::refunds(change.state, call),
        Op::RetrieveRefund(id) => refunds::retrieve(change.state, call, id),
        Op::ListEvents => lists::events(change.state, call),
        Op::RetrieveEvent(id) => events::retrieve(change.state, call, id),
        Op::CreateEndpoint => webhooks::create(change, call),
        Op::ListEndpoints => lists::endpoints(change.state, call),
        Op::RetrieveEndpoint(id) => webhooks::retrieve(change.state, call, id),
        Op::UpdateEndpoint(id) => webhooks::update(change, call, id),
        Op::DeleteEndpoint(id) => webhooks::delete(change, id),
        Op::HostedCard => Ok(hosted::card_form(change, call)),
        Op::DecideAtBank(id) => Ok(bank::decide(change, call, id)),
    }
}
