//! All SQL of the inbox.

use time::OffsetDateTime;

use super::{InboxNumber, Told};
use crate::{
    intent::store::claim::seconds,
    limits::Limits,
    money::{Currency, Money},
    notice::Notice,
    pool::{Pool, StoreError},
    provider::{ProviderCharge, ProviderChargeId, ProviderEvent, ProviderPaymentIntentId},
};

/// The row of an event, new or there already.
pub(super) struct Kept {
    pub(super) number: i64,
    pub(super) handled: bool,
}

/// Keeps an event, or counts one more delivery of it.
pub(super) async fn keep(pool: &Pool, event: &ProviderEvent) -> Result<Kept, sqlx::Error> {
    let (payment_intent, notice) = event.about.as_ref().map(|(id, notice)| (id.as_str(), notice)).unzip();
    let charge = match notice {
        Some(Notice::Charged(charge)) => Some(charge),
        Some(Notice::Cancelled | Notice::Changed | Notice::Refunds) | None => None,
    };
    sqlx::query_as!(
        Kept,
        r#"insert into inbox_events (
            event, kind, wrong_mode, payment_intent, notice, charge, amount_minor, currency, charged_at, told_at,
            try_at
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, now() + interval '30 seconds')
        on conflict on constraint inbox_events_one_per_event
            do update set deliveries = inbox_events.deliveries + 1
        returning number, handled_at is not null as "handled!""#,
        event.id,
        event.kind,
        event.wrong_mode,
        payment_intent,
        notice.map(word),
        charge.map(|charge| charge.id.as_str()),
        charge.map(|charge| charge.money.minor),
        charge.map(|charge| charge.money.currency.code()),
        charge.and_then(|charge| charge.created),
        event.told_at,
    )
    .fetch_one(pool)
    .await
}

/// Which of these events are kept already.
pub(super) async fn list_known(pool: &Pool, events: &[String]) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!("select event from inbox_events where event = any($1)", events).fetch_all(pool).await
}

fn word(notice: &Notice) -> &'static str {
    match notice {
        Notice::Charged(_) => "charged",
        Notice::Cancelled => "cancelled",
        Notice::Changed => "changed",
        Notice::Refunds => "refunds",
    }
}

/// What is kept of an event that is not handled.
pub(super) struct ToldRow {
    number: i64,
    event: String,
    wrong_mode: bool,
    payment_intent: Option<String>,
    notice: Option<String>,
    charge: Option<String>,
    amount_minor: Option<i64>,
    currency: Option<String>,
    charged_at: Option<OffsetDateTime>,
}

/// Takes events that are due; another replica passes over them. A failing one is tried again after a pause that grows.
pub(super) async fn claim_due(pool: &Pool, limits: &Limits) -> Result<Vec<ToldRow>, sqlx::Error> {
    sqlx::query_as!(
        ToldRow,
        "with due as (
            select number
            from inbox_events
            where handled_at is null and try_at <= now()
            order by try_at
            limit $1
            for update skip locked
        )
        update inbox_events e
        set tries = e.tries + 1,
            try_at = now() + make_interval(secs => least($2, power(2, least(e.tries, 16))))
        from due d
        where e.number = d.number
        returning e.number, e.event, e.wrong_mode, e.payment_intent, e.notice, e.charge, e.amount_minor, e.currency,
            e.charged_at",
        limits.inbox_batch,
        seconds(limits.inbox_longest_pause),
    )
    .fetch_all(pool)
    .await
}

impl TryFrom<ToldRow> for Told {
    type Error = StoreError;

    fn try_from(row: ToldRow) -> Result<Self, StoreError> {
        let impossible = StoreError::Impossible("event");
        let about = match row.notice.as_deref() {
            None => None,
            Some(word) => {
                let notice = match word {
                    "charged" => row.charge().map(Notice::Charged),
                    "cancelled" => Some(Notice::Cancelled),
                    "changed" => Some(Notice::Changed),
                    "refunds" => Some(Notice::Refunds),
                    _ => None,
                };
                let named = row.payment_intent.as_deref().and_then(|id| ProviderPaymentIntentId::parse(id).ok());
                Some(named.zip(notice).ok_or(impossible)?)
            }
        };
        Ok(Self { number: InboxNumber(row.number), event: row.event, wrong_mode: row.wrong_mode, about })
    }
}

impl ToldRow {
    fn charge(&self) -> Option<ProviderCharge> {
        Some(ProviderCharge {
            id: ProviderChargeId::parse(self.charge.as_deref()?).ok()?,
            money: Money::new(self.amount_minor?, Currency::parse(self.currency.as_deref()?).ok()?),
            created: self.charged_at,
        })
    }
}

/// Handled. Returns whether it was not before.
pub(super) async fn mark(pool: &Pool, number: InboxNumber, effect: &str) -> Result<bool, sqlx::Error> {
    let marked = sqlx::query!(
        "update inbox_events set handled_at = now(), effect = $2 where number = $1 and handled_at is null",
        number.0,
        effect,
    )
    .execute(pool)
    .await?;
    Ok(marked.rows_affected() == 1)
}

/// Handled by telling a person, in one commit. The same difference is told once, by whichever event.
pub(super) async fn doubt(pool: &Pool, number: InboxNumber, kind: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "with told as (
            update inbox_events
            set handled_at = now(), effect = 'discrepancy'
            where number = $1 and handled_at is null
            returning event, payment_intent, charge, amount_minor, currency
        )
        insert into discrepancies (kind, event, payment_intent, charge, reported_minor, reported_currency)
        select $2, event, payment_intent, charge, amount_minor, currency
        from told
        on conflict do nothing",
        number.0,
        kind,
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Forgets events whose memory is over. Returns how many.
pub(super) async fn purge(pool: &Pool, limits: &Limits) -> Result<u64, sqlx::Error> {
    let purged = sqlx::query!(
        "with old as (
            select number
            from inbox_events
            where handled_at is not null and received_at < now() - make_interval(secs => $1)
            order by received_at
            limit $2
            for update skip locked
        )
        delete from inbox_events e using old o where e.number = o.number",
        seconds(limits.inbox_memory),
        limits.purge_batch,
    )
    .execute(pool)
    .await?;
    Ok(purged.rows_affected())
}
