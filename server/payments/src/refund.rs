//! Refund: money back, by an intent of its own. Reserve, call, settle, as Pay does it.
//!
//! Promise: what is given back of a charge never exceeds it, under any concurrency: the reservation takes its part of a sum in the
//! order's own row. A refund has its own UUID and archived answer, its provider key is derived from them, a lost answer is looked
//! up before anything is sent again, and a repeat gets the same bytes. Never: a refund of a charge that is not known to be made.

pub mod at_provider;
mod charged;
mod recover;
mod settle;
mod store;

use time::OffsetDateTime;
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use self::{
    charged::{Charged, find_charged},
    settle::Fact,
    store::Reserving,
};
pub use self::{
    charged::{Remaining, remaining},
    recover::run_once,
};
use crate::{
    Ctx,
    ids::{IntentId, OrderId},
    intent::{
        IntentKey, State,
        archive::{Answer, Archived, pending_refund},
        fingerprint::Fingerprint,
    },
    limits::RESERVE_TRIES,
    money::{Currency, Money},
    pool::{StoreError, keyed},
    provider::{
        NewRefund, ProviderChargeId, ProviderPaymentIntentId, RefundCall, RefundOutcome, RefundReason, UnknownReason,
    },
};

/// What a program sends to give money back, parsed.
#[derive(Clone, Debug)]
pub struct RefundRequest {
    /// The order whose charge it is.
    pub order: OrderId,
    /// The idempotency key.
    pub intent: IntentId,
    /// How much, in the order's currency.
    pub money: Money,
    /// Why, for the bank.
    pub reason: Option<RefundReason>,
}

/// A refund, ours or one made at the provider by somebody else.
#[derive(Clone, Debug)]
pub struct Refund {
    /// Operation, order and UUID; that of one made elsewhere is derived from the provider's id.
    pub key: IntentKey,
    pub(crate) fingerprint: Vec<u8>,
    /// Where it stands. `Unknown` with a `provider_refund`: the provider is at work on it.
    pub state: State,
    /// What is given back.
    pub money: Money,
    /// Why, where somebody said.
    pub reason: Option<RefundReason>,
    /// The provider's charge that it gives back.
    pub charge: ProviderChargeId,
    /// The provider's refund, once we know of it.
    pub provider_refund: Option<String>,
    /// When it was given back, by the provider's clock.
    pub refunded_at: Option<OffsetDateTime>,
    /// Why it failed, or was reversed.
    pub failure: Option<String>,
    /// When we learned that it failed after it had succeeded.
    pub reversed_at: Option<OffsetDateTime>,
    /// Whether somebody else made it.
    pub elsewhere: bool,
    pub(crate) owner: Uuid,
    pub(crate) fence: i64,
    /// What is left of the archived answer of one that has its end.
    pub archive: Option<Archived>,
    /// When it was reserved, or noticed.
    pub created_at: OffsetDateTime,
    /// When it had its end.
    pub finished_at: Option<OffsetDateTime>,
}

impl Refund {
    /// The present answer: the archive, or "pending" with what is known. `None`: it was purged.
    fn answer(&self) -> Option<Answer> {
        match &self.archive {
            Some(archived) => archived.kept().map(|archive| archive.answer().clone()),
            None => Some(pending_refund(self.key.intent, self.money, self.detail())),
        }
    }

    /// What is known of one without an end.
    pub fn detail(&self) -> &'static str {
        match (&self.provider_refund, self.state) {
            (Some(_), _) => "at_provider",
            (None, State::Unknown) => "unknown",
            (None, State::Pending | State::ActionRequired | State::Succeeded | State::Failed) => "pending",
        }
    }
}

/// What a refund call says when there is something to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundAnswer {
    /// The archived answer, or the present one of a refund without an end.
    pub answer: Answer,
    /// Whether the answer was archived before this call came.
    pub replayed: bool,
}

/// Why a refund has no answer to give.
#[derive(Debug, thiserror::Error)]
pub enum RefundError {
    /// No such order.
    #[error("no such order")]
    NotFound,
    /// This key was used for another request; that one stands.
    #[error("this refund's key was used for another request")]
    Reused,
    /// The refund had its end, and its archived answer is purged.
    #[error("the answer to this refund is no longer kept")]
    Purged,
    /// The order is not paid.
    #[error("this order is not paid")]
    NotPaid,
    /// It is not known yet whether the order is paid.
    #[error("it is not known yet whether this order is paid")]
    PaymentUnresolved,
    /// Another currency than the order's.
    #[error("the order is in another currency: {0}")]
    WrongCurrency(Currency),
    /// More than is left.
    #[error("only {} can still be refunded", .0.remaining)]
    TooMuch(Remaining),
    /// The provider cannot count this amount.
    #[error("the provider cannot refund this amount")]
    AmountRefused,
    /// Proven: nothing was sent, and the reservation is released. The same refund may be sent again.
    #[error("nothing was sent to the provider")]
    NotSent,
    /// The wait is over, and nothing is known that could be told.
    #[error("this refund is still under way")]
    InProgress,
    /// The database could not answer before anything was reserved.
    #[error(transparent)]
    Unavailable(#[from] StoreError),
    /// The answer to the reservation was lost. It may be there, and then recovery finishes it.
    #[error("it is not known whether this refund has begun: {0}")]
    MayHaveBegun(StoreError),
}

/// Gives money back. Repeats of the same intent get the same bytes.
///
/// The work runs in a task of its own: dropping the returned future stops the waiting, never the refund.
///
/// # Errors
/// See [`RefundError`].
pub async fn refund(ctx: &Ctx, request: RefundRequest) -> Result<RefundAnswer, RefundError> {
    let RefundRequest { order, intent, money, reason } = request;
    let key = IntentKey::refund(order, intent);
    let fingerprint = Fingerprint::of_refund(money, reason);
    begin(ctx, Wanted { key, money, reason, fingerprint, second: None }).await
}

/// Gives a second charge of an order back, whole: one that came where another had paid. Its key is derived from the charge, so that
/// it cannot be given back twice, and it does not count against what the order can give back.
///
/// # Errors
/// See [`RefundError`].
pub async fn of_second_charge(
    ctx: &Ctx,
    order: OrderId,
    payment_intent: &ProviderPaymentIntentId,
    charge: &ProviderChargeId,
    money: Money,
) -> Result<RefundAnswer, RefundError> {
    let key = IntentKey::refund(order, IntentId::derived("second charge", charge.as_str()));
    let reason = Some(RefundReason::Duplicate);
    let fingerprint = Fingerprint::of_refund(money, reason);
    let second = Some((charge.clone(), payment_intent.clone()));
    begin(ctx, Wanted { key, money, reason, fingerprint, second }).await
}

async fn begin(ctx: &Ctx, wanted: Wanted) -> Result<RefundAnswer, RefundError> {
    let until = Instant::now() + ctx.limits.pay_wait;
    let (task, key) = (ctx.clone(), wanted.key);
    let began = ctx.detach(async move { reserve_and_execute(&task, wanted).await });
    let replayed = match timeout_at(until, began).await {
        Ok(Ok(began)) => began? == Began::Finished,
        Ok(Err(_)) | Err(_) => false,
    };
    answer_by(ctx, &key, until, replayed).await
}

/// The refunds of an order, newest first, ours and others'; see [`crate::limits::MAX_ORDER_INTENTS`].
///
/// # Errors
/// When the database cannot answer.
pub async fn list_of_order(ctx: &Ctx, order: OrderId) -> Result<Vec<Refund>, StoreError> {
    let rows = keyed(&ctx.limits, || store::list_of_order(&ctx.pool, order)).await?;
    rows.into_iter().map(Refund::try_from).collect()
}

/// What is to be given back.
struct Wanted {
    key: IntentKey,
    money: Money,
    reason: Option<RefundReason>,
    fingerprint: Fingerprint,
    /// A second charge of the order and its payment intent; `None`: the charge that paid it.
    second: Option<(ProviderChargeId, ProviderPaymentIntentId)>,
}

/// Whether there was anything to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Began {
    /// It had its end before.
    Finished,
    /// It is under way, or just had its end.
    Now,
}

async fn reserve_and_execute(ctx: &Ctx, wanted: Wanted) -> Result<Began, RefundError> {
    let owner = ctx.ids.intent().as_uuid();
    // The lease begins when the reservation is written, which is later.
    let lease_ends = Instant::now() + ctx.limits.lease;
    let Wanted { key, money, reason, fingerprint, .. } = wanted;
    for _ in 0..RESERVE_TRIES {
        match find(ctx, &key).await? {
            // Our own, whose answer was lost.
            Some(there) if there.owner == owner && there.state == State::Pending => {
                let request = freeze(ctx, &wanted, &there.charge)?;
                return execute(ctx, &Lease { key, money, fence: there.fence, ends: lease_ends }, request).await;
            }
            Some(there) => return join(&wanted, &there),
            None => {}
        }
        let charged = find_charged(ctx, key.order).await?.ok_or(RefundError::NotFound)?;
        let (charge, payment_intent) = allowed(&wanted, &charged)?;
        let request = freeze(ctx, &wanted, charge)?;
        let reserving = Reserving { key, fingerprint, money, reason, charge, payment_intent, request: &request, owner };

        // Reserve: one statement, one commit. Nothing is sent before it.
        let reserved = keyed(&ctx.limits, || store::reserve(&ctx.pool, &ctx.limits, &reserving)).await;
        if let Some(fence) = reserved.map_err(not_reserved)? {
            return execute(ctx, &Lease { key, money, fence, ends: lease_ends }, request).await;
        }
        // A rival was faster, or our own statement ran twice: the next look tells.
    }
    Err(RefundError::InProgress)
}

fn freeze(ctx: &Ctx, wanted: &Wanted, charge: &ProviderChargeId) -> Result<Vec<u8>, RefundError> {
    let (order, intent) = (wanted.key.order, wanted.key.intent);
    let new = NewRefund { charge, money: wanted.money, reason: wanted.reason, order, intent };
    ctx.provider.freeze_refund(&new).ok_or(RefundError::AmountRefused)
}

/// The reservation failed. Only where it never left, or was refused, nothing has begun.
fn not_reserved(error: sqlx::Error) -> RefundError {
    let error = StoreError::from(error);
    if error.may_be_in_effect() { RefundError::MayHaveBegun(error) } else { RefundError::Unavailable(error) }
}

/// A repeat: the same request, or another one under a used key.
fn join(wanted: &Wanted, there: &Refund) -> Result<Began, RefundError> {
    match there.archive {
        Some(Archived::Purged) => Err(RefundError::Purged),
        _ if there.fingerprint != wanted.fingerprint.as_bytes() => Err(RefundError::Reused),
        Some(Archived::Kept(_)) => Ok(Began::Finished),
        None => Ok(Began::Now),
    }
}

/// Whether the order can give back so much, and of what. The reserve compares again, with the row locked.
fn allowed<'a>(
    wanted: &'a Wanted,
    charged: &'a Charged,
) -> Result<(&'a ProviderChargeId, &'a ProviderPaymentIntentId), RefundError> {
    let (Some(paying), Some(payment_intent), true) = (&charged.charge, &charged.payment_intent, charged.paid) else {
        return Err(if charged.unresolved { RefundError::PaymentUnresolved } else { RefundError::NotPaid });
    };
    if let Some((charge, payment_intent)) = &wanted.second {
        return if charge == paying { Err(RefundError::NotFound) } else { Ok((charge, payment_intent)) };
    }
    if wanted.money.currency != charged.total.currency {
        return Err(RefundError::WrongCurrency(charged.total.currency));
    }
    let remaining = charged.remaining();
    if wanted.money.minor > remaining.remaining.minor {
        return Err(RefundError::TooMuch(remaining));
    }
    Ok((paying, payment_intent))
}

/// The right, and the duty, to send a reserved refund.
struct Lease {
    key: IntentKey,
    money: Money,
    fence: i64,
    /// When the lease is over at the latest, by this process' own clock.
    ends: Instant,
}

/// Sends a reserved refund and settles what the provider says.
async fn execute(ctx: &Ctx, lease: &Lease, body: Vec<u8>) -> Result<Began, RefundError> {
    let ctx = &ctx.settling();
    let call = RefundCall { idempotency_key: lease.key.for_provider(), body };
    let fact = match send(ctx, &call, lease.ends).await {
        Sent::Fact(fact) => fact,
        Sent::Nothing => {
            return match keyed(&ctx.limits, || store::release(&ctx.pool, &lease.key, lease.fence)).await {
                Ok(true) => Err(RefundError::NotSent),
                // It is still there, or somebody owns it by now; recovery finishes it.
                Ok(false) | Err(_) => Ok(Began::Now),
            };
        }
    };
    let settled = settle::apply_patiently(ctx, &lease.key, lease.money, Some(lease.fence), &fact).await;
    if settled.is_some_and(|state| !state.is_final()) && matches!(fact, Fact::Silence(_)) {
        let task = ctx.clone();
        let key = lease.key;
        drop(ctx.detach(async move { recover::chase(&task, &key).await }));
    }
    Ok(Began::Now)
}

/// What the first request of a reservation ends with.
enum Sent {
    Fact(Fact),
    /// Proven of every request that was made: nothing left.
    Nothing,
}

/// Sends, waiting out the provider's lock on a key that it is still at work on.
async fn send(ctx: &Ctx, call: &RefundCall, lease_ends: Instant) -> Sent {
    let until = Instant::now() + ctx.limits.busy_patience;
    let mut pause = ctx.limits.first_pause;
    let mut was_sent = false;
    loop {
        if Instant::now() >= lease_ends {
            // This process stood still: whoever owns the refund by now looks before anything is sent.
            return Sent::Fact(Fact::Silence(UnknownReason::NotAsked));
        }
        return match ctx.provider.refund(call).await {
            RefundOutcome::Made(refund) => Sent::Fact(Fact::Made(refund)),
            RefundOutcome::Refused { code } if !was_sent => Sent::Fact(Fact::Refused(code)),
            // An earlier one may have been heard, and this is what is left after it.
            RefundOutcome::Refused { .. } => Sent::Fact(Fact::Silence(UnknownReason::UnexpectedState)),
            RefundOutcome::NotSent(_) if !was_sent => Sent::Nothing,
            RefundOutcome::NotSent(_) => Sent::Fact(Fact::Silence(UnknownReason::NotAsked)),
            RefundOutcome::Unknown(reason) => Sent::Fact(Fact::Silence(reason)),
            RefundOutcome::Busy if Instant::now() + pause < until => {
                was_sent = true;
                sleep(pause).await;
                pause = (pause * 2).min(ctx.limits.longest_pause);
                continue;
            }
            RefundOutcome::Busy => Sent::Fact(Fact::Silence(UnknownReason::Busy)),
        };
    }
}

/// The answer, once there is an end or the wait is over.
async fn answer_by(ctx: &Ctx, key: &IntentKey, until: Instant, replayed: bool) -> Result<RefundAnswer, RefundError> {
    let mut pause = ctx.limits.first_pause;
    loop {
        let there = find(ctx, key).await?;
        let over = Instant::now() + pause > until;
        match there {
            Some(refund) if refund.state.is_final() || refund.provider_refund.is_some() || over => {
                let answer = refund.answer().ok_or(RefundError::Purged)?;
                return Ok(RefundAnswer { answer, replayed });
            }
            None if over => return Err(RefundError::InProgress),
            Some(_) | None => {}
        }
        sleep(pause).await;
        pause = (pause * 2).min(ctx.limits.longest_pause.min(std::time::Duration::from_millis(500)));
    }
}

async fn find(ctx: &Ctx, key: &IntentKey) -> Result<Option<Refund>, StoreError> {
    keyed(&ctx.limits, || store::find(&ctx.pool, key)).await?.map(Refund::try_from).transpose()
}
