//! Making orders: once per key, whatever is repeated, in whatever order and by however many at once.

use futures::future::join_all;
use payments::{Ctx, limits::Limits, order::by_key};
use reqwest::header;
use serde_json::{Value, json};
use server::web::api::wire::OrderMade;
use sqlx::PgPool;

use super::{Program, good_payment};
use crate::house::{House, Plan, uuid};

const ORDERS: &str = "/api/v1/orders";

fn two_mugs() -> Value {
    json!({"currency": "EUR", "lines": [{"sku": "mug", "quantity": 2}], "email": "ana@example.org"})
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_same_key_makes_one_order_and_gets_the_same_bytes_and_another_request_is_refused(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;

    let first = program.post(ORDERS, "cart-1", &two_mugs()).await;
    assert_eq!((first.status, first.replayed()), (201, false), "{first:?}");
    let made: OrderMade = serde_json::from_slice(&first.body).unwrap();
    assert_eq!((made.amount, made.currency.as_str()), (1640, "EUR"));
    assert_eq!(made.checkout_url, format!("{}/checkout/{}", house.url(), made.token));
    assert_eq!(first.header("location"), Some(format!("{ORDERS}/{}", made.id).as_str()));

    let again = program.post(ORDERS, "\"cart-1\"", &two_mugs()).await;
    assert_eq!(again.archived(), first.archived());
    assert!(again.replayed());
    // Order of members and letter case of the address do not make another request.
    let same = json!({"lines": [{"quantity": 2, "sku": "mug"}], "email": "Ana@Example.org", "currency": "EUR"});
    assert_eq!(program.post(ORDERS, "cart-1", &same).await.archived(), first.archived());

    for other in [
        json!({"currency": "EUR", "lines": [{"sku": "mug", "quantity": 3}], "email": "ana@example.org"}),
        json!({"currency": "EUR", "lines": [{"sku": "mug", "quantity": 2}]}),
        json!({"currency": "EUR", "lines": [{"name": "mug", "unit_amount": 820, "quantity": 2}], "email": "ana@example.org"}),
    ] {
        program.post(ORDERS, "cart-1", &other).await.assert_problem(422, "key-reused");
    }
    assert_eq!(program.post(ORDERS, "cart-1", &two_mugs()).await.archived(), first.archived());
    assert_eq!(house.count("select count(*) from orders").await, 1);
    assert_eq!(house.count("select stock::bigint from products where sku = 'mug'").await, 99_998);
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fifty_copies_of_one_key_over_two_replicas_make_one_order(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let program = Program::new(&house).await;
    let body = two_mugs();
    let replies = join_all((0..50).map(|n| program.post_at(n % 2, ORDERS, "at-once", &body))).await;
    for reply in &replies {
        // The two replicas have two addresses, and the archive has that of the one that made the order.
        assert_eq!(reply.archived(), replies[0].archived());
    }
    assert_eq!(replies[0].status, 201);
    assert_eq!(replies.iter().filter(|reply| !reply.replayed()).count(), 1, "one of them made it");
    assert_eq!(house.count("select count(*) from orders").await, 1);
    assert_eq!(house.count("select count(*) from order_lines").await, 1);
    assert_eq!(house.count("select stock::bigint from products where sku = 'mug'").await, 99_998);
}

/// Keys are unique per API key: the same text in the hands of another program is another key.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b35_another_program_gets_nothing_of_the_first_ones_answer(db: PgPool) {
    let house = House::new(db).await;
    let (one, two) = (Program::new(&house).await, Program::new(&house).await);
    let first = one.post(ORDERS, "order-1", &two_mugs()).await;
    let other = json!({"currency": "EUR", "lines": [{"sku": "lamp", "quantity": 1}]});
    let second = two.post(ORDERS, "order-1", &other).await;
    assert_eq!((second.status, second.replayed()), (201, false));
    assert_ne!(first.json()["id"], second.json()["id"]);
    assert_eq!(second.json()["amount"], 4990);
    assert_eq!(one.post(ORDERS, "order-1", &two_mugs()).await.archived(), first.archived());
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn lines_that_a_program_names_and_prices_are_paid_and_shown(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let body = json!({"currency": "EUR", "lines": [
        {"name": " Gift <b>wrapping</b> ", "unit_amount": 350, "quantity": 2},
        {"sku": "mug", "quantity": 1},
        {"name": "Courier", "unit_amount": 1, "quantity": 1},
        {"sku": "mug", "quantity": 1},
    ]});
    let order = program.post(ORDERS, "free", &body).await.json();
    assert_eq!(order["amount"], 2 * 350 + 2 * 820 + 1);

    let read = program.get(&format!("{ORDERS}/{}", order["id"].as_str().unwrap())).await.json();
    let lines: Vec<_> = read["lines"].as_array().unwrap().iter().map(|line| (&line["sku"], &line["amount"])).collect();
    assert_eq!(lines, [(&Value::Null, &json!(700)), (&json!("mug"), &json!(1640)), (&Value::Null, &json!(1))]);
    assert_eq!(read["lines"][0]["name"], "Gift <b>wrapping</b>");

    let token = order["token"].as_str().unwrap();
    for path in [format!("/checkout/{token}"), format!("/orders/{token}")] {
        let page = house.http.get(format!("{}{path}", house.url())).send().await.unwrap();
        assert_eq!(page.status().as_u16(), 200);
        let html = page.text().await.unwrap();
        assert!(html.contains("Gift &lt;b>wrapping&lt;/b>") || html.contains("Gift &lt;b&gt;wrapping"), "{html}");
        assert!(!html.contains("src=\"\""), "no picture where there is none");
    }
    let paid = program.pay(&order, &uuid(), &good_payment(&order)).await;
    assert_eq!(paid.status, 200, "{paid:?}");
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn what_is_sold_out_makes_nothing_and_leaves_the_key_free(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let clocks = |quantity: i32| json!({"currency": "EUR", "lines": [{"sku": "mug", "quantity": 1}, {"sku": "clock", "quantity": quantity}]});
    let problem = program.post(ORDERS, "clocks", &clocks(41)).await.assert_problem(409, "out-of-stock");
    assert_eq!(problem["field"], "lines[1].sku");
    assert_eq!(house.count("select count(*) from orders").await, 0);
    assert_eq!(house.count("select count(*) from order_keys").await, 0);
    assert_eq!(house.count("select stock::bigint from products where sku = 'mug'").await, 100_000, "nothing was taken");

    let first = program.post(ORDERS, "clocks", &clocks(40)).await;
    assert_eq!(first.status, 201);
    // Sold out by now, and the repeat does not even look.
    assert_eq!(program.post(ORDERS, "clocks", &clocks(40)).await.archived(), first.archived());
    program.post(ORDERS, "late", &clocks(1)).await.assert_problem(409, "out-of-stock");
}

/// Rivals for the last pieces: nobody gets what is not there, and nobody waits for ever.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn orders_of_programs_and_carts_never_oversell(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let program = Program::new(&house).await;
    let one = json!({"currency": "EUR", "lines": [{"sku": "clock", "quantity": 3}, {"sku": "mug", "quantity": 1}]});
    let other = json!({"currency": "EUR", "lines": [{"sku": "mug", "quantity": 1}, {"sku": "clock", "quantity": 3}]});
    let keys: Vec<String> = (0..20).map(|n| format!("rival-{n}")).collect();
    let replies = join_all(
        keys.iter()
            .enumerate()
            .map(|(n, key)| program.post_at(n % 2, ORDERS, key, if n % 3 == 0 { &one } else { &other })),
    )
    .await;
    let made = replies.iter().filter(|reply| reply.status == 201).count();
    assert_eq!(made, 13, "13 times 3 of 40");
    assert!(replies.iter().all(|reply| matches!(reply.status, 201 | 409)));
    assert_eq!(house.count("select stock::bigint from products where sku = 'clock'").await, 1);
}

/// What stays of a key whose answer was dropped: where the order is, and that another request is another.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_repeat_after_the_purge_is_told_where_the_order_is(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = program.post(ORDERS, "old", &two_mugs()).await.json();
    let ctx = &house.replicas[0].ctx;
    assert_eq!(by_key::purge_once(ctx).await.unwrap(), 0, "it is not a day old");
    let limits = Limits { order_key_memory: std::time::Duration::ZERO, ..Limits::default() };
    assert_eq!(by_key::purge_once(&Ctx { limits, ..ctx.clone() }).await.unwrap(), 1);

    let late = program.post(ORDERS, "old", &two_mugs()).await;
    let problem = late.assert_problem(410, "key-purged");
    let address = problem["location"].as_str().unwrap();
    assert_eq!(program.get(address).await.json()["id"], order["id"]);
    let other = json!({"currency": "EUR", "lines": [{"sku": "lamp", "quantity": 1}]});
    program.post(ORDERS, "old", &other).await.assert_problem(422, "key-reused");
    assert_eq!(house.count("select count(*) from orders").await, 1);
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn members_that_cannot_be_used_are_named(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let mug = json!({"sku": "mug", "quantity": 1});
    let free = |name: &str, unit: i64| json!({"name": name, "unit_amount": unit, "quantity": 1});
    for (body, field) in [
        (json!({"currency": "eur", "lines": [mug]}), "currency"),
        (json!({"currency": "XXX", "lines": [mug]}), "currency"),
        (json!({"currency": "EUR", "lines": []}), "lines"),
        (json!({"currency": "EUR", "lines": vec![&mug; 51]}), "lines"),
        (json!({"currency": "EUR", "lines": vec![json!({"sku": "mug", "quantity": 50}); 2]}), "lines"),
        (json!({"currency": "EUR", "lines": [mug, {"sku": "mug", "quantity": 0}]}), "lines[1].quantity"),
        (json!({"currency": "EUR", "lines": [{"sku": "mug", "quantity": 100}]}), "lines[0].quantity"),
        (json!({"currency": "EUR", "lines": [mug, {"sku": "yacht", "quantity": 1}]}), "lines[1].sku"),
        (json!({"currency": "EUR", "lines": [mug, {"sku": "tenugui", "quantity": 1}]}), "lines[1].sku"),
        (json!({"currency": "EUR", "lines": [free(" ", 1)]}), "lines[0].name"),
        (json!({"currency": "EUR", "lines": [free("a\nb", 1)]}), "lines[0].name"),
        (json!({"currency": "EUR", "lines": [free("a", 0)]}), "lines[0].unit_amount"),
        (json!({"currency": "EUR", "lines": [free("a", i64::MAX)]}), "lines[0].unit_amount"),
        (json!({"currency": "EUR", "lines": [free("a", 99_999_999_999), free("b", 1)]}), "lines"),
        (json!({"currency": "EUR", "lines": [mug], "email": "ana@"}), "email"),
    ] {
        let problem = program.post(ORDERS, &uuid(), &body).await.assert_problem(422, "invalid-field");
        assert_eq!(problem["field"], field, "{body}");
    }
    assert_eq!(house.count("select count(*) from orders").await, 0);
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn bodies_that_cannot_be_read_make_nothing(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    for (body, told) in [
        ("", "line 1"),
        ("{", "line 1"),
        ("null", "expected"),
        ("[]", ""),
        (r#"{"currency":"EUR"}"#, "missing field `lines`"),
        (r#"{"currency":"EUR","lines":[{"sku":"mug","quantity":1}],"note":"x"}"#, "unknown field `note`"),
        (r#"{"currency":"EUR","lines":[{"sku":"mug","quantity":1,"unit_amount":1}]}"#, "either `sku`"),
        (r#"{"currency":"EUR","lines":[{"sku":"mug","quantity":1,"price":1}]}"#, "unknown field `price`"),
        (r#"{"currency":"EUR","lines":[{"sku":null,"quantity":1}]}"#, "string"),
        (r#"{"currency":"EUR","lines":[{"sku":"mug","quantity":1.5}]}"#, "i32"),
        (r#"{"currency":"EUR","lines":[{"sku":"mug","quantity":"1"}]}"#, "i32"),
        (r#"{"currency":"EUR","currency":"EUR","lines":[]}"#, "duplicate field `currency`"),
    ] {
        let request = program.request("POST", 0, ORDERS).header("idempotency-key", uuid());
        let request = request.header(header::CONTENT_TYPE, "application/json; charset=utf-8").body(body);
        let problem = super::Reply::of(request.send().await.unwrap()).await.assert_problem(400, "malformed-request");
        assert!(problem["detail"].as_str().unwrap().contains(told), "{body}: {problem}");
    }
    for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonx")] {
        let mut request =
            program.request("POST", 0, ORDERS).header("idempotency-key", uuid()).body(two_mugs().to_string());
        if let Some(kind) = kind {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        super::Reply::of(request.send().await.unwrap()).await.assert_problem(415, "unsupported-media-type");
    }
    let large = json!({"currency": "EUR", "lines": [{"name": "a".repeat(20_000), "unit_amount": 1, "quantity": 1}]});
    program.post(ORDERS, &uuid(), &large).await.assert_problem(413, "too-large");
    assert_eq!(house.count("select count(*) from orders").await, 0);
}

/// A line is what the payer reads before Pay: nothing in it may hide, or turn the text beside it around.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn names_that_hide_or_turn_text_are_refused(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let named = |name: &str| json!({"currency": "EUR", "lines": [{"name": name, "unit_amount": 100, "quantity": 1}]});
    for name in
        ["", " ", "\u{200b}", "\u{feff}", "\u{200f}\u{200e}", "a\u{202e}b", "a\u{2028}b", "a\u{2066}b", "a\u{7}b"]
    {
        let refused = program.post("/api/v1/orders", &uuid(), &named(name)).await;
        assert_eq!(refused.assert_problem(422, "invalid-field")["field"], "lines[0].name", "{name:?}");
    }
    for name in ["Gift wrapping", "می\u{200c}خواهم", "👩\u{200d}🚀", "日本"] {
        assert_eq!(program.post("/api/v1/orders", &uuid(), &named(name)).await.status, 201, "{name:?}");
    }
}
