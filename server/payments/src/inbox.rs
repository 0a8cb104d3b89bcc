//! Inbox: takes in what the provider tells of its own accord, each event once.
//!
//! Promise: an event is kept, under the provider's id of it, before anything follows from it, and counts as handled only from
//! the commit of its effect on. So a crash between the two loses nothing: the provider delivers again, or [`run_once`] takes it
//! up. Never: an event of a test touches a live shop, or money that fits no intent of ours is passed over in silence.

pub mod missed;
mod store;

use futures::future::join_all;

use crate::{
    Ctx,
    notice::{self, Notice},
    pool::{StoreError, keyed},
    provider::{ProviderEvent, ProviderPaymentIntentId},
    purge::in_batches,
    refund::at_provider::{self, Looked},
};

/// The row of an event; whatever follows from the event marks it, in its own commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxNumber(pub(crate) i64);

/// What became of a delivery. Each of them is thanked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It was handled before this delivery came.
    Again,
    /// It is kept; what follows takes longer than the provider should wait.
    Kept,
    /// It is handled.
    Handled(Effect),
}

/// What an event did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It moved an intent, or booked money, or became a discrepancy of an intent.
    Applied,
    /// It told nothing new.
    Known,
    /// No intent of ours is concerned, and a person has to look.
    Discrepancy,
    /// It is not our business.
    Nothing,
}

impl Effect {
    fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Known => "known",
            Self::Discrepancy => "discrepancy",
            Self::Nothing => "none",
        }
    }
}

/// What is to be done for a kept event.
struct Told {
    number: InboxNumber,
    event: String,
    wrong_mode: bool,
    about: Option<(ProviderPaymentIntentId, Notice)>,
}

/// Takes in a delivery. Whoever brings it may go away meanwhile.
///
/// # Errors
/// When the database cannot answer. Then the provider should deliver again; nothing is lost or done twice by that.
pub async fn receive(ctx: &Ctx, event: ProviderEvent) -> Result<Received, StoreError> {
    let task = ctx.clone();
    let work = ctx.detach(async move {
        let kept = keyed(&task.limits, || store::keep(&task.pool, &event)).await?;
        if kept.handled {
            return Ok(Received::Again);
        }
        let ProviderEvent { id, kind, told_at: _, wrong_mode, about } = event;
        tracing::info!(event = id, kind, "an event of the provider");
        let told = Told { number: InboxNumber(kept.number), event: id, wrong_mode, about };
        // Only asking tells what changed, and the provider waits for nobody's answers.
        if !wrong_mode && matches!(told.about, Some((_, Notice::Changed | Notice::Refunds))) {
            let later = task.clone();
            drop(task.detach(async move { take_up(&later, &told).await }));
            return Ok(Received::Kept);
        }
        handle(&task, &told).await.map(Received::Handled)
    });
    work.await.unwrap_or(Err(StoreError::Impossible("end of an event")))
}

/// Takes up events that were kept and not handled, as after a crash. Returns how many it took. Replicas may run it side by side.
///
/// # Errors
/// When the database cannot answer.
pub async fn run_once(ctx: &Ctx) -> Result<usize, StoreError> {
    let task = ctx.clone();
    let work = ctx.detach(async move {
        let rows = keyed(&task.limits, || store::claim_due(&task.pool, &task.limits)).await?;
        let due = rows.into_iter().map(Told::try_from).collect::<Result<Vec<_>, _>>()?;
        join_all(due.iter().map(|told| take_up(&task, told))).await;
        Ok(due.len())
    });
    work.await.unwrap_or(Err(StoreError::Impossible("end of events")))
}

/// Forgets events that were handled long ago. Returns how many.
///
/// # Errors
/// When the database cannot answer; what was forgotten by then is forgotten.
pub async fn purge(ctx: &Ctx) -> Result<u64, StoreError> {
    in_batches(ctx.limits.purge_batch, || async {
        Ok(keyed(&ctx.limits, || store::purge(&ctx.pool, &ctx.limits)).await?)
    })
    .await
}

async fn take_up(ctx: &Ctx, told: &Told) {
    if let Err(error) = handle(ctx, told).await {
        tracing::warn!(event = told.event, %error, "could not handle an event; it will be taken up again");
    }
}

/// Does what follows from an event, once or again.
async fn handle(ctx: &Ctx, told: &Told) -> Result<Effect, StoreError> {
    if told.wrong_mode {
        tracing::error!(
            event = told.event,
            "an event of a test at a live shop, or the other way round; it is not applied"
        );
        return doubt(ctx, told, "wrong_mode").await;
    }
    let Some((payment_intent, notice)) = &told.about else { return mark(ctx, told, Effect::Nothing).await };
    if *notice == Notice::Refunds {
        return match at_provider::look(ctx, payment_intent).await? {
            Looked::NotOurs => mark(ctx, told, Effect::Nothing).await,
            Looked::Known { news } => mark(ctx, told, if news { Effect::Applied } else { Effect::Known }).await,
            // Not marked, so that it is taken up again.
            Looked::CannotTell(reason) => {
                tracing::info!(event = told.event, %reason, "the provider does not tell what an event is about");
                Ok(Effect::Nothing)
            }
        };
    }
    let ours = notice::take(ctx, payment_intent, notice.clone(), Some(told.number)).await?;
    match (ours, notice) {
        // Whatever it moved has marked it in the same commit.
        (Some(_), _) => mark(ctx, told, Effect::Known).await,
        (None, Notice::Charged(charge)) => {
            tracing::error!(event = told.event, charge = %charge.id, "money for a payment intent that we do not know");
            doubt(ctx, told, "unknown_payment_intent").await
        }
        (None, Notice::Cancelled | Notice::Changed | Notice::Refunds) => mark(ctx, told, Effect::Nothing).await,
    }
}

/// Marks an event as handled, unless its effect has done so. Returns what is marked.
async fn mark(ctx: &Ctx, told: &Told, effect: Effect) -> Result<Effect, StoreError> {
    let marked = keyed(&ctx.limits, || store::mark(&ctx.pool, told.number, effect.as_str())).await?;
    Ok(if marked { effect } else { Effect::Applied })
}

async fn doubt(ctx: &Ctx, told: &Told, kind: &str) -> Result<Effect, StoreError> {
    keyed(&ctx.limits, || store::doubt(&ctx.pool, told.number, kind)).await?;
    Ok(Effect::Discrepancy)
}
