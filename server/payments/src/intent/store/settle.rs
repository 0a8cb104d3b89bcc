//! The writes of `settle`: each moves an unresolved intent and everything that changes with it, in one statement.
//!
//! Each is guarded by "not final" and, where the caller is an executor, by its fence. Which moves there are says
//! [`crate::intent::MOVES`]; the trigger on `intents` refuses all others.
//!
//! The order's row is locked before the intent's, as the reserve does it: a repeat that holds the one while it waits for the
//! other would else stand across the settle, and both would wait until Postgres ends one of them.

use time::OffsetDateTime;

use super::claim::seconds;
use crate::{
    ids::IntentId,
    intent::{IntentKey, archive::Answer},
    limits::Limits,
    money::Money,
    pool::Pool,
    provider::{ContinueUrl, DeclineReason, ProviderCharge, ProviderChargeId},
    settle::Target,
};

fn status(answer: &Answer) -> i16 {
    i16::try_from(answer.status).expect("HTTP statuses have three digits")
}

/// Paid: intent, archive, order, both ledger rows and the event. Returns whether the intent moved.
///
/// The charge's money is part of the guard, so that another amount than agreed never passes for a payment.
pub(crate) async fn succeed(
    pool: &Pool,
    target: &Target,
    charged: (&ProviderChargeId, Money, OffsetDateTime),
    answer: &Answer,
) -> Result<bool, sqlx::Error> {
    let Target { key, fence, event, .. } = target;
    let (charge, money, paid_at) = charged;
    let moved = sqlx::query_scalar!(
        r#"with first as (
            select id from orders where id = $2 for no key update
        ),
        moved as (
            update intents i
            set state = 'succeeded', charge = $5, paid_at = $6,
                archive_status = $7, archive_content_type = $8, archive_body = $9, finished_at = now(),
                request = null, continue_url = null, lease_expires_at = null, look_at = null
            from first f
            where i.operation = $1 and i.order_id = f.id and i.id = $3
                and i.finished_at is null and ($4::bigint is null or i.fence = $4)
                and i.amount_minor = $10 and i.currency = $11
            returning i.operation, i.order_id, i.id, i.amount_minor, i.currency, i.email
        ),
        paid as (
            update orders o
            set state = 'paid', paid_intent = m.id, charge = $5, paid_at = $6, email = m.email
            from moved m
            where o.id = m.order_id and o.state <> 'paid'
            returning o.id
        ),
        booked as (
            insert into ledger_entries (operation, order_id, intent_id, account, amount_minor, currency, charge)
            select m.operation, m.order_id, m.id, e.account, e.sign * m.amount_minor, m.currency, $5
            from moved m
            cross join (values ('provider_receivable', 1), ('sales', -1)) as e (account, sign)
        ),
        told as (
            insert into outbox_events (kind, operation, order_id, intent_id, payload)
            select 'intent_succeeded', m.operation, m.order_id, m.id, $9
            from moved m
        ),
        doubted as (
            insert into discrepancies (
                kind, operation, order_id, intent_id, charge,
                expected_minor, expected_currency, reported_minor, reported_currency
            )
            select 'second_charge', m.operation, m.order_id, m.id, $5, m.amount_minor, m.currency, $10, $11
            from moved m
            where not exists (select from paid)
        ),
        handled as (
            update inbox_events
            set handled_at = now(), effect = 'applied'
            where number = $12 and handled_at is null and exists (select from moved)
        )
        select count(*) as "moved!" from moved"#,
        key.operation.as_str(),
        key.order.as_uuid(),
        key.intent.as_uuid(),
        *fence,
        charge.as_str(),
        paid_at,
        status(answer),
        answer.content_type.as_ref(),
        &answer.body[..],
        money.minor,
        money.currency.code(),
        event.map(|event| event.0),
    )
    .fetch_one(pool)
    .await?;
    Ok(moved == 1)
}

/// What [`fail`] writes.
pub(crate) struct Failing<'a> {
    pub(crate) reason: DeclineReason,
    pub(crate) answer: &'a Answer,
    /// The UUID that the order's pages offer for its next intent.
    pub(crate) next_offered: IntentId,
    /// The payment intent is cancelled: the order lets go of it, and gets another before it can be paid again.
    pub(crate) retires_payment_intent: bool,
}

/// Not paid: intent, archive, the next offered UUID and the event. Returns when it failed, if it moved.
pub(crate) async fn fail(
    pool: &Pool,
    target: &Target,
    failing: &Failing<'_>,
) -> Result<Option<OffsetDateTime>, sqlx::Error> {
    let Target { key, fence, event, .. } = target;
    sqlx::query_scalar!(
        r#"with first as (
            select id from orders where id = $2 for no key update
        ),
        moved as (
            update intents i
            set state = 'failed', decline = $5,
                archive_status = $6, archive_content_type = $7, archive_body = $8, finished_at = now(),
                request = null, continue_url = null, lease_expires_at = null, look_at = null
            from first f
            where i.operation = $1 and i.order_id = f.id and i.id = $3
                and i.finished_at is null and ($4::bigint is null or i.fence = $4)
            returning i.operation, i.order_id, i.id, i.finished_at, i.provider_payment_intent,
                $10::boolean as retires
        ),
        offered as (
            update orders o
            set offered_intent = $9,
                provider_payment_intent =
                    case when m.retires and o.provider_payment_intent = m.provider_payment_intent
                        then null else o.provider_payment_intent end,
                payment_intents_retired = o.payment_intents_retired
                    + (m.retires and o.provider_payment_intent = m.provider_payment_intent)::integer
            from moved m
            where o.id = m.order_id
        ),
        told as (
            insert into outbox_events (kind, operation, order_id, intent_id, payload)
            select 'intent_failed', m.operation, m.order_id, m.id, $8
            from moved m
        ),
        handled as (
            update inbox_events
            set handled_at = now(), effect = 'applied'
            where number = $11 and handled_at is null and exists (select from moved)
        )
        select finished_at as "finished_at!" from moved"#,
        key.operation.as_str(),
        key.order.as_uuid(),
        key.intent.as_uuid(),
        *fence,
        failing.reason.as_str(),
        status(failing.answer),
        failing.answer.content_type.as_ref(),
        &failing.answer.body[..],
        failing.next_offered.as_uuid(),
        failing.retires_payment_intent,
        event.map(|event| event.0),
    )
    .fetch_optional(pool)
    .await
}

/// The bank wants to see the customer; nobody owns the intent while it does. Returns whether the intent is there now.
pub(crate) async fn wait_for_bank(
    pool: &Pool,
    limits: &Limits,
    key: &IntentKey,
    fence: Option<i64>,
    continue_url: &ContinueUrl,
) -> Result<bool, sqlx::Error> {
    let moved = sqlx::query!(
        "update intents
        set state = 'action_required', continue_url = $5, lease_expires_at = null,
            look_at = least(
                now() + greatest(make_interval(secs => $6), (now() - created_at) / 4),
                case when created_at + make_interval(secs => $7) > now()
                    then created_at + make_interval(secs => $7) end
            )
        where operation = $1 and order_id = $2 and id = $3
            and finished_at is null and ($4::bigint is null or fence = $4)",
        key.operation.as_str(),
        key.order.as_uuid(),
        key.intent.as_uuid(),
        fence,
        continue_url.as_str(),
        seconds(limits.longest_look_pause),
        seconds(limits.bank_deadline),
    )
    .execute(pool)
    .await?;
    Ok(moved.rows_affected() == 1)
}

/// Nobody knows: `pending` becomes `unknown`, `action_required` stays. The owner lets go, and the next look is due after a
/// pause that doubles with each, and at the deadline in any case. Returns the state that the intent has now.
pub(crate) async fn rest(
    pool: &Pool,
    limits: &Limits,
    key: &IntentKey,
    fence: Option<i64>,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "update intents
        set state = case state when 'action_required' then state else 'unknown' end,
            lease_expires_at = null,
            look_at = least(
                now() + make_interval(secs => least($6, $5 * power(2, least(looks, 16)))),
                case when state <> 'action_required' and created_at + make_interval(secs => $7) > now()
                    then created_at + make_interval(secs => $7) end,
                case when state = 'action_required' and created_at + make_interval(secs => $8) > now()
                    then created_at + make_interval(secs => $8) end
            )
        where operation = $1 and order_id = $2 and id = $3
            and finished_at is null and ($4::bigint is null or fence = $4)
        returning state",
        key.operation.as_str(),
        key.order.as_uuid(),
        key.intent.as_uuid(),
        fence,
        seconds(limits.first_pause),
        seconds(limits.longest_look_pause),
        seconds(limits.unknown_deadline),
        seconds(limits.bank_deadline),
    )
    .fetch_optional(pool)
    .await
}

/// Another amount or currency than agreed: told once, booked nowhere.
pub(crate) async fn doubt_amount(pool: &Pool, target: &Target, charge: &ProviderCharge) -> Result<(), sqlx::Error> {
    let Target { key, event, .. } = target;
    sqlx::query!(
        "with handled as (
            update inbox_events set handled_at = now(), effect = 'applied' where number = $7 and handled_at is null
        )
        insert into discrepancies (
            kind, operation, order_id, intent_id, charge,
            expected_minor, expected_currency, reported_minor, reported_currency
        )
        select 'amount_mismatch', operation, order_id, id, $4, amount_minor, currency, $5, $6
        from intents
        where operation = $1 and order_id = $2 and id = $3
        on conflict do nothing",
        key.operation.as_str(),
        key.order.as_uuid(),
        key.intent.as_uuid(),
        charge.id.as_str(),
        charge.money.minor,
        charge.money.currency.code(),
        event.map(|event| event.0),
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Money for an intent that has an end already: told once; booked, if the intent has no other charge; the order becomes paid, if
/// the amount is the order's. One that had closed takes its pieces again; those that are no longer there are owed. The archived
/// answer stays. A charge that is booked already is no news.
#[expect(clippy::too_many_lines, reason = "one statement, since all of it changes together")]
pub(crate) async fn book_late(
    pool: &Pool,
    target: &Target,
    charge: &ProviderCharge,
    paid_at: OffsetDateTime,
    payload: &[u8],
) -> Result<(), sqlx::Error> {
    let Target { key, event, .. } = target;
    sqlx::query!(
        "with subject as (
            select operation, order_id, id, state, amount_minor, currency, email
            from intents
            where operation = $1 and order_id = $2 and id = $3
                and finished_at is not null
                and not exists (select from ledger_entries where charge = $4)
        ),
        doubted as (
            insert into discrepancies (
                kind, operation, order_id, intent_id, charge,
                expected_minor, expected_currency, reported_minor, reported_currency
            )
            select case state when 'failed' then 'charge_of_failed_intent' else 'second_charge' end,
                operation, order_id, id, $4, amount_minor, currency, $5, $6
            from subject
            on conflict do nothing
        ),
        booked as (
            insert into ledger_entries (operation, order_id, intent_id, account, amount_minor, currency, charge)
            select s.operation, s.order_id, s.id, e.account, e.sign * $5::bigint, $6, $4
            from subject s
            cross join (values ('provider_receivable', 1), ('sales', -1)) as e (account, sign)
            where s.state = 'failed'
            on conflict do nothing
        ),
        paid as (
            update orders o
            set state = 'paid', paid_intent = s.id, charge = $4, paid_at = $7, email = s.email
            from subject s
            where o.id = s.order_id and o.state <> 'paid' and o.amount_minor = $5 and o.currency = $6
            returning o.id, o.closed_at
        ),
        pieces as (
            select l.sku, sum(l.quantity)::integer as quantity
            from paid p
            join order_lines l on l.order_id = p.id
            where p.closed_at is not null and l.sku is not null
            group by l.sku
        ),
        locked as materialized (
            select p.sku
            from products p
            where p.sku in (select sku from pieces)
            order by p.sku
            for no key update
        ),
        retaken as (
            update products p
            set stock = p.stock - least(p.stock, w.quantity), owed = p.owed + w.quantity - least(p.stock, w.quantity)
            from locked l
            join pieces w on w.sku = l.sku
            where p.sku = l.sku
        ),
        handled as (
            update inbox_events
            set handled_at = now(), effect = 'applied'
            where number = $9 and handled_at is null and exists (select from subject)
        )
        insert into outbox_events (kind, operation, order_id, intent_id, payload)
        select 'order_paid_late', s.operation, s.order_id, s.id, $8
        from subject s
        join paid p on p.id = s.order_id
        on conflict do nothing",
        key.operation.as_str(),
        key.order.as_uuid(),
        key.intent.as_uuid(),
        charge.id.as_str(),
        charge.money.minor,
        charge.money.currency.code(),
        paid_at,
        payload,
        event.map(|event| event.0),
    )
    .execute(pool)
    .await?;
    Ok(())
}
