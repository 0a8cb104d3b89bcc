//! Settle: the one function that moves an intent after its reservation.
//!
//! Whoever learned a fact (from the confirm, a probe, or a person) brings it here. Facts may come in any order and any number of
//! times: a final intent stays as it is, silence takes nothing back, and money is never dropped.

use tokio::time::{Instant, sleep};

use crate::{
    Ctx,
    inbox::InboxNumber,
    intent::{
        self, Effect, Fact, Intent, IntentKey, ProvenNotCharged, Standing, State,
        archive::{Archive, Archived, whole_seconds},
        moves::effect_of,
        store::settle::{self as store, Failing},
        waiters::News,
    },
    money::Money,
    pool::{StoreError, keyed, refused_by},
    provider::{DeclineReason, ProviderCharge},
};

/// The intent that a fact is about.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Which.
    pub key: IntentKey,
    /// What was agreed with the payer.
    pub money: Money,
    /// The fence of an executor, whose writes must fail once it has lost the intent. `None` for those who own nothing.
    pub fence: Option<i64>,
    /// The event that told the fact, marked as handled in the commit of what it moves.
    pub event: Option<InboxNumber>,
}

impl From<&Intent> for Target {
    fn from(intent: &Intent) -> Self {
        Self { key: intent.key, money: intent.money, fence: None, event: None }
    }
}

/// Applies a fact, and tells those who wait. Returns where the intent stands now, whoever brought it there.
///
/// # Errors
/// When the database cannot answer. Applying the same fact again is safe.
pub async fn apply(ctx: &Ctx, target: &Target, fact: &Fact) -> Result<Standing, StoreError> {
    let ctx = &ctx.settling();
    let moved = match fact {
        Fact::Charged(charge) => charged(ctx, target, charge).await?,
        Fact::Declined(decline) => {
            let archive = Archive::of_decline(target.key.intent, target.money, decline, ctx.clock.now());
            failed(ctx, target, decline.reason, &archive, false).await?
        }
        Fact::NotCharged(proof) => not_charged(ctx, target, *proof).await?,
        Fact::BankStep(continue_url) => {
            let (key, fence) = (&target.key, target.fence);
            let run = || store::wait_for_bank(&ctx.pool, &ctx.limits, key, fence, continue_url);
            let moved = keyed(&ctx.limits, run).await?;
            moved.then(|| Standing::ActionRequired { continue_url: continue_url.clone() })
        }
        Fact::Silence(reason) => {
            tracing::warn!(intent = %target.key, %reason, "the outcome is not known");
            let run = || store::rest(&ctx.pool, &ctx.limits, &target.key, target.fence);
            let state = keyed(&ctx.limits, run).await?;
            (state.as_deref() == Some(State::Unknown.as_str())).then_some(Standing::Unknown)
        }
    };

    // Not moved: it was final, or somebody else owns it. What the database holds is what counts.
    let standing = match moved {
        Some(standing) => standing,
        None => stand(ctx, target, fact).await?,
    };
    ctx.waiters.publish(&target.key, News::Standing(standing.clone()));
    Ok(standing)
}

/// Applies what an executor learned, however long the database needs. Meanwhile those who wait are told that the outcome is not
/// known. `None`: patience is at its end, and recovery has to find it.
pub(crate) async fn apply_patiently(ctx: &Ctx, target: &Target, fact: &Fact) -> Option<Standing> {
    let until = Instant::now() + ctx.limits.settle_patience;
    let mut pause = ctx.limits.first_pause;
    loop {
        match apply(ctx, target, fact).await {
            Ok(standing) => return Some(standing),
            Err(error) => tracing::error!(intent = %target.key, %error, "could not settle; trying again"),
        }
        ctx.waiters.publish(&target.key, News::Standing(Standing::Unknown));
        if Instant::now() + pause > until {
            return None;
        }
        sleep(pause).await;
        pause = (pause * 2).min(ctx.limits.longest_pause);
    }
}

async fn charged(ctx: &Ctx, target: &Target, charge: &ProviderCharge) -> Result<Option<Standing>, StoreError> {
    let paid_at = whole_seconds(charge.created.unwrap_or_else(|| ctx.clock.now()));
    let archive = Archive::of_charge(target.key.intent, charge.money, &charge.id, paid_at);
    let what = (&charge.id, charge.money, paid_at);
    let run = || store::succeed(&ctx.pool, target, what, archive.answer());
    match keyed(&ctx.limits, run).await {
        Ok(true) => {
            Ok(Some(Standing::Succeeded { charge: charge.id.clone(), paid_at, archive: Archived::Kept(archive) }))
        }
        Ok(false) => Ok(None),
        Err(error) if is_charge_of_another(&error) => {
            not_charged(ctx, target, ProvenNotCharged::charge_is_of_another_intent()).await
        }
        Err(error) => Err(error.into()),
    }
}

fn is_charge_of_another(error: &sqlx::Error) -> bool {
    matches!(refused_by(error), Some("intents_one_per_charge" | "ledger_entries_one_per_charge"))
}

async fn not_charged(ctx: &Ctx, target: &Target, proof: ProvenNotCharged) -> Result<Option<Standing>, StoreError> {
    let archive = Archive::of_proof(target.key.intent, target.money, proof, ctx.clock.now());
    failed(ctx, target, proof.reason(), &archive, proof.retires_payment_intent()).await
}

async fn failed(
    ctx: &Ctx,
    target: &Target,
    reason: DeclineReason,
    archive: &Archive,
    retires_payment_intent: bool,
) -> Result<Option<Standing>, StoreError> {
    let next_offered = ctx.ids.intent();
    let failing = Failing { reason, answer: archive.answer(), next_offered, retires_payment_intent };
    let failed_at = keyed(&ctx.limits, || store::fail(&ctx.pool, target, &failing)).await?;
    Ok(failed_at.map(|failed_at| Standing::Failed { reason, failed_at, archive: Archived::Kept(archive.clone()) }))
}

/// Where an intent stands that the fact did not move. Money that does not fit there becomes a discrepancy.
async fn stand(ctx: &Ctx, target: &Target, fact: &Fact) -> Result<Standing, StoreError> {
    let found = intent::find(ctx, &target.key).await?.ok_or(StoreError::Impossible("fact about no intent"))?;
    let Fact::Charged(charge) = fact else { return Ok(found.standing) };
    match effect_of(fact, &found.standing, found.money) {
        Effect::BookLate => {
            tracing::error!(intent = %target.key, charge = %charge.id, "money for an intent that had its end");
            let paid_at = whole_seconds(charge.created.unwrap_or_else(|| ctx.clock.now()));
            let event = Archive::of_charge(target.key.intent, charge.money, &charge.id, paid_at);
            let payload = event.answer().body.clone();
            let run = || store::book_late(&ctx.pool, target, charge, paid_at, &payload);
            keyed(&ctx.limits, run).await?;
            Ok(found.standing)
        }
        Effect::DoubtAmount => {
            tracing::error!(
                intent = %target.key, charge = %charge.id, agreed = ?found.money, reported = ?charge.money,
                "the provider charged something else than agreed"
            );
            keyed(&ctx.limits, || store::doubt_amount(&ctx.pool, target, charge)).await?;
            let run = || store::rest(&ctx.pool, &ctx.limits, &target.key, target.fence);
            let state = keyed(&ctx.limits, run).await?;
            Ok(if state.as_deref() == Some(State::Unknown.as_str()) { Standing::Unknown } else { found.standing })
        }
        // It would move, if this executor still owned it: its owner learns the same.
        Effect::Move(_) | Effect::Nothing => Ok(found.standing),
    }
}
