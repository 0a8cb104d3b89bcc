//! What every answer tells the browser, and who may send what changes something.

use reqwest::{RequestBuilder, header::HeaderMap};
use serde_json::json;
use sqlx::PgPool;
use url::Url;

use crate::house::{Answer, GOOD_CARD, House, Order, Plan, uuid};

/// One address of every kind: pages, problem pages, plain refusals, files, server functions, what supervisors ask.
fn every_kind(house: &House, order: &Order) -> Vec<(String, RequestBuilder)> {
    let get = |path: &str| (format!("GET {path}"), house.http.get(format!("{}{path}", house.url())));
    let post = |path: &str| (format!("POST {path}"), house.http.post(format!("{}{path}", house.url())));
    let mut kinds: Vec<_> =
        ["/", "/cart", "/nowhere", "/orders/nobody", "/orders/%2e%2e", "/checkout", "/pkg/payonce.css"]
            .into_iter()
            .chain(["/pkg/missing.js", "/favicon.svg", "/robots.txt", "/livez", "/readyz", "/version", "/rpc/pay"])
            .map(get)
            .collect();
    kinds.push(get(&format!("/checkout/{}", order.token)));
    kinds.push(get(&format!("/orders/{}", order.token)));
    for path in
        ["/cart", "/checkout", "/checkout/nobody/pay", "/rpc/pay", "/rpc/outcome", "/rpc/nothing", "/favicon.svg"]
    {
        kinds.push(post(path));
    }
    let (what, request) = post("/cart");
    kinds.push((format!("{what}, too large"), request.form(&[("sku", "a".repeat(20_000))])));
    let (what, request) = post("/cart");
    kinds.push((format!("{what}, which redirects"), request.form(&[("sku", "mug"), ("change", "add")])));
    kinds
}

fn policy(headers: &HeaderMap) -> &str {
    headers["content-security-policy"].to_str().unwrap()
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn every_answer_protects_whoever_reads_it(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    for (what, request) in every_kind(&house, &order) {
        let answer = request.send().await.unwrap();
        let headers = answer.headers();
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("x-frame-options", "DENY"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(headers.get_all(name).iter().collect::<Vec<_>>(), [value], "{what}: {name}");
        }
        assert!(headers["permissions-policy"].to_str().unwrap().contains("payment=()"), "{what}");
        assert!(!headers.contains_key("strict-transport-security"), "{what}: this shop is not on TLS");
        assert_eq!(headers.get_all("content-security-policy").iter().count(), 1, "{what}");
        for part in ["default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "form-action 'self'"] {
            assert!(policy(headers).contains(part), "{what}: {part} in {}", policy(headers));
        }
        for part in ["unsafe-inline", "unsafe-eval'", "*", "data:", "https:"] {
            let said = policy(headers).replace("'wasm-unsafe-eval'", "");
            assert!(!said.contains(part), "{what}: {part} in {said}");
        }
    }
}

/// Scripts of a page are its own files and the inline ones that carry the nonce of this very answer.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn scripts_carry_a_nonce_that_is_used_once(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let provider = &house.sandbox.url;
    let mut nonces = Vec::new();
    let (checkout, outcome) = (format!("/checkout/{}", order.token), format!("/orders/{}", order.token));
    for path in [checkout.as_str(), &outcome, "/"].repeat(2) {
        let page = house.http.get(format!("{}{path}", house.url())).send().await.unwrap();
        let policy = policy(page.headers()).to_owned();
        let nonce =
            policy.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).expect("a nonce").to_owned();
        assert!(nonce.len() >= 22, "128 bits: {nonce}");
        assert!(policy.contains(&format!("script-src 'self' 'nonce-{nonce}' 'wasm-unsafe-eval';")), "{policy}");
        assert!(policy.contains(&format!("connect-src 'self' {provider};")), "{policy}");
        assert!(policy.contains(&format!("form-action 'self' {provider};")), "{policy}");
        let html = page.text().await.unwrap();
        for script in html.split("<script").skip(1) {
            let tag = script.split('>').next().unwrap();
            assert!(tag.contains(&format!("nonce=\"{nonce}\"")), "{path}: {tag}");
        }
        assert!(!html.contains(" style=") && !html.contains("<style") && !html.contains(" onclick="), "{path}");
        nonces.push(nonce);
    }
    let count = nonces.len();
    nonces.sort();
    nonces.dedup();
    assert_eq!(nonces.len(), count, "each answer has its own");
    let problem = house.http.get(format!("{}/nowhere", house.url())).send().await.unwrap();
    assert!(!policy(problem.headers()).contains("script-src"), "a page without scripts may run none");
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_shop_on_tls_stays_on_it_and_is_where_forms_come_back_to(db: PgPool) {
    let public_url = Some(Url::parse("https://shop.example/").unwrap());
    let house = House::with(db, Plan { public_url, ..Plan::default() }).await;
    let order = house.order("mug").await;
    for (what, request) in every_kind(&house, &order) {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers()["strict-transport-security"], "max-age=31536000", "{what}");
    }
    let page = house.http.get(format!("{}/checkout/{}", house.url(), order.token)).send().await.unwrap();
    let expected = format!("form-action 'self' {} https://shop.example;", house.sandbox.url);
    assert!(policy(page.headers()).contains(&expected), "{}", policy(page.headers()));
}

/// What other sites can make a customer's browser send, at every door that changes something.
fn doors(house: &House, order: &Order) -> Vec<(&'static str, RequestBuilder)> {
    let url = |path: &str| format!("{}{path}", house.url());
    let pay = format!("/checkout/{}/pay", order.token);
    let form = [
        ("intent", uuid()),
        ("session", "cs_x".to_owned()),
        ("amount", "1".to_owned()),
        ("currency", "EUR".to_owned()),
    ];
    let body = House::pay_body(order, &uuid(), GOOD_CARD);
    // A form of another site can send JSON under a content type that needs nobody's leave.
    let plain = house.http.post(url("/rpc/pay")).header("content-type", "text/plain").body(body.to_string());
    vec![
        ("rpc/pay", house.http.post(url("/rpc/pay")).json(&body)),
        ("rpc/pay as text", plain),
        ("rpc/outcome", house.http.post(url("/rpc/outcome")).json(&json!({"order": order.token, "intent": null}))),
        ("cart", house.http.post(url("/cart")).form(&[("sku", "mug"), ("change", "add")])),
        ("checkout", house.http.post(url("/checkout")).form(&[("cart", uuid().as_str()), ("currency", "EUR")])),
        ("pay form", house.http.post(url(&pay)).form(&form)),
    ]
}

/// Another site's page, in whatever way its browser tells of it: refused at every door, and nothing has changed.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn what_another_site_sends_changes_nothing(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let rows = "select (select count(*) from intents) + (select count(*) from orders)";
    let before = house.count(rows).await;
    for from in [
        [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")],
        [("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1:1")],
        [("sec-fetch-mode", "navigate"), ("origin", "https://evil.example")],
        [("sec-fetch-mode", "navigate"), ("origin", "http://127.0.0.1:1")],
        [("sec-fetch-mode", "navigate"), ("origin", "null")],
    ] {
        for (door, request) in doors(&house, &order) {
            let request = from.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let answer = Answer::of(request.send().await.unwrap()).await;
            assert_eq!(answer.status.as_u16(), 403, "{door} {from:?}");
            assert!(!answer.set_cookie, "{door} {from:?}");
            if door.starts_with("rpc") {
                assert_eq!(answer.json(), json!({"type": "cross_site"}), "{door}");
            } else {
                let page = String::from_utf8(answer.body).unwrap();
                assert!(page.contains("This did not come from our shop"), "{door}: {page}");
            }
        }
    }
    assert_eq!(house.count(rows).await, before);
    house.assert_not_charged(&order).await;
    house.assert_books_balance().await;
}

/// The shop's own pages, in whatever way their browsers tell of them, and programs that are no browsers: they pay.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn what_our_own_pages_send_is_taken(db: PgPool) {
    let public_url = Some(Url::parse("https://shop.example/").unwrap());
    let house = House::with(db, Plan { public_url, ..Plan::default() }).await;
    let here = house.url().to_owned();
    let tls = here.replace("http:", "https:");
    for from in [
        vec![("sec-fetch-site", "same-origin"), ("origin", here.as_str())],
        vec![("sec-fetch-site", "same-origin"), ("origin", "null")],
        vec![("sec-fetch-site", "none")],
        vec![("origin", here.as_str())],
        vec![("origin", tls.as_str())],
        vec![("origin", "https://shop.example")],
        vec![],
    ] {
        let order = house.order("mug").await;
        let sent = house.http.post(format!("{here}/rpc/pay")).json(&House::pay_body(&order, &uuid(), GOOD_CARD));
        let sent = from.iter().fold(sent, |request, (name, value)| request.header(*name, *value));
        Answer::of(sent.send().await.unwrap()).await.assert_succeeded();
        house.assert_charged_once(&order).await;
    }
    house.assert_books_balance().await;
}

/// The way back from the provider and the bank is a link from another site: it is followed.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn coming_from_another_site_to_read_a_page_is_no_fault(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    for path in [format!("/orders/{}", order.token), format!("/checkout/{}", order.token)] {
        let page = house.http.get(format!("{}{path}", house.url())).header("sec-fetch-site", "cross-site");
        assert_eq!(page.send().await.unwrap().status().as_u16(), 200, "{path}");
    }
}
