//! Clients that are slow, silent or too many: they lose their own connection, and nobody else loses anything.

use std::time::Duration;

use futures::{StreamExt as _, future::join_all, stream};
use serde_json::json;
use server::{open_files, serve::Bounds};
use sqlx::PgPool;
use tokio::{io::AsyncWriteExt as _, time::timeout};

use crate::{
    house::{Answer, GOOD_CARD, House, Plan, uuid},
    raw::Raw,
};

const HALF_A_HEAD: &str = "POST /rpc/pay HTTP/1.1\r\nHost: shop\r\nContent-Type: app";

async fn bounded(db: PgPool, bounds: Bounds) -> House {
    House::with(db, Plan { bounds, ..Plan::default() }).await
}

/// Thousands of connections that say nothing, half a head, or one byte now and then, cost the next customer nothing, and
/// are gone when their time is over.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_c2_thousands_of_half_open_connections_keep_nobody_from_paying(db: PgPool) {
    // Both ends of each connection are files of this process.
    let half_open = open_files::connections(6_000) / 2;
    assert!(half_open >= 300, "room for a test: {half_open}");
    let house = bounded(db, Bounds { head_wait: Duration::from_secs(8), ..Bounds::default() }).await;
    let order = house.order("mug").await;
    let connecting = (0..half_open).map(|n| {
        let url = house.url();
        async move {
            let mut raw = Raw::to(url).await;
            if n % 3 > 0 {
                raw.send(HALF_A_HEAD).await;
            }
            raw
        }
    });
    let mut open: Vec<Raw> = stream::iter(connecting).buffer_unordered(64).collect().await;

    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    let held = open.iter_mut().map(Raw::has_ended).filter(|ended| !ended).count();
    assert!(held * 2 > half_open, "{held} of {half_open} were open while the payment was made");

    // A byte now and then buys no time.
    let mut dripping = open.split_off(half_open - 20);
    let drip = join_all(dripping.iter_mut().map(|raw| async {
        while raw.stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }));
    timeout(Duration::from_secs(30), drip).await.expect("the dripping ones are closed");
    for raw in &mut open {
        assert_eq!(raw.end().await, "", "closed without a word");
    }
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// With every connection taken by clients that wait for nothing, a customer still gets one; a payment under way keeps its own.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn at_the_cap_idle_connections_give_way_and_payments_do_not(db: PgPool) {
    let house = bounded(db, Bounds { max_connections: 8, ..Bounds::default() }).await;
    let (slow, quick) = (house.order("mug").await, house.order("lamp").await);
    house
        .sandbox
        .fault(&house.http, json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":1500},"next":1}))
        .await;
    let under_way = async { house.pay(&slow, &uuid(), GOOD_CARD).await };
    let crowd = async {
        crate::house::until("the first payment is reserved", || async {
            house.count("select count(*) from intents").await == 1
        })
        .await;
        let mut crowd = Vec::new();
        for _ in 0..40 {
            let mut raw = Raw::to(house.url()).await;
            raw.send(HALF_A_HEAD).await;
            crowd.push(raw);
        }
        let paid = house.pay(&quick, &uuid(), GOOD_CARD).await;
        (crowd, paid)
    };
    let (first, (mut crowd, second)) = tokio::join!(under_way, crowd);
    first.assert_succeeded();
    second.assert_succeeded();
    for raw in crowd.iter_mut().take(30) {
        assert_eq!(raw.end().await, "", "the oldest gave way");
    }
    assert!(!crowd[39].has_ended(), "the newest did not have to");
    house.assert_books_balance().await;
}

/// A body that does not come is given up: 408, nothing reserved, and the connection is closed, since nobody knows where the
/// next request on it would begin.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_slow_body_is_given_up_at_every_door(db: PgPool) {
    let house = bounded(db, Bounds { body_wait: Duration::from_millis(400), ..Bounds::default() }).await;
    let order = house.order("mug").await;
    for path in ["/rpc/pay", "/rpc/outcome", "/cart", "/checkout", &format!("/checkout/{}/pay", order.token)] {
        let mut raw = Raw::to(house.url()).await;
        raw.send(format!(
            "POST {path} HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"pay\""
        ))
        .await;
        let said = raw.answer().await;
        assert_eq!(said.status, 408, "{path}");
        assert_eq!(said.header("connection"), Some("close"), "{path}");
        let told = if path.starts_with("/rpc/") { "\"type\":\"too_slow\"" } else { "<!DOCTYPE html>" };
        assert!(said.body.contains(told), "{path}: {}", said.body);
        assert_eq!(raw.end().await, "", "{path}");
    }
    let mut drip = Raw::to(house.url()).await;
    drip.send("POST /cart HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    let given_up = timeout(Duration::from_secs(30), async {
        // The answer is there, or the connection is gone.
        while drip.stream.write_all(b"1\r\na\r\n").await.is_ok() && drip.stream.try_read(&mut [0_u8; 8]).is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    given_up.await.expect("one byte at a time buys no time");
    assert_eq!(house.count("select count(*) from intents").await, 0);
    house.assert_not_charged(&order).await;
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
}

/// Whoever asks and asks and never reads is cut off.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_reader_that_does_not_read_is_cut_off(db: PgPool) {
    let house = bounded(db, Bounds { write_wait: Duration::from_millis(500), ..Bounds::default() }).await;
    let mut raw = Raw::to(house.url()).await;
    let batch = "GET / HTTP/1.1\r\nHost: shop\r\n\r\n".repeat(100);
    let cut = timeout(Duration::from_mins(1), async {
        loop {
            if let Err(error) = raw.stream.write_all(batch.as_bytes()).await {
                return error;
            }
        }
    });
    let error = cut.await.expect("the server gives up within its bound");
    assert!(
        matches!(error.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe),
        "{error}: {error:?}"
    );
    let order = house.order("mug").await;
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
}

/// A connection that lies idle is closed in the end, and not before.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_idle_connection_outlives_the_bound_of_a_head_but_not_its_own(db: PgPool) {
    let bounds =
        Bounds { head_wait: Duration::from_millis(300), idle_wait: Duration::from_millis(1_500), ..Bounds::default() };
    let house = bounded(db, bounds).await;
    let mut raw = Raw::to(house.url()).await;
    let ask = "GET /livez HTTP/1.1\r\nHost: shop\r\n\r\n";
    assert_eq!(raw.send(ask).await.answer().await.status, 200);
    tokio::time::sleep(bounds.head_wait * 2).await;
    assert_eq!(raw.send(ask).await.answer().await.status, 200, "still open");
    let since = std::time::Instant::now();
    assert_eq!(raw.end().await, "");
    assert!(since.elapsed() >= bounds.head_wait * 2, "closed as idle, not as late");
}

/// The reader's and the body's bounds are no bound of the payment: an answer that takes long is waited for.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_payment_may_take_longer_than_its_request(db: PgPool) {
    let short = Duration::from_millis(300);
    let bounds =
        Bounds { head_wait: short, body_wait: short, write_wait: short, idle_wait: short, ..Bounds::default() };
    let house = bounded(db, bounds).await;
    let order = house.order("mug").await;
    house
        .sandbox
        .fault(&house.http, json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":1500},"next":1}))
        .await;
    let sent = house.http.post(format!("{}/rpc/pay", house.url())).json(&House::pay_body(&order, &uuid(), GOOD_CARD));
    Answer::of(sent.send().await.unwrap()).await.assert_succeeded();
    house.assert_books_balance().await;
}
