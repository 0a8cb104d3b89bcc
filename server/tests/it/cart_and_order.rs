//! From the cart to one order: idempotent by the cart's UUID, and never more pieces sold than there are.

use futures::future::join_all;
use reqwest::header;
use sqlx::PgPool;

use crate::house::{GOOD_CARD, House, Plan, cart_cookie, location, uuid};

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pressing_checkout_twice_gives_one_order(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let cart = house.cart_with("mug").await;
    let stock = stock(&house, "mug").await;
    let pressed = join_all((0..10).map(|_| house.press_checkout(&cart, "EUR"))).await;
    let addresses: Vec<String> = pressed.iter().map(location).collect();
    assert!(addresses[0].starts_with("/checkout/"), "{addresses:?}");
    assert!(addresses.iter().all(|address| *address == addresses[0]), "{addresses:?}");
    assert_eq!(house.count("select count(*) from orders").await, 1);
    assert_eq!(self::stock(&house, "mug").await, stock - 1, "stock was taken once");
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn another_content_of_the_cart_is_another_order_and_the_first_content_is_the_first_order(db: PgPool) {
    let house = House::new(db).await;
    let one = house.cart_with("mug").await;
    let first = house.check_out(&one).await;
    let two = change(&house, &one, &[("sku", "mug"), ("change", "add")]).await;
    assert_eq!(one.split('~').next(), two.split('~').next(), "the cart keeps its UUID");
    let second = house.check_out(&two).await;
    assert_ne!(first, second);
    assert_eq!(house.check_out(&one).await, first);
}

/// Stock 1, two customers at one moment: one gets it, the other is told before paying.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b168_the_last_piece_is_sold_once(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let left = stock(&house, "clock").await;
    let carts = join_all((0..left + 5).map(|_| house.cart_with("clock"))).await;
    let pressed = join_all(carts.iter().map(|cart| house.press_checkout(cart, "EUR"))).await;
    let sold = pressed.iter().filter(|answer| location(answer).starts_with("/checkout/")).count();
    let sent_back = pressed.iter().filter(|answer| location(answer) == "/cart").count();
    assert_eq!((i64::try_from(sold).unwrap(), sent_back), (left, 5));
    assert_eq!(stock(&house, "clock").await, 0);
}

/// Declined twice, then paid; and the same Checkout pressed again between: one order, one piece.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b169_retries_take_no_more_stock(db: PgPool) {
    let house = House::new(db).await;
    let before = stock(&house, "lamp").await;
    let cart = house.cart_with("lamp").await;
    let order = house.order_of(&house.check_out(&cart).await).await;
    for card in ["pm_card_chargeDeclined", "pm_card_chargeDeclined", GOOD_CARD] {
        assert_eq!(house.check_out(&cart).await, order.token);
        house.pay(&order, &uuid(), card).await;
    }
    assert_eq!(house.count("select count(*) from orders").await, 1);
    assert_eq!(house.count("select count(*) from intents").await, 3);
    assert_eq!(stock(&house, "lamp").await, before - 1);
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn what_was_paid_leaves_the_cart_and_the_rest_stays(db: PgPool) {
    let house = House::new(db).await;
    let cart = house.cart_with("mug").await;
    let cart = change(&house, &cart, &[("sku", "tenugui"), ("change", "add")]).await;
    let paid = house.press_checkout(&cart, "EUR").await;
    let order = house.order_of(location(&paid).trim_start_matches("/checkout/")).await;
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    let page = house
        .http
        .get(format!("{}/orders/{}", house.url(), order.token))
        .header(header::COOKIE, format!("payonce_cart={cart}"))
        .send()
        .await
        .unwrap();
    let next = cart_cookie(&page).expect("the cart is renewed");
    assert!(next.ends_with("~tenugui:1") && !next.contains("mug"), "{next}");
    assert_ne!(next.split('~').next(), cart.split('~').next());
    let again = house.press_checkout(&cart, "EUR").await;
    assert_eq!(location(&again), format!("/checkout/{}", order.token), "an old tab finds the order it made");
    house.assert_charged_once(&order).await;
}

/// The server computes totals from its own prices; nothing a browser sends makes a line cheaper, negative or endless.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b163_quantities_from_the_browser_are_checked(db: PgPool) {
    let house = House::new(db).await;
    let cart = house.cart_with("mug").await;
    for quantity in ["-1", "1.5", "1e9", "1000000000", "NaN", ""] {
        let answer = house
            .http
            .post(format!("{}/cart", house.url()))
            .header(header::COOKIE, format!("payonce_cart={cart}"))
            .form(&[("sku", "mug"), ("change", "set"), ("quantity", quantity)])
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status().as_u16(), 422, "{quantity}");
    }
    let id = cart.split('~').next().unwrap();
    for forged in ["~mug:0", "~mug:-1", "~mug:256", "~nothing:1", "", "~mug:1~mug:x"] {
        let answer = house.press_checkout(&format!("{id}{forged}"), "EUR").await;
        assert!(matches!(answer.status().as_u16(), 303 | 400 | 422), "{forged}: {}", answer.status());
        assert!(!location(&answer).starts_with("/checkout/"), "{forged} makes no order");
    }
    assert_eq!(house.count("select count(*) from orders").await, 0);
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_unknown_product_goes_into_no_cart(db: PgPool) {
    let house = House::new(db).await;
    for sku in ["nothing", "Mug", "mug'; drop table orders; --", ""] {
        let answer = house
            .http
            .post(format!("{}/cart", house.url()))
            .form(&[("sku", sku), ("change", "add")])
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status().as_u16(), 404, "{sku}");
    }
}

async fn change(house: &House, cart: &str, form: &[(&str, &str)]) -> String {
    let answer = house
        .http
        .post(format!("{}/cart", house.url()))
        .header(header::COOKIE, format!("payonce_cart={cart}"))
        .form(form)
        .send()
        .await
        .unwrap();
    cart_cookie(&answer).expect("the changed cart")
}

async fn stock(house: &House, sku: &str) -> i64 {
    sqlx::query_scalar("select stock::bigint from products where sku = $1")
        .bind(sku)
        .fetch_one(&house.db)
        .await
        .unwrap()
}
