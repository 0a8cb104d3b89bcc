//! Outcome: what is known of an order's payment. Asking never starts a payment; it may look at the provider.

use tokio::time::{Instant, sleep, timeout};

use crate::{
    Ctx,
    ids::{IntentId, OrderToken},
    intent::{self, Intent, State},
    order::{self, Order, OrderState},
    pool::StoreError,
    recover,
};

/// Where the payment of an order stands.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The order; `order.state` says whether it is paid, and by what.
    pub order: Order,
    /// The intent that the outcome speaks of: the one that is under way or has paid; else the one asked for, if it failed;
    /// else the newest that failed. `None` when the order was never tried.
    pub intent: Option<Intent>,
    /// Whether the intent that was asked for has arrived here. `false` means that it may be sent (again).
    pub received: bool,
}

/// What is known of the order's payment. Where an intent is unresolved and nobody is at work on it, the provider is asked once.
/// `None`: no order has this token.
///
/// # Errors
/// When the database cannot answer.
pub async fn ask(ctx: &Ctx, order: &OrderToken, asked: Option<IntentId>) -> Result<Option<Outcome>, StoreError> {
    let Some(seen) = look(ctx, order, asked).await? else { return Ok(None) };
    let unresolved = seen.intent.as_ref().filter(|intent| !intent.standing.state().is_final());
    let (Some(intent), false) = (unresolved, matches!(seen.order.state, OrderState::Paid(_))) else {
        return Ok(Some(seen));
    };

    // In a task of its own: a browser that goes away must not leave a claimed intent behind.
    let (task, key) = (ctx.clone(), intent.key);
    let looking = ctx.detach(async move { recover::look_if_idle(&task, &key).await });
    match timeout(ctx.limits.ask_wait, looking).await {
        Ok(Ok(Ok(Some(_)))) => look(ctx, order, asked).await,
        Ok(Ok(Ok(None))) | Err(_) => Ok(Some(seen)),
        Ok(Ok(Err(error))) => Err(error),
        Ok(Err(_)) => Err(StoreError::Impossible("end of a look")),
    }
}

/// Waits until the payment of an order stands elsewhere than where it was `seen`, at most until `until`: moved, finished, or
/// begun. Returns where it stands then; `None`: no order has this token. Holds no connection meanwhile.
///
/// # Errors
/// When the database cannot answer.
pub async fn moved(
    ctx: &Ctx,
    order: &OrderToken,
    seen: Option<Seen>,
    until: Instant,
) -> Result<Option<Seen>, StoreError> {
    loop {
        let Some(outcome) = look(ctx, order, None).await? else { return Ok(None) };
        let now = Seen::of(&outcome);
        if seen != Some(now) || Instant::now() >= until {
            return Ok(Some(now));
        }
        match outcome.intent.filter(|intent| !intent.standing.state().is_final()) {
            // Watched from before the second look on, so that no news falls between the two.
            Some(intent) => {
                let watching = ctx.waiters.watch(intent.key);
                let again = look(ctx, order, None).await?;
                if again.as_ref().map(Seen::of) == Some(now) {
                    watching.past(ctx, intent.standing.state(), until).await;
                }
            }
            // Nothing is under way yet: the request that the customer speaks of may be on its way.
            None => sleep(ctx.limits.watch_pause.min(until - Instant::now())).await,
        }
    }
}

/// Where the payment of an order was seen: which intent, and its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    paid: bool,
    closed: bool,
    intent: Option<(IntentId, State)>,
}

impl Seen {
    fn of(outcome: &Outcome) -> Self {
        Self {
            paid: matches!(outcome.order.state, OrderState::Paid(_)),
            closed: outcome.order.state == OrderState::Closed,
            intent: outcome.intent.as_ref().map(|intent| (intent.key.intent, intent.standing.state())),
        }
    }
}

async fn look(ctx: &Ctx, token: &OrderToken, asked: Option<IntentId>) -> Result<Option<Outcome>, StoreError> {
    let Some(order) = order::find_by_token(ctx, token).await? else { return Ok(None) };
    let intents = intent::list_telling(ctx, order.id, asked).await?;
    let is_asked = |intent: &&Intent| Some(intent.key.intent) == asked;
    let received = asked.is_none() || intents.iter().any(|intent| is_asked(&intent));
    let paid_by = match &order.state {
        OrderState::Paid(payment) => Some(payment.intent),
        OrderState::Open | OrderState::Closed => None,
    };
    let telling = intents
        .iter()
        .find(|intent| Some(intent.key.intent) == paid_by)
        .or_else(|| intents.iter().find(|intent| !intent.has_failed()))
        .or_else(|| intents.iter().find(is_asked))
        .or_else(|| intents.first());
    Ok(Some(Outcome { intent: telling.cloned(), order, received }))
}
