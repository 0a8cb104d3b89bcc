//! All SQL of readings.

use std::time::Duration;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::{intent::store::claim::seconds, pool::Pool};

/// How far a list was read.
pub(super) struct ReadingRow {
    pub(super) place: Option<String>,
    pub(super) read_until: Option<OffsetDateTime>,
    pub(super) now: OffsetDateTime,
}

/// Becomes the reader. A claim whose answer was lost knows itself again by its owner.
pub(super) async fn claim(
    pool: &Pool,
    list: &str,
    owner: Uuid,
    lease: Duration,
    only_if_due: bool,
) -> Result<Option<ReadingRow>, sqlx::Error> {
    sqlx::query_as!(
        ReadingRow,
        r#"update readings
        set owner = $2, lease_expires_at = now() + make_interval(secs => $3)
        where name = $1 and (owner is null or owner = $2 or lease_expires_at <= now())
            and (not $4 or due_at <= now())
        returning place, read_until, now() as "now!""#,
        list,
        owner,
        seconds(lease),
        only_if_due,
    )
    .fetch_optional(pool)
    .await
}

/// Another lease.
pub(super) async fn go_on(pool: &Pool, list: &str, owner: Uuid, lease: Duration) -> Result<bool, sqlx::Error> {
    let still = sqlx::query!(
        "update readings set lease_expires_at = now() + make_interval(secs => $3) where name = $1 and owner = $2",
        list,
        owner,
        seconds(lease),
    )
    .execute(pool)
    .await?;
    Ok(still.rows_affected() == 1)
}

/// How far it was read by now.
pub(super) async fn keep(
    pool: &Pool,
    (list, owner): (&str, Uuid),
    place: Option<&str>,
    read_until: OffsetDateTime,
    lease: Duration,
) -> Result<bool, sqlx::Error> {
    let still = sqlx::query!(
        "update readings
        set place = $3, read_until = $4, lease_expires_at = now() + make_interval(secs => $5)
        where name = $1 and owner = $2",
        list,
        owner,
        place,
        read_until,
        seconds(lease),
    )
    .execute(pool)
    .await?;
    Ok(still.rows_affected() == 1)
}

/// The reader lets go.
pub(super) async fn end(pool: &Pool, list: &str, owner: Uuid, pause: Option<Duration>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update readings
        set owner = null, lease_expires_at = null, due_at = coalesce(now() + make_interval(secs => $3), due_at)
        where name = $1 and owner = $2",
        list,
        owner,
        pause.map(seconds),
    )
    .execute(pool)
    .await?;
    Ok(())
}
