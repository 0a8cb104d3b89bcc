//! The database's clock falls back by an hour: what was to end in a moment ends in an hour, if nobody looks after it.

use std::{sync::Arc, time::Duration};

use payments::{limits::Limits, recover};
use sqlx::{
    Executor as _, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{eventually, lamp, pay_with, replica_with, state_of},
};

const HOUR: i32 = 3_600;

/// Connections for which `now()` is the test's own.
async fn with_own_clock(pool: &PgPool) -> PgPool {
    let sql = "create table clock (ahead interval not null);
        insert into clock values ('0 s');
        create function public.now() returns timestamptz language sql stable as
            'select pg_catalog.now() + ahead from public.clock';
        alter table intents alter column created_at set default public.now();";
    pool.execute(sql).await.unwrap();
    let options = PgConnectOptions::clone(&pool.connect_options()).options([("search_path", "public,pg_catalog")]);
    PgPoolOptions::new().max_connections(5).connect_with(options).await.unwrap()
}

async fn jump(pool: &PgPool, seconds: i32) {
    let sql = "update clock set ahead = ahead + make_interval(secs => $1::integer)";
    sqlx::query(sql).bind(seconds).execute(pool).await.unwrap();
}

/// A lease of ten seconds, and customers that do not wait for what nobody does.
fn limits() -> Limits {
    let (lease, pay_wait) = (Duration::from_secs(10), Duration::from_millis(20));
    Limits { lease, pay_wait, ..Limits::default() }
}

/// The executor is dead. Its lease gets an end in sight, once; then the intent is finished with one charge.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_t2_a_lease_from_before_the_clock_fell_back_ends_all_the_same(pool: PgPool) {
    let pool = with_own_clock(&pool).await;
    let provider = Arc::new(Fake::default());
    let ctx = replica_with(&pool, &provider, limits());
    for mood in [Mood::PanicBefore, Mood::ChargeThenPanic] {
        let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
        provider.next([mood]);
        pay_with(&ctx, &order, intent).await.unwrap_err();
        assert_eq!(recover::after_clock_jump(&ctx).await.unwrap(), 0, "a healthy lease is left alone");
        jump(&pool, -HOUR).await;
        assert_eq!(recover::run_once(&ctx).await.unwrap(), 0, "it seems to have an owner for an hour");
        assert_eq!(recover::after_clock_jump(&ctx).await.unwrap(), 1);
        assert_eq!(recover::after_clock_jump(&ctx).await.unwrap(), 0, "it is near now");
        assert_eq!(recover::run_once(&ctx).await.unwrap(), 0, "its executor has a lease's time to go on");
        jump(&pool, 11).await;
        assert_eq!(recover::run_once(&ctx).await.unwrap(), 1);
    }
    let ended = "select count(*) from intents where finished_at is not null";
    assert_eq!(sqlx::query_scalar::<_, i64>(ended).fetch_one(&pool).await.unwrap(), 2);
    assert_eq!(provider.charges().len(), 1, "what was never charged is cancelled: nobody can tell its age");
    assert_books_balance(&pool, &provider).await;
}

/// Nobody owns it, and the next look is due in an hour. The same for the deadline: nobody can tell any more when it is.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_t2_a_look_and_a_deadline_from_before_the_clock_fell_back_come_all_the_same(pool: PgPool) {
    let pool = with_own_clock(&pool).await;
    let provider = Arc::new(Fake::default());
    let ctx = replica_with(&pool, &provider, Limits { chase_looks: 0, ..limits() });
    let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
    provider.set_blind(true);
    provider.next([Mood::LoseBefore]);
    let _pending = pay_with(&ctx, &order, intent).await;
    eventually("unknown", || async { state_of(&pool, intent).await.filter(|state| state == "unknown") }).await;
    jump(&pool, -HOUR).await;
    assert_eq!(recover::run_once(&ctx).await.unwrap(), 0, "it seems not to be due for an hour");
    assert_eq!(recover::after_clock_jump(&ctx).await.unwrap(), 1);
    jump(&pool, 11).await;
    assert_eq!(recover::run_once(&ctx).await.unwrap(), 1);
    assert_eq!(state_of(&pool, intent).await.as_deref(), Some("failed"), "cancelled, since it is overdue");
    assert_eq!(provider.cancels(), 1);
    assert_books_balance(&pool, &provider).await;
}

/// What waits at the bank may well wait for long.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_bank_step_is_not_hurried(pool: PgPool) {
    let pool = with_own_clock(&pool).await;
    let provider = Arc::new(Fake::default());
    let ctx = replica_with(&pool, &provider, limits());
    let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
    provider.next([Mood::BankStep]);
    let _pending = pay_with(&ctx, &order, intent).await;
    eventually("at the bank", || async { state_of(&pool, intent).await.filter(|state| state == "action_required") })
        .await;
    jump(&pool, -HOUR).await;
    assert_eq!(recover::after_clock_jump(&ctx).await.unwrap(), 0);
}
