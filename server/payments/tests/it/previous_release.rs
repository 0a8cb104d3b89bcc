//! Two releases on one schema, as during a rolling deploy: the statements that the previous release sends, exactly as it recorded
//! them, do their work on the schema of this one, side by side with this one's code.
//!
//! `previous_release/` holds that record; `migrations/README.md` tells when it is renewed.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use futures::future::join_all;
use payments::{
    Ctx,
    ids::IntentId,
    limits::Limits,
    order::{self, Order, OrderState},
    pay::PayError,
    purge, recover,
};
use serde_json::Value;
use sqlx::{
    AssertSqlSafe, Column as _, Either, Executor as _, PgPool, Row as _, SqlSafeStr as _, Statement as _,
    TypeInfo as _, postgres::PgRow,
};
use uuid::Uuid;

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{count, eventually, lamp, pay_with, replica, replica_with, state_of},
};

/// One recorded statement: its text, the names of its parameters' types, and its columns: name, type, whether it may be null.
struct Recorded {
    query: String,
    parameters: Vec<String>,
    columns: Vec<(String, String, bool)>,
}

fn recorded() -> Vec<Recorded> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/previous_release");
    let read = |entry: fs::DirEntry| {
        let file: Value = serde_json::from_slice(&fs::read(entry.path()).unwrap()).unwrap();
        let list = |at: &Value| at.as_array().unwrap().clone();
        let described = &file["describe"];
        let columns = list(&described["columns"]).into_iter().zip(list(&described["nullable"]));
        Recorded {
            query: file["query"].as_str().unwrap().to_owned(),
            parameters: list(&described["parameters"]["Left"]).iter().map(type_name).collect(),
            columns: columns
                .map(|(column, nullable)| {
                    let name = column["name"].as_str().unwrap().to_owned();
                    (name, type_name(&column["type_info"]), nullable != Value::Bool(false))
                })
                .collect(),
        }
    };
    fs::read_dir(folder).unwrap().map(|entry| read(entry.unwrap())).collect()
}

/// The record says `Int8Array` where the database says `INT8[]`.
fn type_name(recorded: &Value) -> String {
    recorded.as_str().unwrap().to_uppercase().replace("ARRAY", "[]")
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_k3_every_statement_of_the_previous_release_prepares_with_the_same_types(pool: PgPool) {
    let recorded = recorded();
    assert!(recorded.len() > 15, "the record is there");
    for old in &recorded {
        let mut connection = pool.acquire().await.unwrap();
        let sql = AssertSqlSafe(old.query.clone()).into_sql_str();
        let prepared = connection.prepare(sql).await.unwrap_or_else(|error| panic!("{error}: {}", old.query));
        let parameters: Vec<String> = match prepared.parameters() {
            Some(Either::Left(types)) => types.iter().map(|kind| kind.name().to_owned()).collect(),
            other => panic!("parameters are described by type: {other:?}"),
        };
        assert_eq!(parameters, old.parameters, "{}", old.query);
        let columns: Vec<(String, String)> = prepared
            .columns()
            .iter()
            .map(|column| (column.name().to_owned(), column.type_info().name().to_owned()))
            .collect();
        let expected: Vec<(String, String)> =
            old.columns.iter().map(|(name, kind, _)| (name.clone(), kind.clone())).collect();
        assert_eq!(columns, expected, "{}", old.query);

        // What the old code reads without a thought of null comes from a column that still has none.
        for (column, (name, _, nullable)) in prepared.columns().iter().zip(&old.columns) {
            let of = (column.relation_id(), column.relation_attribute_no(), *nullable || name.ends_with(['!', '?']));
            let (Some(table), Some(number), false) = of else { continue };
            let never_null: bool =
                sqlx::query_scalar("select attnotnull from pg_attribute where attrelid = $1 and attnum = $2")
                    .bind(table)
                    .bind(number)
                    .fetch_one(&pool)
                    .await
                    .unwrap();
            let is_known = NULL_NOW.contains(&(name.as_str(), table_of(&old.query)));
            assert!(never_null || is_known, "{name} may be null now: {}", old.query);
        }
    }
}

/// Columns that may be null now where the previous release expects a value. Only orders that a program makes with lines of its
/// own have such rows; the previous release knows no programs. Until a deploy is over, its replicas pay such an order as any
/// other, and answer its pages with 503.
const NULL_NOW: [(&str, &str); 1] = [("sku", "order_lines")];

/// The table that a statement reads first.
fn table_of(query: &str) -> &str {
    query.split(" from ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or_default()
}

/// A replica of the previous release, as far as its statements go.
struct Previous {
    pool: PgPool,
    statements: BTreeMap<&'static str, String>,
}

const NAMES: [(&str, &str); 14] = [
    ("place", "with placed as ("),
    ("adopt_payment_intent", "set provider_payment_intent = coalesce("),
    ("order_by_token", "from orders where token = $1"),
    ("reserve", "reserved as ( insert into intents"),
    ("release", "delete from intents"),
    ("succeed", "set state = 'succeeded'"),
    ("fail", "set state = 'failed'"),
    ("wait_for_bank", "set state = 'action_required'"),
    ("rest", "set state = case state"),
    (
        "claim_one",
        "update intents set fence = nextval('fences'), owner = gen_random_uuid(), lease_expires_at = now() + make_interval(secs => $4)",
    ),
    ("claim_due", "with due as ("),
    ("find", "from intents where operation = $1 and order_id = $2 and id = $3"),
    ("list_telling", "from intents where operation = 'pay' and order_id = $1"),
    ("list_moved", "from unnest($1::uuid[], $2::uuid[])"),
];

impl Previous {
    fn new(pool: &PgPool) -> Self {
        let recorded = recorded();
        let flat = |query: &str| query.split_whitespace().collect::<Vec<_>>().join(" ");
        let find = |(name, part): (&'static str, &str)| {
            let mut found = recorded.iter().filter(|old| {
                let text = flat(&old.query);
                match name {
                    "order_by_token" => text.ends_with(part),
                    "find" => text.starts_with("select order_id") && text.ends_with(part),
                    _ => text.contains(part),
                }
            });
            let query = found.next().unwrap_or_else(|| panic!("no statement is {name}")).query.clone();
            assert!(found.next().is_none(), "one statement is {name}");
            (name, query)
        };
        Self { pool: pool.clone(), statements: NAMES.map(find).into() }
    }

    fn sql(&self, name: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(self.statements[name].clone())
    }

    /// An order of one lamp that is known to the provider.
    async fn order(&self, ctx: &Ctx) -> Order {
        let (id, token) = (ctx.ids.intent().as_uuid(), Uuid::new_v4().simple().to_string()[..22].to_owned());
        sqlx::query(self.sql("place"))
            .bind(id)
            .bind(&token)
            .bind(&token[..9])
            .bind(Uuid::new_v4())
            .bind(vec![7_u8; 32])
            .bind("EUR")
            .bind(4990_i64)
            .bind(Uuid::new_v4())
            .bind(vec!["lamp".to_owned()])
            .bind(vec![1_i32])
            .bind(vec![4990_i64])
            .execute(&self.pool)
            .await
            .unwrap();
        let token = payments::ids::OrderToken::parse(&token).unwrap();
        let order = order::find_by_token(ctx, &token).await.unwrap().unwrap();
        order::ensure_payment_intent(ctx, &order).await.unwrap();
        let read = sqlx::query(self.sql("order_by_token")).bind(token.expose()).fetch_one(&self.pool).await.unwrap();
        let adopted: String = sqlx::query_scalar(self.sql("adopt_payment_intent"))
            .bind(id)
            .bind("pi_of_nobody")
            .fetch_one(&self.pool)
            .await
            .unwrap();
        assert_eq!(read.get::<Option<String>, _>("provider_payment_intent"), Some(adopted), "the first one stands");
        order::find_by_token(ctx, &token).await.unwrap().unwrap()
    }

    /// Reserves, with a lease that has ended already; gives the whole row.
    async fn reserve(&self, order: &Order, intent: IntentId) -> PgRow {
        sqlx::query(self.sql("reserve"))
            .bind(order.token.expose())
            .bind(intent.as_uuid())
            .bind(vec![3_u8; 32])
            .bind(order.total.minor)
            .bind("EUR")
            .bind("ana@example.org")
            .bind(None::<Uuid>)
            .bind(b"pm_card_visa https://shop.example/orders/x".to_vec())
            .bind(Uuid::new_v4())
            .bind(0_f64)
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    async fn claim(&self, order: &Order, intent: IntentId) -> Option<i64> {
        let claimed = sqlx::query(self.sql("claim_one"))
            .bind("pay")
            .bind(order.id.as_uuid())
            .bind(intent.as_uuid())
            .bind(20_f64)
            .bind(80_000_f64);
        claimed.fetch_optional(&self.pool).await.unwrap().map(|row| row.get("fence"))
    }

    async fn succeed(&self, order: &Order, intent: IntentId, fence: i64, charge: &str) -> i64 {
        sqlx::query_scalar(self.sql("succeed"))
            .bind("pay")
            .bind(order.id.as_uuid())
            .bind(intent.as_uuid())
            .bind(fence)
            .bind(charge)
            .bind(time::OffsetDateTime::now_utc())
            .bind(200_i16)
            .bind("application/json")
            .bind(format!(r#"{{"intent":"{intent}","state":"SUCCEEDED"}}"#).into_bytes())
            .bind(order.total.minor)
            .bind("EUR")
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    async fn fail(&self, order: &Order, intent: IntentId, fence: i64) -> bool {
        let failed = sqlx::query(self.sql("fail"))
            .bind("pay")
            .bind(order.id.as_uuid())
            .bind(intent.as_uuid())
            .bind(fence)
            .bind("generic")
            .bind(402_i16)
            .bind("application/json")
            .bind(b"{}".to_vec())
            .bind(Uuid::new_v4());
        failed.fetch_optional(&self.pool).await.unwrap().is_some()
    }

    async fn rest(&self, order: &Order, intent: IntentId, fence: i64) -> String {
        let rested = sqlx::query_scalar(self.sql("rest"))
            .bind("pay")
            .bind(order.id.as_uuid())
            .bind(intent.as_uuid())
            .bind(fence)
            .bind(0_f64)
            .bind(0_f64);
        rested.fetch_one(&self.pool).await.unwrap()
    }

    async fn wait_for_bank(&self, order: &Order, intent: IntentId, fence: i64) -> u64 {
        let waiting = sqlx::query(self.sql("wait_for_bank"))
            .bind("pay")
            .bind(order.id.as_uuid())
            .bind(intent.as_uuid())
            .bind(fence)
            .bind("https://bank.example/step")
            .bind(0_f64);
        waiting.execute(&self.pool).await.unwrap().rows_affected()
    }
}

/// Confirms at the provider as an executor does, and gives the charge.
async fn confirm(provider: &Fake, order: &Order, intent: IntentId) -> String {
    use payments::{
        intent::IntentKey,
        provider::{ConfirmOutcome, ConfirmRequest, Provider as _},
    };
    let request = ConfirmRequest {
        payment_intent: order.provider_payment_intent.clone().unwrap(),
        idempotency_key: IntentKey::pay(order.id, intent).for_provider(),
        body: b"pm_card_visa https://shop.example/orders/x".to_vec(),
    };
    let outcome = provider.confirm(&request).await;
    let ConfirmOutcome::Approved(charge) = outcome else { panic!("{outcome:?}") };
    charge.id.as_str().to_owned()
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_k3_the_previous_release_takes_whole_payments_on_this_schema(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let (ctx, old) = (replica(&pool, &provider), Previous::new(&pool));
    let order = old.order(&ctx).await;

    // One that fails after the bank and a rest, and then one that succeeds.
    let bad = ctx.ids.intent();
    let fence = old.reserve(&order, bad).await.get::<Option<i64>, _>("fence?").unwrap();
    assert_eq!(old.wait_for_bank(&order, bad, fence).await, 1);
    assert_eq!(old.rest(&order, bad, fence).await, "action_required");
    let claimed = old.claim(&order, bad).await.unwrap();
    assert!(!old.fail(&order, bad, fence).await, "fenced off");
    assert!(old.fail(&order, bad, claimed).await);

    let good = ctx.ids.intent();
    let fence = old.reserve(&order, good).await.get::<Option<i64>, _>("fence?").unwrap();
    assert_eq!(old.rest(&order, good, fence).await, "unknown");
    let due = sqlx::query(old.sql("claim_due")).bind(10_i64).bind(20_f64).bind(80_000_f64);
    let due = due.fetch_all(&pool).await.unwrap();
    assert_eq!(due.len(), 1);
    let charge = confirm(&provider, &order, good).await;
    assert_eq!(old.succeed(&order, good, due[0].get("fence"), &charge).await, 1);
    assert_eq!(old.succeed(&order, good, due[0].get("fence"), &charge).await, 0, "once");

    // One that never left, and is taken back.
    let other = old.order(&ctx).await;
    let never = ctx.ids.intent();
    let fence = old.reserve(&other, never).await.get::<Option<i64>, _>("fence?").unwrap();
    let released =
        sqlx::query(old.sql("release")).bind("pay").bind(other.id.as_uuid()).bind(never.as_uuid()).bind(fence);
    assert_eq!(released.execute(&pool).await.unwrap().rows_affected(), 1);

    let paid = order::find_by_token(&ctx, &order.token).await.unwrap().unwrap();
    assert!(matches!(paid.state, OrderState::Paid(paid) if paid.intent == good));
    assert_books_balance(&pool, &provider).await;
}

/// Each release reserves, dies, and leaves the rest to the other one.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_k3_each_release_finishes_what_the_other_began(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let old = Previous::new(&pool);
    let limits = Limits { lease: Duration::from_millis(30), pay_wait: Duration::from_millis(20), ..Limits::default() };
    let new = replica_with(&pool, &provider, limits);

    for _ in 0..10 {
        // Reserved by the old one, which dies before it sends; finished by this one.
        let (order, intent) = (old.order(&new).await, new.ids.intent());
        assert!(old.reserve(&order, intent).await.get::<Option<i64>, _>("fence?").is_some());
        eventually("this release recovers it", || async {
            recover::run_once(&new).await.unwrap();
            state_of(&pool, intent).await.filter(|state| state == "succeeded")
        })
        .await;
        assert!(old.claim(&order, intent).await.is_none(), "it has an end");

        // Reserved and charged by this one, which dies; finished by the old one.
        let (order, intent) = (lamp(&new).await, new.ids.intent());
        provider.next([Mood::ChargeThenPanic]);
        pay_with(&new, &order, intent).await.unwrap_err();
        let fence = eventually("the lease has ended", || old.claim(&order, intent)).await;
        let charge = confirm(&provider, &order, intent).await;
        assert_eq!(old.succeed(&order, intent, fence, &charge).await, 1);
        let again = pay_with(&new, &order, intent).await.unwrap();
        assert!(again.replayed && again.answer.body.starts_with(b"{"), "this release replays the old one's archive");
    }
    assert_books_balance(&pool, &provider).await;
}

/// The previous release knows nothing of tombstones, and reads them all the same: every column that it asks for is there, the
/// order stays paid, the key stays used, and the archive that it finds has no bytes to replay.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_k3_the_previous_release_reads_tombstones(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let old = Previous::new(&pool);
    let ctx = replica_with(&pool, &provider, Limits { retention: Duration::ZERO, ..Limits::default() });
    let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
    pay_with(&ctx, &order, intent).await.unwrap();
    assert_eq!(purge::run(&ctx).await.unwrap(), 1);

    let (by_order, by_intent) = (order.id.as_uuid(), intent.as_uuid());
    let find = sqlx::query(old.sql("find")).bind("pay").bind(by_order).bind(by_intent).fetch_one(&pool).await;
    let telling = sqlx::query(old.sql("list_telling")).bind(by_order).bind(by_intent).fetch_one(&pool).await;
    let moved = sqlx::query(old.sql("list_moved")).bind(vec![by_order]).bind(vec![by_intent]).fetch_one(&pool).await;
    let reserved = old.reserve(&order, intent).await;
    assert_eq!(reserved.get::<Option<i64>, _>("fence?"), None, "nothing is reserved");
    for row in [find.unwrap(), telling.unwrap(), moved.unwrap(), reserved] {
        assert!(row.get::<Option<String>, _>("charge").is_some());
        assert!(row.get::<Option<time::OffsetDateTime>, _>("paid_at").is_some());
        assert_eq!(row.get::<Option<i16>, _>("archive_status"), Some(200));
        assert!(row.get::<Option<String>, _>("archive_content_type").is_some());
        assert_eq!(row.get::<Option<Vec<u8>>, _>("archive_body"), Some(Vec::new()), "an old binary cannot replay it");
    }
    assert!(matches!(pay_with(&ctx, &order, intent).await, Err(PayError::Purged(_))));
    assert_books_balance(&pool, &provider).await;
}

/// A migration adds columns while payments run over connections that have prepared their statements already.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b128_columns_added_under_a_stream_of_payments_fail_none(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica(&pool, &provider);
    let cashier = |_| {
        let ctx = ctx.clone();
        async move {
            let mut answers = Vec::new();
            for _ in 0..30 {
                let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
                answers.push(pay_with(&ctx, &order, intent).await.unwrap().answer.status);
                order::status(&ctx, &order.token).await.unwrap().unwrap();
                assert!(pay_with(&ctx, &order, intent).await.unwrap().replayed);
            }
            answers
        }
    };
    let migrating = async {
        for number in 1..=8 {
            let target = number * 25;
            eventually("some more payments", || async {
                (count(&pool, "select count(*) from intents where state = 'succeeded'").await >= target).then_some(())
            })
            .await;
            for table in ["intents", "orders"] {
                let sql = format!("alter table {table} add column added_{number} text default 'x'");
                sqlx::query(AssertSqlSafe(sql)).execute(&pool).await.unwrap();
            }
        }
    };
    let (answers, ()) = tokio::join!(join_all((0..8).map(cashier)), migrating);

    let answers: Vec<u16> = answers.into_iter().flatten().collect();
    assert_eq!(answers, [200; 240]);
    assert_eq!((provider.charges().len(), provider.confirms().len()), (240, 240), "charges are as many as keys");
    assert_books_balance(&pool, &provider).await;
}
