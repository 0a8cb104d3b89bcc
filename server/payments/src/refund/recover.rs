//! Finishes refunds that a crash, a lost answer or the provider's own work left without an end.
//!
//! It looks first: the provider's list of the payment intent's refunds is exact, and names our intent. Only a refund that is not
//! in it is sent again, with the same key and bytes, and only while the provider remembers the key. After that it is only looked
//! for; and when every request that was ever sent has arrived or is lost by far, a list without it proves that it was not made.

use futures::future::join_all;
use tokio::time::{Instant, sleep};

use super::{
    settle::{self, Fact},
    store::{self, ClaimRow},
};
use crate::{
    Ctx,
    ids::{IntentId, OrderId},
    intent::IntentKey,
    money::{Currency, Money},
    pool::{StoreError, keyed},
    provider::{ProviderPaymentIntentId, ProviderRefund, RefundCall, RefundOutcome, RefundsSeen, UnknownReason},
};

/// Takes the refunds that are due and have no owner, looks for each at the provider, and settles what it learns. Returns how many
/// it took.
///
/// # Errors
/// When the database cannot answer.
pub async fn run_once(ctx: &Ctx) -> Result<usize, StoreError> {
    let task = ctx.settling();
    let work = ctx.detach(async move { claim_and_look(&task, None).await });
    work.await.unwrap_or(Err(StoreError::Impossible("end of a refund's recovery")))
}

/// Looks again and again for one refund, until it has its end or the looks are used up and the slower recovery takes over.
pub(super) async fn chase(ctx: &Ctx, key: &IntentKey) {
    let ctx = &ctx.settling();
    let mut pause = ctx.limits.first_pause;
    for _ in 0..ctx.limits.chase_looks {
        sleep(pause).await;
        if ctx.tasks.is_closed() {
            // The process ends. Any other replica looks as well as this one.
            return;
        }
        pause = (pause * 2).min(ctx.limits.longest_pause);
        if let Err(error) = claim_and_look(ctx, Some(key)).await {
            tracing::warn!(refund = %key, %error, "could not look for a refund");
        }
        match super::find(ctx, key).await {
            Ok(Some(refund)) if refund.state.is_final() || refund.provider_refund.is_some() => return,
            Ok(None) => return,
            Ok(Some(_)) | Err(_) => {}
        }
    }
}

async fn claim_and_look(ctx: &Ctx, only: Option<&IntentKey>) -> Result<usize, StoreError> {
    let lease_ends = Instant::now() + ctx.limits.lease;
    let claims = keyed(&ctx.limits, || store::claim(&ctx.pool, &ctx.limits, only)).await?;
    for looked in join_all(claims.iter().map(|claim| look(ctx, claim, lease_ends))).await {
        if let Err(error) = looked {
            tracing::warn!(%error, "could not settle a recovered refund; its lease will end");
        }
    }
    Ok(claims.len())
}

async fn look(ctx: &Ctx, claim: &ClaimRow, lease_ends: Instant) -> Result<(), StoreError> {
    let impossible = || StoreError::Impossible("claimed refund");
    let key = IntentKey::refund(OrderId(claim.order_id), IntentId(claim.id));
    let money = Money::new(claim.amount_minor, Currency::parse(&claim.currency).or(Err(impossible()))?);
    let payment_intent = ProviderPaymentIntentId::parse(&claim.provider_payment_intent).or(Err(impossible()))?;
    let fact = match seen(ctx, claim, &payment_intent).await {
        Ok(Some(refund)) => Fact::Made(refund),
        // The provider knew it once, so that it cannot be absent.
        Ok(None) if claim.elsewhere || claim.provider_refund.is_some() => Fact::Silence(UnknownReason::NotFound),
        Ok(None) if claim.key_is_remembered && Instant::now() < lease_ends => {
            send_again(ctx, claim, &key, &payment_intent).await
        }
        Ok(None) if claim.nothing_is_under_way => Fact::Refused("not_refunded".to_owned()),
        Ok(None) => Fact::Silence(UnknownReason::NotAsked),
        Err(reason) => Fact::Silence(reason),
    };
    settle::apply(ctx, &key, money, Some(claim.fence), &fact).await?;
    Ok(())
}

/// This refund in the provider's list; `None`: the list was read to its end, and it is not there.
async fn seen(
    ctx: &Ctx,
    claim: &ClaimRow,
    payment_intent: &ProviderPaymentIntentId,
) -> Result<Option<ProviderRefund>, UnknownReason> {
    let is_it = |refund: &ProviderRefund| match &claim.provider_refund {
        Some(id) => refund.id == *id,
        None => refund.intent == Some(IntentId(claim.id)),
    };
    match ctx.provider.refunds_of(payment_intent).await {
        RefundsSeen::Listed(refunds) => Ok(refunds.into_iter().find(is_it)),
        RefundsSeen::CannotTell(reason) => Err(reason),
    }
}

/// Sends the identical request again. A refusal says nothing of the first one, which may be what is in the way; so the list
/// decides.
async fn send_again(ctx: &Ctx, claim: &ClaimRow, key: &IntentKey, payment_intent: &ProviderPaymentIntentId) -> Fact {
    let Some(body) = claim.request.clone() else { return Fact::Silence(UnknownReason::NotAsked) };
    let call = RefundCall { idempotency_key: key.for_provider(), body };
    match ctx.provider.refund(&call).await {
        RefundOutcome::Made(refund) => Fact::Made(refund),
        RefundOutcome::Refused { code } => match seen(ctx, claim, payment_intent).await {
            Ok(Some(refund)) => Fact::Made(refund),
            Ok(None) => Fact::Refused(code),
            Err(reason) => Fact::Silence(reason),
        },
        RefundOutcome::Busy => Fact::Silence(UnknownReason::Busy),
        RefundOutcome::NotSent(_) => Fact::Silence(UnknownReason::NotAsked),
        RefundOutcome::Unknown(reason) => Fact::Silence(reason),
    }
}
