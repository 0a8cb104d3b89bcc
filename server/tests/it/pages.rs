//! What the pages say in their bytes: one key, no cache, no secret.

use sqlx::PgPool;

use crate::house::{GOOD_CARD, House, uuid};

async fn get(house: &House, path: &str) -> (reqwest::header::HeaderMap, String) {
    let page = house.http.get(format!("{}{path}", house.url())).send().await.unwrap();
    assert!(page.status().is_success(), "{path}: {}", page.status());
    (page.headers().clone(), page.text().await.unwrap())
}

/// The value of an attribute, everywhere it stands in the HTML.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!("{attribute}=\"");
    html.match_indices(&start).filter_map(|(at, _)| html[at + start.len()..].split('"').next()).collect()
}

fn intent_of(html: &str) -> String {
    let found = values(html, "data-intent");
    assert_eq!(found.len(), 1, "one intent on the page: {found:?}");
    found[0].to_owned()
}

/// Every route renders with its context, as HTML that is whole without scripts.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn every_page_of_the_route_table_renders(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("lamp").await;
    let intent = uuid();
    let session = house.card_session(&order, &intent, "4242424242424242").await;
    let review = format!("/checkout/{}/review?session={session}&intent={intent}", order.token);
    for path in ["/", "/cart", &format!("/checkout/{}", order.token), &review, &format!("/orders/{}", order.token)] {
        let (headers, html) = get(&house, path).await;
        assert!(html.contains("<main") && html.contains("</html>"), "{path}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["referrer-policy"], "same-origin");
        assert_eq!(headers["cache-control"], "no-store", "{path}");
    }
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b25_pages_of_a_checkout_are_never_stored_and_two_orders_never_share_a_key(db: PgPool) {
    let house = House::new(db).await;
    let (ana, ben) = (house.order("lamp").await, house.order("mug").await);
    let (headers, of_ana) = get(&house, &format!("/checkout/{}", ana.token)).await;
    let (_, of_ben) = get(&house, &format!("/checkout/{}", ben.token)).await;
    assert_eq!(headers["cache-control"], "no-store");
    assert_ne!(intent_of(&of_ana), intent_of(&of_ben));
}

/// The page's key is in its first HTML, is a version 4 UUID, and stays the same over reloads until it is used up.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b16_pitfall_43_a_page_without_storage_keeps_its_key_over_reloads(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let path = format!("/checkout/{}", order.token);
    let first = intent_of(&get(&house, &path).await.1);
    assert_eq!(uuid::Uuid::parse_str(&first).unwrap().get_version_num(), 4);
    assert_eq!(intent_of(&get(&house, &path).await.1), first);
    assert_eq!(house.pay(&order, &first, "pm_card_chargeDeclined").await.json()["state"], "FAILED");
    let (_, html) = get(&house, &path).await;
    assert_ne!(intent_of(&html), first, "a FAILED intent is retired");
    assert!(html.contains(&first), "and named as the one that the next replaces");
    let second = intent_of(&html);
    let mut body = House::pay_body(&order, &second, GOOD_CARD);
    body["pay"]["replaces"] = serde_json::json!(first);
    house.send(0, &body).await.assert_succeeded();
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// Rendering a page, prefetching it or asking its address with HEAD never pays.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_27_reading_pages_charges_nobody(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    for path in [format!("/checkout/{}", order.token), format!("/orders/{}", order.token)] {
        let url = format!("{}{path}", house.url());
        for method in [reqwest::Method::GET, reqwest::Method::HEAD] {
            house.http.request(method, &url).header("sec-purpose", "prefetch;prerender").send().await.unwrap();
        }
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
    house.assert_not_charged(&order).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b140_server_functions_have_addresses_that_outlive_a_deploy(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    for path in ["/rpc/pay", "/rpc/outcome"] {
        let sent = house.http.post(format!("{}{path}", house.url())).json(&serde_json::json!({})).send().await.unwrap();
        assert_eq!(sent.status().as_u16(), 400, "{path} is there");
    }
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    house.assert_charged_once(&order).await;
}

/// A paid page tells strangers nothing of the person who paid.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_paid_page_shows_the_outcome_and_no_whole_address(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("lamp").await;
    let intent = uuid();
    house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
    for path in [format!("/orders/{}", order.token), format!("/checkout/{}", order.token)] {
        let (_, html) = get(&house, &path).await;
        assert!(!html.contains("ana@example.org"), "{path}");
        assert_eq!(intent_of(&html), intent);
        let state = values(&html, "data-state");
        assert!(state == ["paid"] || state == ["already_paid"], "{path}: {state:?}");
    }
    house.assert_charged_once(&order).await;
}
