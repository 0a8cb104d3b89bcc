//! A clock of Postgres that jumps.
//!
//! Promise: every statement of the shop, and every default of its tables, sees the jump, since its `now()` is ours from before
//! its schema was made. The server itself keeps the machine's clock, and with it the limits of its waits.

use sqlx::PgPool;

/// `now()` of this database and, by `-c clock.ahead=…`, of this server.
const CLOCK: &str = "
    create table clock (ahead interval not null);
    insert into clock values ('0 s');
    create function public.now() returns timestamptz language sql stable as $$
        select pg_catalog.now() + ahead + coalesce(current_setting('clock.ahead', true), '0 s')::interval
        from public.clock
    $$;
    do $$ begin
        execute format('alter database %I set search_path = public, pg_catalog', current_database());
    end $$";

/// Gives an empty database a clock that can jump. Connections that are opened later go by it.
///
/// # Errors
/// When Postgres refuses.
pub async fn install(db: &PgPool) -> anyhow::Result<()> {
    sqlx::raw_sql(CLOCK).execute(db).await?;
    Ok(())
}

/// Lets it jump ahead by so many seconds, or back.
///
/// # Errors
/// When Postgres refuses, or there is no such clock.
pub async fn jump(db: &PgPool, seconds: i64) -> anyhow::Result<()> {
    let sql = "update public.clock set ahead = ahead + make_interval(secs => $1::float8)";
    let jumped = sqlx::query(sql).bind(seconds).execute(db).await?;
    anyhow::ensure!(jumped.rows_affected() == 1, "there is no clock that can jump");
    Ok(())
}
