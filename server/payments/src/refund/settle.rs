//! The one function that moves a refund after its reservation, wherever the fact came from: the call's answer, a look, an event.
//!
//! Facts may come in any order and any number of times. A refund that has its end keeps its answer; money that comes back to us
//! after that is booked beside it.

use tokio::time::{Instant, sleep};

use super::{find, store::settle as store};
use crate::{
    Ctx,
    intent::{
        IntentKey, State,
        archive::{Archive, whole_seconds},
    },
    money::Money,
    pool::{StoreError, keyed},
    provider::{ProviderRefund, RefundStatus, UnknownReason},
};

/// What somebody who asked the provider learned about one refund.
#[derive(Clone, Debug)]
pub(super) enum Fact {
    /// There is a refund at the provider; where it stands it says itself.
    Made(ProviderRefund),
    /// The provider refuses, and this refund was not made and never will be: a short word for why.
    Refused(String),
    /// No answer, or none that says anything.
    Silence(UnknownReason),
}

/// Applies a fact. Returns where the refund stands then, whoever brought it there.
pub(super) async fn apply(
    ctx: &Ctx,
    key: &IntentKey,
    money: Money,
    fence: Option<i64>,
    fact: &Fact,
) -> Result<State, StoreError> {
    let ctx = &ctx.settling();
    match fact {
        Fact::Made(refund) if refund.money != money => {
            tracing::error!(refund = %key, asked = ?money, told = ?refund.money, "the provider refunds something else than asked");
            rest(ctx, key, fence, Some(&refund.id)).await?;
        }
        Fact::Made(refund) => made(ctx, key, fence, refund).await?,
        Fact::Refused(code) => {
            let archive = Archive::of_refund_failure(key.intent, money, code, ctx.clock.now());
            keyed(&ctx.limits, || store::fail(&ctx.pool, key, fence, code, archive.answer())).await?;
        }
        Fact::Silence(reason) => {
            tracing::warn!(refund = %key, %reason, "the outcome of a refund is not known");
            rest(ctx, key, fence, None).await?;
        }
    }
    // Not moved: it had its end, or somebody else owns it. What the database holds is what counts.
    Ok(find(ctx, key).await?.ok_or(StoreError::Impossible("fact about no refund"))?.state)
}

async fn made(ctx: &Ctx, key: &IntentKey, fence: Option<i64>, refund: &ProviderRefund) -> Result<(), StoreError> {
    match refund.status {
        RefundStatus::Pending => rest(ctx, key, fence, Some(&refund.id)).await,
        RefundStatus::Succeeded => {
            let at = whole_seconds(refund.created);
            let archive = Archive::of_refund(key.intent, refund.money, &refund.charge, &refund.id, at);
            let what = (at, archive.answer());
            keyed(&ctx.limits, || store::succeed(&ctx.pool, key, fence, refund, what)).await?;
            Ok(())
        }
        RefundStatus::Failed => {
            let why = refund.failure.as_deref().unwrap_or("unknown");
            let archive = Archive::of_refund_failure(key.intent, refund.money, why, ctx.clock.now());
            let answer = archive.answer();
            if keyed(&ctx.limits, || store::fail(&ctx.pool, key, fence, why, answer)).await? {
                return Ok(());
            }
            if keyed(&ctx.limits, || store::reverse(&ctx.pool, key, why, &answer.body)).await? {
                tracing::warn!(refund = %key, why, "a refund that had succeeded has failed; the money came back");
            }
            Ok(())
        }
    }
}

async fn rest(ctx: &Ctx, key: &IntentKey, fence: Option<i64>, at_provider: Option<&str>) -> Result<(), StoreError> {
    keyed(&ctx.limits, || store::rest(&ctx.pool, &ctx.limits, key, fence, at_provider)).await?;
    Ok(())
}

/// Applies what an executor learned, however long the database needs. `None`: patience is at its end, and recovery has to find it.
pub(super) async fn apply_patiently(
    ctx: &Ctx,
    key: &IntentKey,
    money: Money,
    fence: Option<i64>,
    fact: &Fact,
) -> Option<State> {
    let until = Instant::now() + ctx.limits.settle_patience;
    let mut pause = ctx.limits.first_pause;
    loop {
        match apply(ctx, key, money, fence, fact).await {
            Ok(state) => return Some(state),
            Err(error) => tracing::error!(refund = %key, %error, "could not settle a refund; trying again"),
        }
        if Instant::now() + pause > until {
            return None;
        }
        sleep(pause).await;
        pause = (pause * 2).min(ctx.limits.longest_pause);
    }
}
