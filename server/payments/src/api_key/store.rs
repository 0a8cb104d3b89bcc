//! All SQL of API keys.

use uuid::Uuid;

use super::{ApiKey, ApiKeyId};
use crate::{limits::MAX_API_KEYS, pool::Pool};

/// Running it again after a lost answer finds the row of the first run.
pub(super) async fn insert(pool: &Pool, id: ApiKeyId, name: &str, hint: &str, hash: &[u8]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into api_keys (id, name, hint, hash) values ($1, $2, $3, $4)
        on conflict on constraint api_keys_pkey do nothing",
        id.as_uuid(),
        name,
        hint,
        hash,
    )
    .execute(pool)
    .await?;
    Ok(())
}

pub(super) async fn list(pool: &Pool) -> Result<Vec<ApiKey>, sqlx::Error> {
    sqlx::query!(
        "select id, name, hint, created_at, revoked_at from api_keys order by created_at desc, id limit $1",
        MAX_API_KEYS,
    )
    .map(|row| ApiKey {
        id: ApiKeyId(row.id),
        name: row.name,
        hint: row.hint,
        created_at: row.created_at,
        revoked_at: row.revoked_at,
    })
    .fetch_all(pool)
    .await
}

/// Returns whether there is such a key.
pub(super) async fn revoke(pool: &Pool, id: ApiKeyId) -> Result<bool, sqlx::Error> {
    let revoked =
        sqlx::query!("update api_keys set revoked_at = coalesce(revoked_at, now()) where id = $1", id.as_uuid())
            .execute(pool)
            .await?;
    Ok(revoked.rows_affected() == 1)
}

pub(super) async fn find_live(pool: &Pool, hash: &[u8]) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select id from api_keys where hash = $1 and revoked_at is null", hash)
        .fetch_optional(pool)
        .await
}
