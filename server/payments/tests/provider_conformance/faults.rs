//! The sandbox misbehaves, and the outcome never says more than is true: what was charged is unknown until a probe finds it,
//! what was not charged is not called a decline.

use std::time::Duration;

use payments::provider::{ConfirmOutcome, CreateOutcome, NotSentReason, ProbeOutcome, Provider, UnknownReason};
use serde_json::{Value, json};

use crate::bench::{Bench, eur, new_payment_intent};

/// One confirm under a fault.
async fn check(fault: Value, expected: ConfirmOutcome, charges: usize) {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(4990)).await;
    let request = bench.request(&id, "pm_card_visa");
    bench.fault(json!({"match": {"path": "confirm"}, "fault": fault.clone(), "next": 1})).await;
    assert_eq!(bench.stripe.confirm(&request).await, expected, "{fault}");
    assert_eq!(bench.charges().await.len(), charges, "{fault}");
    let probe = bench.stripe.probe(&id).await;
    if charges == 0 {
        assert_eq!(probe, ProbeOutcome::NotCharged, "{fault}");
    } else {
        assert!(matches!(&probe, ProbeOutcome::Charged(charge) if charge.money == eur(4990)), "{fault}: {probe:?}");
    }
    // Whatever it was, the identical request again ends in exactly one charge.
    bench.approved(&request).await;
    assert_eq!(bench.charges().await.len(), 1, "{fault}");
}

#[tokio::test]
async fn a_charge_whose_answer_is_lost_is_unknown_and_the_probe_finds_it() {
    for how in ["reset", "close"] {
        let expected = ConfirmOutcome::Unknown(UnknownReason::ConnectionLost);
        check(json!({"kind": "charge_then_drop", "how": how}), expected, 1).await;
    }
    check(json!({"kind": "charge_then_500"}), ConfirmOutcome::Unknown(UnknownReason::ServerFault), 1).await;
    check(json!({"kind": "garbage"}), ConfirmOutcome::Unknown(UnknownReason::Unreadable), 1).await;
    check(json!({"kind": "wrong_amount"}), ConfirmOutcome::Unknown(UnknownReason::Unreadable), 1).await;
    check(json!({"kind": "wrong_currency"}), ConfirmOutcome::Unknown(UnknownReason::Unreadable), 1).await;
}

#[tokio::test]
async fn half_a_body_after_the_charge_is_unknown() {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(4990)).await;
    bench.fault(json!({"match": {"path": "confirm"}, "fault": {"kind": "half_body"}, "next": 1})).await;
    let outcome = bench.stripe.confirm(&bench.request(&id, "pm_card_visa")).await;
    assert!(matches!(outcome, ConfirmOutcome::Unknown(_)), "{outcome:?}");
    assert_eq!(bench.charges().await.len(), 1);
}

#[tokio::test]
async fn b53_a_fault_without_a_charge_is_unknown_too() {
    for how in ["reset", "close"] {
        let expected = ConfirmOutcome::Unknown(UnknownReason::ConnectionLost);
        check(json!({"kind": "drop_before", "how": how}), expected, 0).await;
    }
    check(json!({"kind": "error_500"}), ConfirmOutcome::Unknown(UnknownReason::ServerFault), 0).await;
    let unavailable = ConfirmOutcome::Unknown(UnknownReason::ServerFault);
    check(json!({"kind": "status", "status": 503}), unavailable, 0).await;
}

#[tokio::test]
async fn b33_a_conflict_is_busy() {
    check(json!({"kind": "conflict_409"}), ConfirmOutcome::Busy, 0).await;
}

#[tokio::test]
async fn a_rate_limit_is_not_sent() {
    let expected = ConfirmOutcome::NotSent(NotSentReason::RateLimited);
    check(json!({"kind": "status", "status": 429, "code": "rate_limit", "retry_after": 1}), expected, 0).await;
}

#[tokio::test]
async fn b49_a_charge_that_answers_too_late_is_unknown() {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(8000)).await;
    bench.fault(json!({"match": {"path": "confirm"}, "fault": {"kind": "delay_after", "ms": 60_000}, "next": 1})).await;
    let outcome = bench.impatient_stripe().confirm(&bench.request(&id, "pm_card_visa")).await;
    assert_eq!(outcome, ConfirmOutcome::Unknown(UnknownReason::TimedOut));
    let probe = bench.stripe.probe(&id).await;
    assert!(matches!(&probe, ProbeOutcome::Charged(charge) if charge.money == eur(8000)), "{probe:?}");
    assert_eq!(bench.charges().await.len(), 1);
}

#[tokio::test]
async fn b29_a_provider_that_refuses_connections_was_sent_nothing() {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(4990)).await;
    bench.fault(json!({"fault": {"kind": "refuse", "ms": 1500}})).await;
    // A fresh adapter, as the pool of the first may still have a connection from before.
    let fresh = bench.impatient_stripe();
    let outcome = fresh.confirm(&bench.request(&id, "pm_card_visa")).await;
    assert_eq!(outcome, ConfirmOutcome::NotSent(NotSentReason::NotConnected));
    let created = fresh.create_payment_intent(&new_payment_intent("order-2", eur(4990))).await;
    assert_eq!(created, CreateOutcome::NotSent(NotSentReason::NotConnected));
    // It opens again by itself; until then each try is proven not sent, and may be repeated.
    let mut tries = tokio::time::interval(Duration::from_millis(50));
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    loop {
        assert!(tries.tick().await < deadline, "the sandbox stayed closed");
        let confirmed = bench.stripe.confirm(&bench.request(&id, "pm_card_visa")).await;
        if matches!(confirmed, ConfirmOutcome::Approved(_)) {
            break;
        }
        assert_eq!(confirmed, ConfirmOutcome::NotSent(NotSentReason::NotConnected));
    }
    assert_eq!(bench.charges().await.len(), 1);
}
