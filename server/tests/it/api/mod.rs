//! The shop for programs: what a program sends and what it is told.

mod description;
mod keys;
mod limits;
mod orders;
mod payments;
mod problems;
mod refunds;

use reqwest::{RequestBuilder, Response, header::HeaderMap};
use serde_json::{Value, json};

use crate::house::{GOOD_CARD, House};

/// A program with an API key.
pub struct Program<'a> {
    house: &'a House,
    key: String,
    id: ::payments::api_key::ApiKeyId,
}

/// What a program is told, whole.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl<'a> Program<'a> {
    pub async fn new(house: &'a House) -> Self {
        let ids = ::payments::ids::Ids::secure();
        let (id, secret) = ::payments::api_key::create(&house.db.clone().into(), &ids, "a test").await.unwrap();
        Self { house, key: secret.expose().to_owned(), id }
    }

    /// A request of this program to a replica.
    fn request(&self, method: &str, replica: usize, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.house.replicas[replica].url);
        self.house.http.request(method.parse().unwrap(), url).bearer_auth(&self.key)
    }

    pub async fn get(&self, path: &str) -> Reply {
        Reply::of(self.request("GET", 0, path).send().await.unwrap()).await
    }

    pub async fn post_at(&self, replica: usize, path: &str, key: &str, body: &Value) -> Reply {
        let request = self.request("POST", replica, path).header("idempotency-key", key).json(body);
        Reply::of(request.send().await.unwrap()).await
    }

    pub async fn post(&self, path: &str, key: &str, body: &Value) -> Reply {
        self.post_at(0, path, key, body).await
    }

    /// Makes an order of one piece.
    pub async fn order(&self, sku: &str) -> Value {
        let row: (String,) = sqlx::query_as("select currency from products where sku = $1")
            .bind(sku)
            .fetch_one(&self.house.db)
            .await
            .unwrap();
        let body = json!({"currency": row.0, "lines": [{"sku": sku, "quantity": 1}], "email": "ana@example.org"});
        let made = self.post("/api/v1/orders", &crate::house::uuid(), &body).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.json()
    }

    pub async fn pay(&self, order: &Value, key: &str, body: &Value) -> Reply {
        self.post(&payments_of(order), key, body).await
    }
}

/// Where an order is paid.
pub fn payments_of(order: &Value) -> String {
    format!("/api/v1/orders/{}/payments", order["id"].as_str().unwrap())
}

/// A payment of the order's amount.
pub fn payment(order: &Value, payment_method: &str) -> Value {
    json!({"payment_method": payment_method, "amount": order["amount"], "currency": order["currency"]})
}

pub fn good_payment(order: &Value) -> Value {
    payment(order, GOOD_CARD)
}

/// The order as the browser's helpers know it.
pub async fn as_browser(house: &House, order: &Value) -> crate::house::Order {
    house.order_of(order["token"].as_str().unwrap()).await
}

impl Reply {
    pub async fn of(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.bytes().await.unwrap().to_vec() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// What has to be the same for every repeat.
    pub fn archived(&self) -> (u16, Option<&str>, &[u8]) {
        (self.status, self.header("content-type"), &self.body)
    }

    /// A problem of this kind, in the form that every problem has.
    #[track_caller]
    pub fn assert_problem(&self, status: u16, kind: &str) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["type"], format!("urn:payonce:problem:{kind}"), "{problem}");
        assert_eq!(problem["status"], status);
        assert!(
            ["title", "detail"].iter().all(|member| problem[*member].as_str().is_some_and(|text| !text.is_empty()))
        );
        assert!(problem["outcome"] == "known" || problem["outcome"] == "unknown", "{problem}");
        assert!(problem["safe_to_retry"].is_boolean(), "{problem}");
        assert_eq!(problem["location"].as_str(), self.header("location"), "{problem}");
        problem
    }
}
