//! Claim: to become the one owner of an unresolved intent. Every claim draws a new fence, so that the old owner's writes
//! fail, and changes the owner's name, so that the old one does not know itself again.

use std::time::Duration;

use uuid::Uuid;

use crate::{
    ids::{IntentId, OrderId},
    intent::{IntentKey, State},
    limits::Limits,
    money::{Currency, Money},
    pool::{Pool, StoreError},
    provider::ProviderPaymentIntentId,
};

/// An intent that the caller owns until its lease ends, and what is needed to find out what happened.
#[derive(Clone)]
pub(crate) struct Claim {
    pub(crate) key: IntentKey,
    pub(crate) fence: i64,
    /// Where it stood when it was claimed. Nobody else can have moved it since without the fence telling.
    pub(crate) state: State,
    pub(crate) money: Money,
    pub(crate) payment_intent: ProviderPaymentIntentId,
    pub(crate) request: Vec<u8>,
    /// Whether the provider still remembers the idempotency key, so that the same request may be sent again.
    pub(crate) key_is_remembered: bool,
    /// Whether the time is over by which the customer was told to know (or had to be done at the bank), or cannot be told since
    /// the clock has fallen back by more than that.
    pub(crate) is_overdue: bool,
}

pub(crate) struct ClaimRow {
    order_id: Uuid,
    id: Uuid,
    fence: i64,
    state: String,
    amount_minor: i64,
    currency: String,
    provider_payment_intent: String,
    request: Option<Vec<u8>>,
    key_is_remembered: bool,
    is_overdue: bool,
}

impl TryFrom<ClaimRow> for Claim {
    type Error = StoreError;

    fn try_from(row: ClaimRow) -> Result<Self, StoreError> {
        let impossible = || StoreError::Impossible("claimed intent");
        let payment_intent = ProviderPaymentIntentId::parse(&row.provider_payment_intent);
        Ok(Self {
            key: IntentKey::pay(OrderId(row.order_id), IntentId(row.id)),
            fence: row.fence,
            state: State::parse(&row.state).ok_or_else(impossible)?,
            money: Money::new(row.amount_minor, Currency::parse(&row.currency).or(Err(impossible()))?),
            payment_intent: payment_intent.or(Err(impossible()))?,
            request: row.request.ok_or_else(impossible)?,
            key_is_remembered: row.key_is_remembered,
            is_overdue: row.is_overdue,
        })
    }
}

/// Seconds, as Postgres makes intervals from them.
pub(crate) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// Claims this intent, if it is unresolved and nobody owns it.
pub(crate) async fn claim_one(pool: &Pool, limits: &Limits, key: &IntentKey) -> Result<Option<ClaimRow>, sqlx::Error> {
    sqlx::query_as!(
        ClaimRow,
        r#"update intents
        set fence = nextval('fences'),
            owner = gen_random_uuid(),
            lease_expires_at = now() + make_interval(secs => $4),
            look_at = now() + make_interval(secs => $4),
            looks = looks + 1
        where operation = $1 and order_id = $2 and id = $3
            and finished_at is null
            and (lease_expires_at is null or lease_expires_at <= now())
        returning order_id, id, fence, state, amount_minor, currency, provider_payment_intent, request,
            created_at > now() - make_interval(secs => $5) as "key_is_remembered!",
            created_at not between
                now() - make_interval(secs => case state when 'action_required' then $7::float8 else $6::float8 end)
                and now() + make_interval(secs => case state when 'action_required' then $7::float8 else $6::float8 end)
                as "is_overdue!""#,
        key.operation.as_str(),
        key.order.as_uuid(),
        key.intent.as_uuid(),
        seconds(limits.lease),
        seconds(limits.provider_key_memory),
        seconds(limits.unknown_deadline),
        seconds(limits.bank_deadline),
    )
    .fetch_optional(pool)
    .await
}

/// Claims intents that are due and that nobody owns; what a rival is claiming is passed over. What waits for a person at the
/// bank comes last, so that many abandoned bank steps cannot keep a customer waiting whose outcome is unknown.
pub(crate) async fn claim_due(pool: &Pool, limits: &Limits) -> Result<Vec<ClaimRow>, sqlx::Error> {
    sqlx::query_as!(
        ClaimRow,
        r#"with due as (
            select operation, order_id, id
            from intents
            where operation = 'pay' and finished_at is null and look_at <= now()
                and (lease_expires_at is null or lease_expires_at <= now())
            order by state = 'action_required', look_at
            limit $1
            for update skip locked
        )
        update intents i
        set fence = nextval('fences'),
            owner = gen_random_uuid(),
            lease_expires_at = now() + make_interval(secs => $2),
            look_at = now() + make_interval(secs => $2),
            looks = i.looks + 1
        from due d
        where i.operation = d.operation and i.order_id = d.order_id and i.id = d.id
        returning i.order_id, i.id, i.fence, i.state, i.amount_minor, i.currency, i.provider_payment_intent, i.request,
            i.created_at > now() - make_interval(secs => $3) as "key_is_remembered!",
            i.created_at not between
                now() - make_interval(secs => case i.state when 'action_required' then $5::float8 else $4::float8 end)
                and now() + make_interval(secs => case i.state when 'action_required' then $5::float8 else $4::float8 end)
                as "is_overdue!""#,
        limits.recovery_batch,
        seconds(limits.lease),
        seconds(limits.provider_key_memory),
        seconds(limits.unknown_deadline),
        seconds(limits.bank_deadline),
    )
    .fetch_all(pool)
    .await
}

/// Brings near what is further away than any lease or pause of ours: the database's clock has fallen back since, by itself or by
/// a failover. Such an intent has a lease from now, so that a healthy executor is not disturbed; then it is due. What waits at the
/// bank is looked at as seldom as it is old, so that for it a far look may be right. Returns how many there were.
pub(crate) async fn bring_near(pool: &Pool, limits: &Limits) -> Result<u64, sqlx::Error> {
    // Twice, since a rival's clock was read a moment later than ours.
    let far = 2 * limits.lease.max(limits.longest_look_pause);
    let brought = sqlx::query!(
        "update intents
        set lease_expires_at = case when lease_expires_at is not null then now() + make_interval(secs => $1) end,
            look_at = now() + make_interval(secs => $1)
        where finished_at is null and look_at > now() + make_interval(secs => $2)
            and (lease_expires_at > now() + make_interval(secs => $2) or state <> 'action_required')",
        seconds(limits.lease),
        seconds(far),
    )
    .execute(pool)
    .await?;
    Ok(brought.rows_affected())
}

/// Ends the leases of these intents, as far as the executor that reserved them still owns them: a claim counts as a look.
/// Returns how many there were.
pub(crate) async fn give_up(pool: &Pool, keys: &[IntentKey]) -> Result<u64, sqlx::Error> {
    let orders: Vec<Uuid> = keys.iter().map(|key| key.order.as_uuid()).collect();
    let ids: Vec<Uuid> = keys.iter().map(|key| key.intent.as_uuid()).collect();
    let given_up = sqlx::query!(
        "update intents i
        set lease_expires_at = now(), look_at = now()
        from unnest($1::uuid[], $2::uuid[]) as given (order_id, id)
        where i.operation = 'pay' and i.order_id = given.order_id and i.id = given.id
            and i.finished_at is null and i.looks = 0 and i.lease_expires_at > now()",
        &orders,
        &ids,
    )
    .execute(pool)
    .await?;
    Ok(given_up.rows_affected())
}
