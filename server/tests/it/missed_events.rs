//! Our endpoint was down, and no delivery came: the provider's list tells what they would have told.

use std::time::Duration;

use futures::future::join_all;
use payments::inbox::missed;
use serde_json::json;
use sqlx::PgPool;

use crate::house::{GOOD_CARD, House, Order, Plan, until, uuid};

const UNRESOLVED: &str = "select count(*) from intents where finished_at is null";
const PAID: &str = "select count(*) from orders where state = 'paid'";

/// Charges so many orders, and loses the answers; nobody can look, so that only events can tell.
async fn charge_in_silence(house: &House, count: usize) -> Vec<Order> {
    house.sandbox.no_faults(&house.http).await;
    let mut orders = Vec::new();
    for _ in 0..count {
        orders.push(house.order("mug").await);
    }
    for fault in [
        json!({"match": {"path": "confirm"}, "fault": {"kind": "charge_then_drop"}}),
        json!({"match": {"path": "retrieve"}, "fault": {"kind": "error_500"}}),
    ] {
        house.sandbox.fault(&house.http, fault).await;
    }
    // A few at a time, as many as there are connections.
    for some in orders.chunks(4) {
        join_all(some.iter().map(|order| async { house.pay(order, &uuid(), GOOD_CARD).await })).await;
    }
    let unknown = "select count(*) from intents where state = 'unknown'";
    let count = i64::try_from(count).unwrap();
    until("nobody knows", || async { house.count(unknown).await == count }).await;
    orders
}

fn impatient() -> Plan {
    Plan { replicas: 2, pool_size: 16, pay_wait: Duration::from_millis(50), ..Plan::default() }
}

/// The list is due now, as after its pause.
async fn due(house: &House) {
    sqlx::query("update readings set due_at = now() where name = 'events'").execute(&house.db).await.unwrap();
}

/// Reads on at both replicas; gives how many events were new.
async fn read_on(house: &House) -> usize {
    due(house).await;
    let [one, other] = [0, 1].map(|replica| missed::run_once(&house.replicas[replica].ctx));
    let (one, other) = tokio::join!(one, other);
    one.unwrap() + other.unwrap()
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn w9_two_hundred_payments_while_the_endpoint_was_down_are_found(db: PgPool) {
    let house = House::with(db, impatient()).await;
    let orders = charge_in_silence(&house, 200).await;
    assert_eq!((house.count(UNRESOLVED).await, house.count(PAID).await), (200, 0));

    assert!(read_on(&house).await >= 200);

    assert_eq!((house.count(UNRESOLVED).await, house.count(PAID).await), (0, 200));
    assert_eq!(house.count("select count(*) from ledger_entries").await, 400);
    // Read again, since events may come into the list late: each costs a look, and nothing more.
    assert_eq!(read_on(&house).await, 0);
    assert_eq!(house.count("select count(*) from inbox_events where deliveries > 1 or handled_at is null").await, 0);
    house.sandbox.no_faults(&house.http).await;
    for order in orders.iter().step_by(50) {
        house.assert_charged_once(order).await;
    }
    house.assert_books_balance().await;
}

/// Three days, by which the provider has given up delivering. It does not know the place any more from which we want to read on.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn w9_a_place_that_the_provider_has_forgotten_is_found_again_by_its_time(db: PgPool) {
    let house = House::with(db, impatient()).await;
    for (place, days) in [(None, 0), (Some("evt_long_forgotten"), 3), (Some("evt_of_last_year"), 400)] {
        charge_in_silence(&house, 3).await;
        sqlx::query(
            "update readings set place = $1, read_until = case when $1 is null then null else now() - make_interval(days => $2) end
             where name = 'events'",
        )
        .bind(place)
        .bind(days)
        .execute(&house.db)
        .await
        .unwrap();
        assert!(read_on(&house).await >= 3, "{place:?}");
        assert_eq!(house.count(UNRESOLVED).await, 0, "{place:?}");
    }
    assert_eq!(house.count(PAID).await, 9);
    house.assert_books_balance().await;
}

/// A reader that dies leaves a lease, and the place up to which it had kept what it read.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_reader_that_died_is_followed_by_another(db: PgPool) {
    let house = House::with(db, impatient()).await;
    charge_in_silence(&house, 2).await;
    let dead = "update readings set owner = gen_random_uuid(), lease_expires_at = now() + make_interval(secs => $1)";
    sqlx::query(dead).bind(60_f64).execute(&house.db).await.unwrap();
    assert_eq!(read_on(&house).await, 0, "somebody else reads");
    assert_eq!(house.count(UNRESOLVED).await, 2);

    sqlx::query(dead).bind(-1_f64).execute(&house.db).await.unwrap();
    assert!(read_on(&house).await >= 2);
    assert_eq!(house.count(UNRESOLVED).await, 0);
    house.assert_books_balance().await;
}

/// A list that cannot be read moves no place; the next reading finds all.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_list_that_cannot_be_read_is_read_the_next_time(db: PgPool) {
    let house = House::with(db, impatient()).await;
    charge_in_silence(&house, 2).await;
    house.sandbox.fault(&house.http, json!({"match": {"path": "events"}, "fault": {"kind": "error_500"}})).await;
    missed::run_once(&house.replicas[0].ctx).await.unwrap_err();
    assert_eq!(house.count("select count(*) from readings where place is null and owner is null").await, 2);

    house.sandbox.no_faults(&house.http).await;
    house
        .sandbox
        .fault(&house.http, json!({"match": {"path": "events"}, "fault": {"kind": "half_body"}, "next": 2}))
        .await;
    due(&house).await;
    missed::run_once(&house.replicas[1].ctx).await.unwrap();
    assert_eq!((house.count(UNRESOLVED).await, house.count(PAID).await), (0, 2));
    house.assert_books_balance().await;
}
