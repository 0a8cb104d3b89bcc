//! One payment: what it costs, what it leaves, and how it ends when the bank says no.

use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::{Executor as _, PgPool};

use crate::house::{GOOD_CARD, House, Order, Plan, until, uuid};

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_customer_who_pays_is_charged_once(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("lamp").await;
    let intent = uuid();
    let answer = house.pay(&order, &intent, GOOD_CARD).await;
    let body = answer.assert_succeeded().json();
    assert_eq!(body["intent"], intent);
    assert_eq!(body["amount"], order.amount);
    assert_eq!(body["currency"], order.currency);
    let charges = house.charges(&order).await;
    assert_eq!(charges.len(), 1);
    assert_eq!(charges[0]["id"], body["charge"]);
    assert_eq!(charges[0]["idempotency_key"], format!("payonce:pay:{}:{intent}", order.id));
    assert_eq!(house.outcome(&order, Some(&intent)).await["state"], "paid");
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_decline_is_an_outcome_and_stays_the_answer_of_its_intent(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let intent = uuid();
    let first = house.pay(&order, &intent, "pm_card_visa_chargeDeclinedInsufficientFunds").await;
    assert_eq!(first.json()["state"], "FAILED");
    assert_eq!(first.json()["decline"], "insufficient_funds");
    let again = house.pay(&order, &intent, "pm_card_visa_chargeDeclinedInsufficientFunds").await;
    assert_eq!(again.archived(), first.archived());
    assert!(again.replayed && !first.replayed);
    house.assert_not_charged(&order).await;
    house.assert_books_balance().await;
}

/// A declined card uses up its intent, never the order: the next card is a new intent that names the one it replaces.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b30_after_a_decline_another_card_pays_the_same_order_once(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let (first, second) = (uuid(), uuid());
    assert_eq!(house.pay(&order, &first, "pm_card_chargeDeclined").await.json()["state"], "FAILED");
    let mut body = House::pay_body(&order, &second, GOOD_CARD);
    body["pay"]["replaces"] = json!(first);
    house.send(0, &body).await.assert_succeeded();
    house.assert_charged_once(&order).await;
    assert_eq!(house.count("select count(*) from intents").await, 2, "the decline is kept as a try of the same order");
    assert_eq!(house.count("select count(*) from orders").await, 1);
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn only_a_failed_intent_can_be_replaced(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let mut body = House::pay_body(&order, &uuid(), GOOD_CARD);
    body["pay"]["replaces"] = json!(uuid());
    house.send(0, &body).await.assert_refused(422, "replaces_unfinished");
    house.assert_not_charged(&order).await;
}

/// Lost, stolen and fraud look like any other no.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_lost_or_stolen_card_is_not_told_apart(db: PgPool) {
    let house = House::new(db).await;
    for card in ["pm_card_visa_chargeDeclinedLostCard", "pm_card_visa_chargeDeclinedStolenCard"] {
        let order = house.order("mug").await;
        let body = house.pay(&order, &uuid(), card).await;
        assert_eq!(body.json()["decline"], "generic", "{card}");
        assert!(!String::from_utf8_lossy(&body.body).contains("stolen"));
        house.assert_not_charged(&order).await;
    }
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b96_b97_b99_every_price_reaches_the_provider_as_it_is_shown(db: PgPool) {
    let house = House::new(db).await;
    let products: Vec<(String, String, i64)> =
        sqlx::query_as("select sku, currency, price_minor from products order by sku")
            .fetch_all(&house.db)
            .await
            .unwrap();
    assert!(products.iter().any(|(_, currency, _)| currency == "JPY"));
    assert!(products.iter().any(|(_, currency, _)| currency == "BHD"));
    for (sku, currency, price) in products {
        let order = house.order(&sku).await;
        house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
        let charges = house.charges(&order).await;
        assert_eq!(charges[0]["amount"], price, "{sku} in {currency}");
    }
    house.assert_books_balance().await;
}

/// The bank wants to see the customer: nothing is charged until they approve, and the return address may be opened by anyone,
/// as often as they like.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b10_coming_back_from_the_bank_twice_has_one_effect(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("lamp").await;
    let intent = uuid();
    let answer = house.pay(&order, &intent, "pm_card_threeDSecureRequired").await.json();
    assert_eq!((&answer["state"], &answer["detail"]), (&json!("PENDING"), &json!("action_required")));
    house.assert_not_charged(&order).await;
    approve_at_the_bank(&house, &answer).await;
    let back = format!("{}/orders/{}", house.url(), order.token);
    let (one, two) = tokio::join!(house.http.get(&back).send(), house.http.get(&back).send());
    assert!(one.unwrap().status().is_success() && two.unwrap().status().is_success());
    assert_eq!(house.outcome(&order, Some(&intent)).await["state"], "paid");
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// Pressing Pay again during the bank step leads to the same bank page.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b06_paying_again_during_the_bank_step_resumes_the_same_intent(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("lamp").await;
    let intent = uuid();
    let mut addresses = Vec::new();
    for _ in 0..3 {
        let answer = house.pay(&order, &intent, "pm_card_threeDSecureRequired").await;
        assert!(answer.status.is_success());
        addresses.push(answer.json()["continue_url"].clone());
    }
    assert!(addresses.iter().all(|address| *address == addresses[0] && address.is_string()), "{addresses:?}");
    approve_at_the_bank(&house, &house.pay(&order, &intent, "pm_card_threeDSecureRequired").await.json()).await;
    assert_eq!(house.outcome(&order, Some(&intent)).await["state"], "paid");
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

pub async fn approve_at_the_bank(house: &House, answer: &Value) {
    let page = answer["continue_url"].as_str().expect("the bank's address");
    let form = house.http.get(page).send().await.unwrap().text().await.unwrap();
    let step = form.split("name=\"step\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("the step");
    let address = page.split('?').next().unwrap();
    let pressed = house.http.post(address).form(&[("decision", "approve"), ("step", step)]).send().await.unwrap();
    assert_eq!(pressed.status().as_u16(), 303, "the bank sends the customer back");
}

/// Two statements, two commits: reserve and settle, as the database itself counts them. What a fresh connection costs (its
/// start, and a prepare of each statement) is the same in both rounds and falls out; what the database's own housekeeping
/// commits meanwhile does not, so three tries are allowed to be undisturbed.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_payment_costs_two_statements_and_two_commits(db: PgPool) {
    const PAYMENTS: i64 = 20;
    const COST: Counted = Counted { statements: PAYMENTS * 2, commits: PAYMENTS * 2 };
    let house = House::with(db, Plan { pool_size: 1, ..Plan::default() }).await;
    let mut costs = Vec::new();
    while costs.len() < 3 && !costs.contains(&COST) {
        let many = cost_of(&house, PAYMENTS + 1).await;
        let one = cost_of(&house, 1).await;
        costs.push(Counted { statements: many.statements - one.statements, commits: many.commits - one.commits });
    }
    assert!(costs.contains(&COST), "{PAYMENTS} payments cost {costs:?}");
    house.assert_books_balance().await;
}

/// What this many payments cost, of orders that were made before.
async fn cost_of(house: &House, payments: i64) -> Counted {
    let mut orders = Vec::new();
    for _ in 0..payments {
        orders.push(house.order("mug").await);
    }
    let before = Counted::read(house).await;
    for order in &orders {
        house.pay(order, &uuid(), GOOD_CARD).await.assert_succeeded();
    }
    let after = Counted::read(house).await;
    Counted { statements: after.statements - before.statements, commits: after.commits - before.commits }
}

/// What the database has counted for this database.
#[derive(Debug, PartialEq, Eq)]
struct Counted {
    statements: i64,
    commits: i64,
}

impl Counted {
    /// A connection reports its commits late, or when it ends; so all of them are ended first. The pools open new ones.
    async fn read(house: &House) -> Self {
        let admin = house.admin().await;
        admin.execute("create extension if not exists pg_stat_statements").await.unwrap();
        let name = house.database_name();
        let one =
            async |sql: &'static str| -> i64 { sqlx::query_scalar(sql).bind(&name).fetch_one(&admin).await.unwrap() };
        one("select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = $1").await;
        until("all connections have ended", || async {
            one("select count(*) from pg_stat_activity where datname = $1").await == 0
        })
        .await;
        Self {
            statements: one("select coalesce(sum(s.calls), 0)::bigint
                 from pg_stat_statements s join pg_database d on d.oid = s.dbid where d.datname = $1")
            .await,
            commits: one("select xact_commit from pg_stat_database where datname = $1").await,
        }
    }
}

/// A card form that one order's page made pays that order's intent; its session is worth nothing for another one.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_card_session_pays_the_intent_of_its_form_and_no_other(db: PgPool) {
    let house = House::new(db).await;
    let (ana, ben) = (house.order("lamp").await, house.order("mug").await);
    let (intent, other) = (uuid(), uuid());
    let session = house.card_session(&ana, &intent, "4242424242424242").await;
    let form = |order: &Order, intent: &str| {
        [
            ("intent", intent.to_owned()),
            ("session", session.clone()),
            ("amount", order.amount.to_string()),
            ("currency", order.currency.clone()),
        ]
    };
    for (order, intent) in [(&ben, &other), (&ana, &other)] {
        let refused = house.post_pay_form(order, &form(order, intent)).await;
        assert_eq!(refused.status(), StatusCode::NOT_FOUND);
        let review = format!("{}/checkout/{}/review?session={session}&intent={intent}", house.url(), order.token);
        let page = house.http.get(review).send().await.unwrap();
        assert_eq!(page.status(), StatusCode::NOT_FOUND);
        assert!(!page.text().await.unwrap().contains("4242"), "another order's card is not shown");
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
    assert_eq!(house.post_pay_form(&ana, &form(&ana, &intent)).await.status(), StatusCode::SEE_OTHER);
    house.assert_charged_once(&ana).await;
    house.assert_not_charged(&ben).await;
    house.assert_books_balance().await;
}
