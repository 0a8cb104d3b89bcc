//! The database under stress: races, aborted statements, cancelled callers. What is not reserved is not charged.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use serde_json::json;
use sqlx::{Executor as _, PgPool};

use crate::house::{GOOD_CARD, House, Plan, uuid};

/// Ten thousand callers that give up at every moment leave no connection with an open transaction behind, and the next
/// customer's payment is really committed.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_10_cancelled_callers_poison_no_connection(db: PgPool) {
    const CALLERS: usize = 10_000;
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let body = House::pay_body(&order, &uuid(), GOOD_CARD);
    let url = format!("{}/rpc/pay", house.url());
    let outcome_url = format!("{}/rpc/outcome", house.url());
    stream::iter(0..CALLERS)
        .for_each_concurrent(32, |n| {
            let patience = Duration::from_micros(u64::try_from(n % 100).unwrap() * 40);
            let call = if n % 2 == 0 {
                house.http.post(&url).json(&body)
            } else {
                house.http.post(&outcome_url).json(&json!({"order": order.token, "intent": null}))
            };
            async move {
                let _gone = tokio::time::timeout(patience, call.send()).await;
            }
        })
        .await;
    let stuck = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'";
    assert_eq!(house.count(stuck).await, 0);
    let next = house.order("lamp").await;
    house.pay(&next, &uuid(), GOOD_CARD).await.assert_succeeded();
    let seen: String = sqlx::query_scalar("select state from orders where token = $1")
        .bind(&next.token)
        .fetch_one(&house.db)
        .await
        .unwrap();
    assert_eq!(seen, "paid", "committed, as another connection sees it");
    house.outcome_becomes(&order, "paid").await;
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// Somebody holds the key's row uncommitted; the payment waits for a bounded time and says when to come back, and is made
/// once the rival has given up.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_02_03_04_a_rival_that_does_not_commit_costs_a_wait_and_no_charge(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let intent = uuid();
    let mut rival = house.db.acquire().await.unwrap();
    rival.execute("begin").await.unwrap();
    sqlx::query(
        "insert into intents (operation, order_id, id, fingerprint, amount_minor, currency, email, provider_payment_intent, request, owner, look_at)
         select 'pay', o.id, $2::uuid, sha256('x'), o.amount_minor, o.currency, 'x@example.org', o.provider_payment_intent, 'x', gen_random_uuid(), now()
         from orders o where o.token = $1",
    )
    .bind(&order.token)
    .bind(&intent)
    .execute(&mut *rival)
    .await
    .unwrap();
    let waited = house.pay(&order, &intent, GOOD_CARD).await;
    assert!(matches!(waited.status.as_u16(), 409 | 503) && waited.retry_after.is_some(), "{waited:?}");
    house.assert_not_charged(&order).await;
    rival.execute("rollback").await.unwrap();
    house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// The settling statement meets a deadlock once: the charge is booked all the same.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b44_a_settlement_that_is_aborted_is_booked_again(db: PgPool) {
    for code in ["40P01", "40001", "57014"] {
        inject_once(&db, code).await;
        let house = House::new(db.clone()).await;
        let order = house.order("mug").await;
        let intent = uuid();
        house.pay(&order, &intent, GOOD_CARD).await;
        house.outcome_becomes(&order, "paid").await;
        house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
        house.assert_charged_once(&order).await;
        assert!(
            house.count("select last_value from injections").await > 1,
            "{code} struck, and the booking was tried again"
        );
    }
}

/// Makes the next write of a ledger row fail with this SQLSTATE, once. A sequence, since it survives the abort.
async fn inject_once(db: &PgPool, code: &str) {
    let sql = format!(
        "drop trigger if exists inject on ledger_entries; drop function if exists inject();
         drop sequence if exists injections; create sequence injections;
         create function inject() returns trigger language plpgsql as $$
         begin
             if nextval('injections') = 1 then
                 raise exception using errcode = '{code}', message = 'injected';
             end if;
             return new;
         end $$;
         create trigger inject before insert on ledger_entries for each row execute function inject();"
    );
    db.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
}

/// The database is gone: a clear 503 with Retry-After, and nothing is sent to the provider.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_payment_that_cannot_be_reserved_is_not_sent(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    house.db.execute("alter table intents rename to intents_away").await.unwrap();
    let refused = house.pay(&order, &uuid(), GOOD_CARD).await;
    assert!(refused.assert_refused(503, "unavailable").retry_after.is_some());
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(!text.contains("relation") && !text.contains("intents"), "no text from below: {text}");
    house.db.execute("alter table intents_away rename to intents").await.unwrap();
    house.assert_not_charged(&order).await;
    assert_eq!(house.sandbox.confirms(&house.http).await, 0);
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    house.assert_charged_once(&order).await;
}

/// A column is added while payments go on.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b128_a_new_column_fails_no_payment(db: PgPool) {
    let house = House::with(db, Plan { pool_size: 4, ..Plan::default() }).await;
    for n in 0..12 {
        if n == 4 {
            house.db.execute("alter table intents add column note text").await.unwrap();
            house.db.execute("alter table orders add column note text").await.unwrap();
            house.db.execute("alter table products add column note text").await.unwrap();
        }
        let order = house.order("mug").await;
        house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
        house.assert_charged_once(&order).await;
    }
    house.assert_books_balance().await;
}

/// Legal moves are held by the database itself.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_final_intent_cannot_be_moved_by_any_statement(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    for sql in [
        "update intents set state = 'failed', decline = 'generic', charge = null, paid_at = null",
        "update intents set state = 'pending'",
        "update intents set archive_body = 'x'",
        "delete from intents",
        "update orders set state = 'open', paid_at = null, charge = null, paid_intent = null",
        "update orders set amount_minor = 1",
    ] {
        assert!(house.db.execute(sql).await.is_err(), "{sql}");
    }
    house.assert_books_balance().await;
}
