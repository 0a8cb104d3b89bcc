//! Retention: an answer is repeated byte for byte until it is purged; then the key is gone, and the outcome stays.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use payments::{
    Ctx,
    ids::{Email, IntentId},
    intent::{Fact, Standing, archive::Archived},
    limits::{Limits, PURGE_BATCHES},
    order::{self, Order, OrderState},
    outcome,
    pay::{PayAnswer, PayError, PayRequest, pay},
    provider::{ProviderCharge, ProviderChargeId},
    purge, recover,
    settle::{self, Target},
};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::sync::Semaphore;

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{count, eventually, lamp, new_order, pay_with, replica, replica_with, request, state_of},
};

/// A replica that keeps answers for this long.
fn keeping(pool: &PgPool, provider: &Arc<Fake>, retention: Duration) -> Ctx {
    replica_with(pool, provider, Limits { retention, ..Limits::default() })
}

/// The intent's row without the columns that make it a tombstone.
async fn row(pool: &PgPool, intent: IntentId) -> String {
    let sql = "select (to_jsonb(i) - array['purged_at', 'email', 'archive_body'])::text from intents i where id = $1";
    sqlx::query_scalar(sql).bind(intent.as_uuid()).fetch_one(pool).await.unwrap()
}

#[track_caller]
fn assert_purged(said: Result<PayAnswer, PayError>, order: &Order) {
    assert!(matches!(&said, Err(PayError::Purged(token)) if *token == order.token), "{said:?}");
}

const TOMBSTONES: &str = "select count(*) from intents where purged_at is not null";

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn first_again_and_purged(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = keeping(&pool, &provider, Duration::ZERO);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    let first = pay_with(&ctx, &order, intent).await.unwrap();
    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer, first.answer);
    let before = row(&pool, intent).await;

    assert_eq!(purge::run_once(&ctx).await.unwrap(), 1);
    assert_eq!(purge::run_once(&ctx).await.unwrap(), 0);

    // Gone for the same request, for another one, and on every replica; never a new charge.
    assert_purged(pay_with(&ctx, &order, intent).await, &order);
    assert_purged(pay_with(&replica(&pool, &provider), &order, intent).await, &order);
    let other = PayRequest { email: Some(Email::parse("ben@example.org").unwrap()), ..request(&order, intent) };
    assert_purged(pay(&ctx, other).await, &order);
    assert_eq!(provider.confirms().len(), 1);
    assert_eq!(row(&pool, intent).await, before, "key, order, money and end stay");
    let forgotten = "select count(*) from intents where email is null and archive_body = ''";
    assert_eq!(count(&pool, forgotten).await, 1);

    // Another key of the same order is refused as ever.
    let rival = pay_with(&ctx, &order, ctx.ids.intent()).await;
    assert!(matches!(rival, Err(PayError::OrderTaken(by)) if by == intent), "{rival:?}");

    // The order is paid for ever, and its page knows by what.
    let told = outcome::ask(&ctx, &order.token, Some(intent)).await.unwrap().unwrap();
    let charge = provider.charges()[0].1.id.clone();
    assert!(matches!(&told.order.state, OrderState::Paid(paid) if paid.intent == intent && paid.charge == charge));
    assert!(told.received && told.order.email.is_some());
    let standing = told.intent.unwrap().standing;
    assert!(matches!(standing, Standing::Succeeded { charge: by, archive: Archived::Purged, .. } if by == charge));
    let status = order::status(&ctx, &order.token).await.unwrap().unwrap();
    assert_eq!(status.live.unwrap().key.intent, intent);
    assert_books_balance(&pool, &provider).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_purged_decline_stays_a_decline_and_another_card_pays(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = keeping(&pool, &provider, Duration::ZERO);
    let order = lamp(&ctx).await;
    let bad = ctx.ids.intent();
    provider.next([Mood::Decline]);
    assert_eq!(pay_with(&ctx, &order, bad).await.unwrap().answer.status, 402);
    assert_eq!(purge::run(&ctx).await.unwrap(), 1);

    assert_purged(pay_with(&ctx, &order, bad).await, &order);
    let told = outcome::ask(&ctx, &order.token, Some(bad)).await.unwrap().unwrap();
    assert!(told.received, "a key that was used is never sent again");
    assert!(told.intent.unwrap().has_failed());
    assert_eq!(provider.charges().len(), 0);

    let good = PayRequest { replaces: Some(bad), ..request(&order, ctx.ids.intent()) };
    assert_eq!(pay(&ctx, good).await.unwrap().answer.status, 200);
    assert_purged(pay_with(&ctx, &order, bad).await, &order);
    assert_books_balance(&pool, &provider).await;
}

/// Money that the provider reports against an intent whose failure is purged already.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn money_for_a_tombstone_is_not_dropped(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = keeping(&pool, &provider, Duration::ZERO);
    let order = lamp(&ctx).await;
    let intent = ctx.ids.intent();
    provider.next([Mood::Decline]);
    pay_with(&ctx, &order, intent).await.unwrap();
    purge::run(&ctx).await.unwrap();

    let failed = outcome::ask(&ctx, &order.token, Some(intent)).await.unwrap().unwrap().intent.unwrap();
    let charge = ProviderCharge { id: ProviderChargeId::parse("ch_late").unwrap(), money: order.total, created: None };
    for _ in 0..2 {
        let standing = settle::apply(&ctx, &Target::from(&failed), &Fact::Charged(charge.clone())).await.unwrap();
        assert_eq!(standing, failed.standing, "the intent's end stays what it was");
    }

    let told = outcome::ask(&ctx, &order.token, Some(intent)).await.unwrap().unwrap();
    assert!(matches!(told.order.state, OrderState::Paid(paid) if paid.charge == charge.id));
    assert_eq!(count(&pool, "select count(*) from ledger_entries where charge = 'ch_late'").await, 2);
    let doubts = "select count(*) from discrepancies where kind = 'charge_of_failed_intent'";
    assert_eq!(count(&pool, doubts).await, 1);
    assert_purged(pay_with(&ctx, &order, intent).await, &order);
}

/// Retention counts from the end of an intent, so that one without an end has none, however many years go by: here every answer
/// is too old at once.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn unresolved_intents_are_never_purged(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let limits = Limits {
        retention: Duration::ZERO,
        pay_wait: Duration::from_millis(50),
        first_pause: Duration::from_millis(5),
        longest_look_pause: Duration::from_millis(50),
        chase_looks: 1,
        ..Limits::default()
    };
    let ctx = replica_with(&pool, &provider, limits);
    let gate = Arc::new(Semaphore::new(0));
    provider.set_blind(true);
    for (mood, state) in
        [(Mood::Gate(Arc::clone(&gate)), "pending"), (Mood::LoseBefore, "unknown"), (Mood::BankStep, "action_required")]
    {
        let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
        provider.next([mood]);
        drop(pay_with(&ctx, &order, intent).await);
        eventually(state, || async { state_of(&pool, intent).await.filter(|now| now == state) }).await;
    }

    assert_eq!(purge::run(&ctx).await.unwrap(), 0);
    assert_eq!(count(&pool, TOMBSTONES).await, 0);

    // Nor by anybody else: the schema refuses it, in every way that could be tried.
    for change in [
        "purged_at = now()",
        "purged_at = now(), email = null",
        "purged_at = now(), email = null, archive_body = ''",
        "purged_at = now(), email = null, archive_body = '', archive_status = 200, archive_content_type = 'x', \
         finished_at = now(), request = null, look_at = null, lease_expires_at = null, continue_url = null, \
         state = 'failed', decline = 'generic'",
    ] {
        for state in ["pending", "unknown", "action_required"] {
            let sql = format!("update intents set {change} where state = '{state}'");
            let refused = sqlx::query(AssertSqlSafe(sql)).execute(&pool).await.unwrap_err();
            let by = refused.as_database_error().unwrap().constraint().unwrap_or_default().to_owned();
            assert!(["intents_moves_are_legal", "intents_purged_is_empty"].contains(&by.as_str()), "{by}: {change}");
        }
    }

    // Once they have their ends, they go like all others.
    provider.set_blind(false);
    gate.add_permits(1);
    provider.end_bank_step(true);
    eventually("all have their ends", || async {
        recover::run_once(&ctx).await.unwrap();
        (count(&pool, "select count(*) from intents where finished_at is not null").await == 3).then_some(())
    })
    .await;
    assert_eq!(purge::run(&ctx).await.unwrap(), 3);
    assert_books_balance(&pool, &provider).await;
}

/// The trigger lets a final row become a tombstone and change in no other way: also not in columns that later files add.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_final_intent_changes_once_more_and_only_into_a_tombstone(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = keeping(&pool, &provider, Duration::ZERO);
    let order = lamp(&ctx).await;
    for mood in [Mood::Decline, Mood::Approve] {
        provider.next([mood]);
        pay_with(&ctx, &order, ctx.ids.intent()).await.unwrap();
    }

    let columns: Vec<(String, String)> = sqlx::query_as(
        "select column_name::text, data_type::text from information_schema.columns where table_name = 'intents'",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    let parts = ["purged_at", "email", "archive_body"];
    for (column, kind) in &columns {
        let other = match kind.as_str() {
            "text" => format!("coalesce({column}, '') || 'x'"),
            "uuid" => "gen_random_uuid()".to_owned(),
            "bytea" => format!("coalesce({column}, '') || '\\x01'::bytea"),
            "bigint" | "integer" | "smallint" => format!("coalesce({column}, 0) + 1"),
            "boolean" => format!("not coalesce({column}, false)"),
            _ => format!("coalesce({column}, now()) + interval '1 second'"),
        };
        assert_refused(&pool, &format!("{column} = {other}")).await;
        if !parts.contains(&column.as_str()) {
            let with_it = format!("purged_at = now(), email = null, archive_body = '', {column} = {other}");
            assert_refused(&pool, &with_it).await;
        }
    }
    assert!(columns.len() > 25, "the columns were found: {columns:?}");

    assert_eq!(purge::run(&ctx).await.unwrap(), 2);
    for change in [
        "purged_at = now()",
        "purged_at = null",
        "purged_at = null, email = 'ana@example.org', archive_body = 'x'",
        "state = 'pending'",
        "looks = looks + 1",
    ] {
        assert_refused(&pool, change).await;
    }
    let deleted = sqlx::query("delete from intents").execute(&pool).await.unwrap_err();
    assert_eq!(deleted.as_database_error().unwrap().constraint(), Some("intents_releases_are_legal"));
    assert_books_balance(&pool, &provider).await;
}

async fn assert_refused(pool: &PgPool, change: &str) {
    let refused = sqlx::query(AssertSqlSafe(format!("update intents set {change}"))).execute(pool).await;
    let error = refused.expect_err(change);
    let by = error.as_database_error().unwrap().constraint();
    assert!(matches!(by, Some("intents_moves_are_legal" | "intents_purged_is_empty")), "{by:?}: {change}");
}

/// Whoever repeats while the purge runs gets the bytes or 410, and is never charged.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_x1_a_late_repeat_that_races_the_purge_gets_the_archive_or_410(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let purgers = [0, 1].map(|_| {
        replica_with(&pool, &provider, Limits { retention: Duration::ZERO, purge_batch: 3, ..Limits::default() })
    });
    let mut paid = Vec::new();
    for round in 0..150 {
        let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
        if round % 3 == 0 {
            provider.next([Mood::Decline]);
        }
        let first = pay_with(&ctx, &order, intent).await.unwrap();
        paid.push((order, intent, first));
    }
    let ledger = "select count(*) from ledger_entries";
    let (entries, charges, confirms) =
        (count(&pool, ledger).await, provider.charges().len(), provider.confirms().len());

    let repeats = join_all(paid.iter().map(|(order, intent, _)| pay_with(&ctx, order, *intent)));
    let purging = async {
        while count(&pool, TOMBSTONES).await < 150 {
            let (one, two) = tokio::join!(purge::run_once(&purgers[0]), purge::run_once(&purgers[1]));
            assert!(one.unwrap() <= 3 && two.unwrap() <= 3);
        }
    };
    let (repeats, ()) = tokio::join!(repeats, purging);

    for ((order, _, first), repeat) in paid.iter().zip(repeats) {
        match repeat {
            Ok(again) => assert_eq!(again.answer, first.answer),
            gone => assert_purged(gone, order),
        }
    }
    for (order, intent, _) in &paid {
        assert_purged(pay_with(&ctx, order, *intent).await, order);
    }
    assert_eq!(provider.confirms().len(), confirms, "nobody was charged again");
    assert_eq!((count(&pool, ledger).await, provider.charges().len()), (entries, charges));
    assert_books_balance(&pool, &provider).await;
}

/// The two ends of that race, one after the other: while the row is held, the purge passes it over and the repeat is a replay;
/// once it is let go, it is purged and the repeat is 410.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_x1_a_row_that_is_held_is_passed_over_and_still_replayed(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = keeping(&pool, &provider, Duration::ZERO);
    let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
    let first = pay_with(&ctx, &order, intent).await.unwrap();
    let other = lamp(&ctx).await;
    pay_with(&ctx, &other, ctx.ids.intent()).await.unwrap();

    let mut holder = pool.acquire().await.unwrap();
    sqlx::query("begin").execute(&mut *holder).await.unwrap();
    let hold = sqlx::query("select from intents where id = $1 for update").bind(intent.as_uuid());
    hold.execute(&mut *holder).await.unwrap();
    assert_eq!(purge::run_once(&ctx).await.unwrap(), 1, "the other one");
    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer, first.answer);

    sqlx::query("commit").execute(&mut *holder).await.unwrap();
    assert_eq!(purge::run_once(&ctx).await.unwrap(), 1);
    assert_purged(pay_with(&ctx, &order, intent).await, &order);
    assert_eq!(provider.confirms().len(), 2);
    assert_books_balance(&pool, &provider).await;
}

/// Every repeat is a replay up to the one purge that finds the answer too old, and none is after it.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_replay_right_before_the_limit_is_byte_for_byte(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let retention = Duration::from_millis(400);
    let ctx = keeping(&pool, &provider, retention);
    let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
    let first = pay_with(&ctx, &order, intent).await.unwrap();

    let replays = eventually("the answer is purged", || async {
        let again = pay_with(&ctx, &order, intent).await.unwrap();
        assert_eq!((again.answer, again.replayed), (first.answer.clone(), true));
        (purge::run_once(&ctx).await.unwrap() == 1).then_some(())
    });
    replays.await;

    let kept = "select count(*) from intents where purged_at - finished_at >= interval '400 milliseconds'";
    assert_eq!(count(&pool, kept).await, 1, "not a moment before its time");
    assert_purged(pay_with(&ctx, &order, intent).await, &order);
    assert_books_balance(&pool, &provider).await;
}

/// Ten thousand old keys, two replicas. The rows are copies of a paid one, since paying all of them would take a minute.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_backlog_is_purged_in_bounded_batches_that_replicas_share(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = keeping(&pool, &provider, Duration::ZERO);
    let order = lamp(&ctx).await;
    provider.next([Mood::Decline]);
    pay_with(&ctx, &order, ctx.ids.intent()).await.unwrap();
    sqlx::query(
        "insert into intents (operation, order_id, id, fingerprint, state, amount_minor, currency, email,
            provider_payment_intent, owner, decline, archive_status, archive_content_type, archive_body, created_at, finished_at)
        select operation, order_id, gen_random_uuid(), fingerprint, state, amount_minor, currency, email,
            provider_payment_intent, owner, decline, archive_status, archive_content_type, archive_body,
            created_at - n * interval '1 second', finished_at - n * interval '1 second'
        from intents, generate_series(1, 9999) n",
    )
    .execute(&pool)
    .await
    .unwrap();
    sqlx::query("analyze intents").execute(&pool).await.unwrap();

    // One run is bounded, and takes the oldest first.
    let small = Limits { retention: Duration::ZERO, purge_batch: 10, ..Limits::default() };
    let share = u64::try_from(10 * PURGE_BATCHES).unwrap();
    assert_eq!(purge::run(&replica_with(&pool, &provider, small)).await.unwrap(), share);
    let youngest_purged_first = "select count(*) from intents a where a.purged_at is not null
        and a.finished_at > (select min(b.finished_at) from intents b where b.purged_at is null)";
    assert_eq!(count(&pool, youngest_purged_first).await, 0);

    let replicas = [0, 1].map(|_| {
        replica_with(&pool, &provider, Limits { retention: Duration::ZERO, purge_batch: 500, ..Limits::default() })
    });
    let mut purged = share;
    while purged < 10_000 {
        let (one, two) = tokio::join!(purge::run_once(&replicas[0]), purge::run_once(&replicas[1]));
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!((one, two), (500, 500), "each takes a whole batch, and not the other's");
        purged += one + two;
    }
    assert_eq!(purged, 10_000, "each is purged once");
    assert_eq!(count(&pool, TOMBSTONES).await, 10_000);
    assert_eq!(purge::run_once(&replicas[0]).await.unwrap(), 0);
}

/// A purge that finds nothing to do reads nothing of a table that is full of tombstones.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_purge_is_served_by_its_index(pool: PgPool) {
    let plan: Vec<String> = {
        let mut connection = pool.acquire().await.unwrap();
        sqlx::query("set enable_seqscan = off").execute(&mut *connection).await.unwrap();
        let explain = "explain select operation, order_id, id from intents
            where finished_at is not null and purged_at is null and finished_at <= now() - make_interval(secs => 1)
            order by finished_at limit 1000 for no key update skip locked";
        sqlx::query_scalar(explain).fetch_all(&mut *connection).await.unwrap()
    };
    let plan = plan.join("\n");
    assert!(plan.contains("Index Scan using intents_unpurged") && !plan.contains("Sort"), "{plan}");
}

/// The cart's key is not an intent's: it outlives every purge.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn checkout_again_after_the_purge_is_the_same_order(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = keeping(&pool, &provider, Duration::ZERO);
    let cart = ctx.ids.cart();
    let order = order::create(&ctx, new_order(cart, &[("lamp", 1)])).await.unwrap();
    pay_with(&ctx, &order, ctx.ids.intent()).await.unwrap();
    assert_eq!(purge::run(&ctx).await.unwrap(), 1);

    let again = order::create(&ctx, new_order(cart, &[("lamp", 1)])).await.unwrap();

    assert_eq!((again.id, &again.token), (order.id, &order.token));
    assert!(matches!(again.state, OrderState::Paid(_)));
    assert_eq!(count(&pool, "select count(*) from orders").await, 1);
    assert_books_balance(&pool, &provider).await;
}
