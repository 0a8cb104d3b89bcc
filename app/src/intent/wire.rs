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
        decide_by: node.get("decide_by").as_ref().and_then(moment),
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
        "invalid_intent" => CheckoutError::InvalidIntent,
        "invalid_field" => CheckoutError::InvalidField { field: text(node, "field")?, problem: text(node, "problem")? },
        "price_changed" => {
            CheckoutError::PriceChanged { shown: money(&node.get("shown")?)?, now: money(&node.get("now")?)? }
        }
        "intent_reused" => CheckoutError::IntentReused,
        "in_progress" => CheckoutError::InProgress { retry_after_seconds: retry_after_seconds()? },
        "order_taken" => CheckoutError::OrderTaken { intent: text(node, "intent")? },
        "replaces_unfinished" => CheckoutError::ReplacesUnfinished,
        "order_closed" => CheckoutError::OrderClosed,
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
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::api;

    impl Node for Value {
        fn get(&self, name: &str) -> Option<Self> {
            Self::get(self, name).filter(|member| !member.is_null()).cloned()
        }
        fn text(&self) -> Option<String> {
            self.as_str().map(ToOwned::to_owned)
        }
        fn integer(&self) -> Option<i64> {
            self.as_i64()
        }
        fn truth(&self) -> Option<bool> {
            self.as_bool()
        }
    }

    fn money_of(minor: i64) -> MoneyDto {
        MoneyDto { minor, currency: "EUR".into(), display: "€49.90".into() }
    }

    const STATES: [OutcomeState; 7] = [
        OutcomeState::Ready,
        OutcomeState::Pending,
        OutcomeState::ActionRequired,
        OutcomeState::Unknown,
        OutcomeState::Paid,
        OutcomeState::Failed,
        OutcomeState::Closed,
    ];

    const REASONS: [DeclineReason; 10] = [
        DeclineReason::Generic,
        DeclineReason::InsufficientFunds,
        DeclineReason::ExpiredCard,
        DeclineReason::IncorrectCode,
        DeclineReason::IncorrectNumber,
        DeclineReason::BankCheckFailed,
        DeclineReason::CardNotSupported,
        DeclineReason::OverLimit,
        DeclineReason::TryLater,
        DeclineReason::NotCharged,
    ];

    fn some_outcome(state: OutcomeState, decline: Option<DeclineReason>, received: bool) -> OutcomeDto {
        let link = received.then(|| "https://bank.example/1".to_owned());
        OutcomeDto {
            state,
            intent: link.clone(),
            reference: "AB12-CD34".into(),
            amount: money_of(4990),
            charge: link.clone(),
            paid_at: link.clone(),
            decline,
            continue_url: link.clone(),
            decide_by: received.then(|| MomentDto { at: "2026-01-02T14:34:10Z".into(), display: "14:35 UTC".into() }),
            email_hint: link,
            received,
        }
    }

    #[test]
    fn every_outcome_that_serde_writes_is_read() {
        for state in STATES {
            for decline in REASONS.into_iter().map(Some).chain([None]) {
                for received in [true, false] {
                    let written = some_outcome(state, decline, received);
                    assert_eq!(outcome(&serde_json::to_value(&written).unwrap()), Some(written));
                }
            }
        }
    }

    #[test]
    fn every_answer_that_serde_writes_is_read() {
        for state in [AnswerState::Succeeded, AnswerState::Failed, AnswerState::Pending] {
            for decline in REASONS.into_iter().map(Some).chain([None]) {
                let written = AnswerDto {
                    intent: "7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11".into(),
                    state,
                    amount: 4990,
                    currency: "EUR".into(),
                    detail: decline.map(|_| "action_required".into()),
                    charge: Some("ch_1".into()),
                    paid_at: None,
                    decline,
                    continue_url: Some("https://bank.example/1".into()),
                };
                assert_eq!(answer(&serde_json::to_value(&written).unwrap()), Some(written));
            }
        }
    }

    #[test]
    fn every_error_that_serde_writes_is_read() {
        let all = [
            CheckoutError::NotFound,
            CheckoutError::MalformedRequest,
            CheckoutError::TooLarge,
            CheckoutError::InvalidIntent,
            CheckoutError::InvalidField { field: "email".into(), problem: "E-mail address needs an @".into() },
            CheckoutError::PriceChanged { shown: money_of(1), now: money_of(2) },
            CheckoutError::IntentReused,
            CheckoutError::InProgress { retry_after_seconds: 2 },
            CheckoutError::OrderTaken { intent: "x".into() },
            CheckoutError::ReplacesUnfinished,
            CheckoutError::OrderClosed,
            CheckoutError::OutOfStock { sku: "mug".into(), left: -1 },
            CheckoutError::NotSent,
            CheckoutError::Unavailable { retry_after_seconds: 7 },
            CheckoutError::RateLimited { retry_after_seconds: 3 },
            CheckoutError::LostAnswer,
        ];
        for written in all {
            assert_eq!(error(&serde_json::to_value(&written).unwrap()), Some(written));
        }
    }

    #[test]
    fn the_seed_that_the_server_writes_is_read() {
        for kind in [Kind::Checkout, Kind::Outcome] {
            let written = LiveSeed {
                seed: Seed {
                    order: "token".into(),
                    intent: "x".into(),
                    replaces: Some("y".into()),
                    price: money_of(i64::from(u32::MAX)),
                    outcome: some_outcome(OutcomeState::Failed, Some(DeclineReason::TryLater), true),
                    refused: None,
                    kind,
                },
                shop: "Tidewater \"Goods\"".into(),
                payment_methods_url: "http://127.0.0.1:3001/v1/payment_methods".into(),
                publishable_key: "pk_test".into(),
            };
            assert_eq!(live_seed(&serde_json::to_value(&written).unwrap()), Some(written));
        }
    }

    #[test]
    fn what_has_another_shape_is_nothing() {
        for odd in ["null", "[]", "\"paid\"", "{}", r#"{"state":"paid"}"#, r#"{"type":"new_error"}"#, "1"] {
            let odd: Value = serde_json::from_str(odd).unwrap();
            assert_eq!(outcome(&odd), None);
            assert_eq!(answer(&odd), None);
            assert_eq!(error(&odd), None);
            assert_eq!(live_seed(&odd), None);
        }
    }

    proptest! {
        #[test]
        fn serde_reads_every_body_that_is_written(
            (order, intent, replaces, payment_method, email, currency, amount) in
                (".*", ".+", proptest::option::of(".*"), "\\PC*", any::<String>(), "[A-Z]{3}", any::<i64>()),
        ) {
            let pay = PayDto { order: order.clone(), intent: intent.clone(), replaces, payment_method, email, amount, currency };
            let read: api::Pay = serde_json::from_str(&pay_body(&pay)).unwrap();
            prop_assert_eq!(read.pay, pay);
            let read: api::Outcome = serde_json::from_str(&question_body(&order, &intent)).unwrap();
            prop_assert_eq!((read.order, read.intent), (order, Some(intent)));
        }
    }
}
