//! All SQL of intents. Nothing outside this folder writes to `intents`, `ledger_entries` or `outbox_events`.

pub(crate) mod claim;
pub(crate) mod list;
pub(crate) mod purge;
pub(crate) mod recovered;
pub(crate) mod reserve;
pub(crate) mod settle;

use time::OffsetDateTime;
use uuid::Uuid;

use super::{Archive, Archived, Intent, IntentKey, Standing, State};
use crate::{
    ids::{IntentId, OrderId},
    money::{Currency, Money},
    pool::{Pool, StoreError},
    provider::{ContinueUrl, DeclineReason, ProviderChargeId, ProviderPaymentIntentId},
};

/// A row of `intents`, as far as it tells where the intent stands.
#[derive(Debug)]
pub(crate) struct IntentRow {
    pub(crate) order_id: Uuid,
    pub(crate) id: Uuid,
    pub(crate) amount_minor: i64,
    pub(crate) currency: String,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) state: String,
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

impl TryFrom<IntentRow> for Intent {
    type Error = StoreError;

    fn try_from(row: IntentRow) -> Result<Self, StoreError> {
        let currency = Currency::parse(&row.currency).or(Err(StoreError::Impossible("currency of an intent")))?;
        Ok(Self {
            key: IntentKey::pay(OrderId(row.order_id), IntentId(row.id)),
            money: Money::new(row.amount_minor, currency),
            created_at: row.created_at,
            standing: standing(row).ok_or(StoreError::Impossible("standing of an intent"))?,
        })
    }
}

fn standing(row: IntentRow) -> Option<Standing> {
    let archive = match (row.purged_at, row.archive_status, row.archive_content_type, row.archive_body) {
        (Some(_), ..) => Some(Archived::Purged),
        (None, Some(status), Some(content_type), Some(body)) => {
            Some(Archived::Kept(Archive::stored(u16::try_from(status).ok()?, content_type, body)))
        }
        (None, ..) => None,
    };
    match State::parse(&row.state)? {
        State::Pending => Some(Standing::Pending),
        State::Unknown => Some(Standing::Unknown),
        State::ActionRequired => {
            Some(Standing::ActionRequired { continue_url: ContinueUrl::parse(row.continue_url.as_deref()?).ok()? })
        }
        State::Succeeded => Some(Standing::Succeeded {
            charge: ProviderChargeId::parse(row.charge.as_deref()?).ok()?,
            paid_at: row.paid_at?,
            archive: archive?,
        }),
        State::Failed => Some(Standing::Failed {
            reason: DeclineReason::parse(row.decline.as_deref()?)?,
            failed_at: row.finished_at?,
            archive: archive?,
        }),
    }
}

impl State {
    /// The state of a stored word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

pub(crate) async fn find(pool: &Pool, key: &IntentKey) -> Result<Option<IntentRow>, sqlx::Error> {
    sqlx::query_as!(
        IntentRow,
        "select order_id, id, amount_minor, currency, created_at, state, continue_url, charge, paid_at, decline,
            archive_status, archive_content_type, archive_body, finished_at, purged_at
        from intents
        where operation = $1 and order_id = $2 and id = $3",
        key.operation.as_str(),
        key.order.as_uuid(),
        key.intent.as_uuid(),
    )
    .fetch_optional(pool)
    .await
}

/// A payment intent belongs to one order, whose intents confirm it one after the other.
pub(crate) async fn find_by_payment_intent(
    pool: &Pool,
    payment_intent: &ProviderPaymentIntentId,
) -> Result<Option<IntentRow>, sqlx::Error> {
    sqlx::query_as!(
        IntentRow,
        "select order_id, id, amount_minor, currency, created_at, state, continue_url, charge, paid_at, decline,
            archive_status, archive_content_type, archive_body, finished_at, purged_at
        from intents
        where operation = 'pay' and provider_payment_intent = $1
        order by state = 'failed', created_at desc
        limit 1",
        payment_intent.as_str(),
    )
    .fetch_optional(pool)
    .await
}

/// At most three: the live one, the newest that failed, and the one asked for.
pub(crate) async fn list_telling(
    pool: &Pool,
    order: OrderId,
    asked: Option<IntentId>,
) -> Result<Vec<IntentRow>, sqlx::Error> {
    sqlx::query_as!(
        IntentRow,
        "select order_id, id, amount_minor, currency, created_at, state, continue_url, charge, paid_at, decline,
            archive_status, archive_content_type, archive_body, finished_at, purged_at
        from intents
        where operation = 'pay' and order_id = $1
            and (
                state <> 'failed'
                or id = $2
                or id = (
                    select f.id
                    from intents f
                    where f.operation = 'pay' and f.order_id = $1 and f.state = 'failed'
                    order by f.finished_at desc, f.id
                    limit 1
                )
            )
        order by coalesce(finished_at, created_at) desc",
        order.as_uuid(),
        asked.map(IntentId::as_uuid),
    )
    .fetch_all(pool)
    .await
}

/// Those of the payments that are no longer pending.
pub(crate) async fn list_moved(pool: &Pool, keys: &[IntentKey]) -> Result<Vec<IntentRow>, sqlx::Error> {
    let orders: Vec<Uuid> = keys.iter().map(|key| key.order.as_uuid()).collect();
    let intents: Vec<Uuid> = keys.iter().map(|key| key.intent.as_uuid()).collect();
    sqlx::query_as!(
        IntentRow,
        "select i.order_id, i.id, i.amount_minor, i.currency, i.created_at, i.state, i.continue_url, i.charge,
            i.paid_at, i.decline, i.archive_status, i.archive_content_type, i.archive_body, i.finished_at, i.purged_at
        from unnest($1::uuid[], $2::uuid[]) as k (order_id, id)
        join intents i on i.operation = 'pay' and i.order_id = k.order_id and i.id = k.id
        where i.state <> 'pending'",
        &orders,
        &intents,
    )
    .fetch_all(pool)
    .await
}
