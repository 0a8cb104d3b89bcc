//! What is asked of a server before it is trusted with payments.

use sqlx::PgConnection;

/// What a server says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Role {
    /// It follows another server.
    pub(super) standby: bool,
    /// It takes no writes from us.
    pub(super) read_only: bool,
    /// A crash of its machine may lose what it called committed.
    pub(super) forgetful: bool,
}

/// Asks a server for its role. Where commits are set to be acknowledged before they are on disk, this connection is set to
/// wait for the disk: a reservation that a crash can lose is none.
pub(super) async fn role(connection: &mut PgConnection) -> Result<Role, sqlx::Error> {
    let row: (bool, bool, bool, Option<String>) = sqlx::query_as(
        "select pg_is_in_recovery(),
            current_setting('transaction_read_only') = 'on',
            current_setting('fsync') = 'off' or current_setting('full_page_writes') = 'off',
            case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', false) end",
    )
    .persistent(false)
    .fetch_one(connection)
    .await?;
    Ok(Role { standby: row.0, read_only: row.1, forgetful: row.2 })
}

/// The timeline on which a primary writes: each promotion begins a new one, so that the higher is the heir.
pub(super) async fn timeline(connection: &mut PgConnection) -> Result<String, sqlx::Error> {
    sqlx::query_scalar("select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)")
        .persistent(false)
        .fetch_one(connection)
        .await
}
