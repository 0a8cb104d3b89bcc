//! The statements of the reconciliation fail, with each SQLSTATE that a fault of the server shows: they are run again, and have one
//! effect.

use payments::{inbox::missed, reconcile::Request};
use serde_json::json;
use sqlx::{Executor as _, PgPool};

use crate::{
    house::{GOOD_CARD, House, uuid},
    reconcile::{control, reconcile},
};

const CODES: [&str; 8] = ["40001", "40P01", "55P03", "57014", "25006", "53300", "57P01", "57P03"];

/// Makes the next write at this place fail, once.
async fn strike(db: &PgPool, at: &str, code: &str) {
    let sql = format!(
        "drop function if exists strike() cascade; drop sequence if exists strikes; create sequence strikes;
         create function strike() returns trigger language plpgsql as $$
         begin
             if nextval('strikes') = 1 then
                 raise exception using errcode = '{code}', message = 'struck';
             end if;
             return new;
         end $$;
         create trigger strike before {at} for each row execute function strike();"
    );
    db.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
}

/// A payment that only the provider has: its order is there, its intent is lost, as after a restore.
async fn lose_a_payment(house: &House) {
    let order = house.order("mug").await;
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    let sql = format!(
        "begin; set local session_replication_role = replica;
         delete from outbox_events where order_id = '{0}'; delete from ledger_entries where order_id = '{0}';
         delete from intents where order_id = '{0}';
         update orders set state = 'open', paid_intent = null, charge = null, paid_at = null where id = '{0}';
         commit;",
        order.id
    );
    house.db.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_p9_a_reconciliation_whose_statement_fails_has_one_effect(db: PgPool) {
    let house = House::new(db).await;
    let mut told = 0;
    for code in CODES {
        for place in ["insert on intents", "insert on discrepancies", "update on discrepancies", "update on readings"] {
            lose_a_payment(&house).await;
            control(&house, "charges", json!({"amount": 500, "currency": "eur", "silent": true})).await;
            told += 1;
            strike(&house.db, place, code).await;
            // Struck before it could begin, it may be told so; the next one does all.
            let _ = payments::reconcile::run(&house.replicas[0].ctx, Request::default()).await;
            let report = reconcile(&house, 0).await;
            assert_eq!(report.open_total, told, "{code} {place}");
            assert_eq!(house.count("select count(*) from orders where state <> 'paid'").await, 0, "{code} {place}");
        }
        let due = "drop function strike() cascade; update readings set due_at = now()";
        house.db.execute(due).await.unwrap();
        strike(&house.db, "update on readings", code).await;
        let _ = missed::run_once(&house.replicas[0].ctx).await;
        house.db.execute(due).await.unwrap();
        missed::run_once(&house.replicas[0].ctx).await.unwrap();
    }
    assert_eq!(house.count("select count(*) from readings where owner is not null").await, 0);
    house.assert_books_balance().await;
}
