//! What the page says in each state of the client protocol. Pure, and the same on both sides: the server writes the first
//! screen, the browser the next ones.
//!
//! Promises: says what is known and no more. Never says "no money was taken" of anything but a proven state.

use super::machine::{Idle, Live, Machine, Over, Phase};
use crate::{
    dto::DeclineReason,
    fields::{Fault, Field},
    text::en::{self, Words},
};

const NOT_SENT: Words = Words {
    title: "Problem",
    heading: "We could not start your payment",
    body: "This is our problem, not yours. Nothing was sent to your bank, so you have not been charged. Your details are still \
           here.",
    action: "Try again",
};

const LOST_CONNECTION: Words = Words {
    title: "Connection lost",
    heading: "Your connection dropped",
    body: "Your payment may have been sent. Don't start again. When you're back online this page finds out by itself.",
    action: "Check again",
};

/// Said of a press without a network.
const OFFLINE: &str =
    "You're offline. Nothing has been sent and nothing has been charged. Your details are still here.";
/// Said at once when the network goes away under a payment.
const CONNECTION_LOST: &str = "Connection lost. Don't start again.";

/// Everything on the page that depends on the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screen {
    /// `data-state` on `<main>`.
    pub state: &'static str,
    /// `<title>`, without the shop.
    pub title: String,
    /// The `<h1>`.
    pub heading: String,
    /// The sentences below the heading; empty for none.
    pub notice: String,
    /// The text of the Pay button. `None` hides the form, with everything typed still in it.
    pub button: Option<String>,
    /// Whether the button is `aria-disabled`.
    pub busy: bool,
    /// A button that asks for the outcome.
    pub check: Option<&'static str>,
    /// Where to go on: address and text.
    pub link: Option<(String, &'static str)>,
    /// What stands in the live region below the button.
    pub status: String,
    /// What is said at once, by the other live region.
    pub alert: String,
    pub faults: Vec<Fault>,
    pub focus: Focus,
}

/// Where the focus goes when the state is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    Stays,
    Heading,
    Summary,
    Field(Field),
}

/// The screen of a machine, in a shop of this name.
pub fn screen(machine: &Machine, shop: &str) -> Screen {
    let ready = ready(machine, shop);
    match machine.phase() {
        Phase::Idle(idle) => idle_screen(idle, ready),
        Phase::Tokenizing => sending(machine, 0, ready),
        Phase::Live(live) => live_screen(live, machine, ready),
        Phase::Over(over) => over_screen(*over, machine, ready),
    }
}

/// The page as it waits for a press; every other screen says what differs.
fn ready(machine: &Machine, shop: &str) -> Screen {
    let pay = ["Pay ", &machine.price().display].concat();
    Screen {
        state: "ready",
        title: pay.clone(),
        heading: ["Pay ", shop].concat(),
        notice: String::new(),
        button: Some(pay),
        busy: false,
        check: None,
        link: None,
        status: String::new(),
        alert: String::new(),
        faults: Vec::new(),
        focus: Focus::Stays,
    }
}

fn idle_screen(idle: &Idle, ready: Screen) -> Screen {
    match idle {
        Idle::Ready => ready,
        Idle::Offline => {
            Screen { state: "offline", title: "You're offline".to_owned(), status: OFFLINE.to_owned(), ..ready }
        }
        Idle::Fields(faults) => Screen {
            state: "fields",
            title: ["Error: ", &ready.title].concat(),
            faults: faults.clone(),
            focus: Focus::Summary,
            ..ready
        },
        Idle::Declined(proof) => {
            let words = en::decline(*proof);
            let not_charged = matches!(proof.reason(), DeclineReason::NotCharged);
            Screen {
                state: if not_charged { "not_charged" } else { "declined" },
                focus: field_to_mend(proof.reason()),
                ..told(&words, ready)
            }
        }
        Idle::NotSent => Screen { state: "not_sent", ..told(&NOT_SENT, ready) },
        Idle::PriceChanged { was } => {
            let now = ready.button.as_deref().and_then(|pay| pay.strip_prefix("Pay ")).unwrap_or_default();
            let notice = ["It was ", &was.display, ", it is now ", now, ". Nothing has been charged."].concat();
            let heading = "The total changed";
            Screen {
                state: "price_changed",
                title: "Check the new total".to_owned(),
                heading: heading.to_owned(),
                alert: [heading, ". ", &notice].concat(),
                notice,
                link: Some(("/cart".to_owned(), "Back to cart")),
                ..ready
            }
        }
    }
}

/// A known no, said at once; the form stays.
fn told(words: &Words, ready: Screen) -> Screen {
    Screen {
        title: words.title.to_owned(),
        heading: words.heading.to_owned(),
        notice: words.body.to_owned(),
        alert: [words.heading, ". ", words.body].concat(),
        ..ready
    }
}

const fn field_to_mend(reason: DeclineReason) -> Focus {
    match reason {
        DeclineReason::ExpiredCard => Focus::Field(Field::Expiry),
        DeclineReason::IncorrectCode => Focus::Field(Field::Code),
        DeclineReason::IncorrectNumber => Focus::Field(Field::Number),
        DeclineReason::Generic
        | DeclineReason::InsufficientFunds
        | DeclineReason::BankCheckFailed
        | DeclineReason::CardNotSupported
        | DeclineReason::OverLimit
        | DeclineReason::TryLater
        | DeclineReason::NotCharged => Focus::Stays,
    }
}

fn sending(machine: &Machine, stage: u8, ready: Screen) -> Screen {
    let paying = ["Paying ", &machine.price().display].concat();
    match stage {
        0 | 1 => Screen {
            state: "sending",
            title: "Paying…".to_owned(),
            status: if stage == 0 { [&paying, "."].concat() } else { en::TAKING_LONGER.to_owned() },
            button: Some([&paying, "…"].concat()),
            busy: true,
            ..ready
        },
        _ => waiting("sending", &en::SENDING, ready),
    }
}

/// Not known yet: the form makes room for the truth.
fn waiting(state: &'static str, words: &Words, ready: Screen) -> Screen {
    Screen {
        state,
        title: words.title.to_owned(),
        heading: words.heading.to_owned(),
        notice: words.body.to_owned(),
        button: None,
        check: Some(words.action),
        focus: Focus::Heading,
        ..ready
    }
}

fn live_screen(live: &Live, machine: &Machine, ready: Screen) -> Screen {
    match live {
        Live::Sending { stage } => sending(machine, *stage, ready),
        Live::BankStep { url } => {
            let words = en::BANK_STEP;
            Screen { check: None, link: Some((url.clone(), words.action)), ..waiting("bank_step", &words, ready) }
        }
        Live::Unknown { by } => {
            let sentence = en::will_know(by.as_deref());
            let screen = waiting("unknown", &en::UNKNOWN, ready);
            Screen { notice: [&screen.notice, " ", &sentence].concat(), status: sentence, ..screen }
        }
        Live::LostConnection => {
            Screen { alert: CONNECTION_LOST.to_owned(), ..waiting("lost_connection", &LOST_CONNECTION, ready) }
        }
    }
}

fn over_screen(over: Over, machine: &Machine, ready: Screen) -> Screen {
    let amount = machine.price().display.as_str();
    let receipt = || Some((["/orders/", machine.order()].concat(), "View receipt"));
    let (state, title, heading, notice, link) = match over {
        Over::Paid => {
            let paid = ["Paid: ", amount].concat();
            ("paid", paid.clone(), paid, "Thank you. Your receipt opens now.".to_owned(), receipt())
        }
        Over::AlreadyPaid => {
            let notice = ["You paid ", amount, ". You were not charged again."].concat();
            ("already_paid", "Paid".to_owned(), "This order is already paid".to_owned(), notice, receipt())
        }
        Over::Closed => {
            let words = en::EXPIRED;
            let link = Some(("/cart".to_owned(), words.action));
            ("expired", words.title.to_owned(), words.heading.to_owned(), words.body.to_owned(), link)
        }
    };
    Screen { state, title, heading, notice, link, button: None, focus: Focus::Heading, ..ready }
}
