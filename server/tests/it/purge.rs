//! A key whose answer is purged, as browsers and programs meet it: 410 with the outcome's address, never a charge, and pages that
//! tell the outcome as before.

use std::time::Duration;

use futures::{StreamExt as _, future::join_all, stream};
use payments::limits::Limits;
use reqwest::{StatusCode, header};
use sqlx::PgPool;

use crate::house::{GOOD_CARD, House, Order, Plan, location, uuid};

const DECLINED_CARD: &str = "pm_card_chargeDeclined";

/// Purges every final intent of the house, in batches of this size.
async fn purge(house: &House, batch: i64) -> u64 {
    let mut ctx = house.replicas[0].ctx.clone();
    ctx.limits = Limits { retention: Duration::ZERO, purge_batch: batch, ..ctx.limits };
    payments::purge::run(&ctx).await.unwrap()
}

async fn page(house: &House, path: &str, cart: Option<&str>) -> String {
    let mut request = house.http.get(format!("{}{path}", house.url()));
    if let Some(cart) = cart {
        request = request.header(header::COOKIE, format!("payonce_cart={cart}"));
    }
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK, "{path}");
    answer.text().await.unwrap()
}

fn outcome_of(order: &Order) -> String {
    format!("/orders/{}", order.token)
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_x1_first_again_and_purged(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let order = house.order("lamp").await;
    let intent = uuid();
    let first = house.pay(&order, &intent, GOOD_CARD).await;
    first.assert_succeeded();
    assert_eq!(house.pay_at(1, &order, &intent, GOOD_CARD).await.archived(), first.archived());
    let outcome = house.outcome(&order, Some(&intent)).await;
    assert_eq!(outcome["state"], "paid");

    assert_eq!(purge(&house, 10).await, 1);

    for replica in [0, 1] {
        let gone = house.pay_at(replica, &order, &intent, GOOD_CARD).await;
        assert_eq!(gone.assert_refused(410, "purged").json()["outcome"], outcome_of(&order));
        assert!(!gone.replayed && !gone.set_cookie);
        let mut other = House::pay_body(&order, &intent, "pm_card_mastercard");
        other["pay"]["email"] = "ben@example.org".into();
        house.send(replica, &other).await.assert_refused(410, "purged");
    }
    assert_eq!(house.outcome(&order, Some(&intent)).await, outcome, "nothing that the page shows has changed");
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_refused(409, "order_taken");
    assert_eq!(house.sandbox.confirms(&house.http).await, 1);
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// Nobody who uses a browser sees an error, neither by the plain form nor by the pages.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_plain_form_of_a_purged_intent_leads_to_the_outcome(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("lamp").await;
    let intent = uuid();
    let session = house.card_session(&order, &intent, "4242424242424242").await;
    let fields = [
        ("intent", intent),
        ("session", session),
        ("amount", order.amount.to_string()),
        ("currency", order.currency.clone()),
    ];
    assert_eq!(location(&house.post_pay_form(&order, &fields).await), outcome_of(&order));
    assert_eq!(purge(&house, 10).await, 1);

    let sent = house.post_pay_form(&order, &fields).await;

    assert_eq!((sent.status(), location(&sent)), (StatusCode::SEE_OTHER, outcome_of(&order)));
    assert!(page(&house, &outcome_of(&order), None).await.contains("data-state=\"paid\""));
    let checkout = page(&house, &format!("/checkout/{}", order.token), None).await;
    assert!(checkout.contains("data-state=\"already_paid\""));
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_purged_decline_is_still_shown_and_another_card_pays(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let (bad, good) = (uuid(), uuid());
    assert_eq!(house.pay(&order, &bad, DECLINED_CARD).await.json()["state"], "FAILED");
    let declined = house.outcome(&order, Some(&bad)).await;
    assert_eq!((declined["state"].as_str(), declined["received"].as_bool()), (Some("failed"), Some(true)));
    assert_eq!(purge(&house, 10).await, 1);

    house.pay(&order, &bad, GOOD_CARD).await.assert_refused(410, "purged");
    assert_eq!(house.outcome(&order, Some(&bad)).await, declined);
    house.assert_not_charged(&order).await;

    let mut next = House::pay_body(&order, &good, GOOD_CARD);
    next["pay"]["replaces"] = bad.into();
    house.send(0, &next).await.assert_succeeded();
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// Two repeats of each of a hundred intents, on two replicas, while their answers are purged seven at a time.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_x1_late_repeats_that_race_the_purge_are_answered_and_never_charged(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let paying = stream::iter(0..100).map(|_| async {
        let (order, intent) = (house.order("mug").await, uuid());
        let first = house.pay(&order, &intent, GOOD_CARD).await;
        first.assert_succeeded();
        (order, intent, first)
    });
    let paid: Vec<_> = paying.buffer_unordered(8).collect().await;

    let repeats = paid.iter().flat_map(|(order, intent, first)| {
        let house = &house;
        [0, 1].map(|replica| async move { (house.pay_at(replica, order, intent, GOOD_CARD).await, order, first) })
    });
    let (repeats, purged) = tokio::join!(join_all(repeats), purge(&house, 7));

    assert_eq!(purged, 100);
    for (repeat, order, first) in repeats {
        if repeat.status == StatusCode::OK {
            assert_eq!(repeat.archived(), first.archived());
        } else {
            assert_eq!(repeat.assert_refused(410, "purged").json()["outcome"], outcome_of(order));
        }
    }
    assert_eq!(house.sandbox.confirms(&house.http).await, 100, "no repeat reached the provider");
    house.assert_books_balance().await;
}

/// The Back button to a cart page of long ago: its Checkout leads to the order that it made, which was paid.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn checkout_again_after_the_purge_is_the_same_order(db: PgPool) {
    let house = House::new(db).await;
    let cart = house.cart_with("lamp").await;
    let token = house.check_out(&cart).await;
    house.open_checkout(&token).await;
    let order = house.order_of(&token).await;
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    assert_eq!(purge(&house, 10).await, 1);

    assert_eq!(house.check_out(&cart).await, token);
    page(&house, &outcome_of(&order), Some(&cart)).await;
    assert_eq!(house.count("select count(*) from orders").await, 1);
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}
