//! What faults there are: what a test may ask for, which calls and deliveries it can strike, and when it has its turn. An order
//! that makes no sense is refused when it is set, never ignored when it strikes.

use serde::{Deserialize, Serialize};

use crate::answer::Refusal;
use crate::signing::Forgery;

/// Long enough for every deadline that a shop may have, short enough that a forgotten fault ends.
const MAX_WAIT_MS: u64 = 600_000;
const MAX_REFUSE_MS: u64 = 60_000;
/// The most copies of one event.
const MAX_TIMES: u32 = 50;

/// A fault as `POST /_sandbox/faults` takes it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FaultOrder {
    #[serde(rename = "match", default)]
    pub matches: Match,
    pub fault: Fault,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// Which calls a fault can strike.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    #[serde(default)]
    pub path: Path,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_intent: Option<String>,
    /// Of deliveries: the event's type, e.g. `charge.refunded` or `charge.*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
}

/// The call's name, as in `routes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    #[default]
    Any,
    Create,
    Retrieve,
    Confirm,
    Cancel,
    Refund,
    Tokenize,
    Hosted,
    Bank,
    Read,
    List,
    Update,
    Events,
    Endpoints,
    /// The delivery of an event; `any` does not mean it.
    Webhook,
}

impl Path {
    pub fn holds(self, call: &str) -> bool {
        (self == Self::Any && call != "webhook") || serde_json::to_value(self).is_ok_and(|name| name == call)
    }
}

/// What happens to a call that is struck.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: Kind,
    /// How long the delay is, or how long the port is closed; for the other kinds a wait before they strike.
    #[serde(default)]
    pub ms: u64,
    /// Whether the idempotency key remembers the faulty answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remember: bool,
    /// How a dropped connection ends.
    #[serde(default)]
    pub how: Hangup,
    /// For `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// For `status`: seconds of a `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
    /// For `status`: where a redirect leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// For `duplicate`: how many copies.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub times: u32,
    /// For `forged`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgery: Option<Forgery>,
    /// For `decline`, and the error code of `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    DelayBefore,
    DelayAfter,
    DropBefore,
    ChargeThenDrop,
    #[serde(rename = "charge_then_500")]
    ChargeThen500,
    #[serde(rename = "error_500")]
    Error500,
    #[serde(rename = "conflict_409")]
    Conflict409,
    Status,
    Decline,
    IgnoreKey,
    Garbage,
    HalfBody,
    WrongAmount,
    WrongCurrency,
    Refuse,
    RefuseAfter,
    Early,
    Late,
    Duplicate,
    OutOfOrder,
    Never,
    Forged,
    WrongMode,
}

/// When a fault has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// At once, when it is set.
    Now,
    /// Before the key is looked up.
    AtTheDoor,
    /// Before the call is executed.
    Before,
    /// It changes what the call does.
    During,
    /// After the call's changes are written.
    After,
    /// When an event is sent to an endpoint.
    Delivery,
}

impl Kind {
    pub fn turn(self) -> Turn {
        match self {
            Self::Refuse => Turn::Now,
            Self::IgnoreKey => Turn::AtTheDoor,
            Self::DelayBefore | Self::DropBefore | Self::Error500 | Self::Conflict409 | Self::Status => Turn::Before,
            Self::Decline => Turn::During,
            Self::DelayAfter
            | Self::ChargeThenDrop
            | Self::ChargeThen500
            | Self::Garbage
            | Self::HalfBody
            | Self::WrongAmount
            | Self::WrongCurrency
            | Self::RefuseAfter => Turn::After,
            Self::Early
            | Self::Late
            | Self::Duplicate
            | Self::OutOfOrder
            | Self::Never
            | Self::Forged
            | Self::WrongMode => Turn::Delivery,
        }
    }

    /// Its name in orders.
    pub fn name(self) -> &'static str {
        match self {
            Self::DelayBefore => "delay_before",
            Self::DelayAfter => "delay_after",
            Self::DropBefore => "drop_before",
            Self::ChargeThenDrop => "charge_then_drop",
            Self::ChargeThen500 => "charge_then_500",
            Self::Error500 => "error_500",
            Self::Conflict409 => "conflict_409",
            Self::Status => "status",
            Self::Decline => "decline",
            Self::IgnoreKey => "ignore_key",
            Self::Garbage => "garbage",
            Self::HalfBody => "half_body",
            Self::WrongAmount => "wrong_amount",
            Self::WrongCurrency => "wrong_currency",
            Self::Refuse => "refuse",
            Self::RefuseAfter => "refuse_after",
            Self::Early => "early",
            Self::Late => "late",
            Self::Duplicate => "duplicate",
            Self::OutOfOrder => "out_of_order",
            Self::Never => "never",
            Self::Forged => "forged",
            Self::WrongMode => "wrong_mode",
        }
    }

    /// Whether it can strike a delivery.
    fn is_for_deliveries(self) -> bool {
        self.turn() == Turn::Delivery || self == Self::WrongAmount || self == Self::WrongCurrency
    }
}

/// How a connection ends without an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hangup {
    /// With a reset (RST).
    #[default]
    Reset,
    /// With an orderly end (FIN).
    Close,
}

/// Refuses what makes no sense.
pub fn check(order: &FaultOrder) -> Result<(), Refusal> {
    let fault = &order.fault;
    let bad = |what: String| Err(Refusal::invalid(what).code("parameter_invalid"));
    let strikes_deliveries = order.matches.path == Path::Webhook;
    if !strikes_deliveries && fault.kind.turn() == Turn::Delivery {
        return bad("Faults of deliveries match the path webhook.".into());
    }
    if strikes_deliveries && !fault.kind.is_for_deliveries() {
        return bad("This kind of fault does not strike deliveries.".into());
    }
    if order.matches.event.is_some() && !strikes_deliveries {
        return bad("Only deliveries are matched by the type of an event.".into());
    }
    if order.next.is_some() && order.probability.is_some() {
        return bad("A fault has either next or probability, not both.".into());
    }
    if order.probability.is_some_and(|probability| !(0.0..=1.0).contains(&probability)) {
        return bad("probability is between 0 and 1.".into());
    }
    let (needs_ms, limit) = match fault.kind {
        Kind::Refuse | Kind::RefuseAfter => (true, MAX_REFUSE_MS),
        Kind::DelayBefore | Kind::DelayAfter | Kind::Late => (true, MAX_WAIT_MS),
        Kind::DropBefore
        | Kind::ChargeThenDrop
        | Kind::ChargeThen500
        | Kind::Error500
        | Kind::Conflict409
        | Kind::Status
        | Kind::Decline
        | Kind::IgnoreKey
        | Kind::Garbage
        | Kind::HalfBody
        | Kind::WrongAmount
        | Kind::WrongCurrency
        | Kind::Early
        | Kind::Duplicate
        | Kind::OutOfOrder
        | Kind::Never
        | Kind::Forged
        | Kind::WrongMode => (false, MAX_WAIT_MS),
    };
    if (needs_ms && fault.ms == 0) || fault.ms > limit {
        return bad(format!("This kind of fault has ms between {} and {limit}.", u8::from(needs_ms)));
    }
    if fault.kind == Kind::Status && !fault.status.is_some_and(|status| (200..=599).contains(&status)) {
        return bad("A status fault has a status between 200 and 599.".into());
    }
    if fault.kind == Kind::Duplicate && !(2..=MAX_TIMES).contains(&fault.times) {
        return bad(format!("A duplicate fault has times between 2 and {MAX_TIMES}."));
    }
    if fault.kind == Kind::Decline && fault.code.is_none() {
        return bad("A decline fault has a code, such as do_not_honor.".into());
    }
    Ok(())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(times: &u32) -> bool {
    *times == 0
}
