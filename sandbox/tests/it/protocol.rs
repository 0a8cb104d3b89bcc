//! What holds for every call: keys of the account, addresses that are none, sizes, lists, and pages of other origins.

use reqwest::Method;
use serde_json::Value;

use crate::harness::{Got, PUBLISHABLE, Running, start};

async fn with_key(sandbox: &Running, key: &str) -> Got {
    let request = sandbox.client.get(sandbox.url("/v1/payment_intents"));
    let request = if key.is_empty() { request } else { request.bearer_auth(key) };
    Got::from(request.send().await.unwrap()).await
}

#[tokio::test]
async fn calls_need_the_right_key() {
    let sandbox = start("auth").await;
    assert_eq!(with_key(&sandbox, "").await.error("type"), (401, "invalid_request_error".into()));
    assert_eq!(with_key(&sandbox, "sk_test_other").await.error("type"), (401, "invalid_request_error".into()));
    assert_eq!(with_key(&sandbox, PUBLISHABLE).await.error("code"), (401, "secret_key_required".into()));
    let form =
        [("type", "card"), ("card[number]", "4242424242424242"), ("card[exp_month]", "12"), ("card[exp_year]", "34")];
    let bare = sandbox.client.post(sandbox.url("/v1/payment_methods"));
    assert_eq!(Got::from(bare.form(&form).send().await.unwrap()).await.status, 401);
    let keyed = [&form[..], &[("key", PUBLISHABLE)]].concat();
    let bare = sandbox.client.post(sandbox.url("/v1/payment_methods"));
    assert_eq!(Got::from(bare.form(&keyed).send().await.unwrap()).await.status, 200);
    sandbox.end().await;
}

/// A shop that pins a newer version has to name the kinds of payment methods anew; nothing else would tell it here.
#[tokio::test]
async fn the_kinds_of_payment_methods_have_another_name_in_newer_versions() {
    let sandbox = start("versions").await;
    let create = async |version: &str, name: &str| {
        let form = [("amount", "4990"), ("currency", "eur"), (name, "card")];
        let request = sandbox.posting("/v1/payment_intents", &format!("{version} {name}"), &form);
        Got::from(request.header("stripe-version", version).send().await.unwrap()).await
    };
    let (old, new) = ("payment_method_types[]", "allowed_payment_method_types[]");
    for version in ["2024-06-20", "2026-03-25.dahlia"] {
        assert_eq!(create(version, old).await.status, 200, "{version}");
    }
    for version in ["2026-09-30.endive", "2026-10-28.endive"] {
        assert_eq!(create(version, old).await.error("code"), (400, "parameter_unknown".into()), "{version}");
        assert_eq!(create(version, new).await.status, 200, "{version}");
    }
    sandbox.end().await;
}

#[tokio::test]
async fn unknown_addresses_and_odd_bodies_get_the_error_shape() {
    let sandbox = start("unknown").await;
    for (method, path) in [
        (Method::GET, "/v1/nothing"),
        (Method::PUT, "/v1/payment_intents"),
        (Method::DELETE, "/v1/payment_methods"),
        (Method::GET, "/elsewhere"),
        (Method::POST, "/"),
    ] {
        let got = Got::from(sandbox.request(method.clone(), path).send().await.unwrap()).await;
        assert_eq!(got.error("type"), (404, "invalid_request_error".into()), "{method} {path}");
    }
    assert_eq!(sandbox.get("/v1/payment_intents/pi_none").await.error("code"), (404, "resource_missing".into()));
    let json = sandbox.request(Method::POST, "/v1/payment_intents").json(&serde_json::json!({"amount": 4990}));
    assert_eq!(Got::from(json.send().await.unwrap()).await.status, 400);
    let large = "x".repeat(65 * 1024);
    let got = sandbox.post("/v1/payment_intents", "", &[("description", &large)]).await;
    assert_eq!(got.error("type"), (413, "invalid_request_error".into()));
    assert_eq!(sandbox.get("/v1/payment_intents?expand[]=customer").await.error("param"), (400, "expand".into()));
    sandbox.end().await;
}

#[tokio::test]
async fn lists_come_in_pages_newest_first() {
    let sandbox = start("lists").await;
    let mut made = Vec::new();
    for number in 0..5 {
        made.insert(0, sandbox.intent(&format!("order-{number}")).await);
    }
    let page = async |query: &str| {
        let body = sandbox.get(&format!("/v1/payment_intents{query}")).await.json();
        let data = body["data"].as_array().cloned().unwrap_or_default();
        let ids: Vec<String> = data.iter().filter_map(|row| row["id"].as_str().map(str::to_owned)).collect();
        (ids, body["has_more"] == true)
    };
    assert_eq!(page("").await, (made.clone(), false));
    assert_eq!(page("?limit=2").await, (made[..2].to_vec(), true));
    assert_eq!(page(&format!("?limit=2&starting_after={}", made[1])).await, (made[2..4].to_vec(), true));
    assert_eq!(page(&format!("?limit=2&starting_after={}", made[3])).await, (made[4..].to_vec(), false));
    assert_eq!(page(&format!("?limit=2&ending_before={}", made[3])).await, (made[1..3].to_vec(), true));
    assert_eq!(page("?created[gte]=1").await.0.len(), 5);
    assert_eq!(page("?created[lt]=1").await.0.len(), 0);
    for bad in ["?limit=0", "?limit=101", "?limit=x", "?starting_after=pi_none"] {
        assert_eq!(sandbox.get(&format!("/v1/payment_intents{bad}")).await.status, 400, "{bad}");
    }
    let listed = sandbox.get("/v1/payment_intents").await.json();
    assert_eq!((&listed["object"], &listed["url"]), (&Value::from("list"), &Value::from("/v1/payment_intents")));
    sandbox.end().await;
}

#[tokio::test]
async fn browsers_may_send_cards_from_any_origin_and_nothing_else() {
    let sandbox = start("cors").await;
    let preflight = |path: &str| {
        sandbox
            .client
            .request(Method::OPTIONS, sandbox.url(path))
            .header("origin", "http://192.168.1.5:3000")
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization")
    };
    let header = |response: &reqwest::Response, name: &str| {
        response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let response = preflight("/v1/payment_methods").send().await.unwrap();
    assert_eq!(response.status(), 204);
    assert_eq!(header(&response, "access-control-allow-origin"), "*");
    assert!(header(&response, "access-control-allow-headers").contains("authorization"));
    let response = sandbox.client.post(sandbox.url("/v1/payment_methods")).send().await.unwrap();
    assert_eq!((response.status().as_u16(), header(&response, "access-control-allow-origin").as_str()), (401, "*"));
    for closed in ["/_sandbox/faults", "/v1/payment_intents", "/hosted/cards"] {
        let response = preflight(closed).send().await.unwrap();
        assert_eq!(header(&response, "access-control-allow-origin"), "", "{closed}");
    }
    sandbox.end().await;
}

#[tokio::test]
async fn the_start_page_shows_cards_and_ledger_and_escapes_what_came_from_outside() {
    let sandbox = start("home").await;
    assert!(sandbox.get("/").await.text.contains("Nothing was charged yet"));
    let form = [("amount", "4990"), ("currency", "jpy"), ("metadata[reference]", "<script>alert(1)</script>")];
    let intent = sandbox.post("/v1/payment_intents", "", &form).await.json()["id"].as_str().unwrap().to_owned();
    sandbox.confirm(&intent, "pay", "pm_card_amex").await;
    let page = sandbox.get("/").await.text;
    assert!(page.contains("4990 JPY") && page.contains("4242 4242 4242 4242") && page.contains("3782 822463 10005"));
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script"));
    sandbox.end().await;
}

#[tokio::test]
async fn everything_can_be_forgotten() {
    let sandbox = start("erase").await;
    let intent = sandbox.intent("order-1").await;
    sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    assert_eq!(sandbox.client.delete(sandbox.url("/_sandbox/state")).send().await.unwrap().status(), 200);
    assert_eq!(sandbox.charges().await, 0);
    assert_eq!(sandbox.get(&format!("/v1/payment_intents/{intent}")).await.status, 404);
    let kept = sandbox.intent("order-2").await;
    let folder = sandbox.stop().await;
    let sandbox = crate::harness::start_with(crate::harness::config(&folder)).await;
    assert_eq!(sandbox.get(&format!("/v1/payment_intents/{intent}")).await.status, 404);
    assert_eq!(sandbox.get(&format!("/v1/payment_intents/{kept}")).await.status, 200);
    sandbox.end().await;
}
