//! Recovery: finishes what a crash, a lost answer or a bank step left unresolved.
//!
//! It asks first. Only a payment intent that is provably not charged is confirmed again, with the same key and the same bytes,
//! and only while the provider remembers the key and the customer still waits. After the deadline the payment intent is
//! cancelled at the provider: that, and not the clock, proves that nothing was charged.

use futures::future::join_all;
use tokio::time::{Instant, sleep};

use crate::{
    Ctx,
    intent::{
        self, Fact, IntentKey, ProvenNotCharged, Standing, State,
        store::claim::{self, Claim},
    },
    pool::{StoreError, keyed},
    provider::{ConfirmOutcome, ConfirmRequest, Decline, ProbeOutcome, UnknownReason},
    settle::{self, Target},
};

/// Takes the intents that are due and have no owner, asks the provider about each, and settles what it learns.
/// Returns how many it took.
///
/// # Errors
/// When the database cannot answer.
pub async fn run_once(ctx: &Ctx) -> Result<usize, StoreError> {
    // In a task of its own, so that a stop does not leave claimed intents waiting for their leases.
    let task = ctx.settling();
    let work = ctx.detach(async move {
        let lease_ends = Instant::now() + task.limits.lease;
        let rows = claim::claim_due(&task.pool, &task.limits).await?;
        let claims = rows.into_iter().map(Claim::try_from).collect::<Result<Vec<_>, _>>()?;
        for settled in join_all(claims.iter().map(|claim| look(&task, claim, lease_ends))).await {
            if let Err(error) = settled {
                tracing::warn!(%error, "could not settle a recovered intent; its lease will end");
            }
        }
        Ok(claims.len())
    });
    work.await.unwrap_or(Err(StoreError::Impossible("end of recovery")))
}

/// Gives an end in sight to leases and pauses that the database's clock, when it fell back, has left far away: nothing stays
/// unresolved for as long as a clock was wrong. Fences, not times, keep the old executor from writing. Returns how many there were.
///
/// # Errors
/// When the database cannot answer.
pub async fn after_clock_jump(ctx: &Ctx) -> Result<u64, StoreError> {
    let ctx = &ctx.settling();
    Ok(keyed(&ctx.limits, || claim::bring_near(&ctx.pool, &ctx.limits)).await?)
}

/// Gives the intents that executors of this replica are still at work on to the other replicas, before the process ends. An
/// executor whose provider answers all the same may still settle, until another replica has claimed its intent.
/// Returns how many there were.
///
/// # Errors
/// When the database cannot answer; then the leases end by themselves.
pub async fn hand_over(ctx: &Ctx) -> Result<u64, StoreError> {
    let ctx = &ctx.settling();
    let keys = ctx.waiters.worked_on();
    Ok(keyed(&ctx.limits, || claim::give_up(&ctx.pool, &keys)).await?)
}

/// Becomes the owner of this intent, if it is unresolved and has none, and looks once. `None`: there is nothing to do, or
/// somebody else does it.
pub(crate) async fn look_if_idle(ctx: &Ctx, key: &IntentKey) -> Result<Option<Standing>, StoreError> {
    let lease_ends = Instant::now() + ctx.limits.lease;
    let row = keyed(&ctx.limits, || claim::claim_one(&ctx.pool, &ctx.limits, key)).await?;
    match row {
        Some(row) => Ok(Some(look(ctx, &Claim::try_from(row)?, lease_ends).await?)),
        None => Ok(None),
    }
}

/// Looks again and again, until the intent is final or waits for the bank, or the looks are used up and the slower recovery
/// takes over.
pub(crate) async fn chase(ctx: &Ctx, key: &IntentKey) {
    let ctx = &ctx.settling();
    let mut pause = ctx.limits.first_pause;
    for _ in 0..ctx.limits.chase_looks {
        sleep(pause).await;
        if ctx.tasks.is_closed() {
            // The process ends. Any other replica looks as well as this one.
            return;
        }
        pause = (pause * 2).min(ctx.limits.longest_pause);
        let seen = match look_if_idle(ctx, key).await {
            Ok(Some(standing)) => Ok(Some(standing)),
            Ok(None) => intent::find(ctx, key).await.map(|found| found.map(|intent| intent.standing)),
            Err(error) => Err(error),
        };
        match seen {
            Ok(Some(Standing::Pending | Standing::Unknown)) => {}
            Ok(Some(Standing::ActionRequired { .. } | Standing::Succeeded { .. } | Standing::Failed { .. }) | None) => {
                return;
            }
            Err(error) => tracing::warn!(intent = %key, %error, "could not look for an outcome"),
        }
    }
}

/// Asks the provider about a claimed intent, and settles what it says.
async fn look(ctx: &Ctx, claim: &Claim, lease_ends: Instant) -> Result<Standing, StoreError> {
    let fact = match ctx.provider.probe(&claim.payment_intent).await {
        ProbeOutcome::NotCharged if claim.state == State::ActionRequired => {
            Fact::NotCharged(ProvenNotCharged::bank_step_ended())
        }
        ProbeOutcome::NotCharged | ProbeOutcome::CannotTell(_) if claim.is_overdue => cancel(ctx, claim).await,
        // The customer left the bank's page and did not come back to it.
        ProbeOutcome::ActionRequired { .. } if claim.is_overdue && claim.state == State::ActionRequired => {
            cancel(ctx, claim).await
        }
        // A process that stood still meanwhile sends nothing: whoever owns the intent by now asks first.
        ProbeOutcome::NotCharged if claim.key_is_remembered && Instant::now() < lease_ends => {
            match resend(ctx, claim).await {
                Fact::Declined(decline) => declined_by_all(ctx, claim, decline).await,
                fact @ (Fact::Charged(_) | Fact::NotCharged(_) | Fact::BankStep(_) | Fact::Silence(_)) => fact,
            }
        }
        seen @ (ProbeOutcome::Charged(_)
        | ProbeOutcome::NotCharged
        | ProbeOutcome::ActionRequired { .. }
        | ProbeOutcome::Cancelled
        | ProbeOutcome::Processing
        | ProbeOutcome::CannotTell(_)) => fact_of(seen),
    };
    let target = Target { key: claim.key, money: claim.money, fence: Some(claim.fence), event: None };
    settle::apply(ctx, &target, &fact).await
}

/// The repeat was declined. An earlier send, whose answer was lost, may have been charged meanwhile if the provider did not
/// honour the key; so "no" is only said if the payment intent agrees.
async fn declined_by_all(ctx: &Ctx, claim: &Claim, decline: Decline) -> Fact {
    match ctx.provider.probe(&claim.payment_intent).await {
        ProbeOutcome::NotCharged => Fact::Declined(decline),
        seen @ (ProbeOutcome::Charged(_)
        | ProbeOutcome::Cancelled
        | ProbeOutcome::ActionRequired { .. }
        | ProbeOutcome::Processing
        | ProbeOutcome::CannotTell(_)) => fact_of(seen),
    }
}

/// The time is over. A cancelled payment intent can never be charged, also not by a request that is still on its way; where
/// that one was faster, the cancelling finds the charge.
async fn cancel(ctx: &Ctx, claim: &Claim) -> Fact {
    let seen = ctx.provider.cancel(&claim.payment_intent).await;
    tracing::info!(intent = %claim.key, ?seen, "the deadline of an intent without an end is over");
    fact_of(seen)
}

/// What a look proves about an intent whose payment intent it saw. "Not charged" alone is no proof: it may be yet.
fn fact_of(seen: ProbeOutcome) -> Fact {
    match seen {
        ProbeOutcome::Charged(charge) => Fact::Charged(charge),
        ProbeOutcome::ActionRequired { url } => Fact::BankStep(url),
        ProbeOutcome::Cancelled => Fact::NotCharged(ProvenNotCharged::payment_intent_cancelled()),
        ProbeOutcome::NotCharged => Fact::Silence(UnknownReason::NotAsked),
        ProbeOutcome::Processing => Fact::Silence(UnknownReason::Processing),
        ProbeOutcome::CannotTell(reason) => Fact::Silence(reason),
    }
}

/// Sends the identical request again. What it proves about itself it does not prove about the first one, so that "not sent"
/// is silence here.
async fn resend(ctx: &Ctx, claim: &Claim) -> Fact {
    let request = ConfirmRequest {
        payment_intent: claim.payment_intent.clone(),
        idempotency_key: claim.key.for_provider(),
        body: claim.request.clone(),
    };
    match ctx.provider.confirm(&request).await {
        ConfirmOutcome::Approved(charge) => Fact::Charged(charge),
        ConfirmOutcome::Declined(decline) => Fact::Declined(decline),
        ConfirmOutcome::ActionRequired { url } => Fact::BankStep(url),
        ConfirmOutcome::Busy => Fact::Silence(UnknownReason::Busy),
        ConfirmOutcome::NotSent(_) => Fact::Silence(UnknownReason::NotAsked),
        ConfirmOutcome::Unknown(reason) => Fact::Silence(reason),
    }
}
