//! All SQL of the reconciliation: what we say, and what is told. What it repairs is written by `intent::store`.

use time::OffsetDateTime;
use uuid::Uuid;

use super::finding::{Finding, Open};
use crate::{
    limits::{RECHECKS, RECONCILE_ROWS, REPORT_ROWS},
    pool::Pool,
    provider::{ProviderChargeId, ProviderPaymentIntentId},
};

/// A charge that an intent of ours succeeded by.
pub(super) struct BookedRow {
    pub(super) order_id: Uuid,
    pub(super) id: Uuid,
    pub(super) charge: String,
    pub(super) paid_at: OffsetDateTime,
    pub(super) amount_minor: i64,
    pub(super) currency: String,
}

/// Ours from one instant to another, behind a place, in order.
pub(super) async fn list_booked(
    pool: &Pool,
    (from, until): (OffsetDateTime, OffsetDateTime),
    (paid_at, charge): (OffsetDateTime, &str),
) -> Result<Vec<BookedRow>, sqlx::Error> {
    sqlx::query_as!(
        BookedRow,
        r#"select order_id, id, charge as "charge!", paid_at as "paid_at!", amount_minor, currency
        from intents
        where operation = 'pay' and charge is not null and paid_at >= $1 and paid_at < $2
            and (paid_at, charge collate "C") > ($3, $4)
        order by paid_at, charge collate "C"
        limit $5"#,
        from,
        until,
        paid_at,
        charge,
        RECONCILE_ROWS,
    )
    .fetch_all(pool)
    .await
}

/// What we know of a charge that no intent succeeded by at that time.
pub(super) struct KnownRow {
    pub(super) booked_order: Option<Uuid>,
    pub(super) booked_intent: Option<Uuid>,
    pub(super) booked_minor: Option<i64>,
    pub(super) booked_currency: Option<String>,
    pub(super) order_id: Option<Uuid>,
    pub(super) order_state: Option<String>,
    pub(super) order_minor: Option<i64>,
    pub(super) order_currency: Option<String>,
    pub(super) paid_intent: Option<Uuid>,
    pub(super) live_intent: Option<Uuid>,
}

/// Where this charge is booked, and the order that its payment intent is of, or that it names.
pub(super) async fn find_known(
    pool: &Pool,
    charge: &ProviderChargeId,
    payment_intent: Option<&ProviderPaymentIntentId>,
    named_order: Option<Uuid>,
) -> Result<KnownRow, sqlx::Error> {
    sqlx::query_as!(
        KnownRow,
        r#"select b.order_id as "booked_order?", b.intent_id as "booked_intent?", b.amount_minor as "booked_minor?",
            b.currency as "booked_currency?", o.id as "order_id?", o.state as "order_state?",
            o.amount_minor as "order_minor?", o.currency as "order_currency?", o.paid_intent as "paid_intent?",
            l.id as "live_intent?"
        from (values (1)) as one (row)
        left join lateral (
            select order_id, intent_id, amount_minor, currency
            from ledger_entries
            where charge = $1 and account = 'provider_receivable' and operation = 'pay'
        ) b on true
        left join lateral (
            select id, state, amount_minor, currency, paid_intent
            from orders
            where provider_payment_intent = $2 or id = $3
            order by (provider_payment_intent is not distinct from $2) desc
            limit 1
        ) o on true
        left join lateral (
            select id
            from intents
            where order_id = o.id and operation = 'pay'
                and state in ('pending', 'unknown', 'action_required', 'succeeded')
        ) l on true"#,
        charge.as_str(),
        payment_intent.map(ProviderPaymentIntentId::as_str),
        named_order,
    )
    .fetch_one(pool)
    .await
}

/// A refund of ours.
pub(super) struct RefundRow {
    pub(super) order_id: Uuid,
    pub(super) id: Uuid,
    pub(super) state: String,
    pub(super) provider_refund: Option<String>,
    pub(super) amount_minor: i64,
    pub(super) currency: String,
    pub(super) is_reversed: bool,
    pub(super) created_at: OffsetDateTime,
}

/// Our refunds that these refunds of the provider's are.
pub(super) async fn list_refunds_by_provider(pool: &Pool, refunds: &[String]) -> Result<Vec<RefundRow>, sqlx::Error> {
    sqlx::query_as!(
        RefundRow,
        r#"select order_id, id, state, provider_refund, amount_minor, currency, reversed_at is not null as "is_reversed!",
            created_at
        from intents
        where operation = 'refund' and provider_refund = any($1)"#,
        refunds,
    )
    .fetch_all(pool)
    .await
}

/// Our refunds from one instant to another, behind a place, in order.
pub(super) async fn list_refunds(
    pool: &Pool,
    (from, until): (OffsetDateTime, OffsetDateTime),
    (created_at, id): (OffsetDateTime, Uuid),
) -> Result<Vec<RefundRow>, sqlx::Error> {
    sqlx::query_as!(
        RefundRow,
        r#"select order_id, id, state, provider_refund, amount_minor, currency, reversed_at is not null as "is_reversed!",
            created_at
        from intents
        where operation = 'refund' and created_at >= $1 and created_at < $2 and (created_at, id) > ($3, $4)
        order by created_at, id
        limit $5"#,
        from,
        until,
        created_at,
        id,
        RECONCILE_ROWS,
    )
    .fetch_all(pool)
    .await
}

/// The order that a charge of the provider's is booked for, and whether a refund of that charge is under way whose name at the
/// provider we do not know yet.
pub(super) struct RefundedRow {
    pub(super) order_id: Uuid,
    pub(super) is_under_way: bool,
}

pub(super) async fn find_refunded(pool: &Pool, charge: &ProviderChargeId) -> Result<Option<RefundedRow>, sqlx::Error> {
    sqlx::query_as!(
        RefundedRow,
        r#"select l.order_id, exists (
                select from intents i
                where i.operation = 'refund' and i.order_id = l.order_id and i.refunded_charge = $1
                    and i.provider_refund is null and i.finished_at is null
            ) as "is_under_way!"
        from ledger_entries l
        where l.charge = $1 and l.account = 'provider_receivable' and l.operation = 'pay'"#,
        charge.as_str(),
    )
    .fetch_optional(pool)
    .await
}

/// When the first order was made: nothing before it can be ours.
pub(super) async fn find_beginning(pool: &Pool) -> Result<Option<OffsetDateTime>, sqlx::Error> {
    // Ids of orders lie in the order of time.
    sqlx::query_scalar!("select created_at from orders order by id limit 1").fetch_optional(pool).await
}

/// Tells a difference once. One that had healed, and is there again, is open again; one that a person closed stays closed.
/// Returns whether it was told now.
pub(super) async fn tell(pool: &Pool, finding: &Finding) -> Result<bool, sqlx::Error> {
    let told = sqlx::query_scalar!(
        r#"with again as (
            update discrepancies
            set checked_at = now(), named_order = coalesce(named_order, $8),
                resolved_at = case when resolution is null then resolved_at end, resolution = null
            where kind = $1 and charge is not distinct from $5 and refund is not distinct from $6
                and intent_id is not distinct from $4
            returning id
        ),
        told as (
            insert into discrepancies (
                kind, operation, order_id, intent_id, charge, refund, payment_intent, named_order,
                expected_minor, expected_currency, reported_minor, reported_currency, checked_at
            )
            select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, now()
            where not exists (select from again)
            on conflict do nothing
            returning id
        )
        select count(*) as "told!" from told"#,
        finding.kind.as_str(),
        finding.intent.map(|intent| intent.operation),
        finding.intent.map(|intent| intent.order),
        finding.intent.map(|intent| intent.id),
        finding.charge,
        finding.refund,
        finding.payment_intent,
        finding.named_order,
        finding.expected.map(|money| money.minor),
        finding.expected.as_ref().map(|money| money.currency.code()),
        finding.reported.map(|money| money.minor),
        finding.reported.as_ref().map(|money| money.currency.code()),
    )
    .fetch_one(pool)
    .await?;
    Ok(told == 1)
}

/// Closes what is in our ledger by now as the provider reported it, whoever booked it. Returns how many.
pub(super) async fn heal_booked(pool: &Pool) -> Result<u64, sqlx::Error> {
    let healed = sqlx::query!(
        "update discrepancies d
        set resolved_at = now(), resolution = 'booked'
        from ledger_entries l
        where d.resolved_at is null and d.kind in ('unknown_payment_intent', 'state_mismatch', 'amount_mismatch')
            and l.charge = d.charge and l.account = 'provider_receivable' and l.operation = 'pay'
            and l.amount_minor = d.reported_minor and l.currency = d.reported_currency",
    )
    .execute(pool)
    .await?;
    Ok(healed.rows_affected())
}

/// Closes one. Returns whether it was open.
pub(super) async fn heal(pool: &Pool, id: i64, resolution: &str) -> Result<bool, sqlx::Error> {
    let healed = sqlx::query!(
        "update discrepancies
        set resolved_at = now(), resolution = $2, checked_at = now()
        where id = $1 and resolved_at is null",
        id,
        resolution,
    )
    .execute(pool)
    .await?;
    Ok(healed.rows_affected() == 1)
}

/// Still open.
pub(super) async fn still_open(pool: &Pool, id: i64) -> Result<(), sqlx::Error> {
    sqlx::query!("update discrepancies set checked_at = now() where id = $1", id).execute(pool).await?;
    Ok(())
}

/// A discrepancy that is to be looked into again.
pub(super) struct OpenRow {
    pub(super) id: i64,
    pub(super) kind: String,
    pub(super) charge: Option<String>,
    pub(super) refund: Option<String>,
    pub(super) expected_minor: Option<i64>,
    pub(super) expected_currency: Option<String>,
}

/// The open ones that were not looked into since then, the longest unchecked first, as far as looking can tell anything.
pub(super) async fn list_unchecked(pool: &Pool, since: OffsetDateTime) -> Result<Vec<OpenRow>, sqlx::Error> {
    sqlx::query_as!(
        OpenRow,
        "select id, kind, charge, refund, expected_minor, expected_currency
        from discrepancies
        where resolved_at is null and (checked_at is null or checked_at < $1)
            and kind <> 'wrong_mode' and coalesce(charge, refund) is not null
        order by checked_at nulls first, id
        limit $2",
        since,
        RECHECKS,
    )
    .fetch_all(pool)
    .await
}

/// How many are open.
pub(super) async fn count_open(pool: &Pool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(r#"select count(*) as "open!" from discrepancies where resolved_at is null"#)
        .fetch_one(pool)
        .await
}

/// The open ones, oldest first, as far as a report has room.
pub(super) async fn list_open(pool: &Pool) -> Result<Vec<Open>, sqlx::Error> {
    sqlx::query_as!(
        Open,
        r#"select kind, coalesce(order_id, named_order) as order_id, intent_id, charge, refund, payment_intent,
            expected_minor, expected_currency, reported_minor, reported_currency, created_at as found_at
        from discrepancies
        where resolved_at is null
        order by id
        limit $1"#,
        REPORT_ROWS,
    )
    .fetch_all(pool)
    .await
}
