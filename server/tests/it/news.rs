//! News: a page that waits is told when its payment moves, by whichever replica moved it.

use futures::StreamExt as _;
use reqwest::{Response, StatusCode, header};
use serde_json::json;
use sqlx::PgPool;
use tokio::time::{Duration, timeout};

use crate::{
    house::{GOOD_CARD, House, Order, Plan, until, uuid},
    pay::approve_at_the_bank,
};

/// How long news may take that must come. Generous: slow machines are no fault.
const PATIENCE: Duration = Duration::from_secs(20);

/// A page that listens.
struct Page(std::pin::Pin<Box<dyn futures::Stream<Item = Vec<u8>>>>);

impl Page {
    async fn open(house: &House, replica: usize, order: &Order) -> Self {
        let answer = listen(house, replica, &order.token).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/event-stream");
        assert_eq!(answer.headers()[header::CACHE_CONTROL], "no-store");
        let mut page = Self(Box::pin(answer.bytes_stream().map(|bytes| bytes.unwrap().to_vec())));
        // What the page knew is older than the stream, so that it asks at once.
        page.is_told().await;
        page
    }

    /// Waits for the next event. Comments, which keep the connection alive, are none.
    async fn is_told(&mut self) {
        let told = async {
            loop {
                let said = String::from_utf8(self.0.next().await.expect("the stream goes on")).unwrap();
                if said.contains("data: moved") {
                    return;
                }
            }
        };
        timeout(PATIENCE, told).await.expect("news");
    }
}

async fn listen(house: &House, replica: usize, token: &str) -> Response {
    house.http.get(format!("{}/orders/{token}/news", house.replicas[replica].url)).send().await.unwrap()
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_page_is_told_of_the_end_of_its_payment_whichever_replica_made_it(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let order = house.order("mug").await;
    let held = json!({"match": {"path": "confirm"}, "fault": {"kind": "delay_before", "ms": 600_000}});
    house.sandbox.fault(&house.http, held).await;
    let intent = uuid();
    let told = async {
        until("the reservation", || async { house.count("select count(*) from intents").await == 1 }).await;
        let mut here = Page::open(&house, 0, &order).await;
        let mut there = Page::open(&house, 1, &order).await;
        house.sandbox.no_faults(&house.http).await;
        here.is_told().await;
        there.is_told().await;
        assert_eq!(house.outcome(&order, None).await["state"], "paid");
    };
    let (answer, ()) = tokio::join!(house.pay(&order, &intent, GOOD_CARD), told);
    answer.assert_succeeded();
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// Somebody else pays meanwhile, at another device: the page that listens had no payment of its own.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_page_is_told_of_a_payment_that_began_after_it(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let order = house.order("mug").await;
    let mut page = Page::open(&house, 1, &order).await;
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    page.is_told().await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_page_is_told_of_what_happened_at_the_bank(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let (order, intent) = (house.order("mug").await, uuid());
    let answer = house.pay(&order, &intent, "pm_card_threeDSecure2Required").await.json();
    assert_eq!(answer["detail"], "action_required", "{answer}");
    let mut page = Page::open(&house, 1, &order).await;
    approve_at_the_bank(&house, &answer).await;
    // The customer comes back, by the other replica.
    assert_eq!(house.outcome(&order, Some(&intent)).await["state"], "paid");
    page.is_told().await;
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn of_no_order_there_are_no_news(db: PgPool) {
    let house = House::new(db).await;
    for token in ["0123456789abcdefABCDEF", "short", "%00"] {
        assert_eq!(listen(&house, 0, token).await.status(), StatusCode::NOT_FOUND, "{token}");
    }
}
