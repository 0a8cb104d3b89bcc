//! Cancelling: the proof that a payment intent was not charged and never will be.

use payments::provider::{ConfirmOutcome, ProbeOutcome, Provider as _, UnknownReason};
use serde_json::json;

use crate::bench::{Bench, eur};

#[tokio::test]
async fn a_cancelled_payment_intent_refuses_the_original_that_comes_late() {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(4990)).await;
    let late = bench.request(&id, "pm_card_visa");

    assert_eq!(bench.stripe.cancel(&id).await, ProbeOutcome::Cancelled);
    let outcome = bench.stripe.confirm(&late).await;

    assert_eq!(outcome, ConfirmOutcome::Unknown(UnknownReason::UnexpectedState));
    assert_eq!(bench.stripe.probe(&id).await, ProbeOutcome::Cancelled);
    assert_eq!(bench.charges().await.len(), 0);
}

#[tokio::test]
async fn what_was_charged_is_not_cancelled_and_the_probe_finds_it() {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(4990)).await;
    let charge = bench.approved(&bench.request(&id, "pm_card_visa")).await;

    assert_eq!(bench.stripe.cancel(&id).await, ProbeOutcome::CannotTell(UnknownReason::UnexpectedState));
    assert_eq!(bench.stripe.probe(&id).await, ProbeOutcome::Charged(charge));
}

#[tokio::test]
async fn a_cancel_whose_answer_is_lost_is_found_by_the_probe_and_can_be_repeated() {
    let bench = Bench::start().await;
    for fault in [json!({"kind": "charge_then_drop"}), json!({"kind": "error_500"}), json!({"kind": "drop_before"})] {
        let id = bench.create(&fault.to_string(), eur(4990)).await;
        bench.fault(json!({"match": {"path": "cancel"}, "fault": fault, "next": 1})).await;
        let lost = bench.stripe.cancel(&id).await;
        assert!(matches!(lost, ProbeOutcome::CannotTell(_)), "{fault}: {lost:?}");

        // A fault that the provider remembered under a key would come back here for a day.
        let seen = bench.stripe.probe(&id).await;
        let again = if seen == ProbeOutcome::Cancelled { seen } else { bench.stripe.cancel(&id).await };
        assert_eq!(again, ProbeOutcome::Cancelled, "{fault}");
    }
}
