//! What the machine is made of: where a page can stand, what can happen to it, what it can ask for. Plain data.

use crate::{
    dto::{AnswerDto, MoneyDto, NotCharged, OutcomeDto, PayDto},
    error::CheckoutError,
    fields::Fault,
};

/// What the server wrote the page with.
#[cfg_attr(feature = "ssr", derive(serde::Serialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    pub order: String,
    /// The UUID that the server offers for the next intent, or that of the live one.
    pub intent: String,
    pub replaces: Option<String>,
    pub price: MoneyDto,
    pub outcome: OutcomeDto,
    /// The provider's code for the fault of a plain form that it sent back.
    pub refused: Option<String>,
    pub kind: Kind,
}

/// Which page the machine runs on.
#[cfg_attr(feature = "ssr", derive(serde::Serialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The page with the card form.
    Checkout,
    /// The outcome page, without one: what is known for good is the server's to show.
    Outcome,
}

/// Where the page stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is under way; Pay can be pressed.
    Idle(Idle),
    /// The card is at the provider; nothing was sent to the shop.
    Tokenizing,
    /// A payment may be under way: ask, never pay anew.
    Live(Live),
    /// Nothing more will happen on this page.
    Over(Over),
}

/// Why Pay can be pressed (again).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idle {
    Ready,
    Offline,
    Fields(Vec<Fault>),
    Declined(NotCharged),
    /// Proven: nothing was charged, by our own fault.
    NotSent,
    PriceChanged {
        was: MoneyDto,
    },
}

/// What is known of a payment that may be under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Live {
    /// Being confirmed; `stage` 0 to 2 says how patient the customer already was.
    Sending {
        stage: u8,
    },
    BankStep {
        url: String,
    },
    /// Being looked up; `by` when it will be known, as the page writes it.
    Unknown {
        by: Option<String>,
    },
    LostConnection,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Paid from this page.
    Paid,
    /// Found paid.
    AlreadyPaid,
    Closed,
}

/// A press of Pay: what the form's check said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Press {
    pub email: String,
    pub faults: Vec<Fault>,
}

/// What happened. Tags name the request or timer that an answer belongs to; answers to forgotten ones change nothing.
#[derive(Clone, Debug)]
pub enum Event {
    /// The page is alive, with the UUID it works with (see [`super::storage::adopt`]) and randomness for its waits.
    Adopted {
        intent: String,
        random: u64,
    },
    /// Pay was pressed.
    Submitted(Press),
    /// The provider gave a payment method for the card.
    TokenMade(String),
    /// The provider refused the card's fields. Empty: refused for a reason that no field can mend.
    TokenRefused(Vec<Fault>),
    /// The provider could not be reached.
    TokenLost,
    PayAnswered {
        tag: u32,
        answer: AnswerDto,
    },
    PayFailed {
        tag: u32,
        error: CheckoutError,
    },
    OutcomeAnswered {
        tag: u32,
        outcome: OutcomeDto,
    },
    OutcomeFailed {
        tag: u32,
        error: CheckoutError,
    },
    TimeUp {
        tag: u32,
    },
    WentOffline,
    WentOnline,
    /// The page was restored, shown again, or asked to look.
    Woke,
    /// The server says that the order's payment has moved; not where to.
    News,
    /// Another tab stored another UUID for this order, or removed it.
    StoredElsewhere(Option<String>),
    /// The UUID asked for by [`Effect::Mint`]; `None` where the browser cannot make one.
    Minted(Option<String>),
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Keep the UUID in durable storage.
    Store(String),
    /// The order is done with: remove its UUID from storage.
    Forget,
    /// The intent has definitely ended. Answer with what another tab stored since, else with a fresh UUID.
    Mint {
        retired: String,
    },
    /// Take the card to the provider.
    Tokenize,
    Pay {
        tag: u32,
        pay: PayDto,
    },
    Ask {
        tag: u32,
        intent: String,
    },
    Wait {
        tag: u32,
        ms: u32,
    },
    /// Say again what the page says: the customer pressed while it is busy.
    Repeat,
    /// Leave for the outcome page, so that Back does not lead to a form.
    GoToOrder,
    /// The server's page is the truth.
    Reload,
}
