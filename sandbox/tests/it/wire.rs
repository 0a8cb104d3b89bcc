//! Faults that only the wire shows: resets, early ends, closed ports, and the end of the sandbox itself.

use std::io::ErrorKind;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::{Running, SECRET, start};

/// Sends a confirm over a bare socket and reads until the connection ends.
async fn confirm_raw(sandbox: &Running, intent: &str) -> (Vec<u8>, Option<ErrorKind>) {
    let mut stream = TcpStream::connect(sandbox.address).await.unwrap();
    let body = "payment_method=pm_card_visa";
    let head = format!(
        "POST /v1/payment_intents/{intent}/confirm HTTP/1.1\r\nhost: sandbox\r\nauthorization: Bearer {SECRET}\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    let error = stream.read_to_end(&mut read).await.err().map(|error| error.kind());
    (read, error)
}

#[tokio::test]
async fn a_dropped_call_is_reset_or_closed_without_a_byte() {
    let sandbox = start("dropped").await;
    for (kind, how, error, charges) in [
        ("drop_before", "reset", Some(ErrorKind::ConnectionReset), 0),
        ("drop_before", "close", None, 0),
        ("charge_then_drop", "reset", Some(ErrorKind::ConnectionReset), 1),
        ("charge_then_drop", "close", None, 2),
    ] {
        let intent = sandbox.intent("order-1").await;
        sandbox.fault(json!({"match": {"path": "confirm"}, "fault": {"kind": kind, "how": how}, "next": 1})).await;
        assert_eq!(confirm_raw(&sandbox, &intent).await, (Vec::new(), error), "{kind} {how}");
        assert_eq!(sandbox.charges().await, charges, "{kind} {how}");
    }
    let calls = sandbox.get("/_sandbox/calls?call=confirm").await.json();
    assert!(calls["calls"].as_array().unwrap().iter().all(|call| call["outcome"] == "dropped"));
    sandbox.end().await;
}

#[tokio::test]
async fn half_a_body_is_less_than_its_length_says() {
    let sandbox = start("half").await;
    let intent = sandbox.intent("order-1").await;
    sandbox.fault(json!({"match": {"path": "confirm"}, "fault": {"kind": "half_body"}, "next": 1})).await;
    let (read, error) = confirm_raw(&sandbox, &intent).await;
    let text = String::from_utf8(read).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let length: usize = head.split("content-length: ").nth(1).unwrap().trim().parse().unwrap();
    assert_eq!((body.len(), error), (length / 2, None), "{head}");
    assert_eq!(sandbox.charges().await, 1);
    sandbox.end().await;
}

#[tokio::test]
async fn a_closed_port_refuses_and_opens_again_with_everything_it_knew() {
    let sandbox = start("refuse").await;
    let intent = sandbox.intent("order-1").await;
    sandbox.fault(json!({"fault": {"kind": "refuse", "ms": 300}})).await;
    // The port is closed when the fault is answered, also for connections that were kept.
    assert_eq!(
        TcpStream::connect(sandbox.address).await.err().map(|error| error.kind()),
        Some(ErrorKind::ConnectionRefused)
    );
    let path = format!("/v1/payment_intents/{intent}/confirm");
    let refused = sandbox.posting(&path, "pay", &[("payment_method", "pm_card_visa")]).send().await;
    assert!(refused.err().is_some_and(|error| error.is_connect()));
    while TcpStream::connect(sandbox.address).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(sandbox.charges().await, 0);
    assert_eq!(sandbox.confirm(&intent, "pay", "pm_card_visa").await.status, 200);
    sandbox.end().await;
}

#[tokio::test]
async fn the_port_can_close_once_a_call_was_answered() {
    let sandbox = start("refuse-after").await;
    sandbox
        .fault(json!({"match": {"path": "tokenize"}, "fault": {"kind": "refuse_after", "ms": 300}, "next": 1}))
        .await;
    let method = sandbox.method("4242424242424242").await;
    assert_eq!(
        TcpStream::connect(sandbox.address).await.err().map(|error| error.kind()),
        Some(ErrorKind::ConnectionRefused)
    );
    while TcpStream::connect(sandbox.address).await.is_err() {
        tokio::task::yield_now().await;
    }
    let intent = sandbox.intent("order-1").await;
    assert_eq!(sandbox.confirm(&intent, "pay", &method).await.status, 200);
    sandbox.end().await;
}

#[tokio::test]
async fn the_sandbox_stops_in_bounded_time_and_charges_nothing_that_it_had_not() {
    let sandbox = start("stop").await;
    let intent = sandbox.intent("order-1").await;
    sandbox.fault(json!({"match": {"path": "confirm"}, "fault": {"kind": "delay_before", "ms": 600_000}})).await;
    let path = format!("/v1/payment_intents/{intent}/confirm");
    let mut waiting = JoinSet::new();
    waiting.spawn(sandbox.posting(&path, "pay", &[("payment_method", "pm_card_visa")]).send());
    sandbox.until_running("confirm", 1).await;
    let folder = sandbox.stop().await;
    assert!(waiting.join_next().await.unwrap().unwrap().is_err());
    let sandbox = crate::harness::start_with(crate::harness::config(&folder)).await;
    assert_eq!(sandbox.charges().await, 0);
    assert_eq!(sandbox.get(&format!("/v1/payment_intents/{intent}")).await.json()["status"], "requires_payment_method");
    sandbox.end().await;
}
