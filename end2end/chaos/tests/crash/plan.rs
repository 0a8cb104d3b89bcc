//! What is combined: where the victim is killed, what the provider does, and who else presses Pay.

use chaos::{
    customer::{DECLINED_CARD, GOOD_CARD},
    gate::{Fate, Message, Moment},
};
use serde_json::{Value, json};

/// A boundary of the six hops, at which the victim is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillPoint {
    /// The request has come by half.
    RequestHalfSent,
    /// The whole request is in the victim's socket, unread.
    RequestUnread,
    /// At a message of the victim's, held by a proxy.
    At(Held),
    /// The provider's answer is in the victim's socket, unread.
    ConfirmUnread,
    /// The answer is on its way to the browser, which never gets it.
    AnswerUnheard,
    /// The browser has the answer.
    AnswerHeard,
}

/// A message of the victim's at one of its boundaries, and what becomes of it after the death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub what: What,
    pub moment: Moment,
    pub fate: Fate,
}

/// The steps whose messages are held, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Reserve,
    Confirm,
    /// The outcome becomes unknown.
    Rest,
    /// The victim begins to look for it,
    Claim,
    /// asks the provider,
    Probe,
    /// and sends the same request again.
    Resend,
    Settle,
}

/// What the provider does with the first confirm that is sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Charged,
    Declined,
    /// The request never arrives.
    NotReceived,
    /// It charges, and its answer never arrives.
    Lost,
}

/// Further presses of Pay with the same intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicates {
    pub count: usize,
    /// At the victim, or at the other replica.
    pub same: bool,
}

/// One combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination {
    pub kill: KillPoint,
    pub outcome: Outcome,
    pub duplicates: Duplicates,
}

pub const DUPLICATES: [Duplicates; 5] = [
    Duplicates { count: 0, same: true },
    Duplicates { count: 1, same: true },
    Duplicates { count: 1, same: false },
    Duplicates { count: 2, same: true },
    Duplicates { count: 2, same: false },
];

pub const OUTCOMES: [Outcome; 4] = [Outcome::Charged, Outcome::Declined, Outcome::NotReceived, Outcome::Lost];

const fn at(what: What, moment: Moment, fate: Fate) -> KillPoint {
    KillPoint::At(Held { what, moment, fate })
}

/// In the order in which a payment comes by.
pub const KILL_POINTS: [KillPoint; 19] = [
    KillPoint::RequestHalfSent,
    KillPoint::RequestUnread,
    at(What::Reserve, Moment::Sent, Fate::Lose),
    at(What::Reserve, Moment::Sent, Fate::Deliver),
    at(What::Reserve, Moment::Answered, Fate::Lose),
    at(What::Confirm, Moment::Sent, Fate::Deliver),
    at(What::Confirm, Moment::Answered, Fate::Lose),
    KillPoint::ConfirmUnread,
    at(What::Rest, Moment::Sent, Fate::Lose),
    at(What::Rest, Moment::Answered, Fate::Lose),
    at(What::Claim, Moment::Answered, Fate::Lose),
    at(What::Probe, Moment::Answered, Fate::Lose),
    at(What::Resend, Moment::Sent, Fate::Deliver),
    at(What::Resend, Moment::Answered, Fate::Lose),
    at(What::Settle, Moment::Sent, Fate::Lose),
    at(What::Settle, Moment::Sent, Fate::Deliver),
    at(What::Settle, Moment::Answered, Fate::Lose),
    KillPoint::AnswerUnheard,
    KillPoint::AnswerHeard,
];

/// Every combination that there is.
pub fn combinations() -> Vec<Combination> {
    let mut all = Vec::new();
    for kill in KILL_POINTS {
        for outcome in OUTCOMES.into_iter().filter(|outcome| kill.happens_with(*outcome)) {
            all.extend(DUPLICATES.map(|duplicates| Combination { kill, outcome, duplicates }));
        }
    }
    all
}

impl KillPoint {
    /// Whether a payment with this outcome comes by here.
    pub fn happens_with(self, outcome: Outcome) -> bool {
        let Self::At(held) = self else { return true };
        match held.what {
            What::Reserve | What::Confirm | What::Settle => true,
            What::Rest | What::Claim | What::Probe => outcome.is_unknown(),
            What::Resend => outcome == Outcome::NotReceived,
        }
    }

    pub fn name(self) -> String {
        match self {
            Self::RequestHalfSent => "request half sent".to_owned(),
            Self::RequestUnread => "request arrived, unread".to_owned(),
            Self::ConfirmUnread => "confirm answered, unread".to_owned(),
            Self::AnswerUnheard => "answer sent, not heard".to_owned(),
            Self::AnswerHeard => "answer heard".to_owned(),
            Self::At(held) => {
                let what = format!("{:?}", held.what).to_lowercase();
                match (held.moment, held.fate) {
                    (Moment::Sent, Fate::Lose) => format!("{what} sent, lost"),
                    (Moment::Sent, Fate::Deliver) => format!("{what} sent, executed later"),
                    (Moment::Answered | Moment::Heard, _) => format!("{what} executed, not heard"),
                }
            }
        }
    }
}

impl What {
    /// The message, and how many of its kind come before it.
    pub fn message(self, outcome: Outcome) -> (Message, usize) {
        match self {
            Self::Reserve => (Message::Reserve, 0),
            Self::Confirm => (Message::Confirm, 0),
            Self::Rest => (Message::Rest, 0),
            Self::Claim => (Message::Claim, 0),
            Self::Probe => (Message::Retrieve, 0),
            Self::Resend => (Message::Confirm, 1),
            Self::Settle if outcome == Outcome::Declined => (Message::Fail, 0),
            Self::Settle => (Message::Succeed, 0),
        }
    }

    /// Whether it is a call to the provider, not a statement.
    pub fn is_call(self) -> bool {
        match self {
            Self::Confirm | Self::Probe | Self::Resend => true,
            Self::Reserve | Self::Rest | Self::Claim | Self::Settle => false,
        }
    }
}

impl Outcome {
    /// Whether the executor does not learn it from its confirm.
    pub fn is_unknown(self) -> bool {
        matches!(self, Self::NotReceived | Self::Lost)
    }

    pub fn card(self) -> &'static str {
        if self == Self::Declined { DECLINED_CARD } else { GOOD_CARD }
    }

    /// How the provider misbehaves, once.
    pub fn fault(self, order: &str) -> Option<Value> {
        let kind = match self {
            Self::Charged | Self::Declined => return None,
            Self::NotReceived => "drop_before",
            Self::Lost => "charge_then_drop",
        };
        Some(json!({"match": {"path": "confirm", "order": order}, "fault": {"kind": kind}, "next": 1}))
    }

    /// The end that the payment must have, whoever finishes it: state and charges.
    pub fn end(self) -> (&'static str, usize) {
        if self == Self::Declined { ("failed", 0) } else { ("succeeded", 1) }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Charged => "charged",
            Self::Declined => "declined",
            Self::NotReceived => "not received",
            Self::Lost => "lost",
        }
    }
}

impl Duplicates {
    pub fn name(self) -> &'static str {
        match (self.count, self.same) {
            (0, _) => "none",
            (1, true) => "1 same",
            (1, false) => "1 other",
            (_, true) => "2 same",
            (_, false) => "2 other",
        }
    }
}

impl Combination {
    pub fn name(self) -> String {
        format!("{} · {} · {}", self.kill.name(), self.outcome.name(), self.duplicates.name())
    }
}
