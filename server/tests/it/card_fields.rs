//! Pages whose card fields are Stripe's: what the server writes, and what it does not ask for.

use reqwest::StatusCode;
use sqlx::PgPool;

use crate::house::{House, Plan, uuid};
use server::shop::CardFields;

async fn house_with_element(db: PgPool) -> House {
    House::with(db, Plan { card_fields: CardFields::Element, ..Plan::default() }).await
}

async fn page(house: &House, path: &str) -> (StatusCode, String, String) {
    let answer = house.http.get(format!("{}{path}", house.url())).send().await.unwrap();
    let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
    (answer.status(), policy, answer.text().await.unwrap())
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_form_sends_itself_nowhere_and_the_script_is_told_what_is_to_be_paid(db: PgPool) {
    let house = house_with_element(db).await;
    for (sku, amount, currency) in [("lamp", 4990, "eur"), ("tenugui", 500, "jpy"), ("coffeepot", 35_200, "bhd")] {
        let order = house.order(sku).await;
        let (status, policy, html) = page(&house, &format!("/checkout/{}", order.token)).await;
        assert_eq!(status, StatusCode::OK);
        assert!(html.contains("method=\"dialog\"") && !html.contains("/hosted/cards"), "{html}");
        for name in ["cardnumber", "exp", "cvc"] {
            assert!(!html.contains(&format!("name=\"{name}\"")), "{name} is a field of ours");
        }
        let told = html.replace("&quot;", "\"");
        assert!(told.contains(&format!("\"amount\":{amount},")), "{sku}: {told}");
        assert!(told.contains(&format!("\"currency\":\"{currency}\"")), "{sku}");
        assert!(html.contains("data-script=\"https://js.stripe.com/"), "the page names the script");
        assert!(html.contains("as=\"script\""), "and lets the browser fetch it early");
        assert!(policy.contains("frame-src https://js.stripe.com"), "{policy}");
        let outcome = page(&house, &format!("/orders/{}", order.token)).await;
        assert!(!outcome.1.contains("stripe") && !outcome.2.contains("js.stripe.com"), "the outcome page needs none");
    }
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_order_that_is_paid_names_no_script(db: PgPool) {
    let house = house_with_element(db).await;
    let order = house.order("mug").await;
    house.pay(&order, &uuid(), crate::house::GOOD_CARD).await;
    let (_, _, html) = page(&house, &format!("/checkout/{}", order.token)).await;
    assert!(html.contains("already_paid") && !html.contains("as=\"script\""), "{html}");
    house.assert_books_balance().await;
}

/// Card sessions are the sandbox's. What anybody writes into an address is not carried to Stripe.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn no_address_makes_the_shop_ask_for_a_card_session(db: PgPool) {
    let house = house_with_element(db).await;
    let order = house.order("mug").await;
    let (status, ..) = page(&house, &format!("/checkout/{}?session=cs_1", order.token)).await;
    assert_eq!(status, StatusCode::OK);
    let review = format!("/checkout/{}/review?session=cs_1&intent={}", order.token, uuid());
    assert_eq!(page(&house, &review).await.0, StatusCode::NOT_FOUND);
    let calls: serde_json::Value =
        house.http.get(format!("{}/_sandbox/calls", house.sandbox.url)).send().await.unwrap().json().await.unwrap();
    let sessions: Vec<_> = calls["calls"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|call| call["path"].as_str().is_some_and(|path| path.contains("card_session")))
        .collect();
    assert!(sessions.is_empty(), "{sessions:?}");
    house.assert_books_balance().await;
}
