//! The adapter against the real sandbox over HTTP: each outcome is held against the sandbox's ledger, which counts what was
//! really charged.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fail there")]

mod bench;
mod cancel;
mod faults;
mod shapes;

use payments::{
    money::{Currency, Money},
    provider::{
        CardSessionOutcome, ConfirmOutcome, CreateOutcome, Decline, DeclineReason, NotSentReason, ProbeOutcome,
        Provider, ProviderPaymentIntentId, UnknownReason,
        stripe::{SecretKey, Stripe, StripeConfig},
    },
};
use serde_json::json;

use crate::bench::{Bench, eur, new_payment_intent};

#[tokio::test]
async fn creating_again_with_the_same_key_gives_the_same_payment_intent() {
    let bench = Bench::start().await;
    let first = bench.create("order-1", eur(4990)).await;
    assert_eq!(bench.create("order-1", eur(4990)).await, first);
    assert_ne!(bench.create("order-2", eur(4990)).await, first);
    assert_eq!(bench.stripe.probe(&first).await, ProbeOutcome::NotCharged);
}

#[tokio::test]
async fn an_approved_confirm_is_one_charge_of_the_right_money() {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(4990)).await;
    let charge = bench.approved(&bench.request(&id, "pm_card_visa")).await;
    assert_eq!(charge.money, eur(4990));
    assert!(charge.created.is_some());
    let ledger = bench.charges().await;
    assert_eq!(ledger.len(), 1);
    assert_eq!(ledger[0]["id"], charge.id.as_str());
    assert_eq!((&ledger[0]["amount"], &ledger[0]["currency"]), (&json!(4990), &json!("eur")));
    assert_eq!(ledger[0]["metadata"]["order"], "order-1");
    assert_eq!(bench.stripe.probe(&id).await, ProbeOutcome::Charged(charge));
}

#[tokio::test]
async fn every_decline_has_its_reason_and_charges_nothing() {
    let bench = Bench::start().await;
    for (token, code, reason) in [
        ("pm_card_visa_chargeDeclined", "generic_decline", DeclineReason::Generic),
        ("pm_card_visa_chargeDeclinedLostCard", "lost_card", DeclineReason::Generic),
        ("pm_card_visa_chargeDeclinedStolenCard", "stolen_card", DeclineReason::Generic),
        ("pm_card_radarBlock", "fraudulent", DeclineReason::Generic),
        ("pm_card_visa_chargeDeclinedInsufficientFunds", "insufficient_funds", DeclineReason::InsufficientFunds),
        ("pm_card_visa_chargeDeclinedExpiredCard", "expired_card", DeclineReason::ExpiredCard),
        ("pm_card_visa_chargeDeclinedIncorrectCvc", "incorrect_cvc", DeclineReason::IncorrectCode),
        ("pm_card_visa_chargeDeclinedProcessingError", "processing_error", DeclineReason::TryLater),
        ("pm_card_visa_chargeDeclinedVelocityLimitExceeded", "card_velocity_exceeded", DeclineReason::OverLimit),
    ] {
        let id = bench.create(token, eur(4990)).await;
        let outcome = bench.stripe.confirm(&bench.request(&id, token)).await;
        assert_eq!(outcome, ConfirmOutcome::Declined(Decline { code: code.to_owned(), reason }), "{token}");
        assert_eq!(bench.stripe.probe(&id).await, ProbeOutcome::NotCharged, "{token}");
    }
    assert_eq!(bench.charges().await.len(), 0);
}

#[tokio::test]
async fn b30_after_a_decline_another_key_pays_with_another_card() {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(4990)).await;
    let declined = bench.stripe.confirm(&bench.request(&id, "pm_card_visa_chargeDeclined")).await;
    assert!(matches!(declined, ConfirmOutcome::Declined(_)), "{declined:?}");
    let mut other = bench.request(&id, "pm_card_visa");
    other.idempotency_key.push_str("-2");
    bench.approved(&other).await;
    assert_eq!(bench.charges().await.len(), 1);
}

#[tokio::test]
async fn a_repeat_with_the_same_bytes_gets_the_same_answer_and_charges_nothing_more() {
    let bench = Bench::start().await;
    for token in ["pm_card_visa", "pm_card_visa_chargeDeclined", "pm_card_threeDSecure2Required"] {
        let id = bench.create(token, eur(4990)).await;
        let request = bench.request(&id, token);
        let first = bench.stripe.confirm(&request).await;
        assert_eq!(bench.stripe.confirm(&request).await, first, "{token}");
    }
    assert_eq!(bench.charges().await.len(), 1);
}

#[tokio::test]
async fn the_same_key_with_other_bytes_is_unknown() {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(4990)).await;
    bench.approved(&bench.request(&id, "pm_card_visa")).await;
    let outcome = bench.stripe.confirm(&bench.request(&id, "pm_card_mastercard")).await;
    assert_eq!(outcome, ConfirmOutcome::Unknown(UnknownReason::KeyReused));
    assert_eq!(bench.charges().await.len(), 1);
}

#[tokio::test]
async fn another_key_for_what_is_charged_is_unknown_and_the_probe_tells() {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(4990)).await;
    let request = bench.request(&id, "pm_card_visa");
    let charge = bench.approved(&request).await;
    let mut other = request;
    other.idempotency_key.push_str("-2");
    let outcome = bench.stripe.confirm(&other).await;
    assert_eq!(outcome, ConfirmOutcome::Unknown(UnknownReason::UnexpectedState));
    assert_eq!(bench.stripe.probe(&id).await, ProbeOutcome::Charged(charge));
    assert_eq!(bench.charges().await.len(), 1);
}

#[tokio::test]
async fn b33_while_a_confirm_runs_its_repeat_is_told_to_wait() {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(4990)).await;
    // The first holds the key until the fault is taken back, which the second does once it has been answered.
    bench
        .fault(json!({"match": {"path": "confirm"}, "fault": {"kind": "delay_before", "ms": 60_000}, "next": 1}))
        .await;
    let request = bench.request(&id, "pm_card_visa");
    let answered_first = async || {
        let outcome = bench.stripe.confirm(&request).await;
        bench.clear_faults().await;
        outcome
    };
    let (one, other) = tokio::join!(answered_first(), answered_first());
    let (busy, paid) = if one == ConfirmOutcome::Busy { (one, other) } else { (other, one) };
    assert_eq!(busy, ConfirmOutcome::Busy);
    assert!(matches!(paid, ConfirmOutcome::Approved(_)), "{paid:?}");
    assert_eq!(bench.charges().await.len(), 1);
}

#[tokio::test]
async fn the_bank_step_ends_in_a_charge_or_in_none() {
    let bench = Bench::start().await;
    for decision in ["approve", "refuse"] {
        let id = bench.create(decision, eur(4990)).await;
        let outcome = bench.stripe.confirm(&bench.request(&id, "pm_card_threeDSecure2Required")).await;
        let ConfirmOutcome::ActionRequired { url } = outcome else { unreachable!("no bank step: {outcome:?}") };
        assert_eq!(bench.stripe.probe(&id).await, ProbeOutcome::ActionRequired { url: url.clone() });
        bench.decide(url.as_str(), decision).await;
        let probe = bench.stripe.probe(&id).await;
        match decision {
            "approve" => {
                assert!(matches!(&probe, ProbeOutcome::Charged(charge) if charge.money == eur(4990)), "{probe:?}");
            }
            _ => assert_eq!(probe, ProbeOutcome::NotCharged),
        }
        // One from the approved payment, and none from the refused one after it.
        assert_eq!(bench.charges().await.len(), 1);
    }
}

#[tokio::test]
async fn a_cancelled_payment_intent_says_so_and_can_no_longer_be_charged() {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(4990)).await;
    bench.cancel(&id).await;
    assert_eq!(bench.stripe.probe(&id).await, ProbeOutcome::Cancelled);
    let outcome = bench.stripe.confirm(&bench.request(&id, "pm_card_visa")).await;
    assert_eq!(outcome, ConfirmOutcome::Unknown(UnknownReason::UnexpectedState));
    assert_eq!(bench.charges().await.len(), 0);
}

#[tokio::test]
async fn what_does_not_exist_is_told_apart() {
    let bench = Bench::start().await;
    let nothing = ProviderPaymentIntentId::parse("pi_nothing").unwrap();
    assert_eq!(bench.stripe.probe(&nothing).await, ProbeOutcome::CannotTell(UnknownReason::NotFound));
    let outcome = bench.stripe.confirm(&bench.request(&nothing, "pm_card_visa")).await;
    assert_eq!(outcome, ConfirmOutcome::Unknown(UnknownReason::NotFound));

    let id = bench.create("order-1", eur(4990)).await;
    let outcome = bench.stripe.confirm(&bench.request(&id, "pm_nothing")).await;
    let expected = Decline { code: "resource_missing".to_owned(), reason: DeclineReason::NotCharged };
    assert_eq!(outcome, ConfirmOutcome::Declined(expected));
    assert_eq!(bench.stripe.probe(&id).await, ProbeOutcome::NotCharged);
}

#[tokio::test]
async fn a_wrong_secret_key_sends_nothing() {
    let bench = Bench::start().await;
    let id = bench.create("order-1", eur(4990)).await;
    let config = StripeConfig::new(bench.url.clone(), SecretKey::new("sk_test_of_somebody_else"));
    let stranger = Stripe::new(&config).unwrap();
    let outcome = stranger.confirm(&bench.request(&id, "pm_card_visa")).await;
    assert_eq!(outcome, ConfirmOutcome::NotSent(NotSentReason::KeyRefused));
    assert_eq!(stranger.probe(&id).await, ProbeOutcome::CannotTell(UnknownReason::NotAsked));
    assert_eq!(bench.charges().await.len(), 0);
}

#[tokio::test]
async fn a_plain_card_form_comes_back_with_a_payment_method_or_a_fault() {
    let bench = Bench::start().await;
    let session = bench.card_form("4242 4242 4242 4242").await;
    let CardSessionOutcome::Found(session) = bench.stripe.card_session(&session).await else {
        unreachable!("no session")
    };
    assert_eq!((session.brand.as_deref(), session.last4.as_deref()), (Some("visa"), Some("4242")));
    assert_eq!((session.name.as_deref(), session.email.as_deref()), (Some("Ana Test"), Some("ana@shop.example")));
    assert_eq!(session.error_code, None);
    let id = bench.create("order-1", eur(4990)).await;
    bench.approved(&bench.request(&id, session.payment_method.unwrap().expose())).await;

    let session = bench.card_form("4242 4242 4242 4241").await;
    let CardSessionOutcome::Found(session) = bench.stripe.card_session(&session).await else {
        unreachable!("no session")
    };
    assert_eq!(session.payment_method, None);
    assert_eq!(session.error_code.as_deref(), Some("incorrect_number"));
    assert_eq!(session.email.as_deref(), Some("ana@shop.example"));

    assert_eq!(bench.stripe.card_session("cs_nothing").await, CardSessionOutcome::Missing);
}

#[tokio::test]
async fn b96_b97_b99_b101_b102_the_ledger_has_the_integers_that_people_mean() {
    let bench = Bench::start().await;
    for (text, code, integer) in [
        ("8.20", "EUR", 820),
        ("19.99", "EUR", 1999),
        ("64.10", "EUR", 6410),
        ("0.58", "EUR", 58),
        ("500", "JPY", 500),
        ("10000", "JPY", 10_000),
        ("35.200", "BHD", 35_200),
        ("18.600", "KWD", 18_600),
        ("0.050", "TND", 50),
        ("5000", "UGX", 500_000),
        ("2000", "ISK", 200_000),
        ("21474836.48", "EUR", 2_147_483_648_i64),
        ("49990000.00", "IDR", 4_999_000_000),
        ("4999000000", "VND", 4_999_000_000),
    ] {
        let money = Money::parse(text, Currency::parse(code).unwrap()).unwrap();
        let order = format!("{code}-{integer}");
        let id = bench.create(&order, money).await;
        let charge = bench.approved(&bench.request(&id, "pm_card_visa")).await;
        assert_eq!(charge.money, money);
        let ledger = bench.charges_of(&order).await;
        assert_eq!(ledger.len(), 1);
        assert_eq!((&ledger[0]["amount"], &ledger[0]["currency"]), (&json!(integer), &json!(code.to_lowercase())));
    }
}

#[tokio::test]
async fn an_amount_that_the_provider_refuses_is_refused() {
    let bench = Bench::start().await;
    let new = new_payment_intent("order-1", eur(49));
    let outcome = bench.stripe.create_payment_intent(&new).await;
    assert_eq!(outcome, CreateOutcome::Refused { code: "amount_too_small".to_owned() });
}
