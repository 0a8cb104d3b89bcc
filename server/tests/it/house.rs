//! Everything a test needs: replicas of the shop, the sandbox provider, and what a customer can do through public doors.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use payments::{
    clock::Clock,
    ids::Ids,
    limits::Limits,
    provider::{
        Provider,
        stripe::{SecretKey, Stripe, StripeConfig, WebhookSecret},
    },
};
use reqwest::{Client, Response, StatusCode, header};
use serde_json::{Value, json};
use server::{
    guard::{Guard, GuardOptions},
    serve::{self, Bounds},
    shop::{CardFields, Fittings, ProviderAddress, Shop, Site},
    web, worker,
};
use sqlx::{
    ConnectOptions as _, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

pub const GOOD_CARD: &str = "pm_card_visa";
pub const SECRET_KEY: &str = "sk_test_house";
pub const WEBHOOK_SECRET: &str = "whsec_of_the_house";

/// How long a test waits for something that must happen, before it fails. Generous: slow machines are no fault.
const PATIENCE: Duration = Duration::from_secs(30);

/// One shop: some replicas on one database, and their provider.
pub struct House {
    pub replicas: Vec<Replica>,
    pub sandbox: Sandbox,
    pub http: Client,
    /// A connection pool of the test's own, to look at rows.
    pub db: PgPool,
    options: PgConnectOptions,
}

/// One replica: its own pool, hub and address.
pub struct Replica {
    pub url: String,
    pub ctx: payments::Ctx,
    stop: CancellationToken,
}

/// The provider's address and its control surface.
pub struct Sandbox {
    pub url: String,
    stop: CancellationToken,
    _journal: tempfile::TempDir,
}

/// What a test changes of a house.
#[derive(Clone)]
pub struct Plan {
    pub replicas: usize,
    pub pool_size: u32,
    pub pay_wait: Duration,
    pub provider_timeout: Duration,
    /// How long an executor owns an intent.
    pub lease: Duration,
    /// How long an outcome may stay unknown.
    pub unknown_deadline: Duration,
    /// What a client may take of time and room.
    pub bounds: Bounds,
    /// The shop's own address; unset, the `Host` header decides.
    pub public_url: Option<Url>,
    /// The replica's own clock.
    pub clock: Clock,
    /// Who shows the fields for the card.
    pub card_fields: CardFields,
    /// What stands between the domain and the adapter; nothing, usually.
    pub around: fn(Stripe) -> Arc<dyn Provider>,
    /// Rate limits; none, usually.
    pub guard: GuardOptions,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            replicas: 1,
            pool_size: 8,
            pay_wait: Duration::from_secs(10),
            provider_timeout: Duration::from_secs(10),
            lease: Limits::default().lease,
            unknown_deadline: Limits::default().unknown_deadline,
            bounds: Bounds::default(),
            public_url: None,
            clock: Clock::System,
            card_fields: CardFields::Own,
            around: |stripe| Arc::new(stripe),
            guard: GuardOptions::default(),
        }
    }
}

/// An order as its customer knows it.
#[derive(Clone, Debug)]
pub struct Order {
    pub token: String,
    pub id: String,
    pub amount: i64,
    pub currency: String,
}

impl House {
    pub async fn new(db: PgPool) -> Self {
        Self::with(db, Plan::default()).await
    }

    pub async fn with(db: PgPool, plan: Plan) -> Self {
        let options = PgConnectOptions::clone(&db.connect_options());
        Self::through(db, &options, plan).await
    }

    /// A house whose replicas reach the database by another way than the test itself.
    pub async fn through(db: PgPool, options: &PgConnectOptions, plan: Plan) -> Self {
        let sandbox = Sandbox::start().await;
        let options = options.clone();
        let mut replicas = Vec::new();
        for _ in 0..plan.replicas {
            replicas.push(Replica::start(&options, &sandbox.url, &plan).await);
        }
        let http = Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build().unwrap();
        Self { replicas, sandbox, http, db, options }
    }

    /// Another replica on the same database and provider, as after a restart.
    pub async fn add_replica(&mut self, plan: Plan) {
        let replica = Replica::start(&self.options, &self.sandbox.url, &plan).await;
        self.replicas.push(replica);
    }

    /// The address of the first replica.
    pub fn url(&self) -> &str {
        &self.replicas[0].url
    }

    /// Puts one piece into a fresh cart and checks out.
    pub async fn order(&self, sku: &str) -> Order {
        let cart = self.cart_with(sku).await;
        let token = self.check_out(&cart).await;
        self.open_checkout(&token).await;
        self.order_of(&token).await
    }

    /// Opens the checkout page, as the browser does before anybody can press Pay.
    pub async fn open_checkout(&self, token: &str) {
        let page = self.http.get(format!("{}/checkout/{token}", self.url())).send().await.unwrap();
        assert!(page.status().is_success(), "{}", page.status());
        page.bytes().await.unwrap();
    }

    /// A fresh cart with one piece: the cookie's value.
    pub async fn cart_with(&self, sku: &str) -> String {
        let answer = self
            .http
            .post(format!("{}/cart", self.url()))
            .form(&[("sku", sku), ("change", "add")])
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{sku} goes into the cart");
        cart_cookie(&answer).expect("the cart's cookie")
    }

    /// Presses Checkout for the first part of the cart; gives the order's token.
    pub async fn check_out(&self, cart: &str) -> String {
        let answer = self.press_checkout(cart, &self.currency_of(cart).await).await;
        let location = location(&answer);
        location.strip_prefix("/checkout/").unwrap_or_else(|| panic!("{location} is a checkout")).to_owned()
    }

    pub async fn press_checkout(&self, cart: &str, currency: &str) -> Response {
        let id = cart.split('~').next().unwrap_or_default().to_owned();
        self.http
            .post(format!("{}/checkout", self.url()))
            .header(header::COOKIE, format!("payonce_cart={cart}"))
            .form(&[("cart", id.as_str()), ("currency", currency)])
            .send()
            .await
            .unwrap()
    }

    async fn currency_of(&self, cart: &str) -> String {
        let sku = cart.split('~').nth(1).and_then(|line| line.split(':').next()).unwrap_or_default();
        let row: (String,) =
            sqlx::query_as("select currency from products where sku = $1").bind(sku).fetch_one(&self.db).await.unwrap();
        row.0
    }

    pub async fn order_of(&self, token: &str) -> Order {
        let row: (sqlx::types::Uuid, i64, String) =
            sqlx::query_as("select id, amount_minor, currency from orders where token = $1")
                .bind(token)
                .fetch_one(&self.db)
                .await
                .unwrap();
        Order { token: token.to_owned(), id: row.0.to_string(), amount: row.1, currency: row.2 }
    }

    /// The body that a browser sends to pay.
    pub fn pay_body(order: &Order, intent: &str, payment_method: &str) -> Value {
        json!({ "pay": {
            "order": order.token, "intent": intent, "replaces": null, "payment_method": payment_method,
            "email": "ana@example.org", "amount": order.amount, "currency": order.currency,
        }})
    }

    /// Pays through the server function of one replica.
    pub async fn pay_at(&self, replica: usize, order: &Order, intent: &str, payment_method: &str) -> Answer {
        self.send(replica, &Self::pay_body(order, intent, payment_method)).await
    }

    pub async fn pay(&self, order: &Order, intent: &str, payment_method: &str) -> Answer {
        self.pay_at(0, order, intent, payment_method).await
    }

    pub async fn send(&self, replica: usize, body: &Value) -> Answer {
        let url = format!("{}/rpc/pay", self.replicas[replica].url);
        Answer::of(self.http.post(url).json(body).send().await.unwrap()).await
    }

    /// Fills in the card form at the provider as a browser without scripts does; gives the card session it comes back with.
    pub async fn card_session(&self, order: &Order, intent: &str, number: &str) -> String {
        let here = format!("{}/checkout/{}", self.url(), order.token);
        let review = format!("{here}/review");
        let form = [
            ("key", "pk_test_house"),
            ("return_url", review.as_str()),
            ("retry_url", here.as_str()),
            ("intent", intent),
            ("email", "ana@example.org"),
            ("cardnumber", number),
            ("exp", "12/40"),
            ("cvc", "123"),
            ("name", "Ana Test"),
        ];
        let sent = self.http.post(format!("{}/hosted/cards", self.sandbox.url)).form(&form).send().await.unwrap();
        assert_eq!(sent.status(), StatusCode::SEE_OTHER);
        let back = Url::parse(&location(&sent)).unwrap();
        back.query_pairs().find(|(name, _)| name == "session").expect("a session").1.into_owned()
    }

    /// Posts the review page's form.
    pub async fn post_pay_form(&self, order: &Order, fields: &[(&str, String)]) -> Response {
        self.http.post(format!("{}/checkout/{}/pay", self.url(), order.token)).form(fields).send().await.unwrap()
    }

    /// Asks for the outcome of an order.
    pub async fn outcome(&self, order: &Order, intent: Option<&str>) -> Value {
        let url = format!("{}/rpc/outcome", self.url());
        let body = json!({ "order": order.token, "intent": intent });
        self.http.post(url).json(&body).send().await.unwrap().json().await.unwrap()
    }

    /// Asks until the outcome has this state.
    pub async fn outcome_becomes(&self, order: &Order, state: &str) -> Value {
        let since = Instant::now();
        loop {
            let outcome = self.outcome(order, None).await;
            if outcome["state"] == state {
                return outcome;
            }
            assert!(since.elapsed() < PATIENCE, "waited for {state}, last: {outcome}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The charges that the provider really made for an order.
    pub async fn charges(&self, order: &Order) -> Vec<Value> {
        self.sandbox.charges(&self.http, Some(&order.id)).await
    }

    /// Asserts that the provider charged this order once, with the right amount.
    pub async fn assert_charged_once(&self, order: &Order) {
        let charges = self.charges(order).await;
        assert_eq!(charges.len(), 1, "charges of the order: {charges:?}");
        assert_eq!(charges[0]["amount"], order.amount);
        assert_eq!(charges[0]["currency"].as_str().unwrap_or_default().to_uppercase(), order.currency);
    }

    pub async fn assert_not_charged(&self, order: &Order) {
        assert_eq!(self.charges(order).await, Vec::<Value>::new(), "nothing was charged");
    }

    /// The invariants that can be read off rows and ledger, for the whole house:
    /// at most one charge for an order, of the right amount; paid ⇔ charged; final ⇔ archived; books balanced. What is an open
    /// discrepancy, and not booked, is told, and stands beside that.
    pub async fn assert_books_balance(&self) {
        let mut charges = self.sandbox.charges(&self.http, None).await;
        let told: Vec<String> = sqlx::query_scalar(
            "select charge from discrepancies d where resolved_at is null and charge is not null and kind <> 'only_ours'
                and not exists (select from ledger_entries l where l.charge = d.charge)",
        )
        .fetch_all(&self.db)
        .await
        .unwrap();
        charges.retain(|charge| !told.iter().any(|told| charge["id"] == **told));
        let paid: Vec<(sqlx::types::Uuid, i64, String, i64)> = sqlx::query_as(
            "select id, amount_minor, currency, refund_reserved_minor + refunded_elsewhere_minor
            from orders where state = 'paid'",
        )
        .fetch_all(&self.db)
        .await
        .unwrap();
        assert_eq!(charges.len(), paid.len(), "paid orders and charges: {paid:?} {charges:?}");
        for (id, amount, currency, refunded) in &paid {
            let of_order: Vec<_> =
                charges.iter().filter(|charge| charge["metadata"]["order"] == id.to_string()).collect();
            assert_eq!(of_order.len(), 1, "I1: charges of order {id}");
            assert_eq!(of_order[0]["amount"], *amount, "I2: amount of order {id}");
            assert_eq!(of_order[0]["currency"], currency.to_lowercase(), "I2: currency of order {id}");
            assert_eq!(of_order[0]["refunded"], *refunded, "I11, I14: what was given back of order {id}");
            assert!(*refunded <= *amount, "I11: more given back than charged of order {id}");
        }
        for (what, sql) in [
            (
                "final ⇔ archived",
                "select count(*) from intents where (state in ('succeeded','failed')) <> (archive_body is not null)",
            ),
            (
                "I12: one live or paid intent per order",
                "select count(*) from (select 1 from intents where operation = 'pay' and state <> 'failed' group by order_id having count(*) > 1) s",
            ),
            (
                "I14: entries of an intent sum to zero",
                "select count(*) from (select 1 from ledger_entries group by order_id, intent_id having sum(amount_minor) <> 0) s",
            ),
            (
                "I13: paid order ⇔ succeeded intent",
                "select count(*) from orders o where (o.state = 'paid') <> (exists (select 1 from intents i where i.operation = 'pay' and i.order_id = o.id and i.state = 'succeeded') or exists (select 1 from discrepancies d where d.order_id = o.id and d.kind = 'charge_of_failed_intent'))",
            ),
            (
                "I11: an order's sum is that of its refunds of the paying charge",
                "select count(*) from orders o where refund_reserved_minor + refunded_elsewhere_minor <> (select coalesce(sum(i.amount_minor), 0) from intents i where i.operation = 'refund' and i.order_id = o.id and i.refunded_charge = o.charge and i.state <> 'failed' and i.reversed_at is null)",
            ),
            (
                "I13: succeeded intent ⇔ two entries and an event, and as many for one that was reversed",
                "select count(*) from intents i where i.state = 'succeeded' and ((select count(*) from ledger_entries l where l.intent_id = i.id and l.order_id = i.order_id) <> case when i.operation = 'refund' and not exists (select from ledger_entries c where c.charge = i.refunded_charge) then 0 when i.reversed_at is null then 2 else 4 end or not exists (select 1 from outbox_events x where x.intent_id = i.id and x.order_id = i.order_id))",
            ),
        ] {
            let wrong: (i64,) = sqlx::query_as(sql).fetch_one(&self.db).await.unwrap();
            assert_eq!(wrong.0, 0, "{what}");
        }
    }

    /// A connection to another database of the same server, so that looking does not count itself.
    pub async fn admin(&self) -> PgPool {
        PgPoolOptions::new().max_connections(1).connect_with(self.options.clone().database("postgres")).await.unwrap()
    }

    pub fn database_name(&self) -> String {
        self.options.get_database().expect("a database").to_owned()
    }

    /// The address of the database, for a process of its own.
    pub fn database_url(&self) -> String {
        self.options.to_url_lossy().to_string()
    }

    /// One number from the test's own connection.
    pub async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.db).await.unwrap()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        for replica in &self.replicas {
            replica.stop.cancel();
        }
        self.sandbox.stop.cancel();
    }
}

impl Replica {
    async fn start(database: &PgConnectOptions, provider: &str, plan: &Plan) -> Self {
        let pool = payments::pool::connect(database.to_url_lossy().as_str(), plan.pool_size).await.unwrap();
        let provider = Url::parse(provider).unwrap();
        let mut config = StripeConfig::new(provider.clone(), SecretKey::new(SECRET_KEY));
        config.request_timeout = plan.provider_timeout;
        config.connect_timeout = plan.provider_timeout / 2;
        config.webhook_secrets = vec![WebhookSecret::parse(WEBHOOK_SECRET).unwrap()];
        let limits = Limits {
            pay_wait: plan.pay_wait,
            lease: plan.lease,
            unknown_deadline: plan.unknown_deadline,
            ..Limits::default()
        };
        let stripe = (plan.around)(Stripe::new(&config).unwrap());
        let ctx = payments::Ctx::new(pool, stripe, plan.clock.clone(), Ids::secure(), limits);
        let site = Site {
            site_root: "target/site".into(),
            public_url: plan.public_url.clone(),
            provider: ProviderAddress::Fixed(provider),
            publishable_key: "pk_test_house".to_owned(),
            card_fields: plan.card_fields,
            storefront: app::Storefront::default(),
        };
        let options = leptos::prelude::LeptosOptions::builder().output_name("payonce").build();
        let stop = CancellationToken::new();
        let shop = Shop::from(Fittings {
            ctx: ctx.clone(),
            site,
            leptos: options,
            guard: Guard::new(plan.guard.clone()),
            bounds: plan.bounds,
            stopping: stop.clone(),
        });
        let (listener, url) = free_port().await;
        worker::spawn("replica", serve::serve(listener, web::router(shop), plan.bounds, stop.clone()));
        Self { url, ctx, stop }
    }
}

impl Sandbox {
    async fn start() -> Self {
        let journal = tempfile::tempdir().unwrap();
        let config = sandbox::Config {
            secret_key: SECRET_KEY.to_owned(),
            publishable_key: "pk_test_house".to_owned(),
            journal_sync: false,
            ..sandbox::Config::at(journal.path().to_owned())
        };
        let (listener, url) = free_port().await;
        let stop = CancellationToken::new();
        let serving = sandbox::serve(listener, config, stop.clone().cancelled_owned());
        worker::spawn("sandbox", async move { serving.await.unwrap() });
        Self { url, stop, _journal: journal }
    }

    /// The charges really made, of one order (by its id) or of all.
    pub async fn charges(&self, http: &Client, order: Option<&str>) -> Vec<Value> {
        let ledger: Value =
            http.get(format!("{}/_sandbox/ledger", self.url)).send().await.unwrap().json().await.unwrap();
        let charges = ledger["charges"].as_array().expect("charges").clone();
        charges.into_iter().filter(|charge| order.is_none_or(|order| charge["metadata"]["order"] == order)).collect()
    }

    /// Makes the provider misbehave, e.g. `{"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":500},"next":1}`.
    pub async fn fault(&self, http: &Client, fault: Value) {
        let answer = http.post(format!("{}/_sandbox/faults", self.url)).json(&fault).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{status} for {fault}: {}", answer.text().await.unwrap_or_default());
    }

    pub async fn no_faults(&self, http: &Client) {
        let answer = http.delete(format!("{}/_sandbox/faults", self.url)).send().await.unwrap();
        assert!(answer.status().is_success());
    }

    /// How many requests to confirm the provider has seen.
    pub async fn confirms(&self, http: &Client) -> usize {
        let calls: Value = http.get(format!("{}/_sandbox/calls", self.url)).send().await.unwrap().json().await.unwrap();
        let calls = calls.as_array().or_else(|| calls["calls"].as_array()).expect("calls").clone();
        calls.iter().filter(|call| call["path"].as_str().is_some_and(|path| path.ends_with("/confirm"))).count()
    }
}

/// What came back of a call, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    pub content_type: String,
    pub replayed: bool,
    pub retry_after: Option<String>,
    pub set_cookie: bool,
    pub body: Vec<u8>,
}

impl Answer {
    pub async fn of(response: Response) -> Self {
        let text = |name: header::HeaderName| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        Self {
            status: response.status(),
            content_type: text(header::CONTENT_TYPE).unwrap_or_default(),
            replayed: response.headers().contains_key("idempotent-replayed"),
            retry_after: text(header::RETRY_AFTER),
            set_cookie: response.headers().contains_key(header::SET_COOKIE),
            body: response.bytes().await.unwrap().to_vec(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// What invariant I5 speaks of: status, content type and body.
    pub fn archived(&self) -> (StatusCode, &str, &[u8]) {
        (self.status, &self.content_type, &self.body)
    }

    #[track_caller]
    pub fn assert_succeeded(&self) -> &Self {
        assert_eq!(self.status, StatusCode::OK, "{}", String::from_utf8_lossy(&self.body));
        assert_eq!(self.json()["state"], "SUCCEEDED");
        self
    }

    #[track_caller]
    pub fn assert_refused(&self, status: u16, kind: &str) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.body));
        assert_eq!(self.json()["type"], kind);
        self
    }
}

pub fn cart_cookie(answer: &Response) -> Option<String> {
    let cookie = answer.headers().get(header::SET_COOKIE)?.to_str().ok()?;
    cookie.strip_prefix("payonce_cart=")?.split(';').next().map(str::to_owned)
}

pub fn location(answer: &Response) -> String {
    answer.headers().get(header::LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// A fresh version 4 UUID, as a browser mints it.
pub fn uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Waits until `holds` gives true, looking again every 20 ms.
pub async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let since = Instant::now();
    while !holds().await {
        assert!(since.elapsed() < PATIENCE, "waited for: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn free_port() -> (TcpListener, String) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}
