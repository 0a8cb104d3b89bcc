//! Endpoints, signatures, and that what happened arrives: once if it can, again until it does.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::{Got, Running, config, folder, start, start_with};
use crate::receiver::{Receiver, SIGNING_SECRET};

/// Settings under which a test need not wait for a second try.
fn hasty(name: &str) -> sandbox::Config {
    let mut config = config(&folder(name));
    config.webhooks.first_pause = Duration::from_millis(1);
    config
}

#[tokio::test]
async fn what_happens_arrives_signed_and_in_order() {
    let sandbox = start("webhooks").await;
    let receiver = Receiver::start().await;
    sandbox.send_to(&receiver, &[]).await;
    let intent = sandbox.intent("order-1").await;
    receiver.until(1).await;
    sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    let arrived = receiver.until(3).await;
    assert_eq!(receiver.kinds(), ["payment_intent.created", "charge.succeeded", "payment_intent.succeeded"]);
    for one in &arrived {
        assert_eq!(one.signatures_of(SIGNING_SECRET), 1);
        assert_eq!(one.signatures_of("whsec_other"), 0);
    }
    let (told, known) = (arrived[2].json(), sandbox.get("/v1/events?limit=1").await.json()["data"][0].clone());
    assert_eq!((&told["id"], &told["data"]), (&known["id"], &known["data"]));
    assert_eq!(told["pending_webhooks"], 1);
    // Over several lines: whoever reads it and writes it again has other bytes, and no signature for them.
    assert!(arrived[2].body.contains("\n  \"id\": \"evt_"), "{}", arrived[2].body);
    sandbox.until_settled().await;
    assert_eq!(sandbox.get("/v1/events?limit=1").await.json()["data"][0]["pending_webhooks"], 0);
    sandbox.end().await;
}

#[tokio::test]
async fn endpoints_are_made_listed_changed_and_deleted() {
    let sandbox = start("endpoints").await;
    let form = [
        ("url", "http://shop.example/hook"),
        ("enabled_events[]", "charge.refunded"),
        ("enabled_events[]", "refund.*"),
        ("metadata[shop]", "1"),
        ("api_version", "2024-06-20"),
    ];
    let made = sandbox.post("/v1/webhook_endpoints", "make", &form).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert!(made.json()["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(sandbox.post("/v1/webhook_endpoints", "make", &form).await.text, made.text);
    let path = format!("/v1/webhook_endpoints/{id}");
    let read = sandbox.get(&path).await.json();
    assert_eq!((&read["secret"], &read["status"]), (&Value::Null, &json!("enabled")));
    assert_eq!(read["enabled_events"], json!(["charge.refunded", "refund.*"]));
    let changed = sandbox.post(&path, "", &[("disabled", "true"), ("enabled_events[]", "*")]).await.json();
    assert_eq!((&changed["status"], &changed["enabled_events"]), (&json!("disabled"), &json!(["*"])));
    assert_eq!(sandbox.get("/v1/webhook_endpoints").await.json()["data"].as_array().unwrap().len(), 1);
    let deleted = Got::from(sandbox.request(reqwest::Method::DELETE, &path).send().await.unwrap()).await;
    assert_eq!(deleted.json(), json!({"id": id, "object": "webhook_endpoint", "deleted": true}));
    assert_eq!(sandbox.get(&path).await.status, 404);
    for bad in
        [&[("enabled_events[]", "*")][..], &[("url", "shop"), ("enabled_events[]", "*")], &[("url", "http://a/")]]
    {
        assert_eq!(sandbox.post("/v1/webhook_endpoints", "", bad).await.status, 400, "{bad:?}");
    }
    sandbox.end().await;
}

#[tokio::test]
async fn an_endpoint_gets_what_it_wants_and_nothing_more() {
    let sandbox = start("wanted").await;
    let (some, other) = (Receiver::start().await, Receiver::start().await);
    sandbox.send_to(&some, &["charge.*"]).await;
    let off = sandbox.send_to(&other, &[]).await;
    sandbox.post(&format!("/v1/webhook_endpoints/{off}"), "", &[("disabled", "true")]).await;
    let intent = sandbox.intent("order-1").await;
    sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    sandbox.until_settled().await;
    assert_eq!((some.kinds(), other.kinds()), (vec!["charge.succeeded".to_owned()], vec![]));
    sandbox.end().await;
}

#[tokio::test]
async fn a_rotated_secret_signs_beside_the_new_one_until_it_expires() {
    let sandbox = start("rotation").await;
    let receiver = Receiver::start().await;
    let id = sandbox.send_to(&receiver, &[]).await;
    let path = format!("/_sandbox/webhook_endpoints/{id}/rotate");
    sandbox.control(&path, json!({"secret": "whsec_second", "old_valid_ms": 60_000})).await;
    sandbox.intent("order-1").await;
    let both = receiver.until(1).await[0].clone();
    assert_eq!((both.signatures_of(SIGNING_SECRET), both.signatures_of("whsec_second")), (1, 1));
    sandbox.control(&path, json!({"secret": "whsec_third", "old_valid_ms": 0})).await;
    sandbox.intent("order-2").await;
    let newest = receiver.until(2).await[1].clone();
    let fit = [SIGNING_SECRET, "whsec_second", "whsec_third"].map(|secret| newest.signatures_of(secret));
    assert_eq!(fit, [1, 0, 1]);
    sandbox.end().await;
}

#[tokio::test]
async fn a_refused_event_comes_again_until_it_is_taken() {
    let sandbox = start_with(hasty("retries")).await;
    let receiver = Receiver::start().await;
    sandbox.send_to(&receiver, &[]).await;
    receiver.answer(&[500, 302, 404]);
    sandbox.intent("order-1").await;
    let arrived = receiver.until(4).await;
    assert!(arrived.iter().all(|one| one.json()["id"] == arrived[0].json()["id"]));
    let log = sandbox.until_settled().await;
    let told: Vec<(u64, &str, u64)> = log
        .iter()
        .map(|line| {
            (line["attempt"].as_u64().unwrap(), line["outcome"].as_str().unwrap(), line["status"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(told, [(1, "failed", 500), (2, "failed", 302), (3, "failed", 404), (4, "delivered", 200)]);
    sandbox.end().await;
}

#[tokio::test]
async fn tries_end_and_the_event_stays_in_the_list() {
    let mut config = hasty("tries-end");
    config.webhooks.attempts = 3;
    let sandbox = start_with(config).await;
    let receiver = Receiver::start().await;
    sandbox.send_to(&receiver, &[]).await;
    receiver.answer(&[500; 3]);
    sandbox.intent("order-1").await;
    sandbox.until_settled().await;
    assert_eq!(receiver.arrived().len(), 3);
    assert_eq!(sandbox.event_kinds().await, ["payment_intent.created"]);
    sandbox.end().await;
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_delays_no_answer() {
    let mut patient = config(&folder("patient"));
    patient.webhooks.timeout = Duration::from_mins(10);
    let sandbox = start_with(patient).await;
    let receiver = Receiver::start().await;
    sandbox.send_to(&receiver, &[]).await;
    receiver.hold(true);
    let intent = sandbox.intent("order-1").await;
    assert_eq!(sandbox.confirm(&intent, "pay", "pm_card_visa").await.status, 200);
    // Two calls, and the first event of each is there and waits; the second of the confirm waits for its turn.
    receiver.until(2).await;
    receiver.hold(false);
    receiver.until(3).await;
    sandbox.end().await;
}

#[tokio::test]
async fn the_log_says_why_there_was_no_answer() {
    let mut config = hasty("slow");
    config.webhooks.timeout = Duration::from_millis(50);
    config.webhooks.attempts = 2;
    let sandbox = start_with(config).await;
    let receiver = Receiver::start().await;
    sandbox.send_to(&receiver, &[]).await;
    // A port that nobody listens on.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    sandbox.control("/_sandbox/webhook_endpoints", json!({"url": format!("http://{closed}/")})).await;
    receiver.hold(true);
    sandbox.intent("order-1").await;
    let log = sandbox.until_settled().await;
    let errors: Vec<&str> = log.iter().filter_map(|line| line["error"].as_str()).collect();
    assert!(errors.contains(&"no answer in time"), "{errors:?}");
    assert!(errors.iter().any(|error| error.contains("refused")), "{errors:?}");
    receiver.hold(false);
    sandbox.end().await;
}

/// The id of the only endpoint.
async fn only_endpoint(sandbox: &Running) -> String {
    let listed = sandbox.get("/v1/webhook_endpoints").await.json();
    listed["data"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_was_not_delivered_comes_after_a_restart() {
    let folder = folder("resume");
    let mut slow = config(&folder);
    slow.webhooks.first_pause = Duration::from_mins(10);
    let receiver = Receiver::start().await;
    let endpoint = sandbox::SetEndpoint { url: receiver.url.clone(), secret: "whsec_from_settings".into() };
    slow.webhooks.endpoints = vec![endpoint];
    let sandbox = start_with(slow.clone()).await;
    receiver.answer(&[500]);
    let intent = sandbox.intent("order-1").await;
    receiver.until(1).await;
    let folder = sandbox.stop().await;
    // The secret of the settings is nobody else's to keep.
    assert!(!std::fs::read_to_string(folder.join("journal.jsonl")).unwrap().contains("whsec_from_settings"));

    let sandbox = start_with(slow.clone()).await;
    let arrived = receiver.until(2).await;
    assert_eq!(arrived[0].json()["id"], arrived[1].json()["id"]);
    assert_eq!(arrived[1].signatures_of("whsec_from_settings"), 1);
    assert_eq!(arrived[1].json()["data"]["object"]["id"], json!(intent));

    // A test may rotate it all the same.
    let path = format!("/_sandbox/webhook_endpoints/{}/rotate", only_endpoint(&sandbox).await);
    sandbox.control(&path, json!({"secret": "whsec_rotated"})).await;
    sandbox.intent("order-2").await;
    let both = receiver.until(3).await[2].clone();
    assert_eq!((both.signatures_of("whsec_from_settings"), both.signatures_of("whsec_rotated")), (1, 1));
    sandbox.until_settled().await;
    sandbox.stop().await;

    // Settled is settled; and an endpoint that left the settings is gone.
    slow.webhooks.endpoints.clear();
    let sandbox = start_with(slow).await;
    sandbox.intent("order-3").await;
    assert_eq!(sandbox.get("/v1/webhook_endpoints").await.json()["data"], json!([]));
    assert_eq!(receiver.arrived().len(), 3);
    sandbox.end().await;
}

#[tokio::test]
async fn forgetting_everything_keeps_the_endpoints_of_the_settings() {
    let receiver = Receiver::start().await;
    let mut set = config(&folder("forget-endpoints"));
    set.webhooks.endpoints = vec![sandbox::SetEndpoint { url: receiver.url.clone(), secret: SIGNING_SECRET.into() }];
    let sandbox = start_with(set).await;
    sandbox.control("/_sandbox/webhook_endpoints", json!({"url": "http://127.0.0.1:1/"})).await;
    assert_eq!(sandbox.client.delete(sandbox.url("/_sandbox/state")).send().await.unwrap().status(), 200);
    let left = sandbox.get("/v1/webhook_endpoints").await.json();
    assert_eq!((left["data"].as_array().unwrap().len(), &left["data"][0]["url"]), (1, &json!(receiver.url)));
    sandbox.intent("order-1").await;
    receiver.until(1).await;
    sandbox.end().await;
}
