//! Whatever is sent: a clear answer, nothing reserved, no charge, no text from below.

use reqwest::header;
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::house::{Answer, GOOD_CARD, House, uuid};

const K1: &str = "7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11";

/// Other spellings of a key are that key or no key; nothing else is one.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b27_pitfall_30_odd_forms_of_a_key_never_become_a_second_charge(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let first = house.pay(&order, K1, GOOD_CARD).await;
    first.assert_succeeded();
    let upper = house.pay(&order, &K1.to_uppercase(), GOOD_CARD).await;
    assert_eq!(upper.archived(), first.archived(), "letter case does not matter");
    let long = "a".repeat(256);
    let other = house.order("mug").await;
    for odd in [
        format!("{{{K1}}}"),
        K1.replace('-', ""),
        format!(" {K1}"),
        format!("{K1}\n"),
        format!("urn:uuid:{K1}"),
        String::new(),
        " ".to_owned(),
        long,
        "00000000-0000-0000-0000-000000000000".to_owned(),
        "ffffffff-ffff-ffff-ffff-ffffffffffff".to_owned(),
        "c232ab00-9414-11ec-b3c8-9f6bdeced846".to_owned(),
        "7f3c1e0a-5b1d-4c8e-0a52-0d6f2b7e4a11".to_owned(),
        "7f3c1e0a\0-5b1d-4c8e-9a52-0d6f2b7e4a1".to_owned(),
        "７f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11".to_owned(),
    ] {
        for target in [&order, &other] {
            let refused = house.pay(target, &odd, GOOD_CARD).await;
            refused.assert_refused(422, "invalid_intent");
            let text = String::from_utf8_lossy(&refused.body).into_owned();
            assert!(odd.trim().is_empty() || !text.contains(odd.trim()), "{odd} is not echoed");
        }
    }
    assert_eq!(house.count("select count(*) from intents").await, 1);
    house.assert_charged_once(&order).await;
    house.assert_not_charged(&other).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_stale_price_is_refused_with_both_amounts_before_anything_is_reserved(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("lamp").await;
    for (field, value) in [("amount", json!(1)), ("amount", json!(-4990)), ("currency", json!("JPY"))] {
        let mut body = House::pay_body(&order, &uuid(), GOOD_CARD);
        body["pay"][field] = value;
        let refused = house.send(0, &body).await;
        let told = refused.assert_refused(409, "price_changed").json();
        assert_eq!(told["now"]["minor"], order.amount);
        assert_eq!(told["shown"][if field == "amount" { "minor" } else { "currency" }], body["pay"][field]);
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
    house.assert_not_charged(&order).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_order_that_does_not_exist_is_not_found_by_any_door(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let mut near = order.token.clone();
    near.replace_range(0..1, if near.starts_with('A') { "B" } else { "A" });
    for token in [near.as_str(), &order.id, "x", "", "%00", &"a".repeat(5_000)] {
        let unknown = crate::house::Order { token: token.to_owned(), ..order.clone() };
        house.pay(&unknown, &uuid(), GOOD_CARD).await.assert_refused(404, "not_found");
    }
    for path in [format!("/checkout/{near}"), format!("/orders/{near}"), format!("/orders/{}", order.id)] {
        let page = house.http.get(format!("{}{path}", house.url())).send().await.unwrap();
        assert_eq!(page.status().as_u16(), 404, "{path}");
        let text = page.text().await.unwrap();
        assert!(!text.contains("ana@example.org") && !text.contains("Mug"), "{path} tells nothing");
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
}

/// An order's answer is the same for "never existed" and "not yours".
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b162_pitfall_32_a_receipt_cannot_be_read_without_its_token(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    house.pay(&order, K1, GOOD_CARD).await.assert_succeeded();
    let missing = "A".repeat(order.token.len());
    let mut pages = Vec::new();
    for name in [missing.as_str(), &K1[..order.token.len().min(K1.len())], &order.id] {
        let page = house.http.get(format!("{}/orders/{name}", house.url())).send().await.unwrap();
        assert_eq!(page.status().as_u16(), 404);
        pages.push(page.text().await.unwrap().replace(name, ""));
    }
    assert!(pages.iter().all(|page| page.len() == pages[0].len()), "all the same size");
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn bodies_that_cannot_be_read_are_refused_politely(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let url = format!("{}/rpc/pay", house.url());
    let whole = House::pay_body(&order, &uuid(), GOOD_CARD);
    let mut missing = whole.clone();
    missing["pay"].as_object_mut().unwrap().remove("amount");
    let mut wrong = whole.clone();
    wrong["pay"]["amount"] = json!("4990");
    let mut float = whole.clone();
    float["pay"]["amount"] = json!(49.9);
    let mut huge = whole.clone();
    huge["pay"]["amount"] = json!(1e30);
    for body in [
        String::new(),
        "{".to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        "\u{0}".to_owned(),
        missing.to_string(),
        wrong.to_string(),
        float.to_string(),
        huge.to_string(),
    ] {
        let sent = house.http.post(&url).header(header::CONTENT_TYPE, "application/json").body(body.clone());
        let answer = Answer::of(sent.send().await.unwrap()).await;
        assert_eq!(answer.status.as_u16(), 400, "{body}: {}", String::from_utf8_lossy(&answer.body));
        assert_eq!(answer.json()["type"], "malformed_request", "{body}");
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
    house.assert_not_charged(&order).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_18_a_body_that_is_too_large_is_413_at_every_door(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let mut body = House::pay_body(&order, &uuid(), GOOD_CARD);
    body["pay"]["email"] = json!("a".repeat(20_000));
    house.send(0, &body).await.assert_refused(413, "too_large");
    let chunked = reqwest::Body::wrap_stream(futures::stream::iter(
        (0..40).map(|_| Ok::<_, std::io::Error>("a".repeat(1_000).into_bytes())),
    ));
    let sent = house.http.post(format!("{}/rpc/pay", house.url())).header(header::CONTENT_TYPE, "application/json");
    assert_eq!(sent.body(chunked).send().await.unwrap().status().as_u16(), 413, "without a Content-Length too");
    for path in ["/cart".to_owned(), "/checkout".to_owned(), format!("/checkout/{}/pay", order.token)] {
        let form = house.http.post(format!("{}{path}", house.url())).form(&[("sku", "a".repeat(20_000))]);
        assert_eq!(form.send().await.unwrap().status().as_u16(), 413, "{path}");
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_field_that_cannot_be_used_is_named(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let long = format!("{}@example.org", "a".repeat(300));
    for (field, value) in [
        ("email", "ana@"),
        ("email", "a b@example.org"),
        ("email", "ana@example.org, ben@example.org"),
        ("email", "ana@example.org\r\nBcc: all@example.org"),
        ("email", long.as_str()),
        ("payment_method", ""),
        ("payment_method", "4242424242424242"),
        ("payment_method", "pm_a/../../refunds"),
    ] {
        let mut body = House::pay_body(&order, &uuid(), GOOD_CARD);
        body["pay"][field] = json!(value);
        let told = house.send(0, &body).await.assert_refused(422, "invalid_field").json();
        assert_eq!(told["field"], field, "{value}");
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
    house.assert_not_charged(&order).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b149_usual_and_unusual_addresses_are_taken_as_they_are(db: PgPool) {
    let house = House::new(db).await;
    for (typed, kept) in [
        ("ana+shop@example.org", "ana+shop@example.org"),
        (" ana@example.org ", "ana@example.org"),
        ("o'connor@example.ie", "o'connor@example.ie"),
        ("ana@example.museum", "ana@example.museum"),
        ("ana@bücher.example", "ana@bücher.example"),
    ] {
        let order = house.order("mug").await;
        let mut body = House::pay_body(&order, &uuid(), GOOD_CARD);
        body["pay"]["email"] = json!(typed);
        house.send(0, &body).await.assert_succeeded();
        let stored: String = sqlx::query_scalar("select email from orders where token = $1")
            .bind(&order.token)
            .fetch_one(&house.db)
            .await
            .unwrap();
        assert_eq!(stored, kept);
    }
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_unknown_server_function_is_not_found(db: PgPool) {
    let house = House::new(db).await;
    for path in ["/rpc/refund", "/rpc/", "/rpc/pay/more"] {
        let answer = house.http.post(format!("{}{path}", house.url())).json(&json!({})).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 404, "{path}");
    }
    let got = house.http.get(format!("{}/rpc/pay", house.url())).send().await.unwrap();
    assert!(matches!(got.status().as_u16(), 404 | 405), "asking does not pay");
}

/// The plain form is a door like any other: the same answers, as pages.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_plain_form_refuses_what_the_server_function_refuses(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let amount = order.amount.to_string();
    let intent = uuid();
    let session = house.card_session(&order, &intent, "4242424242424242").await;
    let form = |intent: &str, amount: &str| {
        [
            ("intent", intent.to_owned()),
            ("replaces", String::new()),
            ("session", session.clone()),
            ("amount", amount.to_owned()),
            ("currency", order.currency.clone()),
        ]
    };
    for (fields, status) in [(form("nonsense", &amount), 422), (form(&intent, "1"), 409), (form(&intent, "x"), 400)] {
        let page = house.post_pay_form(&order, &fields).await;
        assert_eq!(page.status().as_u16(), status);
        let text = page.text().await.unwrap();
        assert!(text.starts_with("<!DOCTYPE html>") && !text.contains("constraint"), "{text}");
        if status == 409 {
            let (shown, now) = ("€0.01", display(&house, &order).await);
            assert!(text.contains(shown) && text.contains(&now), "both amounts: {text}");
        }
    }
    house.assert_not_charged(&order).await;
    for _ in 0..2 {
        let paid = house.post_pay_form(&order, &form(&intent, &amount)).await;
        assert_eq!(paid.status().as_u16(), 303);
        assert_eq!(crate::house::location(&paid), format!("/orders/{}", order.token));
    }
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

async fn display(house: &House, order: &crate::house::Order) -> String {
    let outcome: Value = house.outcome(order, None).await;
    outcome["amount"]["display"].as_str().expect("an amount").to_owned()
}

/// Debug logs on, card through the whole script-less path: its number is nowhere but at the provider, and not even there
/// in what it stores.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b165_no_card_number_or_token_is_stored(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let intent = uuid();
    let session = house.card_session(&order, &intent, "4242424242424242").await;
    let fields = [
        ("intent", intent),
        ("session", session),
        ("amount", order.amount.to_string()),
        ("currency", order.currency.clone()),
    ];
    assert_eq!(house.post_pay_form(&order, &fields).await.status().as_u16(), 303);
    house.assert_charged_once(&order).await;
    for table in ["intents", "orders", "ledger_entries", "outbox_events", "discrepancies"] {
        let rows: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
            "select t::text || coalesce(encode(convert_to(t::text, 'utf8'), 'escape'), '') from {table} t"
        )))
        .fetch_all(&house.db)
        .await
        .unwrap();
        for row in rows {
            for secret in ["424242424242", "pm_", "cs_", "sk_test"] {
                assert!(!row.contains(secret), "{table} holds {secret}: {row}");
            }
        }
    }
}
