//! Orders that nobody paid in time, as customers and programs meet them: told plainly, never charged, and easy to begin again.

use std::time::Duration;

use payments::expire::{self, Expired};
use reqwest::{StatusCode, header};
use serde_json::json;
use sqlx::PgPool;

use crate::{
    api::Program,
    house::{Answer, GOOD_CARD, House, Order, cart_cookie, location, uuid},
};

const BANK_CARD: &str = "pm_card_threeDSecureRequired";

/// The hold time of every open order is over.
async fn hold_time_passes(house: &House) -> Expired {
    let mut ctx = house.replicas[0].ctx.clone();
    ctx.limits.order_hold = Duration::ZERO;
    ctx.limits.expire_pause = Duration::ZERO;
    expire::run(&ctx).await.unwrap()
}

async fn stock(house: &House, sku: &str) -> i32 {
    sqlx::query_scalar("select stock from products where sku = $1").bind(sku).fetch_one(&house.db).await.unwrap()
}

async fn page(house: &House, path: &str) -> String {
    let page = house.http.get(format!("{}{path}", house.url())).send().await.unwrap();
    assert_eq!(page.status(), StatusCode::OK, "{path}");
    page.text().await.unwrap()
}

/// The customer does at the bank what it asks, and does not come back.
async fn approve_at_bank(house: &House, answer: &Answer) {
    let told = answer.json();
    let address = told["continue_url"].as_str().unwrap();
    let form = house.http.get(address).send().await.unwrap().text().await.unwrap();
    let step = form.split("name=\"step\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let decision = [("decision", "approve"), ("step", step)];
    let done = house.http.post(address.split('?').next().unwrap()).form(&decision).send().await.unwrap();
    assert_eq!(done.status(), StatusCode::SEE_OTHER);
}

/// The timer that cancels unpaid orders cancelled a paid one, whose event was lost and whose browser was closed.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b109_the_timer_asks_before_it_closes_and_finds_the_charge(db: PgPool) {
    let house = House::new(db).await;
    sqlx::query("update products set price_minor = 3300 where sku = 'lamp'").execute(&house.db).await.unwrap();
    let (order, intent) = (house.order("lamp").await, uuid());
    assert_eq!(order.amount, 3300);
    let answer = house.pay(&order, &intent, BANK_CARD).await;
    assert_eq!(answer.json()["detail"], "action_required");
    approve_at_bank(&house, &answer).await;
    house.assert_charged_once(&order).await;
    assert_eq!(house.count("select count(*) from orders where state = 'paid'").await, 0, "nobody told the shop");

    assert_eq!(hold_time_passes(&house).await, Expired { closed: 0, paid: 1, held: 0 });

    assert_eq!(house.count("select count(*) from orders where state = 'paid'").await, 1);
    assert_eq!(stock(&house, "lamp").await, 499);
    house.pay(&order, &intent, GOOD_CARD).await.assert_refused(422, "intent_reused");
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_closed_order_says_so_everywhere_and_charges_nobody(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("lamp").await;
    let intent = uuid();
    let session = house.card_session(&order, &intent, "4242424242424242").await;
    assert_eq!(hold_time_passes(&house).await.closed, 1);

    for path in [format!("/checkout/{}", order.token), format!("/orders/{}", order.token)] {
        let html = page(&house, &path).await;
        assert!(html.contains("This checkout has closed"), "{path}: {html}");
        assert!(html.contains("It was not paid and nothing was charged."), "{path}");
        assert!(html.contains(r#"href="/cart""#), "{path}: a way back");
        assert!(html.contains(r#"data-state="expired""#), "{path}");
    }
    let review = page(&house, &format!("/checkout/{}/review?session={session}&intent={intent}", order.token)).await;
    assert!(review.contains("This checkout has closed"), "{review}");
    assert!(!review.contains(r#"type="submit""#) && review.contains(r#"href="/cart""#), "{review}");
    house.pay(&order, &intent, GOOD_CARD).await.assert_refused(410, "order_closed");
    let fields = [
        ("intent", intent.clone()),
        ("session", session),
        ("amount", order.amount.to_string()),
        ("currency", order.currency.clone()),
    ];
    let posted = house.post_pay_form(&order, &fields).await;
    assert!(posted.status() == StatusCode::GONE || posted.status() == StatusCode::SEE_OTHER, "{}", posted.status());
    assert_eq!(house.outcome(&order, None).await["state"], "closed");
    assert_eq!(house.sandbox.confirms(&house.http).await, 0, "nothing was sent");
    house.assert_not_charged(&order).await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_program_reads_closed_and_cannot_pay(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = house.order("lamp").await;
    assert_eq!(hold_time_passes(&house).await.closed, 1);
    let told = program.get(&format!("/api/v1/orders/{}", order.id)).await.json();
    assert_eq!(told["state"], "closed");
    let body = json!({"payment_method": GOOD_CARD, "amount": order.amount, "currency": order.currency});
    let refused = program.post(&format!("/api/v1/orders/{}/payments", order.id), &uuid(), &body).await;
    refused.assert_problem(410, "order-closed");
    house.assert_not_charged(&order).await;
    house.assert_books_balance().await;
}

async fn click_checkout(house: &House, cart: &str, seen: &str) -> (String, Option<String>) {
    let answer = house
        .http
        .post(format!("{}/checkout", house.url()))
        .header(header::COOKIE, format!("payonce_cart={cart}"))
        .form(&[("cart", seen), ("currency", "EUR")])
        .send()
        .await
        .unwrap();
    (location(&answer), cart_cookie(&answer))
}

/// The same cart, begun again: one new order, however often and from whichever page the customer clicks.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_cart_of_a_closed_order_can_be_ordered_again_once(db: PgPool) {
    let house = House::new(db).await;
    let cart = house.cart_with("mug").await;
    let id = cart.split('~').next().unwrap();
    let (first, renewed) = click_checkout(&house, &cart, id).await;
    assert_eq!(renewed, None);
    assert_eq!(hold_time_passes(&house).await.closed, 1);

    let (second, renewed) = click_checkout(&house, &cart, id).await;
    let renewed = renewed.expect("the cart goes on under another name");
    assert_ne!(second, first);
    assert!(second.starts_with("/checkout/"), "{second}");
    assert_eq!(renewed.split_once('~').unwrap().1, "mug:1", "with the same content");
    assert_eq!(click_checkout(&house, &cart, id).await.0, second, "a click that the first one's answer did not reach");
    assert_eq!(click_checkout(&house, &renewed, id).await.0, second, "a click on a page from before");
    let new_id = renewed.split('~').next().unwrap();
    assert_eq!(click_checkout(&house, &renewed, new_id).await.0, second);
    assert_eq!(house.count("select count(*) from orders").await, 2);

    // Opening the closed order's page renews the cart in the same way.
    let page = house.http.get(format!("{}{first}", house.url())).header(header::COOKIE, format!("payonce_cart={cart}"));
    assert_eq!(cart_cookie(&page.send().await.unwrap()), Some(renewed));

    let token = second.strip_prefix("/checkout/").unwrap();
    house.open_checkout(token).await;
    let order: Order = house.order_of(token).await;
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    house.assert_charged_once(&order).await;
    assert_eq!(stock(&house, "mug").await, 99_999);
    house.assert_books_balance().await;
}

/// The provider is down when the hold time ends: nothing closes, nothing is lost, and the customer can still pay afterwards.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn while_the_provider_is_down_an_order_stays_open(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("lamp").await;
    for path in ["retrieve", "cancel"] {
        let fault = json!({"match": {"path": path}, "fault": {"kind": "status", "status": 500}});
        house.sandbox.fault(&house.http, fault).await;
        assert_eq!(hold_time_passes(&house).await, Expired { closed: 0, paid: 0, held: 1 }, "{path}");
        house.sandbox.no_faults(&house.http).await;
    }
    assert_eq!(
        (house.outcome(&order, None).await["state"].clone(), stock(&house, "lamp").await),
        (json!("ready"), 499)
    );
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    assert_eq!(hold_time_passes(&house).await, Expired::default());
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}
