//! Lists of intents, as programs are shown them.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    ids::{IntentId, OrderId},
    intent::{State, summary::IntentSummary},
    limits::MAX_ORDER_INTENTS,
    money::{Currency, Money},
    pool::{Pool, StoreError},
    provider::{ContinueUrl, DeclineReason, ProviderChargeId},
};

/// A row of `intents` without its archive.
pub(crate) struct SummaryRow {
    order_id: Uuid,
    id: Uuid,
    state: String,
    amount_minor: i64,
    currency: String,
    replaces: Option<Uuid>,
    continue_url: Option<String>,
    charge: Option<String>,
    paid_at: Option<OffsetDateTime>,
    decline: Option<String>,
    created_at: OffsetDateTime,
    finished_at: Option<OffsetDateTime>,
}

impl TryFrom<SummaryRow> for IntentSummary {
    type Error = StoreError;

    fn try_from(row: SummaryRow) -> Result<Self, StoreError> {
        let impossible = || StoreError::Impossible("summary of an intent");
        Ok(Self {
            id: IntentId(row.id),
            order: OrderId(row.order_id),
            state: State::parse(&row.state).ok_or_else(impossible)?,
            money: Money::new(row.amount_minor, Currency::parse(&row.currency).or(Err(impossible()))?),
            replaces: row.replaces.map(IntentId),
            continue_url: row.continue_url.as_deref().map(ContinueUrl::parse).transpose().or(Err(impossible()))?,
            charge: row.charge.as_deref().map(ProviderChargeId::parse).transpose().or(Err(impossible()))?,
            paid_at: row.paid_at,
            decline: row
                .decline
                .as_deref()
                .map(|word| DeclineReason::parse(word).ok_or_else(impossible))
                .transpose()?,
            created_at: row.created_at,
            finished_at: row.finished_at,
        })
    }
}

pub(crate) async fn list_of_order(pool: &Pool, order: OrderId) -> Result<Vec<SummaryRow>, sqlx::Error> {
    sqlx::query_as!(
        SummaryRow,
        "select order_id, id, state, amount_minor, currency, replaces, continue_url, charge, paid_at, decline,
            created_at, finished_at
        from intents
        where operation = 'pay' and order_id = $1
        order by created_at desc, id
        limit $2",
        order.as_uuid(),
        MAX_ORDER_INTENTS,
    )
    .fetch_all(pool)
    .await
}

pub(crate) async fn list_by_id(
    pool: &Pool,
    id: IntentId,
    order: Option<OrderId>,
) -> Result<Vec<SummaryRow>, sqlx::Error> {
    sqlx::query_as!(
        SummaryRow,
        "select order_id, id, state, amount_minor, currency, replaces, continue_url, charge, paid_at, decline,
            created_at, finished_at
        from intents
        where operation = 'pay' and id = $1 and ($2::uuid is null or order_id = $2)
        order by created_at, order_id
        limit $3",
        id.as_uuid(),
        order.map(OrderId::as_uuid),
        MAX_ORDER_INTENTS,
    )
    .fetch_all(pool)
    .await
}
