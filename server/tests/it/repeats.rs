//! The same intent again, and another intent for the same order: over connections, replicas and restarts.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use sqlx::PgPool;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::house::{Answer, GOOD_CARD, House, Plan, until, uuid};

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_01_05_fifty_requests_of_one_intent_over_two_replicas_give_one_charge_and_the_same_bytes(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let order = house.order("lamp").await;
    house
        .sandbox
        .fault(&house.http, json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":700},"next":1}))
        .await;
    let intent = uuid();
    let answers = join_all((0..50).map(|n| house.pay_at(n % 2, &order, &intent, GOOD_CARD))).await;
    for answer in &answers {
        answer.assert_succeeded();
        assert_eq!(answer.archived(), answers[0].archived());
    }
    let late = house.pay_at(1, &order, &intent, GOOD_CARD).await;
    assert_eq!(late.archived(), answers[0].archived());
    assert!(late.replayed, "archived before this call came");
    house.assert_charged_once(&order).await;
    assert_eq!(house.sandbox.confirms(&house.http).await, 1);
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_replay_after_a_restart_is_the_same_bytes(db: PgPool) {
    let mut house = House::new(db).await;
    let order = house.order("lamp").await;
    let intent = uuid();
    let first = house.pay(&order, &intent, GOOD_CARD).await;
    first.assert_succeeded();
    house.add_replica(Plan::default()).await;
    let again = house.pay_at(1, &order, &intent, GOOD_CARD).await;
    assert_eq!(again.archived(), first.archived());
    assert!(again.replayed);
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// One after the other, no concurrency: the second is the first's answer, not "not found" and not an error.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b40_the_second_of_two_calls_has_the_first_ones_answer(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let intent = uuid();
    let first = house.pay(&order, &intent, GOOD_CARD).await;
    let second = house.pay(&order, &intent, GOOD_CARD).await;
    assert_eq!(second.archived(), first.archived());
    house.assert_charged_once(&order).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b28_the_same_key_with_another_request_is_refused_and_the_first_answer_stays(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let intent = uuid();
    let first = house.pay(&order, &intent, GOOD_CARD).await;
    first.assert_succeeded();
    for (field, value) in [
        ("amount", json!(order.amount + 1)),
        ("currency", json!("USD")),
        ("payment_method", json!("pm_card_mastercard")),
    ] {
        let mut other = House::pay_body(&order, &intent, GOOD_CARD);
        other["pay"][field] = value;
        house.send(0, &other).await.assert_refused(422, "intent_reused");
    }
    assert_eq!(house.pay(&order, &intent, GOOD_CARD).await.archived(), first.archived());
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// Key order and fields that nobody asked for do not make another request.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b19_what_does_not_matter_does_not_change_the_fingerprint(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let intent = uuid();
    let first = house.pay(&order, &intent, GOOD_CARD).await;
    let text = format!(
        r#"{{ "pay": {{ "currency":"{}",  "amount": {}, "email":"ana@example.org", "attempt":"7", "client_time":"2026-01-01T00:00:00Z",
            "payment_method":"{GOOD_CARD}", "intent":"{intent}", "order":"{}" }} }}"#,
        order.currency, order.amount, order.token
    );
    let url = format!("{}/rpc/pay", house.url());
    let sent = house.http.post(url).header("content-type", "application/json").body(text).send().await.unwrap();
    let again = Answer::of(sent).await;
    assert_eq!(again.archived(), first.archived());
    house.assert_charged_once(&order).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b46_a_second_intent_of_an_order_that_is_being_paid_is_refused_before_any_charge(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let order = house.order("lamp").await;
    house
        .sandbox
        .fault(&house.http, json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":1500},"next":1}))
        .await;
    let (first, second) = (uuid(), uuid());
    let (paid, refused) = tokio::join!(house.pay_at(0, &order, &first, GOOD_CARD), async {
        until("the first is reserved", || async { house.count("select count(*) from intents").await == 1 }).await;
        house.pay_at(1, &order, &second, GOOD_CARD).await
    });
    paid.assert_succeeded();
    let taken = refused.assert_refused(409, "order_taken").json();
    assert_eq!(taken["intent"], first);
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_refused(409, "order_taken");
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn two_intents_at_one_moment_pay_an_order_once(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    for _ in 0..20 {
        let order = house.order("mug").await;
        let (one, two) = (uuid(), uuid());
        let (a, b) = tokio::join!(house.pay_at(0, &order, &one, GOOD_CARD), house.pay_at(1, &order, &two, GOOD_CARD));
        let statuses = [a.status.as_u16(), b.status.as_u16()];
        assert!(statuses == [200, 409] || statuses == [409, 200], "{statuses:?}");
        house.assert_charged_once(&order).await;
    }
    house.assert_books_balance().await;
}

/// The claim is committed before the provider is called: anyone can see it while the provider takes its time.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b45_the_reservation_is_visible_while_the_provider_works(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("lamp").await;
    house
        .sandbox
        .fault(&house.http, json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":1500},"next":1}))
        .await;
    let intent = uuid();
    let (one, two, ()) =
        tokio::join!(house.pay(&order, &intent, GOOD_CARD), house.pay(&order, &intent, GOOD_CARD), async {
            until("the reservation", || async {
                house.count("select count(*) from intents where state = 'pending'").await == 1
            })
            .await;
            assert_eq!(house.charges(&order).await.len(), 0, "reserved, committed, not yet charged");
        });
    assert_eq!(one.archived(), two.archived());
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// Waiting has an end, and it is not a wrong answer.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_repeat_that_has_waited_long_enough_is_told_when_to_come_back(db: PgPool) {
    let plan = Plan { replicas: 2, pay_wait: Duration::from_millis(300), ..Plan::default() };
    let house = House::with(db, plan).await;
    let order = house.order("lamp").await;
    house
        .sandbox
        .fault(&house.http, json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":3000},"next":1}))
        .await;
    let intent = uuid();
    let (first, ()) = tokio::join!(house.pay(&order, &intent, GOOD_CARD), async {
        until("the reservation", || async { house.count("select count(*) from intents").await == 1 }).await;
        for replica in [0, 1] {
            let told = house.pay_at(replica, &order, &intent, GOOD_CARD).await;
            assert!(told.assert_refused(409, "in_progress").retry_after.is_some());
        }
    });
    assert!(first.status.is_success() || first.status.as_u16() == 409);
    house.outcome_becomes(&order, "paid").await;
    house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// Fifty that wait hold no connection of a pool of two.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_09_waiting_repeats_hold_no_database_connection(db: PgPool) {
    let house = House::with(db, Plan { pool_size: 2, ..Plan::default() }).await;
    let order = house.order("lamp").await;
    house
        .sandbox
        .fault(&house.http, json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":2000},"next":1}))
        .await;
    let intent = uuid();
    let waiting = join_all((0..50).map(|_| house.pay(&order, &intent, GOOD_CARD)));
    let (answers, other) = tokio::join!(waiting, async {
        until("the reservation", || async { house.count("select count(*) from intents").await == 1 }).await;
        let other = house.order("mug").await;
        house.pay(&other, &uuid(), GOOD_CARD).await
    });
    other.assert_succeeded();
    for answer in &answers {
        assert_eq!(answer.archived(), answers[0].archived());
    }
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// The identical bytes on a new connection, right after the first one was reset.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b11_pitfall_26_a_resend_after_a_reset_connection_charges_once(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let body = House::pay_body(&order, &uuid(), GOOD_CARD).to_string();
    let address = house.url().trim_start_matches("http://").to_owned();
    let request = format!(
        "POST /rpc/pay HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut first = tokio::net::TcpStream::connect(&address).await.unwrap();
    first.write_all(request.as_bytes()).await.unwrap();
    drop(first);
    let mut second = tokio::net::TcpStream::connect(&address).await.unwrap();
    second.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0_u8; 15];
    second.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// A proxy gives a slow request to the next replica as well.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b12_pitfall_24_25_a_proxy_that_asks_the_next_replica_gets_the_first_ones_answer(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let order = house.order("lamp").await;
    house
        .sandbox
        .fault(&house.http, json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":1200},"next":1}))
        .await;
    let intent = uuid();
    let body = House::pay_body(&order, &intent, GOOD_CARD);
    let impatient = house
        .http
        .post(format!("{}/rpc/pay", house.url()))
        .timeout(Duration::from_millis(300))
        .json(&body)
        .send()
        .await;
    assert!(impatient.is_err_and(|error| error.is_timeout()));
    let second = house.send(1, &body).await;
    second.assert_succeeded();
    assert_eq!(house.send(0, &body).await.archived(), second.archived());
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b35_b36_pitfall_31_a_key_under_another_order_is_another_key_and_tells_nothing(db: PgPool) {
    let house = House::new(db).await;
    let (ana, ben) = (house.order("lamp").await, house.order("mug").await);
    let intent = uuid();
    let first = house.pay(&ana, &intent, GOOD_CARD).await;
    first.assert_succeeded();
    let second = house.pay(&ben, &intent, GOOD_CARD).await;
    assert_eq!(second.assert_succeeded().json()["amount"], ben.amount);
    assert_ne!(second.json()["charge"], first.json()["charge"]);
    house.assert_charged_once(&ana).await;
    house.assert_charged_once(&ben).await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b37_a_replay_sets_no_cookie(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let intent = uuid();
    house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
    assert!(!house.pay(&order, &intent, GOOD_CARD).await.set_cookie);
}
