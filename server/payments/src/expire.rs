//! Expire: closes orders that nobody paid within their hold time, and gives their stock back.
//!
//! Promise: the provider is asked first, and the order's payment intent is cancelled there, which proves that it can never be
//! charged; only then the order closes, and its stock comes back in the same statement, once. A charge that the asking finds pays
//! the order. Never: the clock alone closes an order for which there is a payment intent, or money is passed over.

use futures::future::join_all;

use crate::{
    Ctx,
    ids::OrderId,
    intent::{self, Intent, State},
    limits::EXPIRE_BATCHES,
    notice::{self, Notice},
    order::{self, Order, OrderState, store::hold},
    pool::{StoreError, keyed, refused_by},
    provider::{ProbeOutcome, ProviderPaymentIntentId},
    recover,
};

/// What became of orders whose hold time is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Closed; their stock is given back.
    pub closed: u64,
    /// Found to be paid.
    pub paid: u64,
    /// Not decided: a payment is under way, or the provider could not tell. They come again.
    pub held: u64,
}

/// What became of one order.
enum End {
    Closed,
    Paid,
    Held,
}

/// Decides one batch of orders whose hold time is over. Replicas may run it side by side.
///
/// # Errors
/// When the database cannot answer.
pub async fn run_once(ctx: &Ctx) -> Result<Expired, StoreError> {
    // In a task of its own, so that a stop does not leave a payment intent cancelled and its order open.
    let task = ctx.clone();
    let work = ctx.detach(async move {
        let due = keyed(&task.limits, || hold::take_due(&task.pool, &task.limits)).await?;
        let ends = join_all(due.into_iter().map(|id| decide_or_hold(&task, OrderId(id)))).await;
        Ok(ends.into_iter().fold(Expired::default(), |sum, end| match end {
            End::Closed => Expired { closed: sum.closed + 1, ..sum },
            End::Paid => Expired { paid: sum.paid + 1, ..sum },
            End::Held => Expired { held: sum.held + 1, ..sum },
        }))
    });
    work.await.unwrap_or(Err(StoreError::Impossible("end of unpaid orders")))
}

/// Decides batch after batch, until one decides nothing or the run has done its share.
///
/// # Errors
/// When the database cannot answer; what was decided by then is decided.
pub async fn run(ctx: &Ctx) -> Result<Expired, StoreError> {
    let mut sum = Expired::default();
    for _ in 0..EXPIRE_BATCHES {
        let batch = run_once(ctx).await?;
        sum.closed += batch.closed;
        sum.paid += batch.paid;
        sum.held += batch.held;
        // Nothing is due, or the provider is of no help now.
        if batch.closed + batch.paid == 0 || ctx.tasks.is_closed() {
            break;
        }
    }
    Ok(sum)
}

async fn decide_or_hold(ctx: &Ctx, id: OrderId) -> End {
    decide(ctx, id).await.unwrap_or_else(|error| {
        tracing::warn!(order = %id, %error, "could not decide an unpaid order; it will be taken up again");
        End::Held
    })
}

async fn decide(ctx: &Ctx, id: OrderId) -> Result<End, StoreError> {
    // An intent without an end is asked for first, as recovery does it. One that somebody is at work on has time.
    if let Some(live) =
        intent::list_telling(ctx, id, None).await?.into_iter().find(|intent| !Intent::has_failed(intent))
    {
        let state = recover::look_if_idle(ctx, &live.key).await?.map_or(live.standing.state(), |seen| seen.state());
        match state {
            State::Succeeded => return Ok(End::Paid),
            State::Pending | State::Unknown | State::ActionRequired => return Ok(End::Held),
            State::Failed => {}
        }
    }
    let order = order::find_by_id(ctx, id).await?.ok_or(StoreError::Impossible("absence of an order"))?;
    match &order.provider_payment_intent {
        _ if order.state != OrderState::Open => Ok(end_of(&order)),
        // Nobody was ever able to pay it.
        None => close(ctx, &order).await,
        Some(payment_intent) => match end_at_provider(ctx, payment_intent).await {
            ProbeOutcome::Cancelled => close(ctx, &order).await,
            ProbeOutcome::Charged(charge) => {
                if notice::take(ctx, payment_intent, Notice::Charged(charge.clone()), None).await?.is_none() {
                    tracing::error!(order = %id, charge = %charge.id, "money for an order that no intent of ours tried to pay");
                }
                let now = order::find_by_id(ctx, id).await?;
                Ok(now.as_ref().map_or(End::Held, end_of))
            }
            ProbeOutcome::NotCharged
            | ProbeOutcome::ActionRequired { .. }
            | ProbeOutcome::Processing
            | ProbeOutcome::CannotTell(_) => Ok(End::Held),
        },
    }
}

fn end_of(order: &Order) -> End {
    match order.state {
        OrderState::Open => End::Held,
        OrderState::Paid(_) => End::Paid,
        OrderState::Closed => End::Closed,
    }
}

/// Asks, and cancels what is not charged. Where a payment was faster than the cancelling, that finds the charge.
async fn end_at_provider(ctx: &Ctx, payment_intent: &ProviderPaymentIntentId) -> ProbeOutcome {
    match ctx.provider.probe(payment_intent).await {
        ProbeOutcome::NotCharged | ProbeOutcome::ActionRequired { .. } => ctx.provider.cancel(payment_intent).await,
        seen @ (ProbeOutcome::Charged(_)
        | ProbeOutcome::Cancelled
        | ProbeOutcome::Processing
        | ProbeOutcome::CannotTell(_)) => seen,
    }
}

async fn close(ctx: &Ctx, order: &Order) -> Result<End, StoreError> {
    match keyed(&ctx.limits, || hold::close(&ctx.pool, order)).await {
        Ok(true) => {
            tracing::info!(order = %order.id, "closed an unpaid order; its stock is given back");
            Ok(End::Closed)
        }
        // A rival closed it, or it has another payment intent by now.
        Ok(false) => Ok(order::find_by_id(ctx, order.id).await?.as_ref().map_or(End::Held, end_of)),
        // The customer pressed Pay at this moment. The intent finds the payment intent cancelled, and ends "not charged".
        Err(error) if refused_by(&error) == Some("orders_closed_have_no_live_intent") => Ok(End::Held),
        Err(error) => Err(error.into()),
    }
}
