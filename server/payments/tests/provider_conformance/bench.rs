//! A sandbox of its own for each test, on a free port and in a folder of its own, and the doors to it: the adapter, and the
//! sandbox's control surface.

use std::{path::PathBuf, time::Duration};

use payments::{
    money::{Currency, Money},
    provider::{
        ConfirmOutcome, ConfirmRequest, CreateOutcome, NewPaymentIntent, Provider, ProviderCharge,
        ProviderPaymentIntentId,
        stripe::{SecretKey, Stripe, StripeConfig},
    },
};
use reqwest::{Client, redirect};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinSet};
use url::Url;
use uuid::Uuid;

const SECRET_KEY: &str = "sk_test_conformance";
const PUBLISHABLE_KEY: &str = "pk_test_conformance";
const RETURN_URL: &str = "https://shop.example/orders/token";

pub struct Bench {
    pub stripe: Stripe,
    /// Where the sandbox is.
    pub url: Url,
    client: Client,
    data_dir: PathBuf,
    /// Ends with the bench.
    _sandbox: JoinSet<()>,
}

impl Bench {
    pub async fn start() -> Self {
        let data_dir = std::env::temp_dir().join(format!("payonce-conformance-{}", Uuid::new_v4()));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let config = sandbox::Config {
            secret_key: SECRET_KEY.to_owned(),
            publishable_key: PUBLISHABLE_KEY.to_owned(),
            journal_sync: false,
            ..sandbox::Config::at(data_dir.clone())
        };
        let mut sandbox = JoinSet::new();
        sandbox.spawn(async { sandbox::serve(listener, config, std::future::pending()).await.unwrap() });
        let client = Client::builder().redirect(redirect::Policy::none()).no_proxy().build().unwrap();
        let stripe = Stripe::new(&Self::config(&url)).unwrap();
        Self { stripe, url, client, data_dir, _sandbox: sandbox }
    }

    fn config(url: &Url) -> StripeConfig {
        StripeConfig {
            request_timeout: Duration::from_mins(2),
            connect_timeout: Duration::from_mins(1),
            ..StripeConfig::new(url.clone(), SecretKey::new(SECRET_KEY))
        }
    }

    /// An adapter that gives up soon.
    pub fn impatient_stripe(&self) -> Stripe {
        Stripe::new(&StripeConfig {
            request_timeout: Duration::from_millis(1500),
            connect_timeout: Duration::from_secs(1),
            ..Self::config(&self.url)
        })
        .unwrap()
    }

    pub async fn create(&self, order: &str, money: Money) -> ProviderPaymentIntentId {
        let created = self.stripe.create_payment_intent(&new_payment_intent(order, money)).await;
        let CreateOutcome::Created(id) = created else { unreachable!("not created: {created:?}") };
        id
    }

    pub fn request(&self, id: &ProviderPaymentIntentId, payment_method: &str) -> ConfirmRequest {
        ConfirmRequest {
            payment_intent: id.clone(),
            idempotency_key: format!("payonce:pay:{id}"),
            body: self.stripe.freeze_confirm(payment_method, RETURN_URL),
        }
    }

    pub async fn approved(&self, request: &ConfirmRequest) -> ProviderCharge {
        let confirmed = self.stripe.confirm(request).await;
        let ConfirmOutcome::Approved(charge) = confirmed else { unreachable!("not approved: {confirmed:?}") };
        charge
    }

    /// Every charge that was really made.
    pub async fn charges(&self) -> Vec<Value> {
        self.ledger("/_sandbox/ledger").await
    }

    pub async fn charges_of(&self, order: &str) -> Vec<Value> {
        self.ledger(&format!("/_sandbox/ledger?order={order}")).await
    }

    async fn ledger(&self, path: &str) -> Vec<Value> {
        let answer = self.client.get(self.at(path)).send().await.unwrap();
        let ledger: Value = answer.json().await.unwrap();
        ledger["charges"].as_array().unwrap().clone()
    }

    pub async fn fault(&self, order: Value) {
        let answer = self.client.post(self.at("/_sandbox/faults")).json(&order).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    pub async fn clear_faults(&self) {
        self.client.delete(self.at("/_sandbox/faults")).send().await.unwrap().error_for_status().unwrap();
    }

    pub async fn cancel(&self, id: &ProviderPaymentIntentId) {
        let url = self.at(&format!("/v1/payment_intents/{id}/cancel"));
        self.client.post(url).bearer_auth(SECRET_KEY).send().await.unwrap().error_for_status().unwrap();
    }

    /// Status and JSON of a form that is posted as the adapter posts it.
    pub async fn raw(&self, path: &str, key: Option<&str>, params: &[(&str, &str)]) -> (u16, Value) {
        let mut request = self.client.post(self.at(path)).bearer_auth(SECRET_KEY).form(params);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = request.header("stripe-version", "2024-06-20").send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// JSON of an address.
    pub async fn look(&self, path: &str) -> Value {
        self.client.get(self.at(path)).bearer_auth(SECRET_KEY).send().await.unwrap().json().await.unwrap()
    }

    /// Decides on the bank's page as its form does.
    pub async fn decide(&self, url: &str, decision: &str) {
        let page = self.client.get(url).send().await.unwrap().text().await.unwrap();
        let (_, after) = page.split_once("name=\"step\" value=\"").unwrap();
        let (step, _) = after.split_once('"').unwrap();
        let answer = self.client.post(url).form(&[("step", step), ("decision", decision)]).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 303);
    }

    /// Posts the card form of a page without scripts; returns the card session that the browser is sent back with.
    pub async fn card_form(&self, number: &str) -> String {
        let fields = [
            ("key", PUBLISHABLE_KEY),
            ("return_url", "https://shop.example/checkout/token/review"),
            ("retry_url", "https://shop.example/checkout/token"),
            ("intent", "2b1f7c3a-9d8e-4f6a-8b9c-0d1e2f3a4b5c"),
            ("email", "ana@shop.example"),
            ("cardnumber", number),
            ("exp", "12/40"),
            ("cvc", "123"),
            ("name", "Ana Test"),
        ];
        let answer = self.client.post(self.at("/hosted/cards")).form(&fields).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 303);
        let location = Url::parse(answer.headers()["location"].to_str().unwrap()).unwrap();
        location.query_pairs().find(|(name, _)| name == "session").unwrap().1.into_owned()
    }

    fn at(&self, path: &str) -> Url {
        self.url.join(path).unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // What is left behind in the temporary folder harms nobody.
        std::fs::remove_dir_all(&self.data_dir).ok();
    }
}

pub fn eur(minor: i64) -> Money {
    Money::new(minor, Currency::parse("EUR").unwrap())
}

pub fn new_payment_intent(order: &str, money: Money) -> NewPaymentIntent {
    NewPaymentIntent {
        order: order.to_owned(),
        reference: "AB12-CD34".to_owned(),
        money,
        idempotency_key: format!("payonce:order:{order}:1"),
    }
}
