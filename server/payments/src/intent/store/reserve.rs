//! Reserve and release: the statement in front of every charge, and the one that takes it back when nothing was sent.

use time::OffsetDateTime;
use uuid::Uuid;

use super::IntentRow;
use crate::{
    ids::{Email, IntentId, OrderToken},
    intent::{IntentKey, fingerprint::Fingerprint},
    money::Money,
    pool::Pool,
};

/// What [`reserve`] writes.
pub(crate) struct Reserving<'a> {
    pub(crate) order: &'a OrderToken,
    pub(crate) intent: IntentId,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) shown: Money,
    /// Where it is absent, the order's stands in.
    pub(crate) email: Option<&'a Email>,
    pub(crate) replaces: Option<IntentId>,
    pub(crate) request: &'a [u8],
    pub(crate) owner: Uuid,
    pub(crate) lease_seconds: f64,
}

/// What [`reserve`] found: the order, the intent if it was there before, the order's live intent, and the fence if it was
/// reserved now.
pub(crate) struct Reserved {
    pub(crate) order_id: Uuid,
    pub(crate) order_state: String,
    pub(crate) currency: String,
    pub(crate) amount_minor: i64,
    pub(crate) provider_payment_intent: Option<String>,
    pub(crate) paid_intent: Option<Uuid>,
    pub(crate) fence: Option<i64>,
    pub(crate) live: Option<Uuid>,
    pub(crate) replaced_state: Option<String>,
    pub(crate) fingerprint: Option<Vec<u8>>,
    pub(crate) owner: Option<Uuid>,
    pub(crate) owner_fence: Option<i64>,
    pub(crate) created_at: Option<OffsetDateTime>,
    pub(crate) state: Option<String>,
    pub(crate) continue_url: Option<String>,
    pub(crate) charge: Option<String>,
    pub(crate) paid_at: Option<OffsetDateTime>,
    pub(crate) decline: Option<String>,
    pub(crate) archive_status: Option<i16>,
    pub(crate) archive_content_type: Option<String>,
    pub(crate) archive_body: Option<Vec<u8>>,
    pub(crate) finished_at: Option<OffsetDateTime>,
    pub(crate) purged_at: Option<OffsetDateTime>,
}

impl Reserved {
    /// The intent that was there before.
    pub(crate) fn into_intent(self, id: IntentId) -> Option<IntentRow> {
        Some(IntentRow {
            order_id: self.order_id,
            id: id.as_uuid(),
            amount_minor: self.amount_minor,
            currency: self.currency,
            created_at: self.created_at?,
            state: self.state?,
            continue_url: self.continue_url,
            charge: self.charge,
            paid_at: self.paid_at,
            decline: self.decline,
            archive_status: self.archive_status,
            archive_content_type: self.archive_content_type,
            archive_body: self.archive_body,
            finished_at: self.finished_at,
            purged_at: self.purged_at,
        })
    }
}

/// Reserves the intent if everything allows it, and says in any case how things stand. `None`: no order has this token.
///
/// One statement and one commit. Where a rival's reserve is under way, it waits for the rival's commit and then inserts nothing;
/// the rival's row is newer than this statement's view, so that neither shows, and it has to be run again. The lock on the
/// order, which the foreign key would take anyhow, makes sure that the order is still open when the row is written.
pub(crate) async fn reserve(pool: &Pool, new: &Reserving<'_>) -> Result<Option<Reserved>, sqlx::Error> {
    sqlx::query_as!(
        Reserved,
        r#"with the_order as (
            select id, state, currency, amount_minor, provider_payment_intent, paid_intent
            from orders
            where token = $1
        ),
        mine as (
            select i.*
            from the_order o
            join intents i on i.operation = 'pay' and i.order_id = o.id and i.id = $2
        ),
        live as (
            select i.id
            from the_order o
            join intents i on i.order_id = o.id
            where i.operation = 'pay' and i.state in ('pending', 'unknown', 'action_required', 'succeeded')
        ),
        replaced as (
            select i.state
            from the_order o
            join intents i on i.operation = 'pay' and i.order_id = o.id and i.id = $7
        ),
        free as (
            select o.id, o.amount_minor, o.currency, o.provider_payment_intent, o.email
            from orders o
            where o.token = $1 and o.state = 'open' and o.provider_payment_intent is not null
                and o.amount_minor = $4 and o.currency = $5
                and not exists (select from mine)
                and not exists (select from live)
                and ($7::uuid is null or exists (select from replaced where state = 'failed'))
            for share
        ),
        reserved as (
            insert into intents (
                operation, order_id, id, fingerprint, amount_minor, currency, email, replaces,
                provider_payment_intent, request, owner, lease_expires_at, look_at
            )
            select 'pay', f.id, $2, $3, f.amount_minor, f.currency, coalesce($6, f.email), $7,
                f.provider_payment_intent, $8, $9, now() + make_interval(secs => $10), now() + make_interval(secs => $10)
            from free f
            on conflict do nothing
            returning fence
        )
        select o.id as order_id, o.state as order_state, o.currency, o.amount_minor, o.provider_payment_intent,
            o.paid_intent, r.fence as "fence?", l.id as "live?", p.state as "replaced_state?",
            m.fingerprint as "fingerprint?", m.owner as "owner?", m.fence as "owner_fence?",
            m.created_at as "created_at?", m.state as "state?", m.continue_url, m.charge, m.paid_at, m.decline,
            m.archive_status, m.archive_content_type, m.archive_body, m.finished_at, m.purged_at
        from the_order o
        left join mine m on true
        left join live l on true
        left join replaced p on true
        left join reserved r on true"#,
        new.order.expose(),
        new.intent.as_uuid(),
        new.fingerprint.as_bytes(),
        new.shown.minor,
        new.shown.currency.code(),
        new.email.map(Email::as_str),
        new.replaces.map(IntentId::as_uuid),
        new.request,
        new.owner,
        new.lease_seconds,
    )
    .fetch_optional(pool)
    .await
}

/// Takes a reservation back, since its request provably never left. Returns whether there was one to take back.
pub(crate) async fn release(pool: &Pool, key: &IntentKey, fence: i64) -> Result<bool, sqlx::Error> {
    let released = sqlx::query!(
        "delete from intents
        where operation = $1 and order_id = $2 and id = $3 and fence = $4 and state = 'pending'",
        key.operation.as_str(),
        key.order.as_uuid(),
        key.intent.as_uuid(),
        fence,
    )
    .execute(pool)
    .await?;
    Ok(released.rows_affected() == 1)
}
