//! English.

use crate::dto::{DeclineReason, NotCharged};

/// What a page says of a state: its `<title>` (without the shop), its `<h1>`, and the sentences below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    pub title: &'static str,
    pub heading: &'static str,
    pub body: &'static str,
    /// The button or link that leads on.
    pub action: &'static str,
}

pub const CHARGED_ONCE: &str = "You'll be charged once, even if you press Pay again.";
pub const KEEP_ADDRESS: &str = "Keep this page's address: it always shows the outcome.";
pub const TAKING_LONGER: &str = "Your bank is taking a little longer than usual.";

pub const SENDING: Words = Words {
    title: "Still paying",
    heading: "We're still waiting for your bank",
    body: "You can close this page: it will show the outcome when you come back. Don't start a new order, this one is still open.",
    action: "Check again",
};

pub const BANK_STEP: Words = Words {
    title: "Your bank wants a quick check",
    heading: "Your bank wants to check it's you",
    // Not "nothing has been charged": whoever comes back from the bank may have been, and the provider may keep silent.
    body: "You'll come back here afterwards. If you have just been there, this page shows the outcome as soon as we know it.",
    action: "Continue to your bank",
};

pub const UNKNOWN: Words = Words {
    title: "We're checking",
    heading: "We're checking whether your payment went through",
    body: "We sent your payment but have not had the answer. We don't know yet whether you've been charged. You don't need to \
           pay again, and this page will not let you pay twice.",
    action: "Check again",
};

/// What is said of card fields that a script of the provider shows, while they are not there.
pub struct CardFieldsWords {
    pub loading: &'static str,
    pub slow: &'static str,
    pub failed: &'static str,
    pub again: &'static str,
    pub outcome: &'static str,
    /// Where no script of ours runs.
    pub unscripted: &'static str,
    /// Where our own script does not come.
    pub stuck: &'static str,
}

pub const CARD_FIELDS: CardFieldsWords = CardFieldsWords {
    loading: "The card fields are loading.",
    slow: "The card fields take longer than usual to load. Nothing has been sent, and what you typed stays.",
    failed: "The card fields did not load. Your browser, an add-on or your network may be keeping js.stripe.com away. Nothing \
             has been sent, and what you typed stays.",
    again: "Load the card fields again",
    outcome: "Show where this order stands",
    unscripted: "Paying by card needs JavaScript in this shop, since the card fields are Stripe's. Nothing has been charged. \
                 Turn JavaScript on and load this page again.",
    stuck: "This page did not load completely, so that you cannot pay with it yet. Nothing has been sent, and nothing has \
            been charged. Load the page again.",
};

/// Said of a press that came before the card fields, or without them.
pub const CARD_FIELDS_NOT_YET: &str = "The card fields are still loading: wait a moment, then press Pay again";
pub const CARD_FIELDS_MISSING: &str = "The card fields did not load: load them again, then press Pay again";
pub const CARD_FIELDS_EMPTY: &str = "Enter the card details";

/// By when the customer will know. `None`: the time is over, and nobody answered yet.
pub fn will_know(by: Option<&str>) -> String {
    match by {
        Some(by) => ["We keep asking and will know by ", by, "."].concat(),
        None => "We keep asking; it takes longer than it should.".to_owned(),
    }
}

/// Of money that was sent back: what comes before the moment, and after it.
pub fn refund_sent(amount: &str) -> (String, &'static str) {
    ([amount, " was sent back to you on "].concat(), ". Banks usually take about 5 working days.")
}

pub fn refund_under_way(amount: &str) -> String {
    [amount, " is on its way back to you. Your bank may take some days."].concat()
}

/// Said before the above, of a charge that came where another had paid.
pub fn charged_again(amount: &str) -> String {
    ["By our mistake you were charged ", amount, " a second time. "].concat()
}

pub const EXPIRED: Words = Words {
    title: "Closed",
    heading: "This checkout has closed",
    body: "It was not paid and nothing was charged.",
    action: "Start again with the same cart",
};

pub const ALREADY_SENT: Words = Words {
    title: "Already sent",
    heading: "This order already has a payment",
    body: "You were not charged again. The order's page shows the outcome.",
    action: "Show the outcome",
};

pub const READY: Words = Words {
    title: "Not paid yet",
    heading: "This order is not paid yet",
    body: "Nothing has been charged.",
    action: "Go to payment",
};

/// What the customer may know of a decline. "No money was taken" is said of the proof alone.
pub fn decline(proof: NotCharged) -> Words {
    let reason = proof.reason();
    let (heading, body, action) = match reason {
        DeclineReason::Generic => (
            "Your bank said no to this payment",
            "No money was taken. Your bank does not tell us why. Try another card, or ask your bank: the number is on the back \
             of the card.",
            "Try again",
        ),
        DeclineReason::InsufficientFunds => (
            "Not enough money available on this card",
            "No money was taken. Use another card, or top up and try again.",
            "Try again",
        ),
        DeclineReason::ExpiredCard => {
            ("This card has expired", "No money was taken. Check the expiry date, or use another card.", "Try again")
        }
        DeclineReason::IncorrectCode => (
            "The security code does not match",
            "No money was taken. Enter the security code again: three digits on the back, or four on the front of American \
             Express.",
            "Try again",
        ),
        DeclineReason::IncorrectNumber => {
            ("The card number does not match a card", "No money was taken. Enter the card number again.", "Try again")
        }
        DeclineReason::BankCheckFailed => (
            "Your bank could not confirm it was you",
            "No money was taken. Try again and finish the check, or use another card.",
            "Try again",
        ),
        DeclineReason::CardNotSupported => {
            ("This card can't be used here", "No money was taken. Try a card of another kind.", "Try another card")
        }
        DeclineReason::OverLimit => (
            "This payment is over your card's limit",
            "No money was taken. Use another card or ask your bank.",
            "Try again",
        ),
        DeclineReason::TryLater => (
            "Your bank couldn't answer",
            "No money was taken. Trying the same card in a few minutes often works.",
            "Try again",
        ),
        DeclineReason::NotCharged => (
            "Your payment did not go through",
            "We checked with the bank: you have not been charged. You can try again now.",
            "Try again",
        ),
    };
    let title = if matches!(reason, DeclineReason::NotCharged) { "Not paid" } else { "Declined" };
    Words { title, heading, body, action }
}
