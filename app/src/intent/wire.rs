//! What the browser reads and writes of [`crate::dto`] and [`CheckoutError`], by hand.
//!
//! Why not serde, which the server uses for the same bytes: with its JSON reader the browser program is twice as large, and the
//! browser has a JSON reader of its own. This file only says which member means what. The tests hold both to each other: what
//! serde writes is read here, and what is written here serde reads.
//!
//! Promises: what is not of the expected shape is `None`, which means *unknown*. Never guesses a member that is missing.

use super::machine::{Kind, Seed};
use crate::{
    dto::{AnswerDto, AnswerState, DeclineReason, MomentDto, MoneyDto, OutcomeDto, OutcomeState, PayDto},
    error::CheckoutError,
};

/// A JSON value, as somebody else parsed it.
pub trait Node: Sized {
    /// The member of an object; `None` where it is missing or null.
    fn get(&self, name: &str) -> Option<Self>;
    fn text(&self) -> Option<String>;
    fn integer(&self) -> Option<i64>;
    fn truth(&self) -> Option<bool>;
}

/// A page's seed and what its island needs besides.
#[cfg_attr(feature = "ssr", derive(serde::Serialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSeed {
    pub seed: Seed,
    pub shop: String,
    pub payment_methods_url: String,
    pub publishable_key: String,
}

fn text(node: &impl Node, name: &str) -> Option<String> {
    node.get(name)?.text()
}

/// The seed in the page.
pub fn live_seed(node: &impl Node) -> Option<LiveSeed> {
    let seed = node.get("seed")?;
    Some(LiveSeed {
        seed: Seed {
            order: text(&seed, "order")?,
            intent: text(&seed, "intent")?,
            replaces: text(&seed, "replaces"),
            price: money(&seed.get("price")?)?,
            outcome: outcome(&seed.get("outcome")?)?,
            refused: text(&seed, "refused"),
            kind: match text(&seed, "kind")?.as_str() {
                "Checkout" => Kind::Checkout,
                "Outcome" => Kind::Outcome,
                _ => return None,
            },
        },
        shop: text(node, "shop")?,
        payment_methods_url: text(node, "payment_methods_url")?,
        publishable_key: text(node, "publishable_key")?,
    })
}

/// The answer to Pay.
pub fn answer(node: &impl Node) -> Option<AnswerDto> {
    Some(AnswerDto {
        intent: text(node, "intent")?,
        state: match text(node, "state")?.as_str() {
            "SUCCEEDED" => AnswerState::Succeeded,
            "FAILED" => AnswerState::Failed,
            "PENDING" => AnswerState::Pending,
            _ => return None,
        },
        amount: node.get("amount")?.integer()?,
        currency: text(node, "currency")?,
        detail: text(node, "detail"),
        charge: text(node, "charge"),
        paid_at: text(node, "paid_at"),
        decline: text(node, "decline").map(|reason| decline(&reason)),
        continue_url: text(node, "continue_url"),
    })
}

/// The outcome of an order.
pub fn outcome(node: &impl Node) -> Option<OutcomeDto> {
    Some(OutcomeDto {
        state: match text(node, "state")?.as_str() {
            "ready" => OutcomeState::Ready,
            "pending" => OutcomeState::Pending,
            "action_required" => OutcomeState::ActionRequired,
            "unknown" => OutcomeState::Unknown,
            "paid" => OutcomeState::Paid,
            "failed" => OutcomeState::Failed,
            "closed" => OutcomeState::Closed,
            _ => return None,
        },
        intent: text(node, "intent"),
        reference: text(node, "reference")?,
        amount: money(&node.get("amount")?)?,
        charge: text(node, "charge"),
        paid_at: text(node, "paid_at"),
        decline: text(node, "decline").map(|reason| decline(&reason)),
        continue_url: text(node, "continue_url"),
        decide_by: match node.get("decide_by") {
            Some(by) => Some(moment(&by)?),
            None => None,
        },
        email_hint: text(node, "email_hint"),
        received: node.get("received")?.truth()?,
    })
}

/// Why a call gave no outcome.
pub fn error(node: &impl Node) -> Option<CheckoutError> {
    let retry_after_seconds = || u32::try_from(node.get("retry_after_seconds")?.integer()?).ok();
    Some(match text(node, "type")?.as_str() {
        "not_found" => CheckoutError::NotFound,
        "malformed_request" => CheckoutError::MalformedRequest,
        "too_large" => CheckoutError::TooLarge,
        "too_slow" => CheckoutError::TooSlow,
        "cross_site" => CheckoutError::CrossSite,
        "invalid_intent" => CheckoutError::InvalidIntent,
        "invalid_field" => CheckoutError::InvalidField { field: text(node, "field")?, problem: text(node, "problem")? },
        "price_changed" => {
            CheckoutError::PriceChanged { shown: money(&node.get("shown")?)?, now: money(&node.get("now")?)? }
        }
        "intent_reused" => CheckoutError::IntentReused,
        "purged" => CheckoutError::Purged { outcome: text(node, "outcome")? },
        "in_progress" => CheckoutError::InProgress { retry_after_seconds: retry_after_seconds()? },
        "order_taken" => CheckoutError::OrderTaken { intent: text(node, "intent")? },
        "replaces_unfinished" => CheckoutError::ReplacesUnfinished,
        "order_closed" => CheckoutError::OrderClosed,
        "amount_refused" => CheckoutError::AmountRefused,
        "out_of_stock" => CheckoutError::OutOfStock {
            sku: text(node, "sku")?,
            left: i32::try_from(node.get("left")?.integer()?).ok()?,
        },
        "not_sent" => CheckoutError::NotSent,
        "unavailable" => CheckoutError::Unavailable { retry_after_seconds: retry_after_seconds()? },
        "rate_limited" => CheckoutError::RateLimited { retry_after_seconds: retry_after_seconds()? },
        "lost_answer" => CheckoutError::LostAnswer,
        _ => return None,
    })
}

fn moment(node: &impl Node) -> Option<MomentDto> {
    Some(MomentDto { at: text(node, "at")?, display: text(node, "display")? })
}

fn money(node: &impl Node) -> Option<MoneyDto> {
    Some(MoneyDto {
        minor: node.get("minor")?.integer()?,
        currency: text(node, "currency")?,
        display: text(node, "display")?,
    })
}

/// A reason that this page does not know yet is a no all the same.
fn decline(reason: &str) -> DeclineReason {
    match reason {
        "insufficient_funds" => DeclineReason::InsufficientFunds,
        "expired_card" => DeclineReason::ExpiredCard,
        "incorrect_code" => DeclineReason::IncorrectCode,
        "incorrect_number" => DeclineReason::IncorrectNumber,
        "bank_check_failed" => DeclineReason::BankCheckFailed,
        "card_not_supported" => DeclineReason::CardNotSupported,
        "over_limit" => DeclineReason::OverLimit,
        "try_later" => DeclineReason::TryLater,
        "not_charged" => DeclineReason::NotCharged,
        _ => DeclineReason::Generic,
    }
}

/// The body of Pay.
pub fn pay_body(pay: &PayDto) -> String {
    let replaces = pay.replaces.as_deref().map_or_else(|| "null".to_owned(), quoted);
    [
        "{\"pay\":{\"order\":",
        &quoted(&pay.order),
        ",\"intent\":",
        &quoted(&pay.intent),
        ",\"replaces\":",
        &replaces,
        ",\"payment_method\":",
        &quoted(&pay.payment_method),
        ",\"email\":",
        &quoted(&pay.email),
        ",\"amount\":",
        &pay.amount.to_string(),
        ",\"currency\":",
        &quoted(&pay.currency),
        "}}",
    ]
    .concat()
}

/// The body of a question for the outcome. An empty `intent` asks for the order alone.
pub fn question_body(order: &str, intent: &str) -> String {
    let intent = if intent.is_empty() { "null".to_owned() } else { quoted(intent) };
    ["{\"order\":", &quoted(order), ",\"intent\":", &intent, "}"].concat()
}

/// The text as a JSON string.
fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                json.push('\\');
                json.push(character);
            }
            '\0'..='\u{1f}' => {
                let code = u32::from(character);
                json.push_str("\\u00");
                json.extend([code >> 4, code & 0xf].map(|half| char::from_digit(half, 16).unwrap_or('0')));
            }
            _ => json.push(character),
        }
    }
    json.push('"');
    json
}

#[cfg(all(test, feature = "ssr"))]
mod tests;
