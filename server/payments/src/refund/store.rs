//! All SQL of refunds but what settles them: reserve, release, claim, rest, and the look-ups.

pub(super) mod settle;

use time::OffsetDateTime;
use uuid::Uuid;

use super::Refund;
use crate::{
    ids::{IntentId, OrderId},
    intent::{
        IntentKey, State,
        archive::{Archive, Archived},
        fingerprint::Fingerprint,
        store::claim::seconds,
    },
    limits::{Limits, MAX_ORDER_INTENTS},
    money::{Currency, Money},
    pool::{Pool, StoreError},
    provider::{ProviderChargeId, ProviderPaymentIntentId, RefundReason},
};

/// What [`reserve`] writes.
pub(super) struct Reserving<'a> {
    pub(super) key: IntentKey,
    pub(super) fingerprint: Fingerprint,
    pub(super) money: Money,
    pub(super) reason: Option<RefundReason>,
    /// The charge to give back: the paying one, which counts against the order's sums, or a second one, which does not.
    pub(super) charge: &'a ProviderChargeId,
    pub(super) payment_intent: &'a ProviderPaymentIntentId,
    pub(super) request: &'a [u8],
    pub(super) owner: Uuid,
}

/// Reserves a refund if its order can still give back so much, and adds it to the order's sum. `None`: it was there before, or
/// the order cannot.
///
/// One statement and one commit. The order's row is locked first, so that the sums it is compared with are the newest. A rival
/// under the same key inserts nothing, and then adds nothing.
pub(super) async fn reserve(pool: &Pool, limits: &Limits, new: &Reserving<'_>) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"with the_order as (
            select id, currency, amount_minor, charge, refund_reserved_minor, refunded_elsewhere_minor, disputed_minor
            from orders
            where id = $1 and state = 'paid'
            for no key update
        ),
        reserved as (
            insert into intents (
                operation, order_id, id, fingerprint, amount_minor, currency, reason, provider_payment_intent,
                refunded_charge, request, owner, lease_expires_at, look_at
            )
            select 'refund', o.id, $2, $3, $4, $5, $6, $7, $8, $9, $10,
                now() + make_interval(secs => $11), now() + make_interval(secs => $11)
            from the_order o
            where o.currency = $5
                and (
                    o.charge <> $8
                    or o.refund_reserved_minor + o.refunded_elsewhere_minor + o.disputed_minor + $4 <= o.amount_minor
                )
            on conflict do nothing
            returning order_id, amount_minor, refunded_charge, fence
        ),
        taken as (
            update orders o
            set refund_reserved_minor = o.refund_reserved_minor + r.amount_minor
            from reserved r
            where o.id = r.order_id and o.charge = r.refunded_charge
        )
        select fence from reserved"#,
        new.key.order.as_uuid(),
        new.key.intent.as_uuid(),
        new.fingerprint.as_bytes(),
        new.money.minor,
        new.money.currency.code(),
        new.reason.map(RefundReason::as_str),
        new.payment_intent.as_str(),
        new.charge.as_str(),
        new.request,
        new.owner,
        seconds(limits.lease),
    )
    .fetch_optional(pool)
    .await
}

/// Takes a reservation back, since its request provably never left: the row and its part of the order's sum. Returns whether
/// there was one.
pub(super) async fn release(pool: &Pool, key: &IntentKey, fence: i64) -> Result<bool, sqlx::Error> {
    let released = sqlx::query_scalar!(
        r#"with first as (
            select id from orders where id = $1 for no key update
        ),
        gone as (
            delete from intents i
            using first f
            where i.operation = 'refund' and i.order_id = f.id and i.id = $2 and i.fence = $3 and i.state = 'pending'
            returning i.order_id, i.amount_minor, i.refunded_charge
        ),
        left_again as (
            update orders o
            set refund_reserved_minor = o.refund_reserved_minor - g.amount_minor
            from gone g
            where o.id = g.order_id and o.charge = g.refunded_charge
        )
        select count(*) as "released!" from gone"#,
        key.order.as_uuid(),
        key.intent.as_uuid(),
        fence,
    )
    .fetch_one(pool)
    .await?;
    Ok(released == 1)
}

/// The charge that a refund gives back, and what is left of it.
pub(super) struct ChargedRow {
    pub(super) order_id: Uuid,
    pub(super) state: String,
    pub(super) currency: String,
    pub(super) amount_minor: i64,
    pub(super) refund_reserved_minor: i64,
    pub(super) refunded_elsewhere_minor: i64,
    pub(super) disputed_minor: i64,
    pub(super) charge: Option<String>,
    pub(super) payment_intent: Option<String>,
    pub(super) unresolved: bool,
}

pub(super) async fn find_charged(pool: &Pool, order: OrderId) -> Result<Option<ChargedRow>, sqlx::Error> {
    sqlx::query_as!(
        ChargedRow,
        r#"select o.id as order_id, o.state, o.currency, o.amount_minor, o.refund_reserved_minor,
            o.refunded_elsewhere_minor, o.disputed_minor, o.charge, p.provider_payment_intent as "payment_intent?",
            exists (
                select from intents u
                where u.operation = 'pay' and u.order_id = o.id and u.finished_at is null
            ) as "unresolved!"
        from orders o
        left join intents p on p.operation = 'pay' and p.order_id = o.id and p.id = o.paid_intent
        where o.id = $1"#,
        order.as_uuid(),
    )
    .fetch_optional(pool)
    .await
}

/// The order that a payment intent has paid; a payment intent belongs to one order.
pub(super) async fn find_order_of(
    pool: &Pool,
    payment_intent: &ProviderPaymentIntentId,
) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select o.id
        from intents p
        join orders o on o.id = p.order_id
        where p.operation = 'pay' and p.provider_payment_intent = $1 and o.state = 'paid'
        limit 1",
        payment_intent.as_str(),
    )
    .fetch_optional(pool)
    .await
}

/// The payment intent that a charge of ours belongs to: one that paid, or one that a refund of ours gives back.
pub(super) async fn find_payment_intent_of(
    pool: &Pool,
    charge: &ProviderChargeId,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!("select provider_payment_intent from intents where charge = $1 limit 1", charge.as_str(),)
        .fetch_optional(pool)
        .await
}

/// A row of a refund.
pub(super) struct RefundRow {
    order_id: Uuid,
    id: Uuid,
    fingerprint: Vec<u8>,
    state: String,
    amount_minor: i64,
    currency: String,
    reason: Option<String>,
    refunded_charge: Option<String>,
    provider_refund: Option<String>,
    paid_at: Option<OffsetDateTime>,
    failure: Option<String>,
    reversed_at: Option<OffsetDateTime>,
    elsewhere: bool,
    owner: Uuid,
    fence: i64,
    archive_status: Option<i16>,
    archive_content_type: Option<String>,
    archive_body: Option<Vec<u8>>,
    created_at: OffsetDateTime,
    finished_at: Option<OffsetDateTime>,
    purged_at: Option<OffsetDateTime>,
}

impl TryFrom<RefundRow> for Refund {
    type Error = StoreError;

    fn try_from(row: RefundRow) -> Result<Self, StoreError> {
        let impossible = || StoreError::Impossible("refund");
        let archive = match (row.purged_at, row.archive_status, row.archive_content_type, row.archive_body) {
            (Some(_), ..) => Some(Archived::Purged),
            (None, Some(status), Some(content_type), Some(body)) => {
                let status = u16::try_from(status).or(Err(impossible()))?;
                Some(Archived::Kept(Archive::stored(status, content_type, body)))
            }
            (None, ..) => None,
        };
        Ok(Self {
            key: IntentKey::refund(OrderId(row.order_id), IntentId(row.id)),
            fingerprint: row.fingerprint,
            state: State::parse(&row.state).ok_or_else(impossible)?,
            money: Money::new(row.amount_minor, Currency::parse(&row.currency).or(Err(impossible()))?),
            reason: row.reason.as_deref().and_then(RefundReason::parse),
            charge: row
                .refunded_charge
                .as_deref()
                .and_then(|id| ProviderChargeId::parse(id).ok())
                .ok_or_else(impossible)?,
            provider_refund: row.provider_refund,
            refunded_at: row.paid_at,
            failure: row.failure,
            reversed_at: row.reversed_at,
            elsewhere: row.elsewhere,
            owner: row.owner,
            fence: row.fence,
            archive,
            created_at: row.created_at,
            finished_at: row.finished_at,
        })
    }
}

pub(super) async fn find(pool: &Pool, key: &IntentKey) -> Result<Option<RefundRow>, sqlx::Error> {
    sqlx::query_as!(
        RefundRow,
        "select order_id, id, fingerprint, state, amount_minor, currency, reason, refunded_charge,
            provider_refund, paid_at, failure, reversed_at, elsewhere, owner, fence, archive_status,
            archive_content_type, archive_body, created_at, finished_at, purged_at
        from intents
        where operation = 'refund' and order_id = $1 and id = $2",
        key.order.as_uuid(),
        key.intent.as_uuid(),
    )
    .fetch_optional(pool)
    .await
}

pub(super) async fn find_by_provider_refund(pool: &Pool, refund: &str) -> Result<Option<RefundRow>, sqlx::Error> {
    sqlx::query_as!(
        RefundRow,
        "select order_id, id, fingerprint, state, amount_minor, currency, reason, refunded_charge,
            provider_refund, paid_at, failure, reversed_at, elsewhere, owner, fence, archive_status,
            archive_content_type, archive_body, created_at, finished_at, purged_at
        from intents
        where provider_refund = $1",
        refund,
    )
    .fetch_optional(pool)
    .await
}

pub(super) async fn list_of_order(pool: &Pool, order: OrderId) -> Result<Vec<RefundRow>, sqlx::Error> {
    sqlx::query_as!(
        RefundRow,
        "select order_id, id, fingerprint, state, amount_minor, currency, reason, refunded_charge,
            provider_refund, paid_at, failure, reversed_at, elsewhere, owner, fence, archive_status,
            archive_content_type, archive_body, created_at, finished_at, purged_at
        from intents
        where operation = 'refund' and order_id = $1
        order by created_at desc, id
        limit $2",
        order.as_uuid(),
        MAX_ORDER_INTENTS,
    )
    .fetch_all(pool)
    .await
}

/// A refund that the caller owns until its lease ends.
pub(super) struct ClaimRow {
    pub(super) order_id: Uuid,
    pub(super) id: Uuid,
    pub(super) fence: i64,
    pub(super) amount_minor: i64,
    pub(super) currency: String,
    pub(super) provider_payment_intent: String,
    pub(super) provider_refund: Option<String>,
    pub(super) request: Option<Vec<u8>>,
    pub(super) elsewhere: bool,
    /// Whether the provider still remembers the key, so that the same request may be sent again.
    pub(super) key_is_remembered: bool,
    /// Whether every request that was ever sent has arrived or is lost, by far: an hour after the last could be sent.
    pub(super) nothing_is_under_way: bool,
}

/// Claims refunds that are due and that nobody owns, or the one of this key; what a rival is claiming is passed over.
pub(super) async fn claim(
    pool: &Pool,
    limits: &Limits,
    only: Option<&IntentKey>,
) -> Result<Vec<ClaimRow>, sqlx::Error> {
    sqlx::query_as!(
        ClaimRow,
        r#"with due as (
            select operation, order_id, id
            from intents
            where operation = 'refund' and finished_at is null
                and (lease_expires_at is null or lease_expires_at <= now())
                and case when $4::uuid is null then look_at <= now() else order_id = $4 and id = $5 end
            order by look_at
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
        returning i.order_id, i.id, i.fence, i.amount_minor, i.currency, i.provider_payment_intent, i.provider_refund,
            i.request, i.elsewhere,
            i.created_at > now() - make_interval(secs => $3) as "key_is_remembered!",
            i.created_at < now() - make_interval(secs => $3) - interval '1 hour' as "nothing_is_under_way!""#,
        limits.recovery_batch,
        seconds(limits.lease),
        seconds(limits.provider_key_memory),
        only.map(|key| key.order.as_uuid()),
        only.map(|key| key.intent.as_uuid()),
    )
    .fetch_all(pool)
    .await
}
