//! Brings back a payment whose intent was lost, as by a restored backup, from the provider's charge.

use time::OffsetDateTime;

use crate::{
    ids::{IntentId, OrderId},
    intent::{archive::Answer, fingerprint::Fingerprint},
    pool::Pool,
    provider::{ProviderCharge, ProviderPaymentIntentId},
};

/// What [`recover`] writes.
pub(crate) struct Recovering<'a> {
    pub(crate) order: OrderId,
    /// Derived from the charge.
    pub(crate) intent: IntentId,
    /// Of no request: whoever repeats the lost one is told how the order stands.
    pub(crate) fingerprint: Fingerprint,
    pub(crate) payment_intent: &'a ProviderPaymentIntentId,
    pub(crate) charge: &'a ProviderCharge,
    pub(crate) paid_at: OffsetDateTime,
    pub(crate) answer: &'a Answer,
}

/// The intent, marked as recovered, with archive, order, ledger and event, in one statement. Returns whether it was written:
/// not if the order is paid, or being paid, by anybody, nor if the money is not the order's.
pub(crate) async fn recover(pool: &Pool, new: &Recovering<'_>) -> Result<bool, sqlx::Error> {
    let made = sqlx::query_scalar!(
        r#"with first as (
            select id, amount_minor, currency
            from orders
            where id = $1 and state <> 'paid' and amount_minor = $6 and currency = $7
                and not exists (select from ledger_entries where charge = $5)
            for no key update
        ),
        made as (
            insert into intents (
                operation, order_id, id, fingerprint, state, amount_minor, currency, provider_payment_intent, owner,
                charge, paid_at, archive_status, archive_content_type, archive_body, finished_at, recovered_at
            )
            select 'pay', id, $2, $3, 'succeeded', amount_minor, currency, $4, gen_random_uuid(),
                $5, $8, $9, $10, $11, now(), now()
            from first
            on conflict do nothing
            returning operation, order_id, id, amount_minor, currency
        ),
        paid as (
            update orders o
            set state = 'paid', paid_intent = m.id, charge = $5, paid_at = $8
            from made m
            where o.id = m.order_id
        ),
        booked as (
            insert into ledger_entries (operation, order_id, intent_id, account, amount_minor, currency, charge)
            select m.operation, m.order_id, m.id, e.account, e.sign * m.amount_minor, m.currency, $5
            from made m
            cross join (values ('provider_receivable', 1), ('sales', -1)) as e (account, sign)
        ),
        told as (
            insert into outbox_events (kind, operation, order_id, intent_id, payload)
            select 'intent_succeeded', m.operation, m.order_id, m.id, $11
            from made m
        )
        select count(*) as "made!" from made"#,
        new.order.as_uuid(),
        new.intent.as_uuid(),
        new.fingerprint.as_bytes(),
        new.payment_intent.as_str(),
        new.charge.id.as_str(),
        new.charge.money.minor,
        new.charge.money.currency.code(),
        new.paid_at,
        i16::try_from(new.answer.status).expect("HTTP statuses have three digits"),
        new.answer.content_type.as_ref(),
        &new.answer.body[..],
    )
    .fetch_one(pool)
    .await?;
    Ok(made == 1)
}
