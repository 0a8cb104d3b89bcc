//! The browser's request, the provider's notices, recovery and a customer's retry meet on one intent. Whoever comes first, and
//! however often: one charge, one booking, one event, and nothing goes back.

use std::{sync::Arc, time::Duration};

use futures::future::{join, join_all};
use payments::{
    Ctx,
    ids::IntentId,
    intent::Standing,
    limits::Limits,
    notice::{self, Notice},
    order::{self, Order, OrderState},
    provider::ProviderCharge,
    recover,
};
use sqlx::{Executor as _, PgPool};

use crate::{
    books::assert_books_balance,
    fake::{Fake, Mood},
    support::{count, eventually, lamp, pay_until_answered, pay_with, replica, replica_with, state_of},
};

/// How often each race is run.
const ROUNDS: usize = 100;

/// Nobody waits, and nobody looks by himself: what happens is what the test does.
fn left_alone(pool: &PgPool, provider: &Arc<Fake>) -> Ctx {
    let limits = Limits {
        pay_wait: Duration::from_millis(1),
        first_pause: Duration::from_millis(1),
        longest_look_pause: Duration::from_millis(1),
        chase_looks: 0,
        ..Limits::default()
    };
    replica_with(pool, provider, limits)
}

async fn tell(ctx: &Ctx, order: &Order, news: Notice) -> Option<Standing> {
    let payment_intent = order.provider_payment_intent.as_ref().unwrap();
    notice::take(ctx, payment_intent, news, None).await.unwrap()
}

fn charge_of(provider: &Fake, order: &Order) -> ProviderCharge {
    let charges = provider.charges();
    charges.into_iter().find(|(of, _)| *of == order.id.to_string()).unwrap().1
}

/// An intent whose charge was made, while its answer was lost.
async fn charged_and_lost(ctx: &Ctx, pool: &PgPool, provider: &Arc<Fake>) -> (Order, IntentId) {
    let order = lamp(ctx).await;
    let intent = ctx.ids.intent();
    provider.next([Mood::ChargeThenLose]);
    let _ = pay_with(ctx, &order, intent).await;
    eventually("it is unknown", || async { state_of(pool, intent).await.filter(|state| state == "unknown") }).await;
    (order, intent)
}

/// B38, B39, B42: three kinds of news of one payment, the browser's repeat and recovery, all released together.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b38_b39_b42_all_who_know_of_a_charge_at_once_book_it_once(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = [left_alone(&pool, &provider), left_alone(&pool, &provider)];
    for _ in 0..ROUNDS {
        let (order, intent) = charged_and_lost(&ctx[0], &pool, &provider).await;
        let charge = charge_of(&provider, &order);
        let news = [
            Notice::Charged(charge.clone()),
            Notice::Changed,
            Notice::Charged(charge.clone()),
            Notice::Charged(charge),
        ];
        let told = join_all(news.into_iter().zip(ctx.iter().cycle()).map(|(news, ctx)| tell(ctx, &order, news)));
        let (told, (recovered, _repeat)) =
            join(told, join(recover::run_once(&ctx[1]), pay_with(&ctx[0], &order, intent))).await;
        recovered.unwrap();
        assert!(told.iter().any(|standing| matches!(standing, Some(Standing::Succeeded { .. }))));
        assert_eq!(pay_until_answered(&ctx[0], &order, intent).await.answer.status, 200);
    }
    let rounds = i64::try_from(ROUNDS).unwrap();
    assert_eq!(count(&pool, "select count(*) from orders where state = 'paid'").await, rounds);
    assert_eq!(count(&pool, "select count(*) from ledger_entries").await, 2 * rounds);
    assert_eq!(count(&pool, "select count(*) from outbox_events").await, rounds);
    assert_eq!(count(&pool, "select count(*) from discrepancies").await, 0);
    assert_books_balance(&pool, &provider).await;
}

/// B55: repair and retry act on the same unknown payment; half of the time it had been charged, half of the time not.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b55_recovery_and_a_retry_together_make_one_charge_and_never_go_back(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = [left_alone(&pool, &provider), left_alone(&pool, &provider)];
    // Every change of state, as the database saw it.
    pool.execute(
        "create table moves (intent uuid, old text, new text);
         create function note() returns trigger language plpgsql as
            $$ begin insert into moves values (new.id, old.state, new.state); return null; end $$;
         create trigger note after update on intents for each row when (old.state <> new.state) execute function note();",
    )
    .await
    .unwrap();
    for round in 0..ROUNDS {
        let order = lamp(&ctx[0]).await;
        let intent = ctx[0].ids.intent();
        provider.next([if round % 2 == 0 { Mood::ChargeThenLose } else { Mood::LoseBefore }]);
        let _ = pay_with(&ctx[0], &order, intent).await;
        eventually("it is unknown", || async { state_of(&pool, intent).await.filter(|state| state == "unknown") })
            .await;

        let (recovered, _) = join(recover::run_once(&ctx[1]), pay_with(&ctx[0], &order, intent)).await;
        recovered.unwrap();
        eventually("it is paid", || async {
            recover::run_once(&ctx[1]).await.unwrap();
            state_of(&pool, intent).await.filter(|state| state == "succeeded")
        })
        .await;
    }
    assert_eq!(provider.charges().len(), ROUNDS);
    let moves: Vec<(String, String)> =
        sqlx::query_as("select distinct old, new from moves order by 1, 2").fetch_all(&pool).await.unwrap();
    let legal = [("pending", "unknown"), ("unknown", "succeeded")].map(|(old, new)| (old.to_owned(), new.to_owned()));
    assert_eq!(moves, legal);
    let twice = "select count(*) from (select from moves group by intent, new having count(*) > 1) as again";
    assert_eq!(count(&pool, twice).await, 0);
    assert_books_balance(&pool, &provider).await;
}

/// B56: the customer approves at the bank and never comes back. The provider's news settle it; without them, recovery does.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b56_a_customer_who_never_comes_back_from_the_bank_has_paid(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = left_alone(&pool, &provider);
    for told in [true, false] {
        let order = lamp(&ctx).await;
        let intent = ctx.ids.intent();
        provider.next([Mood::BankStep]);
        assert_eq!(pay_until_answered(&ctx, &order, intent).await.answer.status, 202);
        provider.end_bank_step(true);
        if told {
            tell(&ctx, &order, Notice::Charged(charge_of(&provider, &order))).await;
        } else {
            eventually("recovery looks", || async {
                recover::run_once(&ctx).await.unwrap();
                state_of(&pool, intent).await.filter(|state| state == "succeeded")
            })
            .await;
        }
        let order = order::find_by_token(&ctx, &order.token).await.unwrap().unwrap();
        assert!(matches!(order.state, OrderState::Paid(payment) if payment.intent == intent), "told: {told}");
    }
    assert_books_balance(&pool, &provider).await;
}

/// B51: the charge is made, and writing the paid order fails, again and again. The shop does not forget: each retry of the
/// customer finds the first charge, and when the database writes again, it is booked.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b51_a_fault_after_the_charge_never_leads_to_a_second_one(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let limits = Limits { pay_wait: Duration::from_millis(50), lease: Duration::from_millis(200), ..Limits::default() };
    let ctx = replica_with(&pool, &provider, limits);
    let order = lamp(&ctx).await;
    let (intent, another) = (ctx.ids.intent(), ctx.ids.intent());
    pool.execute(
        "create function fail() returns trigger language plpgsql as
            $$ begin raise exception 'the order cannot be written'; end $$;
         create trigger fail before update on orders for each row when (new.state = 'paid') execute function fail();",
    )
    .await
    .unwrap();

    for _ in 0..3 {
        let _ = pay_with(&ctx, &order, intent).await;
        let _ = pay_with(&ctx, &order, another).await;
        recover::run_once(&ctx).await.unwrap();
    }
    assert_eq!(count(&pool, "select count(*) from orders where state = 'paid'").await, 0);
    assert_eq!(count(&pool, "select count(*) from intents where state in ('succeeded', 'failed')").await, 0);

    pool.execute("drop trigger fail on orders").await.unwrap();
    eventually("it is booked", || async {
        recover::run_once(&ctx).await.unwrap();
        state_of(&pool, intent).await.filter(|state| state == "succeeded")
    })
    .await;
    assert_eq!(pay_until_answered(&ctx, &order, intent).await.answer.status, 200);
    assert_eq!(provider.charges().len(), 1);
    assert_books_balance(&pool, &provider).await;
}

/// The same over a healthy replica, where nobody left anybody alone: news and answer arrive within a moment of each other.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b63_news_and_answer_within_a_moment_of_each_other_are_one_payment(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = [replica(&pool, &provider), replica(&pool, &provider)];
    for _ in 0..ROUNDS {
        let order = lamp(&ctx[0]).await;
        let intent = ctx[0].ids.intent();
        let news = async {
            let made = || async { provider.charges().iter().any(|(of, _)| *of == order.id.to_string()).then_some(()) };
            eventually("it is charged", made).await;
            tell(&ctx[1], &order, Notice::Charged(charge_of(&provider, &order))).await
        };
        let (answer, standing) = join(pay_with(&ctx[0], &order, intent), news).await;
        let archived = standing.unwrap().archive().unwrap().kept().unwrap().answer().clone();
        assert_eq!(answer.unwrap().answer, archived);
    }
    assert_eq!(count(&pool, "select count(*) from discrepancies").await, 0);
    assert_books_balance(&pool, &provider).await;
}
