//! The provider's ledger and ours are compared: what is certain is repaired, the rest is told once, and nobody is charged again.

use std::{process::Stdio, sync::Arc, time::Duration};

use futures::{StreamExt as _, future::join_all, stream};
use payments::reconcile::{self, ReconcileError, Request, report::Report};
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::process::Command;

use crate::house::{GOOD_CARD, House, Order, Plan, SECRET_KEY, until, uuid};

const LEDGER: &str = "select count(*) from ledger_entries";
const DECLINED_CARD: &str = "pm_card_chargeDeclined";

/// Compares everything, at one of the replicas.
pub async fn reconcile(house: &House, replica: usize) -> Report {
    let everything = Request { since: Some(time::OffsetDateTime::UNIX_EPOCH), ..Request::default() };
    let report = reconcile::run(&house.replicas[replica].ctx, everything).await.unwrap();
    assert_eq!(report.ended_early, None);
    report
}

pub fn kinds(report: &Report) -> Vec<&str> {
    report.open.iter().map(|open| open.kind.as_str()).collect()
}

/// The sandbox's control surface.
pub async fn control(house: &House, what: &str, body: Value) -> Value {
    let sent = house.http.post(format!("{}/_sandbox/{what}", house.sandbox.url)).json(&body).send().await.unwrap();
    assert!(sent.status().is_success(), "{what}: {}", sent.text().await.unwrap());
    sent.json().await.unwrap()
}

/// A payment that this shop did not make; gives its charge.
async fn elsewhere(house: &House, body: Value) -> String {
    control(house, "charges", body).await["charge"]["id"].as_str().unwrap().to_owned()
}

async fn paid(house: &House) -> Order {
    let order = house.order("mug").await;
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    order
}

/// A few at a time, as many as there are connections.
async fn pay_many(house: &House, count: usize) {
    stream::iter(0..count).for_each_concurrent(3, async |_| drop(paid(house).await)).await;
}

/// Charged, the answer lost, and nobody looks any more.
async fn charged_in_silence(house: &House) -> Order {
    let order = house.order("mug").await;
    for fault in [
        json!({"match": {"path": "confirm"}, "fault": {"kind": "charge_then_drop"}, "next": 1}),
        json!({"match": {"path": "retrieve"}, "fault": {"kind": "error_500"}}),
    ] {
        house.sandbox.fault(&house.http, fault).await;
    }
    let intent = uuid();
    house.pay(&order, &intent, GOOD_CARD).await;
    until("nobody knows", || async {
        let sql = "select state from intents where id = $1::uuid";
        let state: Option<String> = sqlx::query_scalar(sql).bind(&intent).fetch_optional(&house.db).await.unwrap();
        state.as_deref() == Some("unknown")
    })
    .await;
    order
}

fn impatient() -> Plan {
    Plan { replicas: 2, pool_size: 16, pay_wait: Duration::from_millis(50), ..Plan::default() }
}

/// A hundred is one page, a hundred and one are two. One charge has no order of ours.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b111_every_page_is_read_and_the_one_charge_without_an_order_is_told(db: PgPool) {
    let house = House::new(db).await;
    let stranger = elsewhere(&house, json!({"amount": 777, "currency": "eur", "silent": true})).await;
    for (charges, more) in [(100, 99), (101, 1), (250, 149)] {
        pay_many(&house, more).await;
        let report = reconcile(&house, 0).await;
        let eur = payments::money::Currency::parse("EUR").unwrap();
        let (theirs, ours) = (report.tally.charges_theirs.0[&eur], report.tally.charges_ours.0[&eur]);
        assert_eq!((theirs.count, ours.count), (charges, charges - 1));
        assert_eq!(theirs.minor, ours.minor + 777);
        assert_eq!(kinds(&report), ["unknown_payment_intent"], "told once, however often it is found");
        let open = &report.open[0];
        assert_eq!((open.charge.as_deref(), open.reported_minor), (Some(stranger.as_str()), Some(777)));
    }
    house.assert_books_balance().await;
}

/// Three tries of one payment are one payment.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b113_a_payment_with_three_tries_is_counted_once(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    for card in [DECLINED_CARD, DECLINED_CARD, GOOD_CARD] {
        house.pay(&order, &uuid(), card).await;
    }
    let report = reconcile(&house, 0).await;
    for sums in [&report.tally.charges_theirs, &report.tally.charges_ours] {
        let all: Vec<_> = sums.0.values().map(|sum| (sum.count, sum.minor)).collect();
        assert_eq!(all, [(1, i128::from(order.amount))]);
    }
    assert_eq!((report.open_total, report.open.len()), (0, 0));
    house.assert_books_balance().await;
}

/// One of fifty had failed here and is charged there, and one is of a kind that nobody knows: the others are compared, both are
/// told, and the run comes to its end.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b114_one_unexpected_entry_stops_nothing(db: PgPool) {
    let house = House::new(db).await;
    pay_many(&house, 6).await;
    let failed = house.order("mug").await;
    let answer = house.pay(&failed, &uuid(), DECLINED_CARD).await;
    assert_eq!(answer.json()["state"], "FAILED");
    let id: String = sqlx::query_scalar("select provider_payment_intent from orders where token = $1")
        .bind(&failed.token)
        .fetch_one(&house.db)
        .await
        .unwrap();
    let confirm = house.http.post(format!("{}/v1/payment_intents/{id}/confirm", house.sandbox.url));
    let confirmed = confirm.bearer_auth(SECRET_KEY).form(&[("payment_method", GOOD_CARD)]).send().await.unwrap();
    assert!(confirmed.status().is_success());
    // A currency whose decimals we do not know.
    let odd = elsewhere(&house, json!({"amount": 100_000, "currency": "afn", "silent": true})).await;
    pay_many(&house, 42).await;

    let report = reconcile(&house, 0).await;
    assert_eq!((report.tally.charges_theirs.count(), report.tally.charges_ours.count()), (49, 48));
    let mut told = kinds(&report);
    told.sort_unstable();
    assert_eq!(told, ["charge_of_failed_intent", "unreadable_charge"]);
    assert!(report.open.iter().any(|open| open.charge.as_deref() == Some(&odd)));
    assert_eq!(house.outcome(&failed, None).await["state"], "paid", "what was charged is the order's");
    assert_eq!(house.count(LEDGER).await, 98);
    assert_eq!(reconcile(&house, 0).await.open_total, 2, "told once");
    house.assert_books_balance().await;
}

/// No event comes, recovery does not run, and nobody asks: the reconciliation finds the charge, at two replicas at once.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b109_a_charge_that_nobody_told_of_is_settled(db: PgPool) {
    let house = House::with(db, impatient()).await;
    let mut orders = Vec::new();
    for _ in 0..5 {
        orders.push(charged_in_silence(&house).await);
    }
    assert_eq!(house.count("select count(*) from orders where state = 'paid'").await, 0);

    let looked = Request { dry_run: true, ..Request::default() };
    let looked = reconcile::run(&house.replicas[1].ctx, looked).await.unwrap();
    assert_eq!((kinds(&looked), house.count(LEDGER).await), (vec!["state_mismatch"; 5], 0), "it only looks");
    let both = [0, 1].map(|replica| reconcile::run(&house.replicas[replica].ctx, Request::default()));
    let mut settled = 0;
    for ran in join_all(both).await {
        match ran {
            Ok(report) => settled += report.tally.settled,
            Err(ReconcileError::UnderWay) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((settled, house.count(LEDGER).await), (5, 10));
    house.sandbox.no_faults(&house.http).await;
    for order in &orders {
        assert_eq!(house.outcome(order, None).await["state"], "paid");
        house.assert_charged_once(order).await;
    }
    assert_eq!(reconcile(&house, 1).await.open_total, 0);
    house.assert_books_balance().await;
}

/// What the reconciliation read grows old while it works. Whatever is learned meanwhile by others stays.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_70_a_repair_and_newer_news_at_once_have_one_effect(db: PgPool) {
    let house = House::with(db, impatient()).await;
    for round in 0..10 {
        let order = charged_in_silence(&house).await;
        house.sandbox.no_faults(&house.http).await;
        let (first, second, third) = tokio::join!(
            reconcile::run(&house.replicas[0].ctx, Request::default()),
            payments::recover::run_once(&house.replicas[1].ctx),
            house.outcome(&order, None),
        );
        assert_eq!(first.unwrap().ended_early, None, "{round}");
        second.unwrap();
        assert!(third["state"].is_string(), "{third}");
        house.outcome_becomes(&order, "paid").await;
        house.assert_charged_once(&order).await;
    }
    assert_eq!(house.count(LEDGER).await, 20);
    assert_eq!(house.count("select count(*) from outbox_events").await, 10);
    assert_eq!(reconcile(&house, 0).await.open_total, 0);
    house.assert_books_balance().await;
}

/// Two charges of one order: the second is told, given back under its own key, and then healed.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_second_charge_is_told_and_given_back_once(db: PgPool) {
    let house = House::new(db).await;
    let order = paid(&house).await;
    let of_order = json!({"amount": order.amount, "currency": "eur", "metadata": {"order": order.id}, "silent": true});
    let second = elsewhere(&house, of_order).await;
    let report = reconcile(&house, 0).await;
    assert_eq!(report.tally.told, 1);
    for open in &report.open {
        assert_eq!((open.kind.as_str(), open.charge.as_deref()), ("second_charge", Some(second.as_str())));
        assert_eq!(open.order_id.map(|id| id.to_string()), Some(order.id.clone()));
    }
    for _ in 0..2 {
        assert_eq!(reconcile(&house, 0).await.open_total, 0);
    }
    assert_eq!(house.count("select count(*) from discrepancies where resolution = 'refunded'").await, 1, "and kept");
    assert_eq!(house.count(LEDGER).await, 2, "the second charge was never ours");
    let charges = house.sandbox.charges(&house.http, Some(&order.id)).await;
    let refunded = |id: &str| charges.iter().find(|charge| charge["id"] == id).unwrap()["refunded"].as_i64().unwrap();
    assert_eq!(refunded(&second), order.amount);
    let page = house.http.get(format!("{}/orders/{}", house.url(), order.token)).send().await.unwrap();
    let page = page.text().await.unwrap();
    assert!(page.contains("By our mistake you were charged ") && !page.contains("You were charged once"), "{page}");
    assert_eq!(charges.iter().map(|charge| charge["refunded"].as_i64().unwrap()).sum::<i64>(), order.amount);
}

/// What a person closed stays closed, and what healed and is there again is open again.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn what_a_person_closed_stays_closed(db: PgPool) {
    let house = House::new(db).await;
    elsewhere(&house, json!({"amount": 500, "currency": "eur", "silent": true})).await;
    assert_eq!(reconcile(&house, 0).await.open_total, 1);
    sqlx::query("update discrepancies set resolved_at = now()").execute(&house.db).await.unwrap();
    assert_eq!(reconcile(&house, 0).await.open_total, 0);
    sqlx::query("update discrepancies set resolution = 'agrees'").execute(&house.db).await.unwrap();
    assert_eq!(reconcile(&house, 0).await.open_total, 1);
    assert_eq!(house.count("select count(*) from discrepancies").await, 1);
}

/// We say paid, and the provider has no such charge.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_charge_that_only_we_have_is_told(db: PgPool) {
    let house = House::new(db).await;
    let order = paid(&house).await;
    let forgotten = house.http.delete(format!("{}/_sandbox/state", house.sandbox.url)).send().await.unwrap();
    assert!(forgotten.status().is_success());
    let report = reconcile(&house, 0).await;
    assert_eq!(kinds(&report), ["only_ours"]);
    assert_eq!((report.open[0].expected_minor, report.open[0].reported_minor), (Some(order.amount), None));
    assert_eq!(house.outcome(&order, None).await["state"], "paid", "nothing is undone by it");
}

/// The list breaks off: the run says so, and the next one begins where this one did.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_run_that_could_not_end_is_made_again_from_its_beginning(db: PgPool) {
    let house = House::with(db, impatient()).await;
    paid(&house).await;
    let first = reconcile::run_if_due(&house.replicas[0].ctx, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(first.ended_early, None);
    let kept = "select extract(epoch from read_until)::bigint from readings where name = 'reconciliation'";
    let before = house.count(kept).await;

    house.sandbox.fault(&house.http, json!({"match": {"path": "list"}, "fault": {"kind": "error_500"}})).await;
    let broken = reconcile::run_if_due(&house.replicas[1].ctx, Duration::ZERO).await.unwrap().unwrap();
    assert!(broken.ended_early.is_some());
    assert_eq!(house.count(kept).await, before);

    house.sandbox.no_faults(&house.http).await;
    let stranger = elsewhere(&house, json!({"amount": 500, "currency": "eur", "silent": true})).await;
    let again = reconcile::run_if_due(&house.replicas[1].ctx, Duration::from_mins(1)).await.unwrap().unwrap();
    assert_eq!((again.ended_early.as_deref(), again.open[0].charge.as_deref()), (None, Some(stranger.as_str())));
    assert!(house.count(kept).await >= before);
    let next = reconcile::run_if_due(&house.replicas[0].ctx, Duration::from_mins(1)).await.unwrap();
    assert!(next.is_none(), "it is not time, at any replica");
    house.assert_books_balance().await;
}

/// Runs the command; gives its exit code and what it printed.
async fn command(house: &House, words: &[&str]) -> (Option<i32>, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_payonce"))
        .arg("reconcile")
        .args(words)
        .env_clear()
        .env("DATABASE_URL", house.database_url())
        .env("PAYONCE_PROVIDER_URL", &house.sandbox.url)
        .env("PAYONCE_PROVIDER_SECRET_KEY", SECRET_KEY)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    (ran.status.code(), String::from_utf8(ran.stdout).unwrap())
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_exit_code_says_whether_something_is_open(db: PgPool) {
    let house = House::new(db).await;
    let order = paid(&house).await;
    let (code, table) = command(&house, &[]).await;
    assert_eq!(code, Some(0), "{table}");
    assert!(table.contains("charges") && table.contains("0 open"), "{table}");

    let stranger = elsewhere(&house, json!({"amount": 500, "currency": "usd", "silent": true})).await;
    let (code, looked) = command(&house, &["--dry-run", "--json"]).await;
    let looked: Value = serde_json::from_str(&looked).unwrap();
    assert_eq!((code, house.count("select count(*) from discrepancies").await), (Some(1), 0));
    assert_eq!(looked["open"][0]["charge"], stranger);
    assert_eq!(looked["charges"]["ours"], json!([{"currency": "EUR", "count": 1, "minor": order.amount.to_string()}]));
    let (code, csv) = command(&house, &["--csv"]).await;
    assert_eq!(code, Some(1));
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines.len() == 2 && lines[1].contains(&stranger) && lines[1].contains(",500,USD,"), "{csv}");

    house.sandbox.fault(&house.http, json!({"match": {"path": "list"}, "fault": {"kind": "error_500"}})).await;
    let (code, table) = command(&house, &[]).await;
    assert!(code == Some(2) && table.contains("NOT FINISHED"), "{table}");
    assert_eq!(command(&house, &["--since", "yesterday"]).await.0, Some(2));
    let busy = "update readings set owner = gen_random_uuid(), lease_expires_at = now() + interval '1 minute'";
    sqlx::query(busy).execute(&house.db).await.unwrap();
    assert_eq!(command(&house, &[]).await, (Some(2), String::new()), "another one is under way");
    let ctx = Arc::new(house.replicas[0].ctx.clone());
    assert!(matches!(reconcile::run(&ctx, Request::default()).await, Err(ReconcileError::UnderWay)));
}
