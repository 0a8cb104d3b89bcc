//! From what came back to what it means: one function per call, pure.
//!
//! Promise: `Approved` and `Charged` need a payment intent of the id that was asked for, in the state `succeeded`, with a
//! charge, and a positive amount and a currency that read well and agree wherever the answer repeats them. `Declined` needs a
//! row of `classify.rs`. All else falls through to *unknown*. Never: the money of a charge is copied from a request.

use time::OffsetDateTime;

use super::{
    classify::{Verdict, classify},
    declines::decline,
    http::{Reply, Silence},
    units::Units,
    wire::{self, ErrorBody, LatestCharge, PaymentIntent, Status, read, tame_code},
};
use crate::{
    money::Money,
    provider::{
        CardSession, CardSessionOutcome, ConfirmOutcome, ContinueUrl, CreateOutcome, Decline, DeclineReason,
        NotSentReason, PaymentMethodToken, ProbeOutcome, ProviderCharge, ProviderChargeId, ProviderPaymentIntentId,
        UnknownReason,
    },
};

/// Longest text of a card session that is handed on; an e-mail address has at most 254 characters.
const CARD_TEXT_MAX_CHARS: usize = 254;

/// What a creation ended with.
pub(super) fn created(answer: Result<Reply, Silence>, money: &Money, units: Units) -> CreateOutcome {
    let reply = match answer {
        Ok(reply) => reply,
        Err(Silence::NotSent(reason)) => return CreateOutcome::NotSent(reason),
        Err(Silence::Unknown(reason)) => return CreateOutcome::Unknown(reason),
    };
    if reply.status != 200 {
        let error = read::<ErrorBody>(&reply.body).map(|body| body.error);
        return match classify(reply.status, error.as_ref(), None) {
            Verdict::Refused => {
                CreateOutcome::Refused { code: tame_code(error.as_ref().and_then(|error| error.code.as_deref())) }
            }
            Verdict::KeyRefused => CreateOutcome::NotSent(NotSentReason::KeyRefused),
            Verdict::RateLimited => CreateOutcome::NotSent(NotSentReason::RateLimited),
            Verdict::Busy => CreateOutcome::Unknown(UnknownReason::Busy),
            // No card is involved yet, so this is no answer to a creation.
            Verdict::Declined => CreateOutcome::Unknown(UnknownReason::Unlisted),
            Verdict::Unknown(reason) => CreateOutcome::Unknown(reason),
        };
    }
    let Some(payment_intent) = read_payment_intent(&reply) else {
        return CreateOutcome::Unknown(UnknownReason::Unreadable);
    };
    if units.incoming(payment_intent.amount, &payment_intent.currency).as_ref() != Some(money) {
        return CreateOutcome::Unknown(UnknownReason::Mismatch);
    }
    match ProviderPaymentIntentId::parse(&payment_intent.id) {
        Ok(id) => CreateOutcome::Created(id),
        Err(_) => CreateOutcome::Unknown(UnknownReason::Unreadable),
    }
}

/// What a confirm ended with.
pub(super) fn confirmed(answer: Result<Reply, Silence>, id: &ProviderPaymentIntentId, units: Units) -> ConfirmOutcome {
    let reply = match answer {
        Ok(reply) => reply,
        Err(Silence::NotSent(reason)) => return ConfirmOutcome::NotSent(reason),
        Err(Silence::Unknown(reason)) => return ConfirmOutcome::Unknown(reason),
    };
    if reply.status != 200 {
        let error = read::<ErrorBody>(&reply.body).map(|body| body.error);
        return match (classify(reply.status, error.as_ref(), Some(id.as_str())), error) {
            (Verdict::Declined, Some(error)) => ConfirmOutcome::Declined(decline(&error)),
            (Verdict::Refused, Some(error)) => ConfirmOutcome::Declined(Decline {
                code: tame_code(error.code.as_deref()),
                reason: DeclineReason::NotCharged,
            }),
            (Verdict::KeyRefused, _) => ConfirmOutcome::NotSent(NotSentReason::KeyRefused),
            (Verdict::RateLimited, _) => ConfirmOutcome::NotSent(NotSentReason::RateLimited),
            (Verdict::Busy, _) => ConfirmOutcome::Busy,
            (Verdict::Unknown(reason), _) => ConfirmOutcome::Unknown(reason),
            (Verdict::Declined | Verdict::Refused, None) => ConfirmOutcome::Unknown(UnknownReason::Unreadable),
        };
    }
    match look(&reply, id, units) {
        Seen::Charged(charge) => ConfirmOutcome::Approved(charge),
        Seen::ActionRequired(url) => ConfirmOutcome::ActionRequired { url },
        Seen::Processing => ConfirmOutcome::Unknown(UnknownReason::Processing),
        Seen::NotCharged | Seen::Cancelled => ConfirmOutcome::Unknown(UnknownReason::UnexpectedState),
        Seen::Nothing(reason) => ConfirmOutcome::Unknown(reason),
    }
}

/// What a probe, or a cancelling, found.
pub(super) fn probed(answer: Result<Reply, Silence>, id: &ProviderPaymentIntentId, units: Units) -> ProbeOutcome {
    let reply = match answer {
        Ok(reply) => reply,
        Err(Silence::NotSent(NotSentReason::NotConnected)) => {
            return ProbeOutcome::CannotTell(UnknownReason::NotConnected);
        }
        Err(Silence::NotSent(_)) => return ProbeOutcome::CannotTell(UnknownReason::NotAsked),
        Err(Silence::Unknown(reason)) => return ProbeOutcome::CannotTell(reason),
    };
    if reply.status != 200 {
        let error = read::<ErrorBody>(&reply.body).map(|body| body.error);
        return ProbeOutcome::CannotTell(match classify(reply.status, error.as_ref(), Some(id.as_str())) {
            Verdict::KeyRefused | Verdict::RateLimited => UnknownReason::NotAsked,
            Verdict::Busy => UnknownReason::Busy,
            // A look-up can be neither declined nor refused in a way that tells anything of the charge.
            Verdict::Declined | Verdict::Refused => UnknownReason::Unlisted,
            Verdict::Unknown(reason) => reason,
        });
    }
    match look(&reply, id, units) {
        Seen::Charged(charge) => ProbeOutcome::Charged(charge),
        Seen::ActionRequired(url) => ProbeOutcome::ActionRequired { url },
        Seen::Processing => ProbeOutcome::Processing,
        Seen::NotCharged => ProbeOutcome::NotCharged,
        Seen::Cancelled => ProbeOutcome::Cancelled,
        Seen::Nothing(reason) => ProbeOutcome::CannotTell(reason),
    }
}

/// What became of a card session.
pub(super) fn card_session(answer: Result<Reply, Silence>) -> CardSessionOutcome {
    let reply = match answer {
        Ok(reply) => reply,
        Err(Silence::NotSent(_) | Silence::Unknown(_)) => return CardSessionOutcome::Unavailable,
    };
    // Only the provider's own "no such session" counts; a 404 of something in between is no answer.
    if reply.status == 404 && read::<ErrorBody>(&reply.body).is_some() {
        return CardSessionOutcome::Missing;
    }
    match read::<wire::CardSession>(&reply.body) {
        Some(session) if reply.status == 200 => CardSessionOutcome::Found(card_session_found(session)),
        Some(_) | None => CardSessionOutcome::Unavailable,
    }
}

fn card_session_found(session: wire::CardSession) -> CardSession {
    let (brand, last4) = session.card.map_or((None, None), |card| (card.brand, card.last4));
    let (name, email) = session.billing_details.map_or((None, None), |details| (details.name, details.email));
    CardSession {
        payment_method: session.payment_method.and_then(|token| PaymentMethodToken::parse(&token).ok()),
        brand: brand.map(|brand| tame_code(Some(&brand))),
        last4: last4.filter(|digits| digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_digit())),
        name: name.map(shortened),
        email: email.map(shortened),
        intent: session.intent.map(shortened),
        error_code: session.error.map(|error| tame_code(error.code.as_deref())),
    }
}

fn shortened(text: String) -> String {
    text.chars().take(CARD_TEXT_MAX_CHARS).collect()
}

/// A payment intent, seen in an answer with status 200.
enum Seen {
    Charged(ProviderCharge),
    ActionRequired(ContinueUrl),
    Processing,
    /// Can be confirmed, for the first time or again.
    NotCharged,
    Cancelled,
    /// Not readable, or not the one that was asked for.
    Nothing(UnknownReason),
}

fn look(reply: &Reply, id: &ProviderPaymentIntentId, units: Units) -> Seen {
    let Some(payment_intent) = read_payment_intent(reply) else {
        return Seen::Nothing(UnknownReason::Unreadable);
    };
    if payment_intent.id != id.as_str() {
        return Seen::Nothing(UnknownReason::Mismatch);
    }
    match payment_intent.status {
        Status::Succeeded => {
            charge(&payment_intent, units).map_or(Seen::Nothing(UnknownReason::Unreadable), Seen::Charged)
        }
        Status::RequiresAction => {
            bank_page(&payment_intent).map_or(Seen::Nothing(UnknownReason::UnexpectedState), Seen::ActionRequired)
        }
        Status::Processing => Seen::Processing,
        Status::RequiresPaymentMethod | Status::RequiresConfirmation => Seen::NotCharged,
        Status::Canceled => Seen::Cancelled,
        // Money is held, but this shop never asks for that; a person has to look.
        Status::RequiresCapture | Status::Other => Seen::Nothing(UnknownReason::UnexpectedState),
    }
}

fn read_payment_intent(reply: &Reply) -> Option<PaymentIntent> {
    read::<PaymentIntent>(&reply.body).filter(|payment_intent| payment_intent.object == "payment_intent")
}

/// The charge of a payment intent that succeeded. All that the answer says of the money has to agree: one that contradicts
/// itself was damaged, and a probe will get another. Money that agrees and is wrong is a fact, for the caller to judge.
pub(super) fn charge(payment_intent: &PaymentIntent, units: Units) -> Option<ProviderCharge> {
    let PaymentIntent { amount, ref currency, .. } = *payment_intent;
    let is_whole = payment_intent.status == Status::Succeeded
        && payment_intent.object == "payment_intent"
        && payment_intent.amount_received.is_none_or(|received| received == amount);
    if !is_whole {
        return None;
    }
    let id = match payment_intent.latest_charge.as_ref()? {
        LatestCharge::Id(id) => id,
        LatestCharge::Expanded(charge) => {
            let agrees = charge.amount == amount
                && charge.currency == *currency
                && charge.payment_intent.as_ref().is_none_or(|id| *id == payment_intent.id);
            return agrees.then(|| whole_charge(charge, units)).flatten();
        }
    };
    let money = units.incoming(amount, currency)?;
    Some(ProviderCharge { id: ProviderChargeId::parse(id).ok()?, money, created: None })
}

/// A charge that tells all of itself: taken whole, and when.
pub(super) fn whole_charge(charge: &wire::Charge, units: Units) -> Option<ProviderCharge> {
    let is_whole =
        charge.status == "succeeded" && charge.amount_captured.is_none_or(|captured| captured == charge.amount);
    if !is_whole {
        return None;
    }
    Some(ProviderCharge {
        id: ProviderChargeId::parse(&charge.id).ok()?,
        money: units.incoming(charge.amount, &charge.currency)?,
        created: Some(OffsetDateTime::from_unix_timestamp(charge.created).ok()?),
    })
}

fn bank_page(payment_intent: &PaymentIntent) -> Option<ContinueUrl> {
    let address = payment_intent.next_action.as_ref()?.redirect_to_url.as_ref()?.url.as_deref()?;
    ContinueUrl::parse(address).ok()
}
