//! What became of a payment intent's money at the provider since: refunds, ours and others', and disputes.
//!
//! An event only says that it is time to look: the provider's lists tell everything, so that events may come in any order, twice
//! or never. Never: a refund of ours passes for somebody else's, since its intent's UUID comes back with it.

use super::{
    charged::find_charged,
    settle::{self, Fact},
    store,
};
use crate::{
    Ctx,
    ids::{IntentId, OrderId},
    intent::{
        IntentKey, State,
        archive::{Archive, whole_seconds},
        fingerprint::Fingerprint,
    },
    pool::{StoreError, keyed},
    provider::{
        DisputesSeen, ProviderChargeId, ProviderPaymentIntentId, ProviderRefund, RefundStatus, RefundsSeen,
        UnknownReason,
    },
};

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// No order of ours was paid by this payment intent.
    NotOurs,
    /// Everything there is, is known now; `news` says whether that was new.
    Known {
        /// Whether something moved.
        news: bool,
    },
    /// The provider did not tell.
    CannotTell(UnknownReason),
}

/// Looks at a payment intent's refunds and disputes, and takes in what is new.
///
/// # Errors
/// When the database cannot answer. Looking again is safe.
pub async fn look(ctx: &Ctx, payment_intent: &ProviderPaymentIntentId) -> Result<Looked, StoreError> {
    let ctx = &ctx.settling();
    let found = keyed(&ctx.limits, || store::find_order_of(&ctx.pool, payment_intent)).await?;
    let Some(order) = found.map(OrderId) else { return Ok(Looked::NotOurs) };
    let refunds = match ctx.provider.refunds_of(payment_intent).await {
        RefundsSeen::Listed(refunds) => refunds,
        RefundsSeen::CannotTell(reason) => return Ok(Looked::CannotTell(reason)),
    };
    let disputes = match ctx.provider.disputes_of(payment_intent).await {
        DisputesSeen::Listed(disputes) => disputes,
        DisputesSeen::CannotTell(reason) => return Ok(Looked::CannotTell(reason)),
    };

    let mut news = false;
    for refund in &refunds {
        news |= take_in(ctx, order, payment_intent, refund).await?;
    }
    if let Some(charged) = find_charged(ctx, order).await? {
        let held = disputes.iter().filter(|(charge, _)| charged.charge.as_ref() == Some(charge));
        let minor = held.fold(0_i64, |sum, (_, money)| sum.saturating_add(money.minor));
        let disputed = || store::settle::note_disputed(&ctx.pool, charged.order.as_uuid(), minor);
        let is_news = keyed(&ctx.limits, disputed).await?;
        if is_news {
            tracing::warn!(%order, disputed_minor = minor, "what of a charge is disputed has changed");
        }
        news |= is_news;
    }
    Ok(Looked::Known { news })
}

/// As [`look`], at the payment intent that this charge belongs to.
///
/// # Errors
/// When the database cannot answer.
pub(crate) async fn look_at_charge(ctx: &Ctx, charge: &ProviderChargeId) -> Result<Looked, StoreError> {
    let found = keyed(&ctx.limits, || store::find_payment_intent_of(&ctx.pool, charge)).await?;
    match found.as_deref().map(ProviderPaymentIntentId::parse) {
        Some(Ok(payment_intent)) => look(ctx, &payment_intent).await,
        Some(Err(_)) => Err(StoreError::Impossible("payment intent of a charge")),
        None => Ok(Looked::NotOurs),
    }
}

/// Takes in one refund of the list. Returns whether something moved.
async fn take_in(
    ctx: &Ctx,
    order: OrderId,
    payment_intent: &ProviderPaymentIntentId,
    refund: &ProviderRefund,
) -> Result<bool, StoreError> {
    if let Some(ours) = ours(ctx, order, refund).await? {
        let before = (ours.state, ours.reversed_at, ours.provider_refund.clone());
        let fact = Fact::Made(refund.clone());
        settle::apply(ctx, &ours.key, ours.money, None, &fact).await?;
        let now = super::find(ctx, &ours.key).await?.map(|now| (now.state, now.reversed_at, now.provider_refund));
        return Ok(now != Some(before));
    }
    note_elsewhere(ctx, order, payment_intent, refund).await
}

/// The refund of ours that this is: by the provider's id, or by the UUID that it carries. One of ours that had failed for good and
/// is there all the same is somebody else's as far as the books go: it is booked as such, and never lost.
async fn ours(ctx: &Ctx, order: OrderId, refund: &ProviderRefund) -> Result<Option<super::Refund>, StoreError> {
    let known = keyed(&ctx.limits, || store::find_by_provider_refund(&ctx.pool, &refund.id)).await?;
    if let Some(known) = known {
        return super::Refund::try_from(known).map(Some);
    }
    let Some(intent) = refund.intent else { return Ok(None) };
    let named = super::find(ctx, &IntentKey::refund(order, intent)).await?;
    Ok(named.filter(|ours| ours.provider_refund.is_none() && ours.state != State::Failed))
}

async fn note_elsewhere(
    ctx: &Ctx,
    order: OrderId,
    payment_intent: &ProviderPaymentIntentId,
    refund: &ProviderRefund,
) -> Result<bool, StoreError> {
    let key = IntentKey::refund(order, IntentId::derived("refund", &refund.id));
    let archive = match refund.status {
        // It failed before we heard of it: nothing was given back.
        RefundStatus::Failed => return Ok(false),
        RefundStatus::Pending => None,
        RefundStatus::Succeeded => {
            let at = whole_seconds(refund.created);
            Some(Archive::of_refund(key.intent, refund.money, &refund.charge, &refund.id, at))
        }
    };
    let fingerprint = Fingerprint::of_fields(["refund made elsewhere/1", &refund.id]);
    let noted = keyed(&ctx.limits, || {
        let answer = archive.as_ref().map(Archive::answer);
        let id = payment_intent.as_str();
        store::settle::note_elsewhere(&ctx.pool, &key, fingerprint.as_bytes(), id, refund, answer)
    })
    .await?;
    if noted {
        tracing::warn!(%order, refund = refund.id, "a refund that was made at the provider by somebody else");
    }
    Ok(noted)
}
