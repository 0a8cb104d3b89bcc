//! Intents as programs are shown them: where each stands, without its archived answer.

use time::OffsetDateTime;

use super::{State, store::list};
use crate::{
    Ctx,
    ids::{IntentId, OrderId},
    money::Money,
    pool::{StoreError, keyed},
    provider::{ContinueUrl, DeclineReason, ProviderChargeId},
};

/// Where one intent stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentSummary {
    /// The UUID.
    pub id: IntentId,
    /// The order it pays.
    pub order: OrderId,
    /// Where it stands.
    pub state: State,
    /// What was agreed with the payer.
    pub money: Money,
    /// The failed intent that it took the place of.
    pub replaces: Option<IntentId>,
    /// The bank's page, while the bank wants to see the customer.
    pub continue_url: Option<ContinueUrl>,
    /// The provider's charge.
    pub charge: Option<ProviderChargeId>,
    /// When it was charged.
    pub paid_at: Option<OffsetDateTime>,
    /// Why it failed.
    pub decline: Option<DeclineReason>,
    /// When it was reserved.
    pub created_at: OffsetDateTime,
    /// When it became final.
    pub finished_at: Option<OffsetDateTime>,
}

/// The intents of an order, newest first; see [`crate::limits::MAX_ORDER_INTENTS`].
///
/// # Errors
/// When the database cannot answer.
pub async fn list_of_order(ctx: &Ctx, order: OrderId) -> Result<Vec<IntentSummary>, StoreError> {
    let rows = keyed(&ctx.limits, || list::list_of_order(&ctx.pool, order)).await?;
    rows.into_iter().map(IntentSummary::try_from).collect()
}

/// The intents of this UUID: one for each order that it was used for, in the order of their making.
///
/// # Errors
/// When the database cannot answer.
pub async fn list_by_id(ctx: &Ctx, id: IntentId, order: Option<OrderId>) -> Result<Vec<IntentSummary>, StoreError> {
    let rows = keyed(&ctx.limits, || list::list_by_id(&ctx.pool, id, order)).await?;
    rows.into_iter().map(IntentSummary::try_from).collect()
}
