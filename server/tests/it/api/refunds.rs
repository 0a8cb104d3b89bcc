//! Money back by program. Each test ends with what the provider really gave back.

use std::time::Duration;

use futures::future::join_all;
use payments::{
    Ctx,
    ids::{IntentId, OrderId},
    limits::Limits,
    money::{Currency, Money},
    provider::{ProviderChargeId, ProviderPaymentIntentId},
    refund::{self, RefundRequest},
};
use serde_json::{Value, json};
use server::web::api::wire::{RefundFailed, RefundPending, RefundSucceeded};
use sqlx::PgPool;

use super::{Program, Reply, payment, payments_of};
use crate::{
    database_goes_away::{SETTLE, strike_once},
    house::{GOOD_CARD, House, Plan, WEBHOOK_SECRET, until, uuid},
};

const K1: &str = "5d0b4f8e-2c7a-4b19-8f36-71e0a9c4d253";
/// Its refunds are pending until somebody says how they end.
const PENDING_CARD: &str = "pm_card_pendingRefund";

/// A paid order of this much.
async fn paid(program: &Program<'_>, minor: i64, currency: &str, card: &str) -> Value {
    let lines = json!([{"name": "A thing", "unit_amount": minor, "quantity": 1}]);
    let made = program.post("/api/v1/orders", &uuid(), &json!({"currency": currency, "lines": lines})).await;
    let order = made.json();
    let key = uuid();
    until("it is paid", || async { program.pay(&order, &key, &payment(&order, card)).await.status == 200 }).await;
    order
}

fn refunds_of(order: &Value) -> String {
    format!("/api/v1/orders/{}/refunds", order["id"].as_str().unwrap())
}

async fn give_back(program: &Program<'_>, order: &Value, key: &str, minor: i64) -> Reply {
    program.post(&refunds_of(order), key, &json!({"amount": minor})).await
}

async fn read(program: &Program<'_>, order: &Value) -> Value {
    program.get(&format!("/api/v1/orders/{}", order["id"].as_str().unwrap())).await.json()
}

/// The order's charge in the provider's ledger.
async fn charge(house: &House, order: &Value) -> Value {
    let charges = house.sandbox.charges(&house.http, order["id"].as_str()).await;
    let [charge] = charges.as_slice() else { panic!("one charge: {charges:?}") };
    charge.clone()
}

/// What the provider gave back, or is giving back, of the order's charge.
async fn given_back(house: &House, order: &Value) -> i64 {
    charge(house, order).await["refunded"].as_i64().unwrap()
}

async fn control(house: &House, what: &str, body: Value) -> Value {
    let sent = house.http.post(format!("{}/_sandbox/{what}", house.sandbox.url)).json(&body).send().await.unwrap();
    assert!(sent.status().is_success(), "{what}: {}", sent.text().await.unwrap());
    sent.json().await.unwrap()
}

/// The provider delivers its events to the first replica.
async fn deliver_events(house: &House) {
    let endpoint = json!({"url": format!("{}/webhooks/stripe", house.url()), "secret": WEBHOOK_SECRET});
    control(house, "webhook_endpoints", endpoint).await;
}

async fn fault(house: &House, kind: &str, more: Value) {
    let mut fault = json!({"kind": kind});
    fault.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    house.sandbox.fault(&house.http, json!({"match": {"path": "refund"}, "fault": fault, "next": 1})).await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_same_key_gives_back_once_and_another_request_is_refused(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let program = Program::new(&house).await;
    let order = paid(&program, 4_100, "GBP", GOOD_CARD).await;

    let first = give_back(&program, &order, K1, 392).await;
    assert_eq!((first.status, first.replayed()), (200, false), "{first:?}");
    let told: RefundSucceeded = serde_json::from_slice(&first.body).unwrap();
    assert_eq!((told.intent.as_str(), told.amount, told.currency.as_str()), (K1, 392, "GBP"));
    assert_eq!(told.charge, charge(&house, &order).await["id"]);

    let again = program.post_at(1, &refunds_of(&order), K1, &json!({"amount": 392})).await;
    assert_eq!(again.archived(), first.archived());
    assert!(again.replayed());
    for other in [json!({"amount": 393}), json!({"amount": 392, "reason": "duplicate"})] {
        program.post(&refunds_of(&order), K1, &other).await.assert_problem(422, "key-reused");
    }
    assert_eq!(give_back(&program, &order, K1, 392).await.archived(), first.archived());

    let shown = read(&program, &order).await;
    assert_eq!(shown["refunded"], json!({"refunded": 392, "disputed": 0, "remaining": 3_708}));
    assert_eq!((&shown["refunds"][0]["intent"], &shown["refunds"][0]["state"]), (&json!(K1), &json!("SUCCEEDED")));
    assert_eq!(given_back(&house, &order).await, 392);
    let page = format!("{}/orders/{}", house.url(), order["token"].as_str().unwrap());
    let page = house.http.get(page).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("£3.92 was sent back to you on "), "the receipt tells of it");
    house.assert_books_balance().await;
}

/// Two clicks on Refund while the answer is slow are one refund; the same amount once more, on purpose, is another.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b82_rf1_two_clicks_give_back_once(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let program = Program::new(&house).await;
    let order = paid(&program, 4_100, "GBP", GOOD_CARD).await;
    fault(&house, "delay_before", json!({"ms": 1_000})).await;

    let (path, body) = (refunds_of(&order), json!({"amount": 392}));
    let clicks = (0..6).map(|click| program.post_at(click % 2, &path, K1, &body));
    let answers = join_all(clicks).await;
    for answer in &answers {
        assert_eq!(answer.archived(), answers[0].archived());
    }
    assert_eq!(answers[0].status, 200);
    assert_eq!(given_back(&house, &order).await, 392);

    assert_eq!(give_back(&program, &order, &uuid(), 392).await.status, 200);
    assert_eq!(given_back(&house, &order).await, 784);
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b83_pitfall_64_rf3_two_refunds_at_once_never_exceed_the_charge(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let program = Program::new(&house).await;
    for round in 0..50 {
        let order = paid(&program, 10_000, "USD", GOOD_CARD).await;
        let (path, body) = (refunds_of(&order), json!({"amount": 6_000}));
        let (one, other) = (uuid(), uuid());
        let (one, other) =
            tokio::join!(program.post_at(0, &path, &one, &body), program.post_at(1, &path, &other, &body));
        let (done, refused) = if one.status == 200 { (one, other) } else { (other, one) };
        assert_eq!(done.status, 200, "round {round}: {done:?}");
        let problem = refused.assert_problem(409, "exceeds-remaining");
        assert_eq!(problem["remaining"], 4_000, "round {round}");
        assert_eq!(given_back(&house, &order).await, 6_000, "round {round}");
    }
    house.assert_books_balance().await;
}

/// The reservation itself refuses, when both passed the look before it: the sum is compared under the order's lock.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn rf3_many_parts_at_once_give_back_the_charge_and_not_more(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let program = Program::new(&house).await;
    let order = paid(&program, 10_000, "USD", GOOD_CARD).await;
    let (path, body) = (refunds_of(&order), json!({"amount": 900}));
    let keys: Vec<String> = (0..20).map(|_| uuid()).collect();
    let (program, path, body) = (&program, &path, &body);
    let parts = keys.iter().enumerate().map(|(n, key)| async move {
        // Told to come back, a program does, with the same key.
        loop {
            let status = program.post_at(n % 2, path, key, body).await.status;
            if status != 503 {
                return status;
            }
        }
    });
    let answers = join_all(parts).await;
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 11, "{answers:?}");
    assert!(answers.iter().all(|status| matches!(status, 200 | 409)), "{answers:?}");
    assert_eq!(given_back(&house, &order).await, 9_900);
    assert_eq!(read(program, &order).await["refunded"]["remaining"], 100);
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b86_b90_everything_once_and_then_nothing_more(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    for total in [8_400, 100, 105] {
        let order = paid(&program, total, "EUR", GOOD_CARD).await;
        let more = give_back(&program, &order, &uuid(), total + 1).await;
        assert_eq!(more.assert_problem(409, "exceeds-remaining")["remaining"], total);
        assert_eq!(give_back(&program, &order, &uuid(), total).await.status, 200);
        for again in [total, 1] {
            let refused = give_back(&program, &order, &uuid(), again).await;
            assert_eq!(refused.assert_problem(409, "exceeds-remaining")["remaining"], 0);
        }
        assert_eq!(given_back(&house, &order).await, total);
    }
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b95_amounts_reach_the_provider_as_they_are(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = paid(&program, 4_000, "USD", GOOD_CARD).await;
    let mut sum = 0;
    for minor in [1_250, 1_000, 7, 110] {
        assert_eq!(give_back(&program, &order, &uuid(), minor).await.status, 200);
        sum += minor;
        assert_eq!(given_back(&house, &order).await, sum);
    }
    for odd in
        [json!({"amount": 12.5}), json!({"amount": "10.00"}), json!({"amount": 0}), json!({"amount": -1}), json!({})]
    {
        assert!(matches!(program.post(&refunds_of(&order), &uuid(), &odd).await.status, 400 | 422), "{odd}");
    }
    let other = json!({"amount": 1, "currency": "EUR"});
    program.post(&refunds_of(&order), &uuid(), &other).await.assert_problem(422, "invalid-field");
    assert_eq!(given_back(&house, &order).await, sum);
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b88_a_pending_refund_is_pending_and_holds_its_amount(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = paid(&program, 109_900, "EUR", PENDING_CARD).await;
    let first = give_back(&program, &order, K1, 109_900).await;
    assert_eq!(first.status, 202, "{first:?}");
    assert!(first.header("retry-after").is_some() && first.header("location").is_some());
    let told: RefundPending = serde_json::from_slice(&first.body).unwrap();
    assert_eq!((told.state.as_str(), told.detail.as_str()), ("PENDING", "at_provider"));
    let second = give_back(&program, &order, &uuid(), 109_900).await;
    assert_eq!(second.assert_problem(409, "exceeds-remaining")["remaining"], 0);

    deliver_events(&house).await;
    let id = read(&program, &order).await["refunds"][0]["refund"].as_str().unwrap().to_owned();
    control(&house, &format!("refunds/{id}"), json!({"status": "succeeded"})).await;
    until("the event is taken in", || async { read(&program, &order).await["refunds"][0]["state"] == "SUCCEEDED" })
        .await;
    let archived = give_back(&program, &order, K1, 109_900).await;
    assert_eq!((archived.status, archived.replayed()), (200, true));
    assert_eq!(given_back(&house, &order).await, 109_900);
    house.assert_books_balance().await;
}

/// A refund that seemed to succeed fails later: its answer stays, the money is ours again, and can be given back anew.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_refund_that_fails_later_is_reversed_and_can_be_made_again(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    deliver_events(&house).await;
    let order = paid(&program, 5_000, "EUR", GOOD_CARD).await;
    let first = give_back(&program, &order, K1, 5_000).await;
    assert_eq!(first.status, 200);
    let id = read(&program, &order).await["refunds"][0]["refund"].as_str().unwrap().to_owned();
    let failed = json!({"status": "failed", "failure_reason": "expired_or_canceled_card"});
    control(&house, &format!("refunds/{id}"), failed).await;
    until("the event is taken in", || async { !read(&program, &order).await["refunds"][0]["reversed_at"].is_null() })
        .await;

    let shown = read(&program, &order).await;
    assert_eq!(shown["refunds"][0]["failure"], "expired_or_canceled_card");
    assert_eq!(shown["refunded"]["remaining"], 5_000);
    assert_eq!(give_back(&program, &order, K1, 5_000).await.archived(), first.archived(), "what was answered stays");
    assert_eq!(given_back(&house, &order).await, 0);
    assert_eq!(house.count("select count(*) from outbox_events where kind = 'refund_reversed'").await, 1);
    assert_eq!(give_back(&program, &order, &uuid(), 5_000).await.status, 200);
    assert_eq!(given_back(&house, &order).await, 5_000);
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b85_an_event_that_overtakes_the_answer_is_the_same_refund(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let program = Program::new(&house).await;
    deliver_events(&house).await;
    let order = paid(&program, 196, "USD", GOOD_CARD).await;
    fault(&house, "delay_after", json!({"ms": 300})).await;
    assert_eq!(give_back(&program, &order, K1, 98).await.status, 200);
    until("all events are handled", || async {
        let open = "select count(*) from inbox_events where kind like '%refund%' and handled_at is null";
        let told = "select count(*) from inbox_events where kind like '%refund%'";
        house.count(told).await > 0 && house.count(open).await == 0
    })
    .await;
    let shown = read(&program, &order).await;
    assert_eq!(shown["refunded"], json!({"refunded": 98, "disputed": 0, "remaining": 98}));
    assert_eq!(shown["refunds"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(given_back(&house, &order).await, 98);
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b94_b62_a_refund_made_elsewhere_is_noticed_once(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let program = Program::new(&house).await;
    let order = paid(&program, 5_000, "EUR", GOOD_CARD).await;
    assert_eq!(give_back(&program, &order, K1, 1_000).await.status, 200);

    for replica in &house.replicas {
        let endpoint = json!({"url": format!("{}/webhooks/stripe", replica.url), "secret": WEBHOOK_SECRET});
        control(&house, "webhook_endpoints", endpoint).await;
    }
    let twice = json!({"match": {"path": "webhook"}, "fault": {"kind": "duplicate", "times": 5}});
    house.sandbox.fault(&house.http, twice).await;
    let of = charge(&house, &order).await["id"].clone();
    control(&house, "refunds", json!({"charge": of, "amount": 4_000})).await;
    until("it is noticed", || async { read(&program, &order).await["refunded"]["remaining"] == 0 }).await;

    let shown = read(&program, &order).await;
    let refunds = shown["refunds"].as_array().unwrap();
    assert_eq!(refunds.len(), 2, "{shown}");
    assert_eq!(refunds.iter().filter(|refund| refund["elsewhere"] == true && refund["amount"] == 4_000).count(), 1);
    assert_eq!(given_back(&house, &order).await, 5_000);
    give_back(&program, &order, &uuid(), 1).await.assert_problem(409, "exceeds-remaining");
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b93_what_is_disputed_is_not_given_back(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    deliver_events(&house).await;
    for (disputed, left) in [(4_500, 0), (2_000, 2_500)] {
        let order = paid(&program, 4_500, "EUR", GOOD_CARD).await;
        let of = charge(&house, &order).await["id"].clone();
        let dispute = control(&house, "disputes", json!({"charge": of, "amount": disputed})).await;
        until("the dispute is known", || async { read(&program, &order).await["refunded"]["disputed"] == disputed })
            .await;
        let refused = give_back(&program, &order, &uuid(), left + 1).await.assert_problem(409, "exceeds-remaining");
        assert_eq!(refused["remaining"], left);
        assert!(refused["detail"].as_str().unwrap().contains("disputed"), "{refused}");
        assert_eq!(given_back(&house, &order).await, 0);
        if left > 0 {
            assert_eq!(give_back(&program, &order, &uuid(), left).await.status, 200);
        }
        let id = dispute["id"].as_str().unwrap();
        control(&house, &format!("disputes/{id}"), json!({"status": "won"})).await;
        until("it is won", || async { read(&program, &order).await["refunded"]["disputed"] == 0 }).await;
        assert_eq!(give_back(&program, &order, &uuid(), 4_500 - left).await.status, 200);
        assert_eq!(given_back(&house, &order).await, 4_500);
    }
    house.assert_books_balance().await;
}

/// We do not know of the dispute yet, and the provider refuses: that is the refund's end.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_refund_that_the_provider_refuses_has_failed_for_good(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = paid(&program, 4_500, "EUR", GOOD_CARD).await;
    let of = charge(&house, &order).await["id"].clone();
    control(&house, "disputes", json!({"charge": of})).await;
    let refused = give_back(&program, &order, K1, 4_500).await;
    assert_eq!(refused.status, 402, "{refused:?}");
    let told: RefundFailed = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(told.failure, "charge_disputed");
    let again = give_back(&program, &order, K1, 4_500).await;
    assert_eq!((again.archived(), again.replayed()), (refused.archived(), true));
    assert_eq!(read(&program, &order).await["refunded"]["remaining"], 4_500, "nothing is held any more");
    assert_eq!(given_back(&house, &order).await, 0);
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_65_rf2_what_is_not_known_to_be_paid_is_not_given_back(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = program.order("mug").await;
    give_back(&program, &order, &uuid(), 1).await.assert_problem(409, "not-paid");

    let lost = json!({"match": {"path": "confirm"}, "fault": {"kind": "charge_then_drop"}, "next": 1});
    house.sandbox.fault(&house.http, lost).await;
    let silent = json!({"match": {"path": "retrieve"}, "fault": {"kind": "error_500"}});
    house.sandbox.fault(&house.http, silent).await;
    let pay = program.request("POST", 0, &payments_of(&order)).json(&payment(&order, GOOD_CARD));
    let pay = pay.header("idempotency-key", uuid()).header("prefer", "wait=1").send().await.unwrap();
    assert_eq!(pay.status().as_u16(), 202);
    let waits = give_back(&program, &order, K1, 100).await.assert_problem(409, "payment-unresolved");
    assert_eq!(waits["safe_to_retry"], true);
    assert_eq!(given_back(&house, &order).await, 0);

    house.sandbox.no_faults(&house.http).await;
    until("the payment is found", || async { read(&program, &order).await["state"] == "paid" }).await;
    assert_eq!(give_back(&program, &order, K1, 100).await.status, 200);
    assert_eq!(given_back(&house, &order).await, 100);
    house.assert_books_balance().await;
}

/// Whatever becomes of the answer, one refund is made.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_lost_answer_never_becomes_a_second_refund(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let program = Program::new(&house).await;
    for kind in ["charge_then_drop", "charge_then_500", "drop_before", "error_500"] {
        let order = paid(&program, 5_000, "EUR", GOOD_CARD).await;
        fault(&house, kind, json!({})).await;
        let key = uuid();
        let answer = give_back(&program, &order, &key, 3_000).await;
        assert_eq!(answer.status, 200, "{kind}: {answer:?}");
        assert_eq!(give_back(&program, &order, &key, 3_000).await.archived(), answer.archived(), "{kind}");
        assert_eq!(given_back(&house, &order).await, 3_000, "{kind}");
    }
    house.assert_books_balance().await;
}

/// The provider forgets the key, and the answer was lost: only looks are left, and they find it.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn g8_after_the_provider_may_have_forgotten_the_key_a_refund_is_only_looked_for(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = paid(&program, 5_000, "EUR", GOOD_CARD).await;
    fault(&house, "drop_before", json!({})).await;
    let forgetful = |memory: Duration| {
        let ctx = &house.replicas[0].ctx;
        let pay_wait = Duration::from_secs(3);
        // Whoever sent it looks no more, as after a crash.
        let limits = Limits { provider_key_memory: memory, pay_wait, chase_looks: 0, ..ctx.limits.clone() };
        Ctx { limits, ..ctx.clone() }
    };
    let asked = RefundRequest {
        order: OrderId::parse(order["id"].as_str().unwrap()).unwrap(),
        intent: IntentId::parse(K1).unwrap(),
        money: Money::new(3_000, Currency::parse("EUR").unwrap()),
        reason: None,
    };
    let said = refund::refund(&forgetful(Duration::ZERO), asked).await.unwrap();
    assert_eq!(said.answer.status, 202);
    let ctx = forgetful(Duration::ZERO);
    until("it is looked for, and not sent", || async {
        refund::run_once(&ctx).await.unwrap();
        house.count("select looks::bigint from intents where operation = 'refund'").await > 4
    })
    .await;
    assert_eq!(given_back(&house, &order).await, 0);
    assert_eq!(read(&program, &order).await["refunds"][0]["state"], "PENDING", "absent is no proof so early");
    assert_eq!(read(&program, &order).await["refunded"]["remaining"], 2_000, "and its amount stays reserved");

    // While it is remembered, the same request goes again.
    let ctx = forgetful(Duration::from_hours(23));
    until("it is sent again", || async {
        refund::run_once(&ctx).await.unwrap();
        read(&program, &order).await["refunds"][0]["state"] == "SUCCEEDED"
    })
    .await;
    assert_eq!(given_back(&house, &order).await, 3_000);
    house.assert_books_balance().await;
}

/// A second charge of an order goes back whole, once, and the order's own can still be given back.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_second_charge_is_given_back_once(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = paid(&program, 5_000, "EUR", GOOD_CARD).await;
    let second = control(&house, "charges", json!({"amount": 5_000, "currency": "eur"})).await;
    let id = ProviderChargeId::parse(second["charge"]["id"].as_str().unwrap()).unwrap();
    let intent = ProviderPaymentIntentId::parse(second["payment_intent"]["id"].as_str().unwrap()).unwrap();
    let money = Money::new(5_000, Currency::parse("EUR").unwrap());
    let order_id = OrderId::parse(order["id"].as_str().unwrap()).unwrap();
    let ctx = &house.replicas[0].ctx;
    let calls = (0..5).map(|_| refund::of_second_charge(ctx, order_id, &intent, &id, money));
    for answer in join_all(calls).await {
        assert_eq!(answer.unwrap().answer.status, 200);
    }
    let charges = house.sandbox.charges(&house.http, None).await;
    let of_second: Vec<_> = charges.iter().filter(|charge| charge["id"] == id.as_str()).collect();
    assert_eq!(of_second[0]["refunded"], 5_000);
    assert_eq!(given_back(&house, &order).await, 0);
    assert_eq!(read(&program, &order).await["refunded"]["remaining"], 5_000);
    let own = ProviderChargeId::parse(charge(&house, &order).await["id"].as_str().unwrap()).unwrap();
    assert!(
        refund::of_second_charge(ctx, order_id, &intent, &own, money).await.is_err(),
        "the paying charge is no second one"
    );
    assert_eq!(give_back(&program, &order, K1, 5_000).await.status, 200);
    assert_eq!(given_back(&house, &order).await, 5_000);
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_purged_refund_is_gone_and_is_not_made_again(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = paid(&program, 5_000, "EUR", GOOD_CARD).await;
    assert_eq!(give_back(&program, &order, K1, 1_000).await.status, 200);
    let ctx = &house.replicas[0].ctx;
    let old = Ctx { limits: Limits { retention: Duration::ZERO, ..ctx.limits.clone() }, ..ctx.clone() };
    assert_eq!(payments::purge::run(&old).await.unwrap(), 2, "the payment and the refund");
    give_back(&program, &order, K1, 1_000).await.assert_problem(410, "key-purged");
    assert_eq!(given_back(&house, &order).await, 1_000);
    house.assert_books_balance().await;
}

/// Whatever a refund does to its rows, the statement may fail once, and is run again.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn p9_the_statements_of_a_refund_may_fail(db: PgPool) {
    const MOVE: &str = "before update on intents";
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    deliver_events(&house).await;

    // Reserve, and taken back since nothing was sent; then it is made under the same key.
    let order = paid(&program, 5_000, "EUR", GOOD_CARD).await;
    strike_once(&house.db, "before delete on intents", "40001").await;
    fault(&house, "status", json!({"status": 429})).await;
    give_back(&program, &order, K1, 1_000).await.assert_problem(503, "not-sent");
    assert_eq!(read(&program, &order).await["refunded"]["remaining"], 5_000);
    strike_once(&house.db, "before insert on intents", "40001").await;
    assert_eq!(give_back(&program, &order, K1, 1_000).await.status, 200);

    // Made elsewhere, and a dispute.
    let of = charge(&house, &order).await["id"].clone();
    strike_once(&house.db, SETTLE, "40001").await;
    control(&house, "refunds", json!({"charge": of, "amount": 1_500})).await;
    until("it is noticed", || async { read(&program, &order).await["refunded"]["refunded"] == 2_500 }).await;
    strike_once(&house.db, "before update on orders", "40001").await;
    control(&house, "disputes", json!({"charge": of, "amount": 500})).await;
    until("the dispute is known", || async { read(&program, &order).await["refunded"]["disputed"] == 500 }).await;

    // It fails later.
    let id = read(&program, &order).await["refunds"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["intent"] == K1)
        .unwrap()["refund"]
        .clone();
    strike_once(&house.db, SETTLE, "40001").await;
    control(&house, &format!("refunds/{}", id.as_str().unwrap()), json!({"status": "failed"})).await;
    until("it is reversed", || async { read(&program, &order).await["refunded"]["refunded"] == 1_500 }).await;
    assert_eq!(given_back(&house, &order).await, 1_500);

    // Pending, and refused.
    let order = paid(&program, 5_000, "EUR", PENDING_CARD).await;
    strike_once(&house.db, MOVE, "40001").await;
    assert_eq!(give_back(&program, &order, K1, 1_000).await.json()["detail"], "at_provider");
    let order = paid(&program, 5_000, "EUR", GOOD_CARD).await;
    house.sandbox.fault(&house.http, json!({"match": {"path": "webhook"}, "fault": {"kind": "never"}})).await;
    control(&house, "disputes", json!({"charge": charge(&house, &order).await["id"]})).await;
    strike_once(&house.db, MOVE, "40001").await;
    assert_eq!(give_back(&program, &order, K1, 5_000).await.status, 402);
    assert_eq!(given_back(&house, &order).await, 0);
    house.assert_books_balance().await;
}

/// What a look at the provider's lists reads of ours may fail, too; the next look finds the same.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn p9_a_look_that_fails_is_made_again(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = paid(&program, 5_000, "EUR", GOOD_CARD).await;
    let charge = charge(&house, &order).await;
    control(&house, "refunds", json!({"charge": charge["id"], "amount": 1_500, "silent": true})).await;
    let payment_intent = ProviderPaymentIntentId::parse(charge["payment_intent"].as_str().unwrap()).unwrap();
    let ctx = &house.replicas[0].ctx;
    for (table, column) in [("orders", "state"), ("intents", "provider_refund"), ("intents", "refunded_charge")] {
        let rename = |from: &str, to: &str| format!("alter table {table} rename column {from} to {to}");
        sqlx::query(sqlx::AssertSqlSafe(rename(column, "hidden"))).execute(&house.db).await.unwrap();
        assert!(refund::at_provider::look(ctx, &payment_intent).await.is_err(), "{table}.{column}");
        sqlx::query(sqlx::AssertSqlSafe(rename("hidden", column))).execute(&house.db).await.unwrap();
    }
    for news in [true, false] {
        let looked = refund::at_provider::look(ctx, &payment_intent).await.unwrap();
        assert_eq!(looked, refund::at_provider::Looked::Known { news });
    }
    assert_eq!(read(&program, &order).await["refunded"]["refunded"], 1_500);
    house.assert_books_balance().await;
}
