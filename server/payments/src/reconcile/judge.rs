//! What a charge is that both sides list, or only one.
//!
//! Promise: nothing is concluded from its absence in a list: a charge of theirs is looked for by its id, its payment intent and its
//! order, one of ours is asked for at the provider. What is certain is repaired by the writes that everybody uses, each guarded, so
//! that whoever was faster meanwhile wins. Never: it charges, or gives back.

use uuid::Uuid;

use super::{
    Work,
    charges::Booked,
    finding::{Finding, Kind, OfIntent},
    second_charge, store,
};
use crate::{
    ids::{IntentId, OrderId},
    intent::{
        self, Fact, Intent, Standing,
        archive::{Archive, whole_seconds},
        fingerprint::Fingerprint,
        moves::{Effect, effect_of},
        store::recovered::{self, Recovering},
    },
    lists::{Pauses, Reader, Stop, patiently},
    money::{Currency, Money},
    pool::StoreError,
    provider::{
        ProviderCharge, ProviderChargeId, ProviderPaymentIntentId,
        lists::{ListedCharge, ListedState},
    },
    settle::{self, Target},
};

/// A charge that both sides have.
pub(super) async fn both(work: &Work, booked: &Booked, charge: &ListedCharge) -> Result<(), Stop> {
    if booked.money == charge.money { Ok(()) } else { work.tell(mismatch(booked.of, booked.money, charge)).await }
}

/// A charge of ours that the provider does not list at its time.
pub(super) async fn ours(work: &Work, booked: &Booked) -> Result<(), Stop> {
    let missing = Finding {
        intent: Some(booked.of),
        charge: Some(booked.charge.clone()),
        expected: Some(booked.money),
        ..Finding::of(Kind::OnlyOurs)
    };
    let Ok(id) = ProviderChargeId::parse(&booked.charge) else { return work.tell(missing).await };
    match Reader(&work.ctx).charge(&id).await? {
        Some(charge) if charge.state == ListedState::Succeeded => both(work, booked, &charge).await,
        Some(charge) => work.tell(Finding { reported: Some(charge.money), ..missing }).await,
        None => work.tell(missing).await,
    }
}

/// A charge of theirs that no intent of ours succeeded by at its time. One that cannot be judged is told, and stops nothing.
pub(super) async fn theirs(work: &Work, charge: &ListedCharge) -> Result<(), Stop> {
    match judge(work, charge).await {
        Err(Stop::Store(StoreError::Impossible(what))) => {
            tracing::error!(charge = %charge.id, what, "a charge cannot be judged");
            work.tell_unreadable(Kind::UnreadableCharge, charge.id.as_str()).await
        }
        judged => judged,
    }
}

async fn judge(work: &Work, charge: &ListedCharge) -> Result<(), Stop> {
    let (ctx, named) = (&work.ctx, named_order(charge));
    let payment_intent = charge.payment_intent.as_ref();
    let known = patiently(ctx, || store::find_known(&ctx.pool, &charge.id, payment_intent, named)).await?;

    // Booked at another time, or for an intent that had failed.
    if let (Some(order), Some(intent)) = (known.booked_order, known.booked_intent) {
        let booked = money(known.booked_minor, known.booked_currency.as_deref())?;
        let of = OfIntent::pay(order, intent);
        return if booked == charge.money { Ok(()) } else { work.tell(mismatch(of, booked, charge)).await };
    }
    // An intent of ours confirms its payment intent.
    if let Some(payment_intent) = payment_intent
        && let Some(intent) = intent::find_by_payment_intent(ctx, payment_intent).await?
    {
        return settle_by(work, &intent, charge).await;
    }
    // No intent does, but the order is there: its intent was lost.
    let order = known.order_id.zip(known.order_state.as_deref());
    let Some((order, state)) = order else {
        return if is_given_back(charge) { Ok(()) } else { work.tell(unknown(charge)).await };
    };
    let of_order = money(known.order_minor, known.order_currency.as_deref())?;
    match (state, known.paid_intent.or(known.live_intent), payment_intent) {
        ("paid", Some(paid_intent), _) => {
            second_charge::found(work, OfIntent::pay(order, paid_intent), of_order, charge).await
        }
        // Another try of the order is under way; its end decides what this charge is.
        (_, Some(live), _) => {
            let finding = Finding { intent: Some(OfIntent::pay(order, live)), ..told(Kind::StateMismatch, charge) };
            work.tell(Finding { expected: Some(of_order), named_order: Some(order), ..finding }).await
        }
        _ if of_order != charge.money => {
            let finding = Finding { expected: Some(of_order), ..told(Kind::AmountMismatch, charge) };
            work.tell(Finding { named_order: Some(order), ..finding }).await
        }
        (_, None, Some(payment_intent)) if !is_given_back(charge) => {
            bring_back(work, OrderId(order), payment_intent, charge).await
        }
        (_, None, _) => work.tell(Finding { named_order: Some(order), ..unknown(charge) }).await,
    }
}

/// The intent of ours learns of the charge by the function that settles everything; what it stores, this only counts and completes.
async fn settle_by(work: &Work, intent: &Intent, charge: &ListedCharge) -> Result<(), Stop> {
    let fact =
        Fact::Charged(ProviderCharge { id: charge.id.clone(), money: charge.money, created: Some(charge.created) });
    let of = OfIntent::from(&intent.key);
    let effect = effect_of(&fact, &intent.standing, intent.money);
    let is_second = effect == Effect::BookLate && matches!(intent.standing, Standing::Succeeded { .. });
    if is_second {
        return second_charge::found(work, of, intent.money, charge).await;
    }
    let finding = |kind| Finding { intent: Some(of), expected: Some(intent.money), ..told(kind, charge) };
    let would_be = match effect {
        // Somebody has settled it meanwhile.
        Effect::Nothing => return Ok(()),
        Effect::DoubtAmount => return work.tell(finding(Kind::AmountMismatch)).await,
        Effect::Move(_) => Kind::StateMismatch,
        Effect::BookLate => Kind::ChargeOfFailedIntent,
    };
    if work.dry_run {
        return work.tell(finding(would_be)).await;
    }
    let mut pauses = Pauses::default();
    let standing = loop {
        match settle::apply(&work.ctx, &Target::from(intent), &fact).await {
            Ok(standing) => break standing,
            Err(error @ StoreError::Impossible(_)) => return Err(error.into()),
            Err(error @ StoreError::Unavailable(_)) => pauses.wait(&work.ctx, error.into()).await?,
        }
    };
    if matches!(&standing, Standing::Succeeded { charge: settled, .. } if *settled == charge.id) {
        tracing::warn!(intent = %intent.key, charge = %charge.id, "a charge that nobody had told us of is settled");
        work.count(|tally| tally.settled += 1);
    } else {
        // `settle` has stored what it is; counted here, since the run found it.
        work.count(|tally| tally.told += 1);
    }
    Ok(())
}

/// The order is paid by the charge that its lost intent had made.
async fn bring_back(
    work: &Work,
    order: OrderId,
    payment_intent: &ProviderPaymentIntentId,
    charge: &ListedCharge,
) -> Result<(), Stop> {
    if work.dry_run {
        return work.tell(Finding { named_order: Some(order.as_uuid()), ..unknown(charge) }).await;
    }
    let ctx = work.ctx.settling();
    let intent = IntentId::of_recovered(charge.id.as_str());
    let paid_at = whole_seconds(charge.created);
    let archive = Archive::of_charge(intent, charge.money, &charge.id, paid_at);
    let new = Recovering {
        order,
        intent,
        fingerprint: Fingerprint::of_fields(["recovered/1", charge.id.as_str()]),
        payment_intent,
        charge: &ProviderCharge { id: charge.id.clone(), money: charge.money, created: Some(charge.created) },
        paid_at,
        answer: archive.answer(),
    };
    if patiently(&ctx, || recovered::recover(&ctx.pool, &new)).await? {
        tracing::warn!(%order, charge = %charge.id, "a lost payment is brought back to its order");
        work.count(|tally| tally.recovered += 1);
        return Ok(());
    }
    // Somebody pays the order at this moment. If it is not by this charge, the next run says what it is.
    work.tell(Finding { named_order: Some(order.as_uuid()), ..unknown(charge) }).await
}

/// What was given back whole concerns nobody any more.
pub(super) fn is_given_back(charge: &ListedCharge) -> bool {
    charge.refunded_minor >= charge.money.minor
}

pub(super) fn mismatch(of: OfIntent, expected: Money, charge: &ListedCharge) -> Finding {
    Finding { intent: Some(of), expected: Some(expected), ..told(Kind::AmountMismatch, charge) }
}

fn unknown(charge: &ListedCharge) -> Finding {
    Finding { named_order: named_order(charge), ..told(Kind::UnknownPaymentIntent, charge) }
}

fn told(kind: Kind, charge: &ListedCharge) -> Finding {
    Finding {
        charge: Some(charge.id.as_str().to_owned()),
        payment_intent: charge.payment_intent.as_ref().map(|id| id.as_str().to_owned()),
        reported: Some(charge.money),
        ..Finding::of(kind)
    }
}

fn named_order(charge: &ListedCharge) -> Option<Uuid> {
    charge.order.as_deref().and_then(|order| OrderId::parse(order).ok()).map(OrderId::as_uuid)
}

fn money(minor: Option<i64>, currency: Option<&str>) -> Result<Money, StoreError> {
    let currency = currency.and_then(|code| Currency::parse(code).ok());
    minor.zip(currency).map(|(minor, currency)| Money::new(minor, currency)).ok_or(StoreError::Impossible("money"))
}
