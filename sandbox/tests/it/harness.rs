//! Starts sandboxes and calls them. Every helper goes through the front door.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response};
use sandbox::{Config, SandboxError};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub const SECRET: &str = "sk_test_payonce";
pub const PUBLISHABLE: &str = "pk_test_payonce";
/// Longer than anything here takes, so that a test that hangs fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// A sandbox that runs, and a client for it.
pub struct Running {
    pub address: SocketAddr,
    pub folder: PathBuf,
    pub client: Client,
    stop: CancellationToken,
    server: JoinSet<Result<(), SandboxError>>,
}

/// What came back: status, the headers that matter, the body's bytes.
#[derive(Debug)]
pub struct Got {
    pub status: u16,
    pub replayed: bool,
    pub location: Option<String>,
    pub text: String,
}

impl Got {
    pub async fn from(response: Response) -> Self {
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        Self {
            status: response.status().as_u16(),
            replayed: header("idempotent-replayed").as_deref() == Some("true"),
            location: header("location"),
            text: response.text().await.unwrap(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| json!({ "not json": self.text }))
    }

    /// The status and a field of the error object, e.g. `(402, "insufficient_funds")`.
    pub fn error(&self, field: &str) -> (u16, String) {
        (self.status, self.json()["error"][field].as_str().unwrap_or_default().to_owned())
    }
}

/// A folder that no other test has.
pub fn folder(name: &str) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sandbox-{}-{name}-{count}", std::process::id()));
    if path.exists() {
        std::fs::remove_dir_all(&path).unwrap();
    }
    path
}

pub fn config(folder: &Path) -> Config {
    Config::at(folder.to_owned())
}

pub async fn start(name: &str) -> Running {
    start_with(config(&folder(name))).await
}

pub async fn start_with(config: Config) -> Running {
    let folder = config.data_dir.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let mut server = JoinSet::new();
    server.spawn(sandbox::serve(listener, config, stop.clone().cancelled_owned()));
    let no_redirects = reqwest::redirect::Policy::none();
    let client = Client::builder().no_proxy().redirect(no_redirects).timeout(DEADLINE).build().unwrap();
    Running { address, folder, client, stop, server }
}

impl Running {
    /// Ends the sandbox as a signal would; its folder stays.
    pub async fn stop(mut self) -> PathBuf {
        self.stop.cancel();
        let ended = tokio::time::timeout(DEADLINE, self.server.join_next()).await.unwrap();
        ended.unwrap().unwrap().unwrap();
        self.folder
    }

    /// Ends the sandbox and removes its folder; the folder of a test that fails stays.
    pub async fn end(self) {
        std::fs::remove_dir_all(self.stop().await).unwrap();
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path)).bearer_auth(SECRET)
    }

    pub async fn get(&self, path: &str) -> Got {
        Got::from(self.request(Method::GET, path).send().await.unwrap()).await
    }

    /// A POST with a form; a key of "" sends none.
    pub fn posting(&self, path: &str, key: &str, form: &[(&str, &str)]) -> RequestBuilder {
        let request = self.request(Method::POST, path).form(form);
        if key.is_empty() { request } else { request.header("idempotency-key", key) }
    }

    pub async fn post(&self, path: &str, key: &str, form: &[(&str, &str)]) -> Got {
        Got::from(self.posting(path, key, form).send().await.unwrap()).await
    }

    /// A payment intent over 49.90 EUR for an order; its id.
    pub async fn intent(&self, order: &str) -> String {
        let form =
            [("amount", "4990"), ("currency", "eur"), ("metadata[order]", order), ("metadata[reference]", "AB12-CD34")];
        let got = self.post("/v1/payment_intents", "", &form).await;
        assert_eq!(got.status, 200, "{}", got.text);
        got.json()["id"].as_str().unwrap().to_owned()
    }

    pub async fn confirm(&self, intent: &str, key: &str, method: &str) -> Got {
        self.post(&format!("/v1/payment_intents/{intent}/confirm"), key, &[("payment_method", method)]).await
    }

    /// The card as a payment method, or the refusal.
    pub async fn tokenize(&self, number: &str) -> Got {
        let form = [
            ("type", "card"),
            ("card[number]", number),
            ("card[exp_month]", "12"),
            ("card[exp_year]", "2034"),
            ("card[cvc]", "737"),
            ("billing_details[name]", "Zoë Ångström"),
            ("billing_details[email]", "zoe@example.com"),
        ];
        let request = self.client.post(self.url("/v1/payment_methods")).bearer_auth(PUBLISHABLE).form(&form);
        Got::from(request.send().await.unwrap()).await
    }

    pub async fn method(&self, number: &str) -> String {
        let got = self.tokenize(number).await;
        assert_eq!(got.status, 200, "{}", got.text);
        got.json()["id"].as_str().unwrap().to_owned()
    }

    pub async fn ledger(&self) -> Value {
        self.get("/_sandbox/ledger").await.json()
    }

    /// How many charges there are.
    pub async fn charges(&self) -> usize {
        self.ledger().await["charges"].as_array().unwrap().len()
    }

    pub async fn fault(&self, fault: Value) {
        let response = self.client.post(self.url("/_sandbox/faults")).json(&fault).send().await.unwrap();
        let got = Got::from(response).await;
        assert_eq!(got.status, 200, "{}", got.text);
    }

    pub async fn clear_faults(&self) {
        assert_eq!(self.client.delete(self.url("/_sandbox/faults")).send().await.unwrap().status(), 200);
    }

    /// Waits until this many calls of a name are under way.
    pub async fn until_running(&self, call: &str, count: usize) {
        self.until_calls(call, count, "running").await;
    }

    pub async fn until_calls(&self, call: &str, count: usize, outcome: &str) {
        let asking = async {
            loop {
                let calls = self.get(&format!("/_sandbox/calls?call={call}")).await.json();
                let found = calls["calls"].as_array().unwrap().iter().filter(|call| call["outcome"] == outcome).count();
                if found >= count {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, asking).await.unwrap();
    }
}
