//! Paying by program: the same intents, the same archive and the same rules as in the browser.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use server::web::api::wire::{Failed, Pending, Succeeded};
use sqlx::PgPool;

use super::{Program, Reply, as_browser, good_payment, payment, payments_of};
use crate::house::{GOOD_CARD, House, Plan, uuid};

const K1: &str = "7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11";
const DECLINED: &str = "pm_card_visa_chargeDeclinedInsufficientFunds";

async fn intent(program: &Program<'_>, id: &str) -> Value {
    program.get(&format!("/api/v1/intents/{id}")).await.json()
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b28_the_same_key_charges_once_and_another_request_is_refused(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let program = Program::new(&house).await;
    let order = program.order("mug").await;
    let first = program.pay(&order, K1, &good_payment(&order)).await;
    assert_eq!((first.status, first.replayed()), (200, false), "{first:?}");
    let paid: Succeeded = serde_json::from_slice(&first.body).unwrap();
    assert_eq!((paid.intent.as_str(), paid.amount, paid.currency.as_str()), (K1, 820, "EUR"));

    let again = program.post_at(1, &payments_of(&order), &format!("\"{K1}\""), &good_payment(&order)).await;
    assert_eq!(again.archived(), first.archived());
    assert!(again.replayed());
    assert!(again.header("set-cookie").is_none(), "b37: a replay sets nothing");

    for (member, value) in [
        ("amount", json!(821)),
        ("currency", json!("USD")),
        ("payment_method", json!("pm_card_mastercard")),
        ("email", json!("ben@example.org")),
        ("replaces", json!(uuid())),
    ] {
        let mut other = good_payment(&order);
        other[member] = value;
        program.pay(&order, K1, &other).await.assert_problem(422, "key-reused");
    }
    assert_eq!(program.pay(&order, K1, &good_payment(&order)).await.archived(), first.archived());

    let shown = intent(&program, K1).await;
    assert_eq!((&shown["state"], &shown["charge"]), (&json!("SUCCEEDED"), &json!(paid.charge)));
    let read = program.get(&format!("/api/v1/orders/{}", order["id"].as_str().unwrap())).await.json();
    assert_eq!((&read["state"], &read["paid"]["intent"], &read["intents"][0]), (&json!("paid"), &json!(K1), &shown));
    house.assert_charged_once(&as_browser(&house, &order).await).await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_decline_is_402_for_ever_and_another_card_is_another_key(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = program.order("mug").await;
    let first = program.pay(&order, K1, &payment(&order, DECLINED)).await;
    let failed: Failed = serde_json::from_slice(&first.body).unwrap();
    assert_eq!((first.status, failed.state.as_str()), (402, "FAILED"));
    let again = program.pay(&order, K1, &payment(&order, DECLINED)).await;
    assert_eq!(again.archived(), first.archived());
    assert!(again.replayed());
    program.pay(&order, K1, &good_payment(&order)).await.assert_problem(422, "key-reused");

    let (second, mut body) = (uuid(), good_payment(&order));
    body["replaces"] = json!(uuid());
    program.pay(&order, &second, &body).await.assert_problem(422, "replaces-unfinished");
    body["replaces"] = json!(K1);
    assert_eq!(program.pay(&order, &second, &body).await.status, 200);
    let shown = intent(&program, K1).await;
    assert_eq!((&shown["state"], &shown["decline"]), (&json!("FAILED"), &json!("insufficient_funds")));
    house.assert_charged_once(&as_browser(&house, &order).await).await;
    house.assert_books_balance().await;
}

/// Other spellings of a key are that key or no key; nothing else is one.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b27_odd_forms_of_a_key_never_become_a_second_charge(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let (order, other) = (program.order("mug").await, program.order("mug").await);
    let first = program.pay(&order, K1, &good_payment(&order)).await;
    assert_eq!(first.status, 200);
    for same in [K1.to_uppercase(), format!("\"{}\"", K1.to_uppercase()), format!(" {K1} ")] {
        assert_eq!(program.pay(&order, &same, &good_payment(&order)).await.archived(), first.archived(), "{same}");
    }
    let long = "a".repeat(256);
    for odd in [
        format!("{{{K1}}}"),
        K1.replace('-', ""),
        format!("\" {K1}\""),
        format!("urn:uuid:{K1}"),
        format!("{K1}, {K1}"),
        format!("\"{K1}\";a=1"),
        String::new(),
        " ".to_owned(),
        "\"\"".to_owned(),
        "order-1".to_owned(),
        long,
        "00000000-0000-0000-0000-000000000000".to_owned(),
        "ffffffff-ffff-ffff-ffff-ffffffffffff".to_owned(),
        "c232ab00-9414-11ec-b3c8-9f6bdeced846".to_owned(),
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f".to_owned(),
        "7f3c1e0a-5b1d-4c8e-0a52-0d6f2b7e4a11".to_owned(),
    ] {
        for target in [&order, &other] {
            let refused = program.pay(target, &odd, &good_payment(target)).await;
            let problem = refused.assert_problem(400, "key-malformed").to_string();
            assert!(odd.trim().len() < 3 || !problem.contains(odd.trim()), "{odd} is not echoed");
        }
    }
    let twice = program.request("POST", 0, &payments_of(&other)).json(&good_payment(&other));
    let twice = twice.header("idempotency-key", K1).header("idempotency-key", uuid());
    Reply::of(twice.send().await.unwrap()).await.assert_problem(400, "key-malformed");
    let missing = program.request("POST", 0, &payments_of(&other)).json(&good_payment(&other));
    Reply::of(missing.send().await.unwrap()).await.assert_problem(400, "key-missing");

    assert_eq!(house.count("select count(*) from intents").await, 1);
    house.assert_charged_once(&as_browser(&house, &order).await).await;
    house.assert_not_charged(&as_browser(&house, &other).await).await;
}

/// The order is part of the key: the same UUID for another order is another payment, never the first one's answer.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b36_one_uuid_for_two_orders_is_two_intents(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let (mug, lamp) = (program.order("mug").await, program.order("lamp").await);
    let one = program.pay(&mug, K1, &good_payment(&mug)).await;
    let two = program.pay(&lamp, K1, &good_payment(&lamp)).await;
    assert_eq!((one.status, two.status, two.replayed()), (200, 200, false));
    assert_eq!((&one.json()["amount"], &two.json()["amount"]), (&json!(820), &json!(4990)));
    assert_ne!(one.json()["charge"], two.json()["charge"]);

    let ambiguous = program.get(&format!("/api/v1/intents/{K1}")).await.assert_problem(409, "intent-ambiguous");
    assert_eq!(ambiguous["orders"], json!([mug["id"], lamp["id"]]));
    for order in [&mug, &lamp] {
        let shown = program.get(&format!("/api/v1/intents/{K1}?order={}", order["id"].as_str().unwrap())).await.json();
        assert_eq!((&shown["order"], &shown["amount"]), (&order["id"], &order["amount"]));
        house.assert_charged_once(&as_browser(&house, order).await).await;
    }
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn what_a_browser_has_paid_a_program_gets_the_same_bytes_of_and_the_other_way_round(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    for card in [GOOD_CARD, DECLINED] {
        // The browser first.
        let (order, key) = (program.order("mug").await, uuid());
        let browser = house.pay(&as_browser(&house, &order).await, &key, card).await;
        let mut same = payment(&order, card);
        same["email"] = json!("ana@example.org");
        let repeat = program.pay(&order, &key, &same).await;
        assert_eq!(repeat.body, browser.body);
        assert!(repeat.replayed());
        // The address is part of what was asked for.
        program.pay(&order, &key, &payment(&order, card)).await.assert_problem(422, "key-reused");

        // The program first.
        let (order, key) = (program.order("mug").await, uuid());
        let mut body = payment(&order, card);
        body["email"] = json!("ana@example.org");
        let first = program.pay(&order, &key, &body).await;
        let browser = house.pay(&as_browser(&house, &order).await, &key, card).await;
        assert_eq!(browser.body, first.body);
        assert!(browser.replayed);
    }
    house.assert_books_balance().await;
}

/// A program's order is the merchant's, as a cart's is: every API key may read and pay it.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn every_api_key_of_the_shop_sees_every_order(db: PgPool) {
    let house = House::new(db).await;
    let (one, two) = (Program::new(&house).await, Program::new(&house).await);
    let order = one.order("mug").await;
    let from_cart = house.order("lamp").await;
    for id in [order["id"].as_str().unwrap(), from_cart.id.as_str()] {
        assert_eq!(two.get(&format!("/api/v1/orders/{id}")).await.json()["id"], id);
    }
    assert_eq!(two.pay(&order, K1, &good_payment(&order)).await.status, 200);
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_wait_lasts_as_long_as_the_program_prefers(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = program.order("lamp").await;
    house
        .sandbox
        .fault(&house.http, json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":3000},"next":1}))
        .await;
    let send = async |wait: Option<&str>| {
        let mut request = program.request("POST", 0, &payments_of(&order)).header("idempotency-key", K1);
        if let Some(wait) = wait {
            request = request.header("prefer", wait);
        }
        Reply::of(request.json(&good_payment(&order)).send().await.unwrap()).await
    };

    let begun = send(Some("wait=0")).await;
    let pending: Pending = serde_json::from_slice(&begun.body).unwrap();
    assert_eq!((begun.status, pending.state.as_str()), (202, "PENDING"), "{begun:?}");
    assert_eq!(begun.header("preference-applied"), Some("wait=0"));
    assert!(begun.header("retry-after").is_some());
    let asked = program.get(begun.header("location").unwrap()).await.json();
    assert_eq!(
        (&asked["intent"], &asked["state"], &asked["detail"]),
        (&json!(K1), &json!("PENDING"), &json!("pending"))
    );

    let waiting = send(Some("respond-async, wait=1")).await;
    let problem = waiting.assert_problem(409, "in-progress");
    assert_eq!((&problem["outcome"], &problem["safe_to_retry"]), (&json!("unknown"), &json!(true)));
    assert!(waiting.header("retry-after").is_some());
    assert_eq!(waiting.header("preference-applied"), Some("wait=1"));

    let patient = send(Some("wait=60")).await;
    assert_eq!(patient.header("preference-applied"), Some("wait=30"), "never more than 30");
    assert_eq!(patient.status, 200, "{patient:?}");
    let late = send(None).await;
    assert_eq!(late.archived(), patient.archived());
    assert_eq!(late.header("preference-applied"), None);
    house.assert_charged_once(&as_browser(&house, &order).await).await;
    house.assert_books_balance().await;
}

/// Without a wish, the shop's own patience counts.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_program_without_a_wish_waits_as_long_as_a_browser(db: PgPool) {
    let house = House::with(db, Plan { pay_wait: Duration::from_millis(50), ..Plan::default() }).await;
    let program = Program::new(&house).await;
    let order = program.order("lamp").await;
    house
        .sandbox
        .fault(&house.http, json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":2000},"next":1}))
        .await;
    assert_eq!(program.pay(&order, K1, &good_payment(&order)).await.status, 202);
    house.outcome_becomes(&as_browser(&house, &order).await, "paid").await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_second_key_of_an_order_is_told_where_the_first_one_is(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = program.order("mug").await;
    assert_eq!(program.pay(&order, K1, &good_payment(&order)).await.status, 200);
    let refused = program.pay(&order, &uuid(), &good_payment(&order)).await;
    refused.assert_problem(409, "order-taken");
    let standing = program.get(refused.header("location").unwrap()).await.json();
    assert_eq!((&standing["intent"], &standing["state"]), (&json!(K1), &json!("SUCCEEDED")));
    house.assert_charged_once(&as_browser(&house, &order).await).await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn what_cannot_be_paid_reserves_nothing(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = program.order("mug").await;
    for (member, value, status, kind) in [
        ("amount", json!(1), 409, "price-changed"),
        ("currency", json!("JPY"), 409, "price-changed"),
        ("currency", json!("eur"), 422, "invalid-field"),
        ("payment_method", json!("4242424242424242"), 422, "invalid-field"),
        ("payment_method", json!("pm_a/../../refunds"), 422, "invalid-field"),
        ("email", json!("a b@example.org"), 422, "invalid-field"),
        ("replaces", json!("x"), 422, "invalid-field"),
        ("amount", json!("820"), 400, "malformed-request"),
        ("cvc", json!("123"), 400, "malformed-request"),
    ] {
        let mut body = good_payment(&order);
        body[member] = value;
        let problem = program.pay(&order, &uuid(), &body).await.assert_problem(status, kind);
        assert!(kind != "invalid-field" || problem["field"] == member, "{problem}");
        assert!(!problem.to_string().contains("4242"), "values are not echoed: {problem}");
    }
    for id in [uuid(), K1.to_owned(), "x".to_owned(), "%ff".to_owned(), order["token"].as_str().unwrap().to_owned()] {
        let unknown = json!({"id": id});
        program.pay(&unknown, &uuid(), &good_payment(&order)).await.assert_problem(404, "not-found");
        program.get(&format!("/api/v1/orders/{id}")).await.assert_problem(404, "not-found");
        program.get(&format!("/api/v1/intents/{id}")).await.assert_problem(404, "not-found");
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
    house.assert_not_charged(&as_browser(&house, &order).await).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_banks_page_is_told_until_the_customer_was_there(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = program.order("lamp").await;
    let told = program.pay(&order, K1, &payment(&order, "pm_card_threeDSecureRequired")).await;
    let pending: Pending = serde_json::from_slice(&told.body).unwrap();
    assert_eq!(told.status, 202);
    let page = pending.continue_url.expect("the bank's page");
    assert_eq!(intent(&program, K1).await["continue_url"], page);
    crate::pay::approve_at_the_bank(&house, &told.json()).await;
    assert_eq!(intent(&program, K1).await["state"], "SUCCEEDED");
    assert_eq!(program.pay(&order, K1, &payment(&order, "pm_card_threeDSecureRequired")).await.status, 200);
    house.assert_charged_once(&as_browser(&house, &order).await).await;
    house.assert_books_balance().await;
}

/// The payment's address, else the order's, else none: and the receipt goes there.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_address_is_optional(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    for (of_order, of_payment, kept) in [
        (Some("ana@example.org"), Some("ben@example.org"), Some("ben@example.org")),
        (Some("ana@example.org"), None, Some("ana@example.org")),
        (None, Some("ben@example.org"), Some("ben@example.org")),
        (None, None, None),
    ] {
        let body = json!({"currency": "EUR", "lines": [{"sku": "mug", "quantity": 1}], "email": of_order});
        let order = program.post("/api/v1/orders", &uuid(), &body).await.json();
        let mut body = good_payment(&order);
        body["email"] = json!(of_payment);
        assert_eq!(program.pay(&order, &uuid(), &body).await.status, 200);
        let read = program.get(&format!("/api/v1/orders/{}", order["id"].as_str().unwrap())).await.json();
        assert_eq!(read["email"], json!(kept));
    }
    house.assert_books_balance().await;
}

/// The provider took nothing in: proven unsent, and the same key pays once somebody does.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_payment_that_was_not_sent_says_so_and_leaves_the_key_free(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = program.order("mug").await;
    house.open_checkout(order["token"].as_str().unwrap()).await;
    let busy = json!({"match":{"path":"confirm"},"fault":{"kind":"status","status":429},"next":1});
    house.sandbox.fault(&house.http, busy).await;
    let reply = program.pay(&order, K1, &good_payment(&order)).await;
    let problem = reply.assert_problem(503, "not-sent");
    assert_eq!((&problem["outcome"], &problem["safe_to_retry"]), (&json!("known"), &json!(true)));
    assert!(reply.header("retry-after").is_some());
    assert_eq!(program.pay(&order, K1, &good_payment(&order)).await.status, 200);
    house.assert_charged_once(&as_browser(&house, &order).await).await;
    house.assert_books_balance().await;
}

/// What the provider will never take is no fault that passes: saying "again, later" would be said for ever.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_amount_that_the_provider_does_not_take_is_refused_for_good(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    for (currency, unit_amount) in [("EUR", 1), ("BHD", 35_201)] {
        let lines = json!([{"name": "Odd", "unit_amount": unit_amount, "quantity": 1}]);
        let body = json!({"currency": currency, "lines": lines});
        let order = program.post("/api/v1/orders", &uuid(), &body).await.json();
        let key = uuid();
        for _ in 0..2 {
            let refused = program.pay(&order, &key, &good_payment(&order)).await;
            let problem = refused.assert_problem(422, "order-refused");
            assert_eq!((&problem["outcome"], &problem["safe_to_retry"]), (&json!("known"), &json!(false)));
        }
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
    house.assert_books_balance().await;
}

/// A total under the provider's minimum must not fail only at the end, after a card was typed.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b108_a_total_that_the_provider_does_not_take_is_told_before_pay(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    for (unit_amount, status) in [(30, 422), (50, 200)] {
        let lines = json!([{"name": "Sticker", "unit_amount": unit_amount, "quantity": 1}]);
        let body = json!({"currency": "EUR", "lines": lines});
        let order = program.post("/api/v1/orders", &uuid(), &body).await.json();
        let page = format!("{}/checkout/{}", house.url(), order["token"].as_str().unwrap());
        let page = house.http.get(page).send().await.unwrap();
        assert_eq!(page.status(), status);
        let html = page.text().await.unwrap();
        assert_eq!(
            html.contains("This total can&#x27;t be paid here") || html.contains("This total can't be paid here"),
            status == 422
        );
        assert_eq!(html.contains("pay-form"), status == 200);
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
    house.assert_books_balance().await;
}

/// What can be no amount is a fault of the request, not a price that changed.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_amount_that_is_none_is_refused_as_a_field(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = program.order("mug").await;
    for amount in [0, -820, 100_000_000_000_i64, i64::MIN] {
        let mut body = good_payment(&order);
        body["amount"] = json!(amount);
        let refused = program.pay(&order, &uuid(), &body).await;
        assert_eq!(refused.assert_problem(422, "invalid-field")["field"], "amount", "{amount}");
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
}

/// A program that sends its first payment of an order many times at once, to both replicas: the provider's payment intent is made
/// by one of them, and nobody is told that the provider cannot be reached.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_first_payment_of_an_order_sent_twenty_times_at_once_is_one_answer(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let program = Program::new(&house).await;
    for _ in 0..5 {
        let order = program.order("mug").await;
        let (key, body, path) = (uuid(), good_payment(&order), payments_of(&order));
        let answers = join_all((0..20).map(|n| program.post_at(n % 2, &path, &key, &body))).await;
        for answer in &answers {
            assert_eq!(answer.archived(), answers[0].archived());
        }
        assert_eq!((answers[0].status, &answers[0].json()["state"]), (200, &json!("SUCCEEDED")));
        house.assert_charged_once(&as_browser(&house, &order).await).await;
    }
    house.assert_books_balance().await;
}
