//! Statements that no door of the shop leads to in a moment fail once, with each SQLSTATE that a fault of the server shows: they
//! are run again at once, or by whoever runs them the next time, and have one effect.

use std::{fmt::Debug, sync::Arc, time::Duration};

use payments::{
    api_key, expire,
    inbox::{self, Effect, Received},
    intent::Fact,
    limits::Limits,
    money::Money,
    order::by_key::{self, NewOrderByKey, OrderKey},
    outcome,
    provider::{ProviderCharge, ProviderChargeId, ProviderEvent},
    purge,
    settle::{self, Target},
};
use sqlx::{AssertSqlSafe, Executor as _, PgPool};

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{count, eur, eventually, lamp, pay_with, replica_with},
};

const CODES: [&str; 8] = ["40001", "40P01", "55P03", "57014", "25006", "53300", "57P01", "57P03"];
/// What cancels a statement may cancel it again, so that it is not repeated at once.
const NOT_REPEATED: &str = "57014";

/// Makes the next write of this kind fail, once. A sequence counts, since it survives the abort.
async fn strike_once(pool: &PgPool, table: &str, write: &str, code: &str) {
    let sql = format!(
        "drop function if exists strike() cascade; drop sequence if exists strikes; create sequence strikes;
         create function strike() returns trigger language plpgsql as $$
         begin
             if nextval('strikes') = 1 then
                 raise exception using errcode = '{code}', message = 'struck';
             end if;
             return coalesce(new, old);
         end $$;
         create trigger strike before {write} on {table} for each row execute function strike();"
    );
    pool.execute(AssertSqlSafe(sql)).await.unwrap();
}

/// Struck once: repeated at once, or told, and right the next time.
fn assert_clear<T: Debug, E: Debug>(code: &str, first: Result<T, E>) {
    assert_eq!(first.is_err(), code == NOT_REPEATED, "{code}: {first:?}");
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_p9_a_purge_that_fails_is_made_again(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let nothing_is_kept = Limits { retention: Duration::ZERO, order_key_memory: Duration::ZERO, ..Limits::default() };
    let ctx = replica_with(&pool, &provider, nothing_is_kept);
    let (api_key, _) = api_key::create(&ctx.pool, &ctx.ids, "a program").await.unwrap();
    for (code, n) in CODES.into_iter().zip(1..) {
        let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
        pay_with(&ctx, &order, intent).await.unwrap();
        strike_once(&pool, "intents", "update", code).await;
        assert_clear(code, purge::run(&ctx).await);
        // A run may still pass over what the failed one had locked: Postgres tells of a failure before it lets go.
        eventually("the next runs purge it", || async {
            purge::run(&ctx).await.unwrap();
            (count(&pool, "select count(*) from intents where purged_at is not null").await == n).then_some(())
        })
        .await;

        let new = NewOrderByKey {
            api_key,
            key: OrderKey::parse(code).unwrap(),
            currency: eur(),
            lines: vec![by_key::NewLine::Product { sku: payments::ids::Sku::parse("lamp").unwrap(), quantity: 1 }],
            email: None,
            checkouts_url: "https://shop.example/checkout/".to_owned(),
        };
        by_key::create(&ctx, &new).await.unwrap();
        strike_once(&pool, "order_keys", "update", code).await;
        assert_clear(code, by_key::purge(&ctx).await);
        eventually("the next runs purge it", || async {
            by_key::purge(&ctx).await.unwrap();
            (count(&pool, "select count(*) from order_keys where purged_at is not null").await == n).then_some(())
        })
        .await;
    }
    assert_books_balance(&pool, &provider).await;
}

/// Money for an intent that has failed, and money that is not what was agreed: told once, and the first is booked once.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_p9_money_that_does_not_fit_is_told_once(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = replica_with(&pool, &provider, Limits::default());
    let charge = |id: String, minor| ProviderCharge {
        id: ProviderChargeId::parse(&id).unwrap(),
        money: Money::new(minor, eur()),
        created: None,
    };
    for (code, n) in CODES.into_iter().zip(1..) {
        let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
        provider.next([Mood::Decline]);
        pay_with(&ctx, &order, intent).await.unwrap();
        let found = outcome::ask(&ctx, &order.token, Some(intent)).await.unwrap().unwrap();
        let target = Target::from(&found.intent.unwrap());
        let late = Fact::Charged(charge(format!("ch_late_{code}"), 4990));
        strike_once(&pool, "ledger_entries", "insert", code).await;
        assert_clear(code, settle::apply(&ctx, &target, &late).await);
        settle::apply(&ctx, &target, &late).await.unwrap();
        assert_eq!(count(&pool, "select count(*) from ledger_entries").await, 2 * n, "{code}");
        assert_eq!(
            count(&pool, "select count(*) from outbox_events where kind = 'order_paid_late'").await,
            n,
            "{code}"
        );

        let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
        provider.next([Mood::BankStep]);
        let _at_the_bank = pay_with(&ctx, &order, intent).await;
        let found = outcome::ask(&ctx, &order.token, Some(intent)).await.unwrap().unwrap();
        let target = Target::from(&found.intent.unwrap());
        let wrong = Fact::Charged(charge(format!("ch_wrong_{code}"), 4989));
        strike_once(&pool, "discrepancies", "insert", code).await;
        assert_clear(code, settle::apply(&ctx, &target, &wrong).await);
        settle::apply(&ctx, &target, &wrong).await.unwrap();
        let told = "select count(*) from discrepancies where kind = 'amount_mismatch'";
        assert_eq!(count(&pool, told).await, n, "{code}");
    }
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_p9_old_events_that_cannot_be_forgotten_are_forgotten_by_the_next_run(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let nothing_is_kept = Limits { inbox_memory: Duration::ZERO, ..Limits::default() };
    let ctx = replica_with(&pool, &provider, nothing_is_kept);
    for code in CODES {
        let event = ProviderEvent {
            id: format!("evt_{code}"),
            kind: "balance.adjusted".to_owned(),
            told_at: ctx.clock.now(),
            wrong_mode: false,
            about: None,
        };
        assert_eq!(inbox::receive(&ctx, event.clone()).await.unwrap(), Received::Handled(Effect::Nothing));
        assert_eq!(inbox::receive(&ctx, event).await.unwrap(), Received::Again);
        strike_once(&pool, "inbox_events", "delete", code).await;
        assert_clear(code, inbox::purge(&ctx).await);
        inbox::purge(&ctx).await.unwrap();
        assert_eq!(count(&pool, "select count(*) from inbox_events").await, 0, "{code}");
    }
}

/// The taking of due orders fails, or the closing: the next run closes the order, and its piece comes back once.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_p9_an_order_that_could_not_be_closed_is_closed_by_the_next_run(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let at_once = Limits { order_hold: Duration::ZERO, expire_pause: Duration::ZERO, ..Limits::default() };
    let ctx = replica_with(&pool, &provider, at_once);
    let mut orders = 0;
    for code in CODES {
        for table in ["orders", "products"] {
            lamp(&ctx).await;
            orders += 1;
            strike_once(&pool, table, "update", code).await;
            let first = expire::run(&ctx).await;
            if table == "orders" {
                assert_clear(code, first);
            } else {
                assert_eq!(first.unwrap().held > 0, code == NOT_REPEATED, "{code}: held until the next run");
            }
            eventually("the next runs close it", || async {
                expire::run(&ctx).await.unwrap();
                (count(&pool, "select count(*) from orders where state = 'closed'").await == orders).then_some(())
            })
            .await;
            assert_eq!(count(&pool, "select stock::bigint from products where sku = 'lamp'").await, 500, "{code}");
        }
    }
    assert_books_balance(&pool, &provider).await;
}
