//! The writes that move a refund after its reservation, each with everything that changes with it, in one statement. The order's
//! row is locked before the refund's, as the reserve does it. A refund is booked where its charge is: a second charge that is told
//! as a discrepancy, and booked nowhere, is given back in the same silence of the ledger.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    intent::{IntentKey, archive::Answer, store::claim::seconds},
    limits::Limits,
    money::Money,
    pool::Pool,
    provider::ProviderRefund,
};

fn status(answer: &Answer) -> i16 {
    i16::try_from(answer.status).expect("HTTP statuses have three digits")
}

/// Given back: refund, archive, both ledger rows and the event. Returns whether it moved. The money is part of the guard.
pub(in crate::refund) async fn succeed(
    pool: &Pool,
    key: &IntentKey,
    fence: Option<i64>,
    refund: &ProviderRefund,
    (at, answer): (OffsetDateTime, &Answer),
) -> Result<bool, sqlx::Error> {
    let moved = sqlx::query_scalar!(
        r#"with first as (
            select id from orders where id = $1 for no key update
        ),
        moved as (
            update intents i
            set state = 'succeeded', provider_refund = $4, paid_at = $5,
                archive_status = $6, archive_content_type = $7, archive_body = $8, finished_at = now(),
                request = null, lease_expires_at = null, look_at = null
            from first f
            where i.operation = 'refund' and i.order_id = f.id and i.id = $2
                and i.finished_at is null and ($3::bigint is null or i.fence = $3)
                and i.amount_minor = $9 and i.currency = $10
            returning i.operation, i.order_id, i.id, i.amount_minor, i.currency, i.refunded_charge
        ),
        booked as (
            insert into ledger_entries (operation, order_id, intent_id, account, amount_minor, currency, charge)
            select m.operation, m.order_id, m.id, e.account, e.sign * m.amount_minor, m.currency, $4
            from moved m
            cross join (values ('provider_receivable', -1), ('refunds', 1)) as e (account, sign)
            where exists (select from ledger_entries c where c.charge = m.refunded_charge)
        ),
        told as (
            insert into outbox_events (kind, operation, order_id, intent_id, payload)
            select 'intent_succeeded', m.operation, m.order_id, m.id, $8 from moved m
        )
        select count(*) as "moved!" from moved"#,
        key.order.as_uuid(),
        key.intent.as_uuid(),
        fence,
        refund.id,
        at,
        status(answer),
        answer.content_type.as_ref(),
        &answer.body[..],
        refund.money.minor,
        refund.money.currency.code(),
    )
    .fetch_one(pool)
    .await?;
    Ok(moved == 1)
}

/// Not given back: refund, archive, its part of the order's sum, and the event. Returns whether it moved.
pub(in crate::refund) async fn fail(
    pool: &Pool,
    key: &IntentKey,
    fence: Option<i64>,
    failure: &str,
    answer: &Answer,
) -> Result<bool, sqlx::Error> {
    let moved = sqlx::query_scalar!(
        r#"with first as (
            select id from orders where id = $1 for no key update
        ),
        moved as (
            update intents i
            set state = 'failed', decline = 'generic', failure = $4,
                archive_status = $5, archive_content_type = $6, archive_body = $7, finished_at = now(),
                request = null, lease_expires_at = null, look_at = null
            from first f
            where i.operation = 'refund' and i.order_id = f.id and i.id = $2
                and i.finished_at is null and ($3::bigint is null or i.fence = $3)
            returning i.operation, i.order_id, i.id, i.amount_minor, i.refunded_charge, i.elsewhere
        ),
        left_again as (
            update orders o
            set refund_reserved_minor = o.refund_reserved_minor - case when m.elsewhere then 0 else m.amount_minor end,
                refunded_elsewhere_minor = o.refunded_elsewhere_minor - case when m.elsewhere then m.amount_minor else 0 end
            from moved m
            where o.id = m.order_id and o.charge = m.refunded_charge
        ),
        told as (
            insert into outbox_events (kind, operation, order_id, intent_id, payload)
            select 'intent_failed', m.operation, m.order_id, m.id, $7 from moved m
        )
        select count(*) as "moved!" from moved"#,
        key.order.as_uuid(),
        key.intent.as_uuid(),
        fence,
        failure,
        status(answer),
        answer.content_type.as_ref(),
        &answer.body[..],
    )
    .fetch_one(pool)
    .await?;
    Ok(moved == 1)
}

/// It had succeeded, and the money came back to us: the mark, the order's sum, two ledger rows that take back, and the event. The
/// archived answer stays. Returns whether it was news.
pub(in crate::refund) async fn reverse(
    pool: &Pool,
    key: &IntentKey,
    failure: &str,
    payload: &[u8],
) -> Result<bool, sqlx::Error> {
    let moved = sqlx::query_scalar!(
        r#"with first as (
            select id from orders where id = $1 for no key update
        ),
        moved as (
            update intents i
            set reversed_at = now(), failure = $3
            from first f
            where i.operation = 'refund' and i.order_id = f.id and i.id = $2
                and i.state = 'succeeded' and i.reversed_at is null
            returning i.operation, i.order_id, i.id, i.amount_minor, i.currency, i.refunded_charge, i.provider_refund,
                i.elsewhere
        ),
        left_again as (
            update orders o
            set refund_reserved_minor = o.refund_reserved_minor - case when m.elsewhere then 0 else m.amount_minor end,
                refunded_elsewhere_minor = o.refunded_elsewhere_minor - case when m.elsewhere then m.amount_minor else 0 end
            from moved m
            where o.id = m.order_id and o.charge = m.refunded_charge
        ),
        booked as (
            insert into ledger_entries (operation, order_id, intent_id, account, amount_minor, currency, charge, reverses)
            select m.operation, m.order_id, m.id, e.account, e.sign * m.amount_minor, m.currency, m.provider_refund, true
            from moved m
            cross join (values ('provider_receivable', 1), ('refunds', -1)) as e (account, sign)
            where exists (select from ledger_entries c where c.charge = m.refunded_charge)
        ),
        told as (
            insert into outbox_events (kind, operation, order_id, intent_id, payload)
            select 'refund_reversed', m.operation, m.order_id, m.id, $4 from moved m
        )
        select count(*) as "moved!" from moved"#,
        key.order.as_uuid(),
        key.intent.as_uuid(),
        failure,
        payload,
    )
    .fetch_one(pool)
    .await?;
    Ok(moved == 1)
}

/// Lets go of a refund that has no end yet: its outcome is not known, or the provider is at work on it (`at_provider`, which
/// takes days at some banks). The next look comes after a pause that grows.
pub(in crate::refund) async fn rest(
    pool: &Pool,
    limits: &Limits,
    key: &IntentKey,
    fence: Option<i64>,
    at_provider: Option<&str>,
) -> Result<bool, sqlx::Error> {
    let longest = if at_provider.is_some() { limits.longest_refund_pause } else { limits.longest_look_pause };
    let rested = sqlx::query!(
        "update intents
        set state = 'unknown',
            provider_refund = coalesce($4, provider_refund),
            lease_expires_at = null,
            look_at = now() + make_interval(secs => least($6, $5 * power(2, least(looks, 16))))
        where operation = 'refund' and order_id = $1 and id = $2
            and finished_at is null and ($3::bigint is null or fence = $3)",
        key.order.as_uuid(),
        key.intent.as_uuid(),
        fence,
        at_provider,
        seconds(limits.first_pause),
        seconds(longest),
    )
    .execute(pool)
    .await?;
    Ok(rested.rows_affected() == 1)
}

/// A refund that somebody else made at the provider: the row, the order's sum, the ledger rows and the event where it is given back
/// already, each once per refund of the provider's.
pub(in crate::refund) async fn note_elsewhere(
    pool: &Pool,
    key: &IntentKey,
    fingerprint: &[u8],
    payment_intent: &str,
    refund: &ProviderRefund,
    given_back: Option<&Answer>,
) -> Result<bool, sqlx::Error> {
    let Money { minor, currency } = refund.money;
    let noted = sqlx::query_scalar!(
        r#"with first as (
            select id from orders where id = $1 for no key update
        ),
        noted as (
            insert into intents (
                operation, order_id, id, fingerprint, state, amount_minor, currency, provider_payment_intent,
                refunded_charge, provider_refund, elsewhere, owner, request, look_at, paid_at,
                archive_status, archive_content_type, archive_body, finished_at
            )
            select 'refund', f.id, $2, $3, case when $10::smallint is null then 'unknown' else 'succeeded' end, $4, $5,
                $6, $7, $8, true, $2, case when $10::smallint is null then ''::bytea end,
                case when $10::smallint is null then now() end, case when $10::smallint is not null then $9::timestamptz end,
                $10, $11, $12, case when $10::smallint is not null then now() end
            from first f
            on conflict do nothing
            returning operation, order_id, id, amount_minor, currency, refunded_charge, finished_at
        ),
        counted as (
            update orders o
            set refunded_elsewhere_minor = o.refunded_elsewhere_minor + n.amount_minor
            from noted n
            where o.id = n.order_id and o.charge = n.refunded_charge
        ),
        booked as (
            insert into ledger_entries (operation, order_id, intent_id, account, amount_minor, currency, charge)
            select n.operation, n.order_id, n.id, e.account, e.sign * n.amount_minor, n.currency, $8
            from noted n
            cross join (values ('provider_receivable', -1), ('refunds', 1)) as e (account, sign)
            where n.finished_at is not null
                and exists (select from ledger_entries c where c.charge = n.refunded_charge)
        ),
        told as (
            insert into outbox_events (kind, operation, order_id, intent_id, payload)
            select 'intent_succeeded', n.operation, n.order_id, n.id, $12
            from noted n
            where n.finished_at is not null
        )
        select count(*) as "noted!" from noted"#,
        key.order.as_uuid(),
        key.intent.as_uuid(),
        fingerprint,
        minor,
        currency.code(),
        payment_intent,
        refund.charge.as_str(),
        refund.id,
        refund.created,
        given_back.map(status),
        given_back.map(|answer| answer.content_type.as_ref()),
        given_back.map(|answer| &answer.body[..]),
    )
    .fetch_one(pool)
    .await?;
    Ok(noted == 1)
}

/// What of the paying charge is disputed now, as the provider says.
pub(in crate::refund) async fn note_disputed(pool: &Pool, order: Uuid, minor: i64) -> Result<bool, sqlx::Error> {
    let noted =
        sqlx::query!("update orders set disputed_minor = $2 where id = $1 and disputed_minor <> $2", order, minor,)
            .execute(pool)
            .await?;
    Ok(noted.rows_affected() == 1)
}
