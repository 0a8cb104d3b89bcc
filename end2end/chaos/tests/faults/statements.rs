//! Every statement of the shop fails once, with each SQLSTATE that a fault of the server shows: those of a payment, and all of its
//! neighbours.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc, time::Duration};

use chaos::{
    books,
    customer::{Answer, Customer, DECLINED_CARD, GOOD_CARD, Payment},
    events,
    gate::{Fate, Message, Moment},
    process,
    shop::Plan,
    until,
    world::{Ground, Replica, World},
};
use futures::{FutureExt as _, StreamExt as _, future::join_all, stream};
use reqwest::{Response, header};
use serde_json::{Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use super::{misbehave_once, press};

/// Serialization failure, deadlock, lock not available, query cancelled, only reads, too many connections, shut down by an
/// operator, starting up.
const CODES: [&str; 8] = ["40001", "40P01", "55P03", "57014", "25006", "53300", "57P01", "57P03"];
/// A card whose bank wants to see the customer.
const BANK_CARD: &str = "pm_card_threeDSecureRequired";
const POOL_SIZE: u32 = 4;
/// How long a press of Pay is repeated, and the pause between two.
const PRESSES_MAX: usize = 100;
const PRESS_PAUSE: Duration = Duration::from_millis(100);
/// How long what the shop does by itself may take.
const UNASKED: Duration = Duration::from_secs(12);

/// Statements that no visitor, program or operator can make this shop ask in a moment, by a part that only they have. They fail in
/// the tests of the domain (`server/payments/tests/it/statements_fail.rs`), and the last ones, of what is read from the provider's
/// lists, in those of the shop (`server/tests/it/reconcile_fails.rs`).
const ELSEWHERE: [&str; 27] = [
    // Once a minute.
    "set purged_at = now(), email = null",
    "set purged_at = now(), archive_status = null",
    // The provider's answers agree with themselves, and not with what was agreed.
    "select 'amount_mismatch'",
    // Money for an intent that has failed, as only news from the provider that nobody asked for bring it.
    "'order_paid_late'",
    // Refunds that take another way than the straight one; they fail in `server/tests/it/api/refunds.rs`.
    "using first f",
    "set state = 'failed', decline = 'generic'",
    "set reversed_at = now()",
    "provider_refund = coalesce($4",
    "noted as (",
    "set disputed_minor",
    "select provider_payment_intent from intents where charge",
    "join orders o on o.id = p.order_id where p.operation = 'pay' and p.provider_payment_intent",
    "purged_at from intents where provider_refund",
    // Orders whose hold time is over, which is an hour.
    "set hold_from = case o.state",
    "set state = 'closed'",
    // Once a minute.
    "delete from inbox_events",
    // Once a minute, and of those once an hour.
    "update readings",
    "select event from inbox_events",
    "update discrepancies",
    "from discrepancies",
    "recovered_at",
    "charge collate",
    "from (values (1)) as one (row)",
    "provider_refund = any($1)",
    "(created_at, id) > ($3, $4)",
    "is_under_way",
    "select created_at from orders order by id",
];

/// What the shop asks its database, by the descriptions that its queries are checked against.
fn all_statements() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.sqlx");
    let files = fs::read_dir(folder).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let query = |text: String| serde_json::from_str::<Value>(&text).unwrap()["query"].as_str().unwrap().to_owned();
    files.map(query).map(|sql| sql.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

struct Scene {
    ground: Arc<Ground>,
    world: World,
    payments: Vec<Payment>,
}

/// Presses until there is an end, or the bank wants to see the customer. On the way each answer is clear: under way, or nothing
/// can be done now and when to come back.
async fn press_on(replica: &Replica, payment: &Payment) -> Answer {
    for _ in 0..PRESSES_MAX {
        let answer = payment.pay(replica.shop.address()).await.unwrap();
        let waits_for_bank = answer.json().is_ok_and(|json| json["detail"] == "action_required");
        if answer.is_final() || waits_for_bank {
            return answer;
        }
        assert!(answer.asks_to_come_back(), "no clear answer: {answer}");
        assert!(answer.status == 202 || answer.retry_after.is_some(), "come back when? {answer}");
        sleep(PRESS_PAUSE).await;
    }
    unreachable!("no end after {PRESSES_MAX} presses of {payment:?}");
}

impl Scene {
    async fn new(ground: &Arc<Ground>) -> Self {
        let grace = ("PAYONCE_STOP_GRACE_MS".to_owned(), "300".to_owned());
        let secret = ("PAYONCE_WEBHOOK_SECRETS".to_owned(), events::SECRET.to_owned());
        let plan = Plan { pool_size: POOL_SIZE, more: vec![grace, secret], ..Plan::default() };
        let mut world = World::new(ground, 2, &plan).await.unwrap();
        world.customer = Customer::patient().unwrap();
        Self { ground: Arc::clone(ground), world, payments: Vec::new() }
    }

    /// A new payment of an order that is made at this replica.
    async fn payment(&mut self, replica: usize, card: &str) -> Payment {
        let shop = self.world.replicas[replica].shop.url();
        let order = self.world.customer.order(&shop, &self.world.database.pool, "mug").await.unwrap();
        let payment = Payment::of(&order, card);
        self.payments.push(payment.clone());
        payment
    }

    /// Visitors of this replica: shelves, a cart whose page is old, the order's page.
    async fn visit(&mut self, replica: usize) {
        let payment = self.payment(replica, GOOD_CARD).await;
        let (customer, shop) = (&self.world.customer, self.world.replicas[replica].shop.url());
        let token = &payment.order.token;
        for page in ["/", "/cart", &format!("/checkout/{token}"), &format!("/orders/{token}")] {
            let answer = customer.send(customer.http().get(format!("{shop}{page}"))).await.unwrap();
            assert!(answer.status().as_u16() < 400, "{page}: {}", answer.status());
        }
        let old = [("cart", Uuid::new_v4().to_string()), ("currency", "EUR".to_owned())];
        let post = customer.http().post(format!("{shop}/checkout")).header(header::ORIGIN, &shop).form(&old);
        assert_eq!(customer.send(post).await.unwrap().status(), 303);
        press_on(&self.world.replicas[replica], &payment).await;
    }

    /// One payment under each fault of the provider, pressed at this replica, and at the other while it is under way.
    async fn pay(&mut self, replica: usize) {
        let faults = [
            (GOOD_CARD, json!({"kind": "delay_before", "ms": 400})),
            (DECLINED_CARD, json!({"kind": "delay_after", "ms": 400})),
            (GOOD_CARD, json!({"kind": "charge_then_drop"})),
            (GOOD_CARD, json!({"kind": "drop_before"})),
            (GOOD_CARD, json!({"kind": "status", "status": 429})),
            (GOOD_CARD, json!({"kind": "wrong_amount"})),
        ];
        for (card, fault) in faults {
            let payment = self.payment(replica, card).await;
            let of_order = json!({"path": "confirm", "order": payment.order.id});
            self.ground.sandbox.fault(&json!({"match": of_order, "fault": fault, "next": 1})).await.unwrap();
            let [one, other] = [replica, 1 - replica].map(|number| &self.world.replicas[number]);
            let (first, second) = tokio::join!(press_on(one, &payment), press_on(other, &payment));
            assert_eq!(first.body, second.body, "{fault}");
            let outcome = self.world.customer.outcome(&one.shop.url(), &payment).await.unwrap();
            assert_eq!(outcome["received"], json!(true), "{fault}: {outcome}");
        }
    }

    /// The bank wants to see the customer, who goes there.
    async fn pay_by_bank(&mut self, replica: usize) {
        let payment = self.payment(replica, BANK_CARD).await;
        let here = &self.world.replicas[replica];
        let told = press_on(here, &payment).await.json().unwrap();
        let page = told["continue_url"].as_str().unwrap();
        let http = self.world.customer.http();
        let form = http.get(page).send().await.unwrap().text().await.unwrap();
        let step = form.split("name=\"step\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let decision = http.post(page.split('?').next().unwrap()).form(&[("decision", "approve"), ("step", step)]);
        assert_eq!(decision.send().await.unwrap().status(), 303);
        let paid = || async {
            let outcome = self.world.customer.outcome(&here.shop.url(), &payment).await?;
            Ok(outcome["state"] == "paid")
        };
        until("the bank's approval is known", UNASKED, paid).await.unwrap();
    }

    /// A program with a key of its own, and the operator who made it.
    async fn program(&mut self, replica: usize) {
        let url = self.world.database.url_through(self.world.replicas[replica].postgres.port).unwrap();
        let key = operator(&["api-key", "create", "a program"], &url).await;
        let api = format!("{}/api/v1", self.world.replicas[replica].shop.url());
        let ask = async |path: &str, body: Option<(&str, Value)>| -> Value {
            let http = self.world.customer.http();
            let request = match &body {
                Some((key, body)) => http.post(format!("{api}{path}")).header("Idempotency-Key", *key).json(body),
                None => http.get(format!("{api}{path}")),
            };
            let answer: Response = self.world.customer.send(request.bearer_auth(&key)).await.unwrap();
            let status = answer.status();
            assert!(status.is_success(), "{path}: {status} {}", answer.text().await.unwrap());
            answer.json().await.unwrap()
        };
        let cart = json!({"currency": "EUR", "lines": [{"sku": "mug", "quantity": 1}]});
        let order = ask("/orders", Some(("cart", cart.clone()))).await;
        assert_eq!(ask("/orders", Some(("cart", cart))).await, order, "a repeat makes no second order");
        let (id, intent) = (order["id"].as_str().unwrap(), Uuid::new_v4().to_string());
        let amount = order["amount"].as_i64().unwrap();
        let pay = json!({"payment_method": GOOD_CARD, "amount": amount, "currency": "EUR"});
        let path = format!("/orders/{id}/payments");
        let paid = ask(&path, Some((&intent, pay.clone()))).await;
        assert_eq!(ask(&path, Some((&intent, pay))).await, paid);
        assert_eq!(ask(&format!("/orders/{id}"), None).await["state"], "paid");
        assert_eq!(ask(&format!("/intents/{intent}?order={id}"), None).await["state"], "SUCCEEDED");
        let (back, part) = (format!("/orders/{id}/refunds"), json!({"amount": 100}));
        let refund = Uuid::new_v4().to_string();
        let given = ask(&back, Some((&refund, part.clone()))).await;
        assert_eq!(ask(&back, Some((&refund, part))).await, given);
        assert_eq!(ask(&format!("/orders/{id}"), None).await["refunded"]["remaining"], amount - 100);
        let charges = self.ground.sandbox.charges(id).await.unwrap();
        assert_eq!((charges.len(), &charges[0]["refunded"]), (1, &json!(100)));
        let listed = operator(&["api-key", "list"], &url).await;
        operator(&["api-key", "revoke", listed.split_whitespace().next().unwrap()], &url).await;
    }

    /// The provider tells of money that is booked, and of money for a payment intent that nobody knows; each until it is thanked.
    async fn events(&mut self, replica: usize) {
        let payment = self.payment(replica, GOOD_CARD).await;
        press_on(&self.world.replicas[replica], &payment).await;
        let sql = "select provider_payment_intent, charge from intents where id = $1";
        let (payment_intent, charge): (String, String) =
            sqlx::query_as(sql).bind(payment.intent).fetch_one(&self.world.database.pool).await.unwrap();
        let (amount, currency) = (payment.order.amount, payment.order.currency.as_str());
        let strange = format!("strange_{}", Uuid::new_v4().simple());
        for event in [
            events::charged(&payment_intent, &charge, amount, currency),
            events::charged(&strange, &strange, amount, currency),
        ] {
            for _ in 0..2 {
                let delivery =
                    events::delivery(&self.world.customer, &self.world.replicas[replica].shop.url(), &event).unwrap();
                assert_eq!(self.world.customer.send(delivery).await.unwrap().status(), 200);
            }
        }
        let sql = "select count(*) from discrepancies where kind = 'unknown_payment_intent' and charge = $1";
        let told: i64 = sqlx::query_scalar(sql).bind(&strange).fetch_one(&self.world.database.pool).await.unwrap();
        assert_eq!(told, 1, "money that nobody knows is told once");
    }

    /// An executor is overtaken while its settle is on the way, and reads how the payment stands.
    async fn overtake(&mut self) {
        let payment = self.payment(1, GOOD_CARD).await;
        let mut held = self.world.victim().statements().hold(Message::Succeed, Moment::Sent);
        let call = press(self.world.victim(), &payment).await;
        held.reached().await.unwrap();
        let db = &self.world.database.pool;
        until("the other replica finishes", UNASKED, || books::is_final(db, &payment)).await.unwrap();
        held.let_go(Fate::Deliver);
        assert!(call.answer().await.unwrap().is_final());
    }

    /// A replica stops while a payment is at the provider, and hands it over.
    async fn stop(&mut self) {
        let payment = self.payment(1, GOOD_CARD).await;
        let mut held = self.world.victim().calls().hold(Message::Confirm, Moment::Answered);
        let call = press(self.world.victim(), &payment).await;
        held.reached().await.unwrap();
        self.world.replicas[0].shop.stop().await.unwrap();
        drop((held, call));
        press_on(self.world.other(), &payment).await;
        self.world.replicas[0].shop.restart().await.unwrap();
    }

    fn struck(&self) -> BTreeSet<String> {
        self.world.replicas.iter().flat_map(|replica| replica.statements().strikes().struck()).collect()
    }

    /// Every connection is still of use, and none is left open in the middle of something.
    async fn assert_pools_are_whole(&mut self) {
        let mut payments = Vec::new();
        for _ in 0..POOL_SIZE {
            payments.push(self.payment(0, GOOD_CARD).await);
        }
        for replica in &self.world.replicas {
            replica.shop.ready().await.unwrap();
            let presses = payments.iter().map(|payment| payment.pay(replica.shop.address()));
            let answers: Vec<_> = join_all(presses).await.into_iter().map(Result::unwrap).collect();
            assert!(answers.iter().all(Answer::is_final), "at once: {answers:?}");
        }
        let sql = "select count(*), count(*) filter (where state like 'idle in transaction%') from pg_stat_activity
                   where datname = current_database() and application_name = 'payonce'";
        let (open, stuck): (i64, i64) = sqlx::query_as(sql).fetch_one(&self.world.database.pool).await.unwrap();
        // Each replica has one beside its pool, which answers whether the server takes writes.
        assert!(open <= i64::from(2 * (POOL_SIZE + 1)) && stuck == 0, "{open} connections, {stuck} in a transaction");
    }
}

/// Runs a command of the operator, again where the database refused.
async fn operator(words: &[&str], url: &str) -> String {
    for _ in 0..PRESSES_MAX {
        match process::run(words, ("DATABASE_URL", url)).await {
            Ok(printed) => return printed,
            Err(error) => assert!(error.to_string().contains("database"), "a clear answer: {error}"),
        }
    }
    unreachable!("{words:?} never succeeds");
}

/// Each statement fails once at each replica; gives those that did at one of them.
async fn strike_each(ground: Arc<Ground>, code: &str) -> BTreeSet<String> {
    let mut scene = Scene::new(&ground).await;
    for replica in &scene.world.replicas {
        replica.statements().strikes().begin(code);
    }
    for replica in [0, 1] {
        scene.visit(replica).await;
        scene.pay(replica).await;
        scene.pay_by_bank(replica).await;
        scene.program(replica).await;
        scene.events(replica).await;
    }
    // The one that is left unknown, and nobody asks: recovery.
    let left = scene.payment(0, GOOD_CARD).await;
    misbehave_once(&ground, &left, "charge_then_drop").await;
    let call = press(scene.world.victim(), &left).await;
    until("recovery", UNASKED, || books::is_final(&scene.world.database.pool, &left)).await.unwrap();
    drop(call);
    scene.overtake().await;
    scene.stop().await;
    let unasked = || async { Ok(scene.struck().iter().any(|sql| sql.contains("and look_at > now()"))) };
    until("the look for leases from a clock that fell back", UNASKED, unasked).await.unwrap();
    for replica in &scene.world.replicas {
        replica.statements().strikes().end();
    }

    let db = &scene.world.database.pool;
    let open = || async {
        let sql = "select count(*) from intents where finished_at is null";
        Ok(sqlx::query_scalar::<_, i64>(sql).fetch_one(db).await? == 0)
    };
    until("every intent is final", UNASKED, open).await.unwrap();
    scene.assert_pools_are_whole().await;
    let accounts = books::check(&scene.world.database.pool, &ground.sandbox, &scene.payments, &[]).await.unwrap();
    for (account, payment) in accounts.into_iter().zip(&scene.payments) {
        let end = if payment.payment_method == DECLINED_CARD { ("failed", 0) } else { ("succeeded", 1) };
        assert_eq!((account.state.as_deref(), account.charges), (Some(end.0), end.1), "{code}: {payment:?}");
    }
    scene.struck()
}

/// Where nothing happened the customer is told so, and when to come back; what passes by itself is run again, and what was charged
/// is booked. In the end each payment is final and charged once at most, and no connection is lost to the pool.
#[tokio::test(flavor = "multi_thread")]
async fn fault_p9_every_statement_may_fail_with_every_code() {
    let ground = Ground::new().await.unwrap();
    let all = all_statements();
    let runs = CODES.map(|code| {
        let ground = Arc::clone(&ground);
        async move { (code, strike_each(ground, code).await) }.boxed()
    });
    let struck: Vec<_> = stream::iter(runs).buffer_unordered(4).collect().await;
    for (code, struck) in struck {
        let missed = all.difference(&struck).filter(|sql| !ELSEWHERE.iter().any(|part| sql.contains(part)));
        assert_eq!(missed.collect::<Vec<_>>(), Vec::<&String>::new(), "{code}: statements that did not fail");
    }
}
