//! Purge: the one statement that turns final intents into tombstones.

use super::claim::seconds;
use crate::{limits::Limits, pool::Pool};

/// Forgets the archived answers and e-mails of the oldest final intents whose retention is over, one batch of them. Returns how
/// many.
///
/// What a rival is purging, or anybody else holds, is passed over. The lock is the weaker one, which lets a new intent name a
/// purged one as what it replaces.
pub(crate) async fn purge(pool: &Pool, limits: &Limits) -> Result<u64, sqlx::Error> {
    let purged = sqlx::query!(
        "with due as (
            select operation, order_id, id
            from intents
            where finished_at is not null and purged_at is null
                and finished_at <= now() - make_interval(secs => $1)
            order by finished_at
            limit $2
            for no key update skip locked
        )
        update intents i
        set purged_at = now(), email = null, archive_body = ''
        from due d
        where i.operation = d.operation and i.order_id = d.order_id and i.id = d.id",
        seconds(limits.retention),
        limits.purge_batch,
    )
    .execute(pool)
    .await?;
    Ok(purged.rows_affected())
}
