//! The adapter against a server that answers scripted bytes, and its pure parts against tables and arbitrary bytes.

mod faults;
mod properties;
mod recorded;
mod requests;
mod secrets;
mod table;

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use url::Url;

use super::{SecretKey, Stripe, StripeConfig};
use crate::{
    money::{Currency, Money},
    provider::{ConfirmRequest, NewPaymentIntent, Provider, ProviderPaymentIntentId},
};

/// Looks like no other text, so that a leak can be searched for.
const SECRET_KEY: &str = "sk_test_9f8e7d6c5b4a";
const PAYMENT_METHOD: &str = "pm_1a2b3c4d5e6f";
const PAYMENT_INTENT: &str = "pi_1";

/// What the server does with one connection.
enum Script {
    /// Reads the request, writes these bytes, closes.
    Answer(Vec<u8>),
    /// Closes without reading a byte.
    CloseAtOnce,
    /// Reads the request, closes without a byte of an answer.
    ReadThenClose,
    /// Reads the request, resets the connection.
    ReadThenReset,
    /// Reads a request and writes these bytes, for each, then closes.
    AnswerEach(Vec<Vec<u8>>),
    /// Reads the request, writes these bytes, then holds the connection open and stays silent.
    AnswerThenHang(Vec<u8>),
}

/// A server that plays its scripts, one connection each, and tells what it was sent.
struct Scripted {
    address: SocketAddr,
    requests: mpsc::UnboundedReceiver<String>,
    /// Ends with the server.
    _task: JoinSet<()>,
}

impl Scripted {
    async fn start(scripts: Vec<Script>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut held = Vec::new();
            for script in scripts {
                let (stream, _) = listener.accept().await.unwrap();
                held.extend(play(stream, script, &sender).await);
            }
            // Connections that hang must stay open until the test ends.
            std::future::pending::<()>().await;
            drop(held);
        });
        Self { address, requests, _task: task }
    }

    fn stripe(&self) -> Stripe {
        Stripe::new(&config(&format!("http://{}", self.address))).unwrap()
    }

    /// For servers that never answer: it is the deadline that ends the call.
    fn impatient_stripe(&self) -> Stripe {
        let config = StripeConfig {
            request_timeout: Duration::from_millis(400),
            connect_timeout: Duration::from_millis(300),
            ..config(&format!("http://{}", self.address))
        };
        Stripe::new(&config).unwrap()
    }

    /// Every request that arrived so far.
    fn received(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.requests.try_recv().ok()).collect()
    }
}

async fn play(mut stream: TcpStream, script: Script, sender: &mpsc::UnboundedSender<String>) -> Option<TcpStream> {
    match script {
        Script::CloseAtOnce => None,
        Script::ReadThenClose => {
            read_request(&mut stream, sender).await;
            None
        }
        Script::ReadThenReset => {
            read_request(&mut stream, sender).await;
            stream.set_zero_linger().unwrap();
            None
        }
        Script::Answer(bytes) => {
            read_request(&mut stream, sender).await;
            // A client that has seen enough may be gone by now.
            stream.write_all(&bytes).await.ok();
            stream.shutdown().await.ok();
            None
        }
        Script::AnswerEach(answers) => {
            for bytes in answers {
                read_request(&mut stream, sender).await;
                stream.write_all(&bytes).await.unwrap();
            }
            None
        }
        Script::AnswerThenHang(bytes) => {
            read_request(&mut stream, sender).await;
            stream.write_all(&bytes).await.ok();
            Some(stream)
        }
    }
}

/// Reads head and body of one request.
async fn read_request(stream: &mut TcpStream, sender: &mpsc::UnboundedSender<String>) {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let wanted = head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .map_or(0, |(_, length)| length.parse().unwrap());
            if body.len() >= wanted {
                sender.send(text).ok();
                return;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

/// Deadlines that no machine is too slow for.
fn config(base_url: &str) -> StripeConfig {
    StripeConfig {
        request_timeout: Duration::from_mins(2),
        connect_timeout: Duration::from_mins(1),
        ..StripeConfig::new(Url::parse(base_url).unwrap(), SecretKey::new(SECRET_KEY))
    }
}

/// An HTTP answer with a body of JSON.
fn answer(status: u16, body: &Value) -> Vec<u8> {
    raw_answer(status, "application/json", body.to_string().as_bytes())
}

fn raw_answer(status: u16, content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} Text\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn eur(minor: i64) -> Money {
    Money::new(minor, Currency::parse("EUR").unwrap())
}

fn payment_intent_id() -> ProviderPaymentIntentId {
    ProviderPaymentIntentId::parse(PAYMENT_INTENT).unwrap()
}

/// A payment intent in a state, with everything of Stripe's that we do not read left in.
fn payment_intent(status: &str) -> Value {
    json!({
        "id": PAYMENT_INTENT, "object": "payment_intent", "amount": 4990, "amount_received": 0, "currency": "eur",
        "status": status, "latest_charge": null, "next_action": null, "client_secret": "pi_1_secret_0f0f0f",
        "a_field_of_tomorrow": {"deep": [1, 2, 3]}, "livemode": false, "created": 1_700_000_000,
    })
}

fn succeeded() -> Value {
    let mut body = payment_intent("succeeded");
    body["amount_received"] = json!(4990);
    body["latest_charge"] = json!({
        "id": "ch_1", "object": "charge", "amount": 4990, "amount_captured": 4990, "currency": "eur",
        "created": 1_700_000_123, "status": "succeeded", "payment_intent": PAYMENT_INTENT, "paid": true,
    });
    body
}

fn requires_action(url: &str) -> Value {
    let mut body = payment_intent("requires_action");
    body["next_action"] = json!({"type": "redirect_to_url", "redirect_to_url": {"url": url, "return_url": null}});
    body
}

/// An error object of Stripe's.
fn error(kind: &str, code: Option<&str>) -> Value {
    json!({"error": {"type": kind, "code": code, "message": "Text for people.", "doc_url": "https://docs.example/"}})
}

/// A card error as a confirm gets it.
fn card_error(decline_code: &str) -> Value {
    let mut body = error("card_error", Some("card_declined"));
    body["error"]["decline_code"] = json!(decline_code);
    body["error"]["payment_intent"] = payment_intent("requires_payment_method");
    body
}

fn new_payment_intent() -> NewPaymentIntent {
    NewPaymentIntent {
        order: "0190c5b2-7d5e-4f6a-8b9c-0d1e2f3a4b5c".to_owned(),
        reference: "AB12-CD34".to_owned(),
        money: eur(4990),
        idempotency_key: "payonce:order:0190c5b2-7d5e-4f6a-8b9c-0d1e2f3a4b5c:1".to_owned(),
    }
}

fn confirm_request(stripe: &Stripe) -> ConfirmRequest {
    ConfirmRequest {
        payment_intent: payment_intent_id(),
        idempotency_key: "payonce:pay:0190c5b2:6f1e".to_owned(),
        body: stripe.freeze_confirm(PAYMENT_METHOD, "https://shop.example/orders/tok?a=1&b=2"),
    }
}
