//! What serde writes is read by hand, what is written by hand serde reads, and what is neither is nothing.

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
        CheckoutError::TooSlow,
        CheckoutError::CrossSite,
        CheckoutError::InvalidIntent,
        CheckoutError::InvalidField { field: "email".into(), problem: "E-mail address needs an @".into() },
        CheckoutError::PriceChanged { shown: money_of(1), now: money_of(2) },
        CheckoutError::IntentReused,
        CheckoutError::Purged { outcome: "/orders/x".into() },
        CheckoutError::InProgress { retry_after_seconds: 2 },
        CheckoutError::OrderTaken { intent: "x".into() },
        CheckoutError::ReplacesUnfinished,
        CheckoutError::OrderClosed,
        CheckoutError::AmountRefused,
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

/// serde would take a list for a moment; a page takes it for nothing.
#[test]
fn a_moment_that_is_none_spoils_the_outcome() {
    let outcome_with = |decide_by: serde_json::Value| {
        let amount = serde_json::to_value(money_of(1)).unwrap();
        outcome(&serde_json::json!({
            "state": "unknown", "reference": "r", "amount": amount, "received": true, "decide_by": decide_by
        }))
    };
    assert!(outcome_with(serde_json::Value::Null).is_some());
    assert!(outcome_with(serde_json::json!({"at": "x", "display": "y"})).is_some());
    for wrong in [serde_json::json!(["x", "y"]), serde_json::json!(7), serde_json::json!({"at": "x"})] {
        assert_eq!(outcome_with(wrong), None);
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

fn money() -> impl Strategy<Value = MoneyDto> {
    (any::<i64>(), any::<String>(), any::<String>()).prop_map(|(minor, currency, display)| MoneyDto {
        minor,
        currency,
        display,
    })
}

/// A text that may be missing.
fn maybe() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(any::<String>())
}

fn outcomes() -> impl Strategy<Value = OutcomeDto> {
    let decline = proptest::option::of(proptest::sample::select(&REASONS));
    let moment =
        proptest::option::of((any::<String>(), any::<String>()).prop_map(|(at, display)| MomentDto { at, display }));
    let known = (proptest::sample::select(&STATES), any::<String>(), money(), decline, moment, any::<bool>());
    (known, maybe(), maybe(), maybe(), maybe(), maybe()).prop_map(
        |(
            (state, reference, amount, decline, decide_by, received),
            intent,
            charge,
            paid_at,
            continue_url,
            email_hint,
        )| {
            OutcomeDto {
                state,
                intent,
                reference,
                amount,
                charge,
                paid_at,
                decline,
                continue_url,
                decide_by,
                email_hint,
                received,
            }
        },
    )
}

fn answers() -> impl Strategy<Value = AnswerDto> {
    let state = proptest::sample::select(&[AnswerState::Succeeded, AnswerState::Failed, AnswerState::Pending][..]);
    let known = (
        state,
        any::<String>(),
        any::<i64>(),
        any::<String>(),
        proptest::option::of(proptest::sample::select(&REASONS)),
    );
    (known, maybe(), maybe(), maybe(), maybe()).prop_map(
        |((state, intent, amount, currency, decline), detail, charge, paid_at, continue_url)| AnswerDto {
            intent,
            state,
            amount,
            currency,
            detail,
            charge,
            paid_at,
            decline,
            continue_url,
        },
    )
}

fn errors() -> impl Strategy<Value = CheckoutError> {
    prop_oneof![
        (any::<String>(), any::<String>()).prop_map(|(field, problem)| CheckoutError::InvalidField { field, problem }),
        (money(), money()).prop_map(|(shown, now)| CheckoutError::PriceChanged { shown, now }),
        any::<u32>().prop_map(|retry_after_seconds| CheckoutError::InProgress { retry_after_seconds }),
        any::<u32>().prop_map(|retry_after_seconds| CheckoutError::Unavailable { retry_after_seconds }),
        any::<u32>().prop_map(|retry_after_seconds| CheckoutError::RateLimited { retry_after_seconds }),
        any::<String>().prop_map(|intent| CheckoutError::OrderTaken { intent }),
        any::<String>().prop_map(|outcome| CheckoutError::Purged { outcome }),
        (any::<String>(), any::<i32>()).prop_map(|(sku, left)| CheckoutError::OutOfStock { sku, left }),
    ]
}

/// A text, a number, a truth or nothing, with the words that the readers know more often than others.
fn leaf() -> impl Strategy<Value = Value> {
    let words = ["paid", "failed", "SUCCEEDED", "FAILED", "not_found", "in_progress", "price_changed", "Checkout"];
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        proptest::sample::select(words.to_vec()).prop_map(Value::from),
    ]
}

/// Any JSON, with the members that the readers ask for more often than others.
fn json() -> impl Strategy<Value = Value> {
    let names = [
        "seed",
        "order",
        "intent",
        "price",
        "outcome",
        "kind",
        "shop",
        "state",
        "amount",
        "currency",
        "minor",
        "display",
        "reference",
        "received",
        "type",
        "retry_after_seconds",
        "decline",
        "decide_by",
        "at",
        "left",
        "sku",
    ];
    leaf().prop_recursive(4, 40, 12, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(proptest::sample::select(names.to_vec()), inner, 0..12)
                .prop_map(|members| members.into_iter().map(|(name, member)| (name.to_owned(), member)).collect()),
        ]
    })
}

/// Something that serde wrote, with one member replaced by anything.
fn damaged() -> impl Strategy<Value = Value> {
    let written = prop_oneof![
        outcomes().prop_map(|it| serde_json::to_value(it).expect("JSON")),
        answers().prop_map(|it| serde_json::to_value(it).expect("JSON")),
        errors().prop_map(|it| serde_json::to_value(it).expect("JSON")),
    ];
    (written, any::<proptest::sample::Index>(), prop_oneof![leaf(), json()]).prop_map(|(mut written, at, other)| {
        let members = written.as_object_mut().expect("an object");
        let count = members.len();
        if let Some((_, member)) = members.iter_mut().nth(at.index(count)) {
            *member = other;
        }
        written
    })
}

proptest! {
    #[test]
    fn whatever_serde_writes_is_read_back(written in outcomes(), answered in answers(), refused in errors()) {
        prop_assert_eq!(outcome(&serde_json::to_value(&written).unwrap()), Some(written));
        prop_assert_eq!(answer(&serde_json::to_value(&answered).unwrap()), Some(answered));
        prop_assert_eq!(error(&serde_json::to_value(&refused).unwrap()), Some(refused));
    }

    /// A member that is taken away or has another type leaves an outcome that is read no better than without it.
    #[test]
    fn a_damaged_outcome_never_says_paid_that_was_not(written in outcomes(), at: proptest::sample::Index, other in json()) {
        let mut damaged = serde_json::to_value(&written).unwrap();
        let members = damaged.as_object_mut().unwrap();
        let name = members.keys().nth(at.index(members.len())).unwrap().clone();
        if name != "state" {
            members.insert(name, other);
            if let Some(read) = outcome(&damaged) {
                prop_assert_eq!(read.state, written.state);
            }
        }
    }
}

proptest! {
    // Many, since what damages one member of one kind is rare.
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    /// What is read by hand serde would have read too, and the same; whatever else comes is nothing, and nothing panics. The one
    /// difference is wanted: a reason that this page does not know yet is a no all the same.
    #[test]
    fn any_json_is_read_as_serde_reads_it_or_not_at_all(any in prop_oneof![json(), damaged()]) {
        if let Some(read) = outcome(&any) {
            let knows = serde_json::from_value::<OutcomeDto>(any.clone());
            prop_assert!(knows.is_err() || knows.unwrap() == read, "{any}");
        }
        if let Some(read) = answer(&any) {
            let knows = serde_json::from_value::<AnswerDto>(any.clone());
            prop_assert!(knows.is_err() || knows.unwrap() == read, "{any}");
        }
        if let Some(read) = error(&any) {
            prop_assert_eq!(serde_json::from_value::<CheckoutError>(any.clone()).ok(), Some(read));
        }
        let _seed = live_seed(&any);
    }
}
