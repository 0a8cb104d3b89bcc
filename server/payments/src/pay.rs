//! Pay: reserve, confirm, settle. Repeats of the same intent get the same bytes.

use tokio::time::{Instant, sleep};
use url::Url;

use crate::{
    Ctx,
    ids::{Email, IntentId, OrderId, OrderToken},
    intent::{
        self, Fact, Intent, IntentKey, Standing, State,
        archive::{Answer, Archive, Archived, pending_answer, present_answer},
        fingerprint::Fingerprint,
        store::reserve::{self as store, Reserved, Reserving, reserve},
        waiters::{News, Waiting, Working},
    },
    limits::RESERVE_TRIES,
    money::{Currency, Money},
    order,
    pool::{StoreError, keyed},
    provider::{ConfirmOutcome, ConfirmRequest, PaymentMethodToken, ProviderPaymentIntentId, UnknownReason},
    recover,
    settle::{self, Target},
};

/// What a client sends to pay, parsed.
#[derive(Clone, Debug)]
pub struct PayRequest {
    /// The order, by its capability.
    pub order: OrderToken,
    /// The idempotency key.
    pub intent: IntentId,
    /// The failed intent that the client retired for this one.
    pub replaces: Option<IntentId>,
    /// The card's token at the provider.
    pub payment_method: PaymentMethodToken,
    /// The payer; a program need not name one.
    pub email: Option<Email>,
    /// What the payer saw; only ever compared.
    pub shown: Money,
    /// Where the bank sends the customer back to: the order's outcome page, absolute.
    pub return_url: Url,
}

impl PayRequest {
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_payment(self.shown, &self.payment_method, self.replaces, self.email.as_ref())
    }
}

/// What Pay says when there is something to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayAnswer {
    /// The archived answer, or the present one of an unresolved intent.
    pub answer: Answer,
    /// Whether the answer was archived before this call came.
    pub replayed: bool,
}

/// Why Pay has no answer to give. None of them means that the customer should pay again.
#[derive(Debug, thiserror::Error)]
pub enum PayError {
    /// No order has this token.
    #[error("no such order")]
    NotFound,
    /// This key was used for another request; that one stands.
    #[error("this intent was used for another request")]
    Reused,
    /// The intent was final, and its archived answer is purged. How it ended is at the address of this order.
    #[error("the answer to this intent is no longer kept")]
    Purged(OrderToken),
    /// The intent is under way, and the wait is over.
    #[error("this payment is still under way")]
    InProgress,
    /// As `InProgress`, for the call that began it, with the present answer. Only [`begin`] tells the two apart.
    #[error("this payment has begun and is still under way")]
    Begun(Answer),
    /// Another intent of the order is under way or has paid it.
    #[error("this order has another payment")]
    OrderTaken(IntentId),
    /// The provider takes no payment of this order's amount, now or later.
    #[error("the provider takes no payment of this amount")]
    OrderRefused,
    /// The order can no longer be paid.
    #[error("this order is closed")]
    OrderClosed,
    /// The order costs something else than the payer saw.
    #[error("the total changed from {shown} to {now}")]
    PriceChanged {
        /// What the payer saw.
        shown: Money,
        /// What the order costs.
        now: Money,
    },
    /// `replaces` names an intent that has not failed.
    #[error("the intent to replace has not failed")]
    ReplacesUnfinished,
    /// Proven: nothing was sent, and the reservation is released. The same intent may be sent again.
    #[error("nothing was sent to the provider")]
    NotSent,
    /// The database could not answer before anything was reserved. The same intent may be sent again.
    #[error(transparent)]
    Unavailable(#[from] StoreError),
    /// The answer to the reservation was lost. It may be there, and then recovery pays it: nobody knows yet.
    #[error("it is not known whether this payment has begun: {0}")]
    MayHaveBegun(StoreError),
}

/// The reservation failed. Only where it never left, or was refused, nothing has begun.
fn not_reserved(error: sqlx::Error) -> PayError {
    let error = StoreError::from(error);
    if error.may_be_in_effect() { PayError::MayHaveBegun(error) } else { PayError::Unavailable(error) }
}

/// Pays an order with one checkout intent.
///
/// The work runs in a task of its own: dropping the returned future stops the waiting, never the payment.
///
/// # Errors
/// See [`PayError`].
pub async fn pay(ctx: &Ctx, request: PayRequest) -> Result<PayAnswer, PayError> {
    match begin(ctx, request).await {
        Err(PayError::Begun(_)) => Err(PayError::InProgress),
        said => said,
    }
}

/// As [`pay`], for callers who want to know whether it was they who began what is still under way.
///
/// # Errors
/// See [`PayError`].
pub async fn begin(ctx: &Ctx, request: PayRequest) -> Result<PayAnswer, PayError> {
    let until = Instant::now() + ctx.limits.pay_wait;
    let (intent, order) = (request.intent, request.order.clone());

    // Reserve, and if that makes us the owner, go on to confirm and settle, in a task that no caller can stop.
    let task = ctx.clone();
    let reserving = ctx.detach(async move { reserve_and_execute(&task, &request).await });
    let (money, waiting, mine) = match reserving.await.or(Err(PayError::InProgress))?? {
        Reservation::Replay(archive) => return Ok(PayAnswer { answer: archive.answer().clone(), replayed: true }),
        Reservation::Mine(waiting, money) => (money, waiting, true),
        Reservation::InProgress(waiting, money) => (money, waiting, false),
    };

    // Everybody who waits for this intent gets the same bytes: whoever clicked first, and every repeat.
    match waiting.until(ctx, until).await {
        Some(News::Released) => Err(PayError::NotSent),
        None | Some(News::Standing(Standing::Pending)) if mine => Err(PayError::Begun(pending_answer(intent, money))),
        None | Some(News::Standing(Standing::Pending)) => Err(PayError::InProgress),
        Some(News::Standing(standing)) => match present_answer(intent, money, &standing) {
            Some(answer) => Ok(PayAnswer { answer, replayed: false }),
            None => Err(PayError::Purged(order)),
        },
    }
}

/// What the reserve of a valid request ends with.
#[must_use]
enum Reservation {
    /// Reserved by this call; the executor is at work.
    Mine(Waiting, Money),
    /// It was final before this call came.
    Replay(Archive),
    /// It was reserved before this call came, and has no end yet.
    InProgress(Waiting, Money),
}

async fn reserve_and_execute(ctx: &Ctx, request: &PayRequest) -> Result<Reservation, PayError> {
    let body = ctx.provider.freeze_confirm(request.payment_method.expose(), request.return_url.as_str());
    let reserving = Reserving {
        order: &request.order,
        intent: request.intent,
        fingerprint: request.fingerprint(),
        shown: request.shown,
        email: request.email.as_ref(),
        replaces: request.replaces,
        request: &body,
        owner: ctx.ids.intent().as_uuid(),
        lease_seconds: ctx.limits.lease.as_secs_f64(),
    };
    for _ in 0..RESERVE_TRIES {
        let lease_ends = Instant::now() + ctx.limits.lease;
        let reserved = keyed(&ctx.limits, || reserve(&ctx.pool, &reserving)).await.map_err(not_reserved)?;
        match decide(reserved, &reserving, lease_ends)? {
            Decision::Reserved(lease) => {
                let waiting = ctx.waiters.wait_for(lease.target.key);
                let working = ctx.waiters.work_on(lease.target.key);
                let (task, money) = (ctx.clone(), lease.target.money);
                drop(ctx.detach(async move { execute(&task, lease, body, working).await }));
                return Ok(Reservation::Mine(waiting, money));
            }
            Decision::WasThere(intent) => {
                match intent.standing.archive() {
                    Some(Archived::Kept(archive)) => return Ok(Reservation::Replay(archive.clone())),
                    Some(Archived::Purged) => return Err(PayError::Purged(request.order.clone())),
                    None => {}
                }
                let waiting = ctx.waiters.wait_for(intent.key);
                ctx.waiters.publish(&intent.key, News::Standing(intent.standing));
                return Ok(Reservation::InProgress(waiting, intent.money));
            }
            Decision::RaceLost => {}
            Decision::NoPaymentIntent => {
                let order = order::find_by_token(ctx, &request.order).await?.ok_or(PayError::NotFound)?;
                let ensured = order::ensure_payment_intent(ctx, &order).await;
                ensured.map_err(|error| if error.refused { PayError::OrderRefused } else { PayError::NotSent })?;
            }
        }
    }
    Err(PayError::InProgress)
}

/// What the reserve statement means.
enum Decision {
    Reserved(Lease),
    WasThere(Intent),
    /// Nothing stood in the way, and yet nothing was written: a rival's row was committed meanwhile.
    RaceLost,
    NoPaymentIntent,
}

/// The right, and the duty, to confirm a reserved intent.
struct Lease {
    target: Target,
    payment_intent: ProviderPaymentIntentId,
    /// When the lease is over at the latest, by this process' own clock: counted from before the reservation was sent.
    ends: Instant,
}

/// Reads the one row of the reserve statement, in the order in which a customer should hear of it.
fn decide(reserved: Option<Reserved>, asked: &Reserving<'_>, lease_ends: Instant) -> Result<Decision, PayError> {
    let found = reserved.ok_or(PayError::NotFound)?;
    let currency = Currency::parse(&found.currency).or(Err(StoreError::Impossible("currency of an order")))?;
    let total = Money::new(found.amount_minor, currency);
    let key = IntentKey::pay(OrderId(found.order_id), asked.intent);
    let payment_intent = found.provider_payment_intent.as_deref().map(ProviderPaymentIntentId::parse).transpose();
    let payment_intent = payment_intent.or(Err(StoreError::Impossible("payment intent of an order")))?;

    // A reserve whose answer was lost and that ran again finds itself: same owner.
    let owned = found.owner == Some(asked.owner) && found.state.as_deref() == Some(State::Pending.as_str());
    if let (Some(fence), Some(payment_intent)) =
        (found.fence.or(found.owner_fence.filter(|_| owned)), payment_intent.clone())
    {
        return Ok(Decision::Reserved(Lease {
            target: Target { key, money: total, fence: Some(fence), event: None },
            payment_intent,
            ends: lease_ends,
        }));
    }
    if let Some(fingerprint) = &found.fingerprint {
        // A purged key is gone for every request, whatever it was used for.
        if fingerprint.as_slice() != asked.fingerprint.as_bytes() && found.purged_at.is_none() {
            return Err(PayError::Reused);
        }
        let row = found.into_intent(asked.intent).ok_or(StoreError::Impossible("intent"))?;
        return Ok(Decision::WasThere(Intent::try_from(row)?));
    }
    if let Some(other) = found.live.or(found.paid_intent) {
        return Err(PayError::OrderTaken(IntentId(other)));
    }
    if found.order_state != "open" {
        return Err(PayError::OrderClosed);
    }
    if total != asked.shown {
        return Err(PayError::PriceChanged { shown: asked.shown, now: total });
    }
    if asked.replaces.is_some() && found.replaced_state.as_deref().and_then(State::parse) != Some(State::Failed) {
        return Err(PayError::ReplacesUnfinished);
    }
    Ok(if payment_intent.is_none() { Decision::NoPaymentIntent } else { Decision::RaceLost })
}

/// Confirms a reserved intent and settles what the provider says. Nobody can stop it but the end of the process, after which
/// the lease ends and recovery goes on.
async fn execute(ctx: &Ctx, lease: Lease, body: Vec<u8>, working: Working) {
    let ctx = &ctx.settling();
    let key = lease.target.key;

    // Confirm: no transaction is open and no database connection is held.
    let request = ConfirmRequest { payment_intent: lease.payment_intent, idempotency_key: key.for_provider(), body };
    let fact = match confirm(ctx, &request, lease.ends).await {
        Confirmed::Fact(fact) => fact,
        Confirmed::NotSent => match release(ctx, &lease.target).await {
            Ok(()) => return,
            Err(error) => {
                // The reservation is still there, and recovery will send it. So it is not "not sent".
                tracing::error!(intent = %key, %error, "could not release a reservation");
                return;
            }
        },
    };

    // Settle, however long the database needs.
    let standing = settle::apply_patiently(ctx, &lease.target, &fact).await;

    // Chase an answer that was lost.
    if standing == Some(Standing::Unknown) {
        recover::chase(ctx, &key).await;
    }
    drop(working);
}

/// What the first confirm of a reservation ends with.
enum Confirmed {
    Fact(Fact),
    /// Proven of every request that was made: nothing left.
    NotSent,
}

/// Confirms, waiting out the provider's lock on a key or payment intent that it is still at work on.
async fn confirm(ctx: &Ctx, request: &ConfirmRequest, lease_ends: Instant) -> Confirmed {
    let until = Instant::now() + ctx.limits.busy_patience;
    let mut pause = ctx.limits.first_pause;
    let mut was_sent = false;
    loop {
        if Instant::now() >= lease_ends {
            // This process stood still, perhaps for so long that the provider has forgotten the key or that the customer was
            // told "not charged". Whoever owns the intent by now asks before anything is sent.
            return Confirmed::Fact(Fact::Silence(UnknownReason::NotAsked));
        }
        let fact = match ctx.provider.confirm(request).await {
            ConfirmOutcome::Approved(charge) => Fact::Charged(charge),
            ConfirmOutcome::Declined(decline) => Fact::Declined(decline),
            ConfirmOutcome::ActionRequired { url } => Fact::BankStep(url),
            ConfirmOutcome::NotSent(_) if !was_sent => return Confirmed::NotSent,
            ConfirmOutcome::NotSent(_) => Fact::Silence(UnknownReason::NotAsked),
            ConfirmOutcome::Unknown(reason) => Fact::Silence(reason),
            ConfirmOutcome::Busy if Instant::now() + pause < until => {
                was_sent = true;
                sleep(pause).await;
                pause = (pause * 2).min(ctx.limits.longest_pause);
                continue;
            }
            ConfirmOutcome::Busy => Fact::Silence(UnknownReason::Busy),
        };
        return Confirmed::Fact(fact);
    }
}

/// Takes the reservation back, and says so only when that is committed.
async fn release(ctx: &Ctx, target: &Target) -> Result<(), StoreError> {
    let fence = target.fence.ok_or(StoreError::Impossible("lease without a fence"))?;
    if keyed(&ctx.limits, || store::release(&ctx.pool, &target.key, fence)).await? {
        ctx.waiters.publish(&target.key, News::Released);
        return Ok(());
    }
    // Released already by a try whose answer was lost; or recovery owns it by now.
    match intent::find(ctx, &target.key).await? {
        None => ctx.waiters.publish(&target.key, News::Released),
        Some(intent) => ctx.waiters.publish(&target.key, News::Standing(intent.standing)),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
