//! A shop's end of webhooks: takes what the sandbox posts, checks signatures with a MAC of its own, and answers as told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::harness::{Got, Running};

pub const SIGNING_SECRET: &str = "whsec_of_the_tests";
const DEADLINE: Duration = Duration::from_secs(20);

/// One request that arrived.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub signature: Option<String>,
    pub body: String,
}

impl Arrived {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }

    /// How many of its signatures fit the secret.
    pub fn signatures_of(&self, secret: &str) -> usize {
        let header = self.signature.clone().unwrap_or_default();
        let parts: Vec<(&str, &str)> = header.split(',').filter_map(|part| part.split_once('=')).collect();
        let Some((_, at)) = parts.iter().find(|(name, _)| *name == "t") else { return 0 };
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(format!("{at}.{}", self.body).as_bytes());
        let right = hex::encode(mac.finalize().into_bytes());
        parts.iter().filter(|(name, value)| *name == "v1" && *value == right).count()
    }

    /// The second in which it says it was signed.
    pub fn signed_at(&self) -> i64 {
        let header = self.signature.clone().unwrap_or_default();
        header.split(',').find_map(|part| part.strip_prefix("t=")).unwrap().parse().unwrap()
    }
}

/// What it has got, and what it answers.
pub struct Shop {
    arrived: Mutex<Vec<Arrived>>,
    answers: Mutex<VecDeque<u16>>,
    /// While it is true, requests are not answered.
    held: watch::Sender<bool>,
    count: watch::Sender<usize>,
}

/// A receiver that runs.
pub struct Receiver {
    pub url: String,
    pub shop: Arc<Shop>,
    _server: JoinSet<()>,
}

async fn take(State(shop): State<Arc<Shop>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let signature = headers.get("stripe-signature").map(|value| value.to_str().unwrap().to_owned());
    let body = String::from_utf8(body.to_vec()).unwrap();
    shop.arrived.lock().unwrap().push(Arrived { signature, body });
    shop.count.send_modify(|count| *count += 1);
    let mut held = shop.held.subscribe();
    held.wait_for(|held| !held).await.unwrap();
    let status = shop.answers.lock().unwrap().pop_front().unwrap_or(200);
    StatusCode::from_u16(status).unwrap()
}

impl Receiver {
    pub async fn start() -> Self {
        let shop = Arc::new(Shop {
            arrived: Mutex::default(),
            answers: Mutex::default(),
            held: watch::Sender::new(false),
            count: watch::Sender::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/webhooks/stripe", listener.local_addr().unwrap());
        let router = Router::new().route("/webhooks/stripe", post(take)).with_state(Arc::clone(&shop));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, shop, _server: server }
    }

    /// What the next requests are answered; 200 after that.
    pub fn answer(&self, statuses: &[u16]) {
        self.shop.answers.lock().unwrap().extend(statuses);
    }

    pub fn hold(&self, held: bool) {
        self.shop.held.send_replace(held);
    }

    pub fn arrived(&self) -> Vec<Arrived> {
        self.shop.arrived.lock().unwrap().clone()
    }

    pub fn kinds(&self) -> Vec<String> {
        self.arrived().iter().map(Arrived::kind).collect()
    }

    /// Waits until so many requests have come, and returns them all.
    pub async fn until(&self, count: usize) -> Vec<Arrived> {
        let mut counts = self.shop.count.subscribe();
        let waiting = counts.wait_for(|arrived| *arrived >= count);
        let waited = tokio::time::timeout(DEADLINE, waiting).await;
        assert!(waited.is_ok(), "only {:?}", self.kinds());
        self.arrived()
    }
}

impl Running {
    /// Makes the receiver an endpoint with the secret of the tests; the endpoint's id.
    pub async fn send_to(&self, receiver: &Receiver, events: &[&str]) -> String {
        let order = json!({"url": receiver.url, "secret": SIGNING_SECRET, "enabled_events": events});
        let got = self.control("/_sandbox/webhook_endpoints", order).await;
        got.json()["id"].as_str().unwrap().to_owned()
    }

    /// A control call that must succeed.
    pub async fn control(&self, path: &str, order: Value) -> Got {
        let got = Got::from(self.client.post(self.url(path)).json(&order).send().await.unwrap()).await;
        assert_eq!(got.status, 200, "{}", got.text);
        got
    }

    /// The types of all events, oldest first.
    pub async fn event_kinds(&self) -> Vec<String> {
        let events = self.get("/v1/events?limit=100").await.json();
        let kinds = events["data"].as_array().unwrap().iter().rev();
        kinds.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until no event is on its way.
    pub async fn until_settled(&self) -> Vec<Value> {
        let asking = async {
            loop {
                let got = self.get("/_sandbox/deliveries").await.json();
                if got["unsettled"] == 0 {
                    return got["deliveries"].as_array().unwrap().clone();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(DEADLINE, asking).await.unwrap()
    }
}
