//! Who pays: through the public doors, by hand where the moment matters.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, bail, ensure};
use reqwest::{Client, RequestBuilder, Response, header};
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};
use uuid::Uuid;

/// A card that is charged, and one that is declined.
pub const GOOD_CARD: &str = "pm_card_visa";
pub const DECLINED_CARD: &str = "pm_card_chargeDeclined";

/// How often somebody comes back who is told to, and how soon: sooner than they are told, since a test has not the time.
const RETURNS_MAX: usize = 30;
const RETURN_PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for bytes of an answer.
const ANSWER_SECONDS_MAX: Duration = Duration::from_secs(40);

/// An order as its customer knows it, and its row's id.
#[derive(Clone, Debug)]
pub struct Order {
    /// The capability in the address of the checkout.
    pub token: String,
    /// The id that the provider's ledger knows.
    pub id: Uuid,
    /// What it costs, in minor units.
    pub amount: i64,
    /// ISO 4217.
    pub currency: String,
}

/// One try to pay an order.
#[derive(Clone, Debug)]
pub struct Payment {
    /// What is paid.
    pub order: Order,
    /// The idempotency key.
    pub intent: Uuid,
    /// The failed intent that this one replaces.
    pub replaces: Option<Uuid>,
    /// The card.
    pub payment_method: String,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Content type.
    pub content_type: String,
    /// Whether it came out of the archive.
    pub replayed: bool,
    /// When to come back, where that is said.
    pub retry_after: Option<String>,
    /// Body.
    pub body: Vec<u8>,
}

/// Somebody with a browser.
#[derive(Clone, Debug)]
pub struct Customer {
    http: Client,
    /// How often they come back where they are told to.
    returns_max: usize,
}

impl Customer {
    /// A new customer.
    ///
    /// # Errors
    /// When the client cannot be built.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self { http: crate::http_client()?, returns_max: 0 })
    }

    /// One who comes back when the shop cannot do anything now, says so (503) and when to come back.
    ///
    /// # Errors
    /// When the client cannot be built.
    pub fn patient() -> anyhow::Result<Self> {
        Ok(Self { returns_max: RETURNS_MAX, ..Self::new()? })
    }

    /// What they send with.
    pub fn http(&self) -> &Client {
        &self.http
    }

    /// Sends a request, again where they are told to come back.
    ///
    /// # Errors
    /// When there is no answer, or one that tells nobody when to come back.
    pub async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        for _ in 0..self.returns_max {
            let answer = request.try_clone().context("a request that can be sent again")?.send().await?;
            if answer.status().as_u16() != 503 {
                return Ok(answer);
            }
            let url = answer.url().clone();
            ensure!(answer.headers().contains_key(header::RETRY_AFTER), "503 of {url} without Retry-After");
            sleep(RETURN_PAUSE).await;
        }
        Ok(request.send().await?)
    }

    /// Puts one piece into a new cart, checks out, and opens the checkout page, as before anybody can press Pay.
    ///
    /// # Errors
    /// When the shop refuses any of it.
    pub async fn order(&self, shop: &str, db: &PgPool, sku: &str) -> anyhow::Result<Order> {
        let (currency,): (String,) =
            sqlx::query_as("select currency from products where sku = $1").bind(sku).fetch_one(db).await?;
        let form = [("sku", sku), ("change", "add")];
        let add = self.http.post(format!("{shop}/cart")).header(header::ORIGIN, shop).form(&form);
        let added = self.send(add).await?;
        let cookie = added.headers().get(header::SET_COOKIE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        let cart = cookie.strip_prefix("payonce_cart=").context("the cart's cookie")?;
        let form = [("cart", cart.split('~').next().unwrap_or_default()), ("currency", &currency)];
        let post = self.http.post(format!("{shop}/checkout")).header(header::ORIGIN, shop);
        let checkout = self.send(post.header(header::COOKIE, &cookie).form(&form)).await?;
        let location = checkout.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
        let token = location.and_then(|location| location.strip_prefix("/checkout/"));
        let token = token.with_context(|| format!("a checkout, not {location:?}"))?.to_owned();
        let page = self.send(self.http.get(format!("{shop}/checkout/{token}"))).await?;
        page.error_for_status()?.bytes().await?;
        let row = sqlx::query_as("select id, amount_minor from orders where token = $1").bind(&token);
        let (id, amount) = row.fetch_one(db).await?;
        Ok(Order { token, id, amount, currency })
    }

    /// Asks for the outcome, as a browser does after a lost answer.
    ///
    /// # Errors
    /// When the shop does not answer.
    pub async fn outcome(&self, shop: &str, payment: &Payment) -> anyhow::Result<Value> {
        let body = json!({ "order": payment.order.token, "intent": payment.intent });
        let asked = self.http.post(format!("{shop}/rpc/outcome")).header(header::ORIGIN, shop).json(&body);
        Ok(self.send(asked).await?.error_for_status()?.json().await?)
    }
}

impl Payment {
    /// A first try.
    pub fn of(order: &Order, payment_method: &str) -> Self {
        let payment_method = payment_method.to_owned();
        Self { order: order.clone(), intent: Uuid::new_v4(), replaces: None, payment_method }
    }

    /// What a browser sends to pay.
    pub fn body(&self) -> Value {
        json!({ "pay": {
            "order": self.order.token, "intent": self.intent, "replaces": self.replaces,
            "payment_method": self.payment_method, "email": "ana@example.org",
            "amount": self.order.amount, "currency": self.order.currency,
        }})
    }

    /// Pays, and waits for the whole answer.
    ///
    /// # Errors
    /// When the connection ends before.
    pub async fn pay(&self, shop: SocketAddr) -> anyhow::Result<Answer> {
        let mut call = Call::begin(shop, self).await?;
        call.send_rest().await?;
        call.answer().await
    }
}

/// One press of Pay, byte by byte.
#[derive(Debug)]
pub struct Call {
    stream: TcpStream,
    rest: Vec<u8>,
}

impl Call {
    /// Connects and sends the first half of the request, which ends in the middle of the body.
    ///
    /// # Errors
    /// When nobody listens.
    pub async fn begin(shop: SocketAddr, payment: &Payment) -> anyhow::Result<Self> {
        let body = payment.body().to_string();
        let request = format!(
            "POST /rpc/pay HTTP/1.1\r\nhost: {shop}\r\norigin: http://{shop}\r\nsec-fetch-site: same-origin\r\n\
             content-type: application/json\r\naccept: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let (half, rest) = request.split_at(request.len() - body.len() / 2);
        let mut stream = TcpStream::connect(shop).await?;
        stream.set_nodelay(true)?;
        stream.write_all(half.as_bytes()).await?;
        Ok(Self { stream, rest: rest.as_bytes().to_vec() })
    }

    /// Sends the second half.
    ///
    /// # Errors
    /// When the other side is gone.
    pub async fn send_rest(&mut self) -> anyhow::Result<()> {
        let rest = std::mem::take(&mut self.rest);
        Ok(self.stream.write_all(&rest).await?)
    }

    /// Waits until the first byte of the answer is there, and leaves it unread.
    ///
    /// # Errors
    /// When the connection ends instead.
    pub async fn answer_arrives(&self) -> anyhow::Result<()> {
        match timeout(ANSWER_SECONDS_MAX, self.stream.peek(&mut [0])).await {
            Ok(Ok(1..)) => Ok(()),
            Ok(Ok(0) | Err(_)) => bail!("the connection ended without an answer"),
            Err(_) => bail!("no answer came"),
        }
    }

    /// Reads the whole answer.
    ///
    /// # Errors
    /// When the connection ends before it is whole.
    pub async fn answer(mut self) -> anyhow::Result<Answer> {
        let mut bytes = Vec::new();
        timeout(ANSWER_SECONDS_MAX, self.stream.read_to_end(&mut bytes)).await.context("no answer came")??;
        parse(&bytes).context("the answer is not whole")
    }
}

/// Reads an answer; `None` where it is not whole.
fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, &str)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
        .collect();
    let of = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value);
    let body = bytes[end + 4..].to_vec();
    let length: usize = of("content-length")?.parse().ok()?;
    (body.len() == length).then(|| Answer {
        status,
        content_type: of("content-type").unwrap_or_default().to_owned(),
        replayed: of("idempotent-replayed").is_some(),
        retry_after: of("retry-after").map(str::to_owned),
        body,
    })
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("an answer in JSON, not {self}"))
    }

    /// Whether it tells a final state. The door for browsers tells of a decline under 200.
    pub fn is_final(&self) -> bool {
        let state = self.json().map(|json| json["state"].clone()).unwrap_or_default();
        matches!((self.status, state.as_str()), (200, Some("SUCCEEDED")) | (200 | 402, Some("FAILED")))
    }

    /// Whether it asks to come back with the same intent: under way, or nothing can be said now.
    pub fn asks_to_come_back(&self) -> bool {
        matches!(self.status, 202 | 409 | 503)
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {} {}", self.status, self.content_type, String::from_utf8_lossy(&self.body))
    }
}
