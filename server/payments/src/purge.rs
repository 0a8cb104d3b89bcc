//! Purge: forgets archived answers when their retention is over, and keeps tombstones.
//!
//! A tombstone is the intent's own row without its archive and e-mail: the key is used for ever, so that a late repeat is never
//! a new payment. An unresolved intent is never purged, however old it is.

use crate::{
    Ctx,
    intent::store::purge as store,
    limits::PURGE_BATCHES,
    pool::{StoreError, keyed},
};

/// Purges one batch. Returns how many intents became tombstones. Replicas may run it side by side.
///
/// # Errors
/// When the database cannot answer.
pub async fn run_once(ctx: &Ctx) -> Result<u64, StoreError> {
    Ok(keyed(&ctx.limits, || store::purge(&ctx.pool, &ctx.limits)).await?)
}

/// Purges batch after batch until one is not full, or the run has done its share. Returns how many intents became tombstones.
///
/// # Errors
/// When the database cannot answer; what was purged by then is purged.
pub async fn run(ctx: &Ctx) -> Result<u64, StoreError> {
    in_batches(ctx.limits.purge_batch, || run_once(ctx)).await
}

/// Runs `once` until a batch is smaller than `full`, or the run has done its share. Returns how many there were in all.
pub(crate) async fn in_batches<F>(full: i64, once: impl Fn() -> F) -> Result<u64, StoreError>
where
    F: Future<Output = Result<u64, StoreError>>,
{
    let mut purged = 0;
    for _ in 0..PURGE_BATCHES {
        let batch = once().await?;
        purged += batch;
        if batch < full.unsigned_abs() {
            break;
        }
    }
    Ok(purged)
}
