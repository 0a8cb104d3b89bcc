//! A backup is restored that is older than what was paid meanwhile, and the reconciliation brings it back.

use futures::future::join_all;
use serde_json::json;
use sqlx::{Executor as _, PgPool};

use crate::{
    house::{GOOD_CARD, House, Order, Plan, uuid},
    reconcile::{kinds, reconcile},
};

/// What the database held at that instant: rows that were made later are gone, orders that were paid later are open.
async fn restore(db: &PgPool, instant: &str) {
    let sql = format!(
        "begin;
        set local session_replication_role = replica;
        delete from outbox_events where created_at > '{instant}';
        delete from ledger_entries where created_at > '{instant}';
        delete from discrepancies where created_at > '{instant}';
        delete from inbox_events where received_at > '{instant}';
        delete from intents where created_at > '{instant}';
        update orders set state = 'open', paid_intent = null, charge = null, paid_at = null
        where state = 'paid' and not exists (select from intents i where i.order_id = orders.id and i.state = 'succeeded');
        delete from order_lines where order_id in (select id from orders where created_at > '{instant}');
        delete from orders where created_at > '{instant}';
        commit;"
    );
    db.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
}

async fn now(db: &PgPool) -> String {
    sqlx::query_scalar("select now()::text").fetch_one(db).await.unwrap()
}

async fn orders(house: &House, count: usize) -> Vec<Order> {
    let mut orders = Vec::new();
    for _ in 0..count {
        orders.push(house.order("mug").await);
    }
    orders
}

/// Every charge is back at its order, or is an open discrepancy; whoever presses Pay again, before or after, is not charged.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn x2_after_a_restore_every_charge_is_back_at_its_order_or_told_and_nobody_is_charged_again(db: PgPool) {
    let house = House::with(db, Plan { replicas: 2, ..Plan::default() }).await;
    let (before, open) = (orders(&house, 3).await, orders(&house, 6).await);
    let pay = async |order: &Order| {
        let intent = uuid();
        house.pay(order, &intent, GOOD_CARD).await.assert_succeeded();
        intent
    };
    join_all(before.iter().map(&pay)).await;
    assert_eq!(reconcile(&house, 0).await.open_total, 0);
    let backup = now(&house.db).await;
    let intents = join_all(open.iter().map(&pay)).await;
    let younger = orders(&house, 2).await;
    join_all(younger.iter().map(&pay)).await;

    restore(&house.db, &backup).await;
    assert_eq!(house.count("select count(*) from orders where state = 'paid'").await, 3);
    // Two come again before anybody compares: one with the UUID that they had, one with another.
    house.pay(&open[0], &intents[0], GOOD_CARD).await.assert_succeeded();
    house.pay(&open[1], &uuid(), GOOD_CARD).await.assert_succeeded();

    let report = reconcile(&house, 1).await;
    assert_eq!((report.tally.recovered, report.open_total), (4, 2));
    assert_eq!(kinds(&report), ["unknown_payment_intent"; 2], "the orders that the backup did not know");
    let mut named: Vec<_> = report.open.iter().filter_map(|open| open.order_id).map(|id| id.to_string()).collect();
    let mut lost: Vec<_> = younger.iter().map(|order| order.id.clone()).collect();
    named.sort();
    lost.sort();
    assert_eq!(named, lost);
    assert_eq!(house.count("select count(*) from intents where recovered_at is not null").await, 4);

    // And two come again afterwards, in the same two ways: the order is paid, and they are told so.
    for (order, intent) in [(&open[2], intents[2].clone()), (&open[3], uuid())] {
        let answer = house.pay(order, &intent, GOOD_CARD).await;
        assert_eq!(house.outcome(order, Some(&intent)).await["state"], "paid", "{answer:?}");
    }
    for order in before.iter().chain(&open).chain(&younger) {
        house.assert_charged_once(order).await;
    }
    let again = reconcile(&house, 0).await;
    assert_eq!((again.tally.recovered, again.tally.settled, again.open_total), (0, 0, 2));
    house.assert_books_balance().await;
}

/// An event of a lost payment comes before anybody compares: it is told, and heals when the payment is back at its order.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn what_an_event_could_not_place_heals_when_its_order_is_paid(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let backup = now(&house.db).await;
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    restore(&house.db, &backup).await;
    payments::inbox::missed::run_once(&house.replicas[0].ctx).await.unwrap();
    assert_eq!(house.count("select count(*) from discrepancies where resolved_at is null").await, 1);

    let report = reconcile(&house, 0).await;
    assert_eq!((report.tally.recovered, report.tally.healed, report.open_total), (1, 1, 0));
    assert_eq!(house.count("select count(*) from discrepancies where resolution = 'booked'").await, 1, "and kept");
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// The whole database is gone and begun anew: every charge is told, and none is anybody's.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn charges_of_lost_orders_are_all_told(db: PgPool) {
    let house = House::new(db).await;
    let backup = now(&house.db).await;
    let lost = orders(&house, 3).await;
    for order in &lost {
        house.pay(order, &uuid(), GOOD_CARD).await.assert_succeeded();
    }
    restore(&house.db, &backup).await;
    let report = reconcile(&house, 0).await;
    assert_eq!(kinds(&report), ["unknown_payment_intent"; 3]);
    assert_eq!(report.tally.recovered, 0);
    let charge = report.open[0].charge.clone().unwrap();
    crate::reconcile::control(&house, "refunds", json!({"charge": charge, "silent": true})).await;
    assert_eq!(reconcile(&house, 0).await.open_total, 2, "given back is settled");
}
