//! What a crash leaves, and what the next start makes of it.

use std::io::Write as _;

use sandbox::SandboxError;
use tokio::net::TcpListener;

use crate::harness::{config, folder, start_with};

async fn start_error(folder: &std::path::Path) -> Option<SandboxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    sandbox::serve(listener, config(folder), std::future::ready(())).await.err()
}

#[tokio::test]
async fn a_torn_last_line_is_cut_and_everything_before_it_stays() {
    let folder = folder("torn");
    let sandbox = start_with(config(&folder)).await;
    let intent = sandbox.intent("order-1").await;
    let paid = sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    let folder = sandbox.stop().await;

    let path = folder.join("journal.jsonl");
    let whole = std::fs::read(&path).unwrap();
    for torn in [
        &b"{\"at\":1,\"call\":\"confirm\",\"put\":[{\"int"[..],
        b"{\"at\":1,\"call\":\"x\",\"put\":[]}",
        b"\0\0\0\0",
        b"}\n",
    ] {
        std::fs::write(&path, [&whole[..], torn].concat()).unwrap();
        let sandbox = start_with(config(&folder)).await;
        assert_eq!(sandbox.charges().await, 1);
        let again = sandbox.confirm(&intent, "pay", "pm_card_visa").await;
        assert_eq!((again.replayed, &again.text), (true, &paid.text));
        sandbox.stop().await;
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }
    // What is written after a cut is read again.
    std::fs::write(&path, [&whole[..], b"{\"at\""].concat()).unwrap();
    let sandbox = start_with(config(&folder)).await;
    let other = sandbox.intent("order-2").await;
    sandbox.stop().await;
    let sandbox = start_with(config(&folder)).await;
    assert_eq!(sandbox.confirm(&other, "pay-2", "pm_card_visa").await.status, 200);
    assert_eq!(sandbox.charges().await, 2);
    sandbox.stop().await;
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn damage_before_the_last_line_stops_the_start() {
    let folder = folder("damaged");
    let sandbox = start_with(config(&folder)).await;
    sandbox.intent("order-1").await;
    sandbox.intent("order-2").await;
    let folder = sandbox.stop().await;
    let path = folder.join("journal.jsonl");
    let lines = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, lines.replacen("\"amount\"", "\"amuont\"", 1)).unwrap();
    let error = start_error(&folder).await;
    assert!(matches!(error, Some(SandboxError::Damaged { line: 1, .. })), "{error:?}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn two_sandboxes_never_share_a_journal() {
    let folder = folder("shared");
    let sandbox = start_with(config(&folder)).await;
    sandbox.intent("order-1").await;
    let error = start_error(&folder).await;
    assert!(matches!(error, Some(SandboxError::InUse { .. })), "{error:?}");
    sandbox.end().await;
}

#[tokio::test]
async fn a_call_is_one_line_so_that_a_crash_keeps_all_of_it_or_nothing() {
    let folder = folder("one-line");
    let sandbox = start_with(config(&folder)).await;
    let intent = sandbox.intent("order-1").await;
    sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    let folder = sandbox.stop().await;
    let path = folder.join("journal.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[1].contains("\"charge\"") && lines[1].contains("\"key\"") && lines[1].contains("\"intent\""));

    // Without its last line the sandbox has never heard of the payment, and the repeat charges once.
    let mut file = std::fs::File::create(&path).unwrap();
    writeln!(file, "{}", lines[0]).unwrap();
    drop(file);
    let sandbox = start_with(config(&folder)).await;
    assert_eq!(sandbox.charges().await, 0);
    assert_eq!(sandbox.confirm(&intent, "pay", "pm_card_visa").await.status, 200);
    assert_eq!(sandbox.charges().await, 1);
    sandbox.stop().await;
    std::fs::remove_dir_all(folder).unwrap();
}

/// As they were written before refunds could fail, charges be disputed, and events be told.
const OLD_LINES: &str = r#"{"at":1700000000000,"call":"create","put":[{"intent":{"id":"pi_old","amount":4990,"currency":"eur","status":"requires_payment_method","client_secret":"pi_old_secret_x","description":null,"receipt_email":null,"metadata":{"order":"order-1"},"payment_method":null,"latest_charge":null,"last_error":null,"step":null,"created":1700000000,"canceled_at":null,"cancellation_reason":null}}]}
{"at":1700000001000,"call":"confirm","put":[{"method":{"id":"pm_old","brand":"visa","last4":"4242","exp_month":12,"exp_year":2030,"name":null,"email":null,"created":1700000001,"conduct":{"bank_step":false,"decline":null}}},{"charge":{"id":"ch_old","amount":4990,"amount_refunded":500,"currency":"eur","payment_intent":"pi_old","payment_method":{"id":"pm_old","brand":"visa","last4":"4242","exp_month":12,"exp_year":2030,"name":null,"email":null,"created":1700000001,"conduct":{"bank_step":false,"decline":null}},"description":null,"metadata":{"order":"order-1"},"idempotency_key":"pay","error":null,"created":1700000001}},{"intent":{"id":"pi_old","amount":4990,"currency":"eur","status":"succeeded","client_secret":"pi_old_secret_x","description":null,"receipt_email":null,"metadata":{"order":"order-1"},"payment_method":"pm_old","latest_charge":"ch_old","last_error":null,"step":{"number":1,"return_url":null,"idempotency_key":"pay","decided":true},"created":1700000000,"canceled_at":null,"cancellation_reason":null}}]}
{"at":1700000002000,"call":"refund","put":[{"refund":{"id":"re_old","charge":"ch_old","payment_intent":"pi_old","amount":500,"currency":"eur","reason":null,"metadata":{},"idempotency_key":"refund","created":1700000002}}]}
"#;

#[tokio::test]
async fn a_journal_of_an_earlier_version_is_read() {
    let folder = folder("earlier");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("journal.jsonl"), OLD_LINES).unwrap();
    let sandbox = start_with(config(&folder)).await;
    assert_eq!(sandbox.get("/v1/payment_intents/pi_old").await.json()["status"], "succeeded");
    assert_eq!(sandbox.get("/v1/refunds/re_old").await.json()["status"], "succeeded");
    let rest = sandbox.post("/v1/refunds", "rest", &[("charge", "ch_old")]).await;
    assert_eq!(rest.json()["amount"], 4490, "{}", rest.text);
    assert_eq!(sandbox.event_kinds().await, ["charge.refunded", "refund.created"]);
    sandbox.end().await;
}
