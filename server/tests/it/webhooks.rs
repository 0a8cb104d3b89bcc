//! What the provider tells of its own accord: early, late, many times, out of order, forged; each time the books say what the
//! provider's ledger says, and nobody is told anything else.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use hmac::{Hmac, KeyInit as _, Mac as _};
use payments::inbox;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use sha2::Sha256;
use sqlx::PgPool;
use time::OffsetDateTime;

use crate::{
    database_goes_away::{SETTLE, strike_once},
    house::{GOOD_CARD, House, Order, Plan, SECRET_KEY, WEBHOOK_SECRET, until, uuid},
};

const LEDGER: &str = "select count(*) from ledger_entries";

fn now() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp()
}

fn signature(secret: &str, time: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{time}.").as_bytes());
    mac.update(body);
    format!("t={time},v1={}", hex::encode(mac.finalize().into_bytes()))
}

/// Delivers a body as the provider does, to one of the replicas.
async fn deliver_to(house: &House, replica: usize, body: &str) -> Response {
    let signed = signature(WEBHOOK_SECRET, now(), body.as_bytes());
    let request = house.http.post(format!("{}/webhooks/stripe", house.replicas[replica].url));
    request.header("stripe-signature", signed).body(body.to_owned()).send().await.unwrap()
}

async fn deliver(house: &House, event: &Value) -> StatusCode {
    deliver_to(house, 0, &event.to_string()).await.status()
}

/// An event of the provider's.
fn event(kind: &str, object: Value) -> Value {
    let id = format!("evt_{}", uuid().replace('-', ""));
    json!({"id": id, "object": "event", "type": kind, "created": now(), "livemode": false, "data": {"object": object}})
}

/// The payment intent of an order as the provider has it now, its charge by its id only, as in events.
async fn payment_intent(house: &House, order: &Order) -> Value {
    let id: String = sqlx::query_scalar("select provider_payment_intent from orders where token = $1")
        .bind(&order.token)
        .fetch_one(&house.db)
        .await
        .unwrap();
    let url = format!("{}/v1/payment_intents/{id}", house.sandbox.url);
    house.http.get(url).bearer_auth(SECRET_KEY).send().await.unwrap().json().await.unwrap()
}

/// As `payment_intent`, once it is charged.
async fn charged(house: &House, order: &Order) -> Value {
    until("the charge", || async { house.charges(order).await.len() == 1 }).await;
    let object = payment_intent(house, order).await;
    assert_eq!(object["status"], "succeeded");
    object
}

/// Charges the next confirm, and loses its answer.
async fn charge_in_silence(house: &House) {
    let fault = json!({"match": {"path": "confirm"}, "fault": {"kind": "charge_then_drop"}, "next": 1});
    house.sandbox.fault(&house.http, fault).await;
}

/// The provider cannot be asked.
async fn no_looking(house: &House) {
    let fault = json!({"match": {"path": "retrieve"}, "fault": {"kind": "error_500"}});
    house.sandbox.fault(&house.http, fault).await;
}

/// Pay does not wait long for an outcome that only an event will bring.
fn impatient() -> Plan {
    Plan { pay_wait: Duration::from_millis(300), ..Plan::default() }
}

/// Charged, the answer lost, and the provider silent: only an event can tell.
async fn charged_and_unknown(house: &House) -> (Order, String, Value) {
    let (order, intent) = (house.order("mug").await, uuid());
    charge_in_silence(house).await;
    no_looking(house).await;
    let answer = house.pay(&order, &intent, GOOD_CARD).await;
    assert_eq!(answer.json()["detail"], "unknown", "{answer:?}");
    house.sandbox.no_faults(&house.http).await;
    let object = charged(house, &order).await;
    no_looking(house).await;
    (order, intent, object)
}

async fn discrepancies(house: &House) -> Vec<(String, Option<String>, Option<i64>, Option<String>)> {
    sqlx::query_as("select kind, payment_intent, reported_minor, reported_currency from discrepancies order by id")
        .fetch_all(&house.db)
        .await
        .unwrap()
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn w2_b57_fifty_copies_on_two_replicas_have_one_effect(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..impatient() }).await;
    let (order, intent, object) = charged_and_unknown(&house).await;
    let body = event("payment_intent.succeeded", object).to_string();

    let sent = (0..50).map(|n| deliver_to(&house, n % 2, &body));
    for answer in join_all(sent).await {
        assert_eq!(answer.status(), StatusCode::OK);
    }
    // And once more a day later, when nobody thinks of it any more.
    assert_eq!(deliver_to(&house, 1, &body).await.text().await.unwrap(), "known\n");

    assert_eq!(house.count(LEDGER).await, 2);
    assert_eq!(house.count("select count(*) from outbox_events").await, 1);
    assert_eq!(house.count("select count(*) from inbox_events where effect = 'applied'").await, 1);
    assert_eq!(house.count("select deliveries::bigint from inbox_events").await, 51);
    house.sandbox.no_faults(&house.http).await;
    house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// The event comes while the confirm is on its way back: the browser that waits gets its answer at once, and the confirm's own
/// answer changes no byte of it.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn w1_b63_an_event_before_the_confirms_answer_settles_with_the_same_bytes(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let (order, intent) = (house.order("mug").await, uuid());
    let slow = json!({"match": {"path": "confirm"}, "fault": {"kind": "delay_after", "ms": 600_000}, "next": 1});
    house.sandbox.fault(&house.http, slow).await;

    let (waited, rival, ()) = tokio::join!(
        house.pay(&order, &intent, GOOD_CARD),
        async {
            until("the reservation", || async { house.count("select count(*) from intents").await == 1 }).await;
            house.pay_at(1, &order, &intent, GOOD_CARD).await
        },
        async {
            let object = charged(&house, &order).await;
            assert_eq!(deliver(&house, &event("payment_intent.succeeded", object)).await, StatusCode::OK);
        }
    );
    waited.assert_succeeded();
    assert_eq!(waited.archived(), rival.archived());
    house.sandbox.no_faults(&house.http).await;
    house.replicas[0].ctx.tasks.close();
    house.replicas[0].ctx.tasks.wait().await;
    assert_eq!(house.pay_at(1, &order, &intent, GOOD_CARD).await.archived(), waited.archived());
    assert_eq!(house.count(LEDGER).await, 2);
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// What is known already is thanked for and changes nothing (B61); the news of an earlier try that failed does not lower what a
/// later one reached (B64, B66); in whatever order all of it comes.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn w3_b61_b64_b66_events_in_any_order_end_in_the_same(db: PgPool) {
    let house = House::new(db).await;
    let kinds = [
        "payment_intent.created",
        "payment_intent.payment_failed",
        "charge.failed",
        "payment_intent.succeeded",
        "charge.succeeded",
    ];
    for (round, order_of_kinds) in permutations(kinds.len()).into_iter().enumerate() {
        let order = house.order("mug").await;
        let declined = uuid();
        if round % 10 == 0 {
            // One try fails, another pays. (A declined card is slow to arrange; every tenth order has one.)
            let answer = house.pay(&order, &declined, "pm_card_chargeDeclined").await;
            assert_eq!(answer.json()["state"], "FAILED");
        }
        let intent = uuid();
        let paid = house.pay(&order, &intent, GOOD_CARD).await;
        paid.assert_succeeded();
        let object = payment_intent(&house, &order).await;
        let charge = json!({
            "id": object["latest_charge"], "object": "charge", "payment_intent": object["id"], "amount": object["amount"],
            "amount_captured": object["amount"], "currency": object["currency"], "created": now(), "status": "succeeded"
        });
        for kind in order_of_kinds.into_iter().map(|n| kinds[n]) {
            let object = if kind.starts_with("charge.") { charge.clone() } else { object.clone() };
            assert_eq!(deliver(&house, &event(kind, object)).await, StatusCode::OK);
        }
        if round % 10 == 0 {
            assert_eq!(house.pay(&order, &intent, GOOD_CARD).await.archived(), paid.archived());
            assert_eq!(house.outcome(&order, None).await["state"], "paid");
            house.assert_charged_once(&order).await;
        }
    }
    let unhandled = "select count(*) from inbox_events where handled_at is null";
    until("all handled", || async { house.count(unhandled).await == 0 }).await;
    assert_eq!(discrepancies(&house).await, []);
    house.assert_books_balance().await;
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(n - 1);
    let insert = |shorter: &Vec<usize>, at: usize| {
        let mut longer = shorter.clone();
        longer.insert(at, n - 1);
        longer
    };
    shorter.iter().flat_map(|shorter| (0..n).map(move |at| insert(shorter, at))).collect()
}

/// What nobody proved reaches no statement: the database is closed, and it is refused all the same. What is proven needs it, and
/// the provider is asked to come again.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn w4_what_is_forged_is_refused_without_the_database(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..impatient() }).await;
    let (_order, _intent, object) = charged_and_unknown(&house).await;
    let body = event("payment_intent.succeeded", object).to_string();
    house.replicas[0].ctx.pool.close().await;
    let right = signature(WEBHOOK_SECRET, now(), body.as_bytes());
    let hook = || house.http.post(format!("{}/webhooks/stripe", house.url())).body(body.clone());
    let forged = [
        hook(),
        hook().header("stripe-signature", ""),
        hook().header("stripe-signature", signature("whsec_of_another_house", now(), body.as_bytes())),
        hook().header("stripe-signature", signature(WEBHOOK_SECRET, now() - 302, body.as_bytes())),
        hook().header("stripe-signature", signature(WEBHOOK_SECRET, now() + 320, body.as_bytes())),
        hook().header("stripe-signature", right.replace("v1=", "v0=")),
        hook().header("stripe-signature", &right).header("stripe-signature", &right),
        hook().header("stripe-signature", &right).body(body.replace("\"amount\":820", "\"amount\":1")),
        hook().header("stripe-signature", &right).body(format!("{body} ")),
        hook().header("signature", &right),
    ];
    for request in forged {
        assert_eq!(request.send().await.unwrap().status(), StatusCode::BAD_REQUEST);
    }
    let large = vec![b' '; 10 * 1024 * 1024];
    let refused = hook().header("stripe-signature", &right).body(large).send().await;
    // Its client may still send when the connection is cut.
    if let Ok(refused) = refused {
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }

    let answer = hook().header("stripe-signature", &right).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.headers().contains_key("retry-after"));
    assert_eq!(house.count("select count(*) from inbox_events").await, 0);
    assert_eq!(house.count(LEDGER).await, 0);

    assert_eq!(deliver_to(&house, 1, &body).await.status(), StatusCode::OK, "the other replica has its database");
    assert_eq!(house.count(LEDGER).await, 2);
    house.assert_books_balance().await;
}

/// The row is there, and its effect is not: a second delivery does what the first could not; without one, a replica does.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn w8_pitfall_59_an_event_counts_as_handled_only_with_its_effect(db: PgPool) {
    let house = House::with(db, impatient()).await;
    for delivered_again in [true, false] {
        let (order, _intent, object) = charged_and_unknown(&house).await;
        let event = event("payment_intent.succeeded", object);
        strike_once(&house.db, SETTLE, "57014").await;
        assert_eq!(deliver(&house, &event).await, StatusCode::SERVICE_UNAVAILABLE);
        let unhandled = "select count(*) from inbox_events where handled_at is null";
        assert_eq!(house.count(unhandled).await, 1, "kept, and not handled");
        if delivered_again {
            assert_eq!(deliver(&house, &event).await, StatusCode::OK);
        } else {
            house.tick_inbox().await;
        }
        assert_eq!(house.count(unhandled).await, 0);
        assert_eq!(house.outcome(&order, None).await["state"], "paid");
        house.sandbox.no_faults(&house.http).await;
        house.assert_charged_once(&order).await;
    }
    assert_eq!(house.count(LEDGER).await, 4);
    house.assert_books_balance().await;
}

/// Money for a payment intent that we do not know is kept and told, whatever events speak of it, and pays nothing.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn w7_b75_what_concerns_no_order_is_thanked_for_and_kept(db: PgPool) {
    let house = House::new(db).await;
    let stranger = json!({
        "id": "pi_stranger", "object": "payment_intent", "amount": 4990, "amount_received": 4990, "currency": "eur",
        "status": "succeeded", "latest_charge": "ch_stranger"
    });
    let charge = json!({
        "id": "ch_stranger", "object": "charge", "payment_intent": "pi_stranger", "amount": 4990, "amount_captured": 4990,
        "currency": "eur", "created": now(), "status": "succeeded"
    });
    for event in [
        event("payment_intent.succeeded", stranger.clone()),
        event("charge.succeeded", charge),
        event("payment_intent.canceled", stranger),
        event("balance.adjusted", json!({"id": "ba_1"})),
        json!({"id": "evt_without_a_type", "data": {"object": {}}}),
        json!({"id": "evt_of_a_list", "type": "charge.succeeded", "data": {"object": {"id": 7, "payment_intent": []}}}),
    ] {
        assert_eq!(deliver(&house, &event).await, StatusCode::OK, "{event}");
    }
    let told =
        ("unknown_payment_intent".to_owned(), Some("pi_stranger".to_owned()), Some(4990), Some("EUR".to_owned()));
    assert_eq!(discrepancies(&house).await, [told], "once, though two events told it");
    assert_eq!(house.count("select count(*) from inbox_events where handled_at is not null").await, 6);
    assert_eq!(house.count("select count(*) from orders").await, 0);
    assert_eq!(deliver_to(&house, 0, "not json").await.status(), StatusCode::BAD_REQUEST);
}

/// Neither another amount nor another currency pays an order; both values are told. An event of the wrong mode is not applied.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b74_b78_what_does_not_fit_is_flagged_and_pays_nothing(db: PgPool) {
    let house = House::with(db, impatient()).await;
    let (order, _intent, object) = charged_and_unknown(&house).await;
    let with = |change: Value| {
        let mut object = object.clone();
        for (name, value) in change.as_object().unwrap() {
            object[name] = value.clone();
        }
        object
    };
    for (n, change) in [
        json!({"amount": 100, "amount_received": 100}),
        json!({"currency": "usd"}),
        json!({"amount": 821, "amount_received": 821}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut wrong = with(change);
        wrong["latest_charge"] = json!(format!("ch_wrong_{n}"));
        assert_eq!(deliver(&house, &event("payment_intent.succeeded", wrong)).await, StatusCode::OK);
    }
    let mut live = event("payment_intent.succeeded", object.clone());
    live["livemode"] = json!(true);
    assert_eq!(deliver(&house, &live).await, StatusCode::OK);

    let told = discrepancies(&house).await;
    let kinds: Vec<_> = told.iter().map(|(kind, ..)| kind.as_str()).collect();
    assert_eq!(kinds, ["amount_mismatch", "amount_mismatch", "amount_mismatch", "wrong_mode"]);
    assert_eq!(told.iter().map(|told| told.2).collect::<Vec<_>>(), [Some(100), Some(820), Some(821), Some(820)]);
    assert_eq!(house.count(LEDGER).await, 0);
    assert_ne!(house.outcome(&order, None).await["state"], "paid");

    assert_eq!(deliver(&house, &event("payment_intent.succeeded", object)).await, StatusCode::OK);
    assert_eq!(house.outcome(&order, None).await["state"], "paid");
    house.sandbox.no_faults(&house.http).await;
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// The provider waits ten seconds for our thanks. What needs asking is kept, thanked for, and done afterwards.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b77_the_thanks_wait_for_no_other_call(db: PgPool) {
    let house = House::with(db, Plan { provider_timeout: Duration::from_mins(1), ..Plan::default() }).await;
    let order = house.order("mug").await;
    house.pay(&order, &uuid(), "pm_card_threeDSecure2Required").await;
    let object = payment_intent(&house, &order).await;
    let slow = json!({"match": {"path": "retrieve"}, "fault": {"kind": "delay_before", "ms": 600_000}, "next": 1});
    house.sandbox.fault(&house.http, slow).await;

    let body = event("payment_intent.payment_failed", object).to_string();
    let answer = deliver_to(&house, 0, &body).await;
    assert_eq!((answer.status(), answer.text().await.unwrap()), (StatusCode::OK, "kept\n".to_owned()));
    let unhandled = "select count(*) from inbox_events where handled_at is null";
    assert_eq!(house.count(unhandled).await, 1, "the look has not ended");
    house.sandbox.no_faults(&house.http).await;
    until("handled", || async { house.count(unhandled).await == 0 }).await;
    house.assert_not_charged(&order).await;
}

impl House {
    /// What a replica does every few seconds, until nothing is left to take up.
    async fn tick_inbox(&self) {
        // It waits half a minute for another delivery first.
        sqlx::query("update inbox_events set try_at = now()").execute(&self.db).await.unwrap();
        let ctx = Arc::new(self.replicas[0].ctx.clone());
        assert_eq!(inbox::run_once(&ctx).await.unwrap(), 1);
    }
}
