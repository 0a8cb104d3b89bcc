//! API keys: who gets in, and that a key is nowhere but with its program.

use std::sync::{Arc, Mutex};

use payments::api_key;
use serde_json::json;
use sqlx::PgPool;
use tracing_subscriber::fmt::MakeWriter;

use super::{Program, Reply, as_browser, good_payment, payments_of};
use crate::house::{GOOD_CARD, House, until, uuid};

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn nobody_gets_in_without_a_key_and_nothing_is_told(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = program.order("mug").await;
    let near = format!("{}{}", &program.key[..39], if program.key.ends_with('A') { "B" } else { "A" });
    let url = |path: &str| format!("{}{path}", house.url());
    for authorization in [
        None,
        Some(String::new()),
        Some("Bearer".to_owned()),
        Some(program.key.clone()),
        Some(format!("Basic {}", program.key)),
        Some(format!("Bearer {near}")),
        Some(format!("Bearer {} x", program.key)),
        Some(format!("Bearer {}", "a".repeat(5_000))),
        Some("Bearer sk_test_house".to_owned()),
    ] {
        let order_path = format!("/api/v1/orders/{}", order["id"].as_str().unwrap());
        let mut requests = vec![
            house.http.get(url(&order_path)),
            house.http.post(url(&payments_of(&order))).header("idempotency-key", uuid()).json(&good_payment(&order)),
            house.http.post(url("/api/v1/orders")).header("idempotency-key", uuid()).json(&json!({})),
        ];
        for request in requests.drain(..) {
            let request = match &authorization {
                Some(authorization) => request.header("authorization", authorization),
                None => request,
            };
            let reply = Reply::of(request.send().await.unwrap()).await;
            let problem = reply.assert_problem(401, "unauthorized");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"payonce\""));
            assert!(!problem.to_string().contains(order["id"].as_str().unwrap()));
        }
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
    assert_eq!(house.count("select count(*) from orders").await, 1);
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_key_is_stored_as_its_hash_only(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let row: String = sqlx::query_scalar("select t::text from api_keys t").fetch_one(&house.db).await.unwrap();
    assert!(row.contains(&program.key[..12]) && !row.contains(&program.key[..13]), "only its beginning: {row}");
    let hash: Vec<u8> = sqlx::query_scalar("select hash from api_keys").fetch_one(&house.db).await.unwrap();
    assert_eq!(hash, api_key::ApiKeySecret::parse(&program.key).unwrap().hash());
    assert!(!hash.windows(8).any(|bytes| program.key.as_bytes().windows(8).any(|part| part == bytes)));
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_revoked_key_ends_within_seconds_and_only_that_one(db: PgPool) {
    let house = House::new(db).await;
    let (lost, kept) = (Program::new(&house).await, Program::new(&house).await);
    let order = lost.order("mug").await;
    let path = format!("/api/v1/orders/{}", order["id"].as_str().unwrap());
    assert!(api_key::revoke(&house.db.clone().into(), lost.id).await.unwrap());
    assert!(api_key::revoke(&house.db.clone().into(), lost.id).await.unwrap(), "twice is once");
    let revoked_at = std::time::Instant::now();
    until("the key opens nothing", || async { lost.get(&path).await.status == 401 }).await;
    let memory = std::time::Duration::from_secs(server::guard::callers::MEMORY_SECONDS);
    assert!(revoked_at.elapsed() < memory * 3, "{:?}", revoked_at.elapsed());
    assert_eq!(kept.get(&path).await.status, 200);
    let listed = api_key::list(&house.db.clone().into()).await.unwrap();
    assert_eq!(listed.iter().filter(|key| key.revoked_at.is_some()).map(|key| key.id).collect::<Vec<_>>(), [lost.id]);
    let nobody = api_key::ApiKeyId::parse(&uuid()).unwrap();
    assert!(!api_key::revoke(&house.db.clone().into(), nobody).await.unwrap());
}

/// Everything that the server says while it works, at the finest level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn neither_keys_nor_cards_nor_tokens_are_logged_or_stored(db: PgPool) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new("server=trace,payments=trace,tower_http=trace"))
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    let listening = tracing::subscriber::set_default(subscriber);
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = program.order("mug").await;
    let intent = uuid();
    assert_eq!(program.pay(&order, &intent, &good_payment(&order)).await.status, 200);
    program.pay(&order, &intent, &super::payment(&order, "pm_card_mastercard")).await.assert_problem(422, "key-reused");
    let odd = json!({"payment_method": 4_242_424_242_424_242_i64, "amount": 1, "currency": "EUR"});
    program.pay(&order, &uuid(), &odd).await.assert_problem(400, "malformed-request");
    drop(listening);

    let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(said.contains(&intent), "it was listened to: {said}");
    let token = order["token"].as_str().unwrap();
    for secret in [&program.key[8..], GOOD_CARD, "pm_card_mastercard", token, "4242424242424242", "ana@example.org"] {
        assert!(!said.contains(secret), "{secret} was logged: {said}");
    }
    for table in ["intents", "orders", "order_keys", "ledger_entries", "outbox_events", "api_keys"] {
        let rows: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("select t::text from {table} t")))
            .fetch_all(&house.db)
            .await
            .unwrap();
        for row in rows {
            assert!(!row.contains("pm_") && !row.contains(&program.key[13..]), "{table}: {row}");
            // As Postgres shows the bytes of `pm_card`.
            assert!(!row.contains("706d5f63617264"), "{table}: {row}");
        }
    }
    house.assert_charged_once(&as_browser(&house, &order).await).await;
    house.assert_books_balance().await;
}
