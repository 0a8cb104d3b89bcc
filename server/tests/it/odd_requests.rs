//! What no browser sends: it is refused or answered, never believed, and never comes near a payment.

use sqlx::PgPool;
use tokio::io::AsyncWriteExt as _;

use crate::{
    house::{GOOD_CARD, House, uuid},
    raw::Raw,
};

/// A pay request, as text. `framing` are its lines that say where the body ends.
fn pay_request(framing: &str, body: &str) -> String {
    format!("POST /rpc/pay HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\n{framing}\r\n\r\n{body}")
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn heads_that_are_too_large_are_431_and_what_is_no_http_is_400(db: PgPool) {
    let house = House::new(db).await;
    let get = |headers: String| format!("GET / HTTP/1.1\r\nHost: shop\r\n{headers}\r\n");
    let many = "X: 1\r\n".repeat(150);
    for (request, status) in [
        (get(format!("Cookie: {}\r\n", "a".repeat(20_000))), 431),
        (get(many), 431),
        (format!("GET /{} HTTP/1.1\r\nHost: shop\r\n\r\n", "a".repeat(20_000)), 431),
        ("\u{1}\u{2}\u{3}\u{4} nonsense\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/9.9\r\nHost: shop\r\n\r\n".to_owned(), 400),
        (get("No colon here\r\n".to_owned()), 400),
        (get("X: a\u{0}b\r\n".to_owned()), 400),
        (get("X : spaced\r\n".to_owned()), 400),
    ] {
        let mut raw = Raw::to(house.url()).await;
        let said = raw.send(&request).await.answer().await;
        assert_eq!(said.status, status, "{:?}", &request[..request.len().min(60)]);
        assert_eq!(raw.end().await, "", "and the connection is closed");
    }
    let mut newer = Raw::to(house.url()).await;
    assert_eq!(newer.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.end().await, "", "no HTTP/2 without TLS");
    let whole = get(format!("Cookie: {}\r\n", "a".repeat(4_000)));
    assert_eq!(
        Raw::to(house.url()).await.send(whole).await.answer().await.status,
        200,
        "a large head is not too large"
    );
}

/// A body whose end can be read in two ways is how a request is smuggled past a proxy: it is refused, or nothing after it
/// is read.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_request_with_two_ends_smuggles_nothing(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let body = House::pay_body(&order, &uuid(), GOOD_CARD).to_string();
    let smuggled = pay_request(&format!("Content-Length: {}", body.len()), &body);
    for framing in [
        format!("Content-Length: 0\r\nContent-Length: {}", smuggled.len()),
        "Content-Length: 0, 5".to_owned(),
        "Content-Length: -1".to_owned(),
        "Content-Length: +5".to_owned(),
        "Content-Length: 99999999999999999999".to_owned(),
        "Transfer-Encoding: identity".to_owned(),
        "Transfer-Encoding: chunked, identity".to_owned(),
        "Transfer-Encoding: xchunked".to_owned(),
    ] {
        let mut raw = Raw::to(house.url()).await;
        let said = raw.send(pay_request(&framing, &smuggled)).await.answer().await;
        assert_eq!(said.status, 400, "{framing}");
        assert_eq!(raw.end().await, "", "{framing}: nothing else is answered");
    }
    for framing in [
        format!("Content-Length: {}\r\nTransfer-Encoding: chunked", smuggled.len() + 5),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {}", smuggled.len() + 5),
        "Transfer-Encoding: chunked".to_owned(),
    ] {
        let mut raw = Raw::to(house.url()).await;
        raw.send(pay_request(&framing, &format!("0\r\n\r\n{smuggled}"))).await;
        let said = raw.answer().await;
        assert_eq!(said.status, 400, "{framing}: an empty body pays nothing");
        assert_eq!(said.header("connection"), Some("close"), "{framing}");
        assert_eq!(raw.end().await, "", "{framing}: the second request is not read");
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
    house.assert_not_charged(&order).await;
}

/// What comes after the declared end of a body is the next request, or none; it is never part of the payment.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_body_ends_where_it_says_and_a_shorter_one_pays_nothing(db: PgPool) {
    let house = House::new(db).await;
    let (order, other) = (house.order("mug").await, house.order("lamp").await);
    let body = House::pay_body(&order, &uuid(), GOOD_CARD).to_string();
    let length = format!("Content-Length: {}", body.len());
    let mut raw = Raw::to(house.url()).await;
    raw.send(pay_request(&length, &format!("{body}}}}} and more\r\n\r\n"))).await;
    let paid = raw.answer().await;
    assert_eq!(paid.status, 200, "{}", paid.body);
    assert!(paid.body.contains("SUCCEEDED"));
    assert_eq!(raw.answer().await.status, 400, "the rest is no request");
    raw.end().await;

    let short = House::pay_body(&other, &uuid(), GOOD_CARD).to_string();
    let mut raw = Raw::to(house.url()).await;
    raw.send(pay_request(&format!("Content-Length: {}", short.len() + 1), &short)).await;
    raw.stream.shutdown().await.unwrap();
    raw.end().await;
    assert_eq!(house.count("select count(*) from intents").await, 1);
    house.assert_not_charged(&other).await;
    house.assert_charged_once(&order).await;
}

/// Requests that are sent without waiting for answers are answered one by one, in order.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn requests_in_a_row_are_answered_in_order_and_charged_once(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let body = House::pay_body(&order, &uuid(), GOOD_CARD).to_string();
    let pay = pay_request(&format!("Content-Length: {}", body.len()), &body);
    let mut raw = Raw::to(house.url()).await;
    raw.send(format!("{pay}GET /livez HTTP/1.1\r\nHost: shop\r\n\r\n{pay}{pay}")).await;
    let (first, alive, again, once_more) =
        (raw.answer().await, raw.answer().await, raw.answer().await, raw.answer().await);
    assert_eq!(first.status, 200, "{}", first.body);
    assert_eq!(alive.body, "ok\n");
    assert_eq!((&again.body, &once_more.body), (&first.body, &first.body));
    assert_eq!((first.header("idempotent-replayed"), again.header("idempotent-replayed")), (None, Some("true")));
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_request_says_once_for_which_host_it_is(db: PgPool) {
    let house = House::new(db).await;
    for (hosts, status) in [("", 400), ("Host: a\r\nHost: b\r\n", 400), ("Host: a\r\n", 200)] {
        let mut raw = Raw::to(house.url()).await;
        let said = raw.send(format!("GET / HTTP/1.1\r\n{hosts}\r\n")).await.answer().await;
        assert_eq!(said.status, status, "{hosts:?}");
    }
    let mut old = Raw::to(house.url()).await;
    assert_eq!(old.send("GET /livez HTTP/1.0\r\n\r\n").await.answer().await.status, 200, "HTTP/1.0 has no hosts");
}

/// The page's own table of addresses resolves `..`; an address that it would read as another one is nowhere.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_address_that_means_another_one_is_not_found(db: PgPool) {
    let house = House::new(db).await;
    for path in [
        "/orders/%2e%2e",
        "/orders/..",
        "/orders/.%2E",
        "/orders/%2e",
        "/checkout/x/../review",
        "/checkout/%2E%2e/review",
        "/orders/\\..\\..",
        "/checkout/..\\cart",
        "//shop.example/cart",
        "/orders/a{b}",
    ] {
        let mut raw = Raw::to(house.url()).await;
        let said = raw.send(format!("GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n")).await.answer().await;
        assert_eq!(said.status, 404, "{path}");
        assert!(said.body.contains("There is nothing at this address"), "{path}");
    }
}

/// An address that is there, but not for this method: `Allow` says for which, and a page or JSON says so in words.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_wrong_method_is_told_the_right_ones(db: PgPool) {
    let house = House::new(db).await;
    for (method, path, allow) in [
        ("GET", "/checkout", "POST"),
        ("PUT", "/cart", "GET,HEAD,POST"),
        ("DELETE", "/orders/x", "GET,HEAD"),
        ("GET", "/rpc/pay", "POST"),
        ("POST", "/livez", "GET,HEAD"),
        ("POST", "/favicon.svg", "GET,HEAD"),
    ] {
        let url = format!("{}{path}", house.url());
        let said = house.http.request(method.parse().unwrap(), url).send().await.unwrap();
        assert_eq!(said.status().as_u16(), 405, "{method} {path}");
        let told = said.headers()["allow"].to_str().unwrap().replace(' ', "");
        let mut methods: Vec<_> = told.split(',').collect();
        methods.sort_unstable();
        assert_eq!(methods.join(","), allow, "{method} {path}");
        assert!(said.headers().contains_key("content-security-policy"), "{method} {path}");
        let body = said.text().await.unwrap();
        let words =
            if path.starts_with("/rpc/") { "\"type\":\"not_found\"" } else { "There is nothing at this address" };
        assert!(body.contains(words), "{method} {path}: {body}");
    }
}
