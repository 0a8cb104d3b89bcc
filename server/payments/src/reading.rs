//! Readings: who reads one of the provider's lists now, and up to where it was read.
//!
//! Promise: a reader that dies is followed by another within its lease, which begins where the last kept place was. Two readers at
//! once do no harm, since whatever they find is written by guarded statements; the lease only spares the work.

mod store;

use std::time::Duration;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    Ctx,
    lists::{Stop, patiently},
    pool::{StoreError, keyed},
};

/// A list that is read again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// Events that no delivery brought.
    Events,
    /// Charges and refunds, for the reconciliation.
    Reconciliation,
}

impl List {
    fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Reconciliation => "reconciliation",
        }
    }
}

/// The right to read a list, until its lease ends.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    list: List,
    owner: Uuid,
    /// Up to which entry it was read.
    pub(crate) place: Option<String>,
    /// Up to when it was read.
    pub(crate) read_until: Option<OffsetDateTime>,
    /// Now, by the database's clock.
    pub(crate) now: OffsetDateTime,
}

/// Becomes the reader, if there is none, and, where only that counts, if the list is due. `None`: somebody else reads, or it is
/// not time.
pub(crate) async fn claim(ctx: &Ctx, list: List, only_if_due: bool) -> Result<Option<Reading>, StoreError> {
    let owner = ctx.ids.intent().as_uuid();
    let lease = ctx.limits.reading_lease;
    let row = keyed(&ctx.limits, || store::claim(&ctx.pool, list.as_str(), owner, lease, only_if_due)).await?;
    Ok(row.map(|row| Reading { list, owner, place: row.place, read_until: row.read_until, now: row.now }))
}

/// Goes on for another lease. Returns whether the caller still is the reader.
pub(crate) async fn go_on(ctx: &Ctx, reading: &Reading) -> Result<bool, Stop> {
    let lease = ctx.limits.reading_lease;
    patiently(ctx, || store::go_on(&ctx.pool, reading.list.as_str(), reading.owner, lease)).await
}

/// Keeps how far it was read, and goes on for another lease. Returns whether the caller still is the reader.
pub(crate) async fn keep(
    ctx: &Ctx,
    reading: &Reading,
    place: Option<&str>,
    read_until: OffsetDateTime,
) -> Result<bool, Stop> {
    let (list, lease) = (reading.list.as_str(), ctx.limits.reading_lease);
    patiently(ctx, || store::keep(&ctx.pool, (list, reading.owner), place, read_until, lease)).await
}

/// Lets go; the list is due again after that pause, or when it was anyhow. Where that fails, the lease ends by itself.
pub(crate) async fn end(ctx: &Ctx, reading: &Reading, pause: Option<Duration>) {
    let ended = patiently(ctx, || store::end(&ctx.pool, reading.list.as_str(), reading.owner, pause)).await;
    if let Err(error) = ended {
        tracing::warn!(%error, list = reading.list.as_str(), "could not let go of a list; the lease will end");
    }
}
