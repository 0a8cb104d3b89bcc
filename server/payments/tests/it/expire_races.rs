//! Orders that close at the moment at which somebody pays, orders or closes them too.

use std::sync::Arc;

use futures::future::join_all;
use payments::{
    expire::{self, Expired},
    order::{self, OrderState},
    pay::PayError,
};
use sqlx::PgPool;
use tokio::sync::Semaphore;

use crate::{
    books::assert_books_balance,
    expire::{CLOSED, HELD, hasty, lamps, state},
    fake::{Fake, Mood},
    support::{count, eventually, lamp, new_order, pay_with, state_of},
};

/// More than one batch, two replicas at once, and both at the same orders: each piece comes back once.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn two_replicas_side_by_side_give_the_stock_back_once(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let replicas = [hasty(&pool, &provider), hasty(&pool, &provider)];
    let orders = join_all((0..45).map(|_| lamp(&replicas[0]))).await;
    assert_eq!(lamps(&pool).await, (455, 0));

    let ran = join_all((0..3).flat_map(|_| replicas.iter().map(expire::run))).await;

    let closed: u64 = ran.iter().map(|ran| ran.as_ref().unwrap().closed).sum();
    assert!(closed >= 45, "each is decided by somebody: {ran:?}");
    for order in &orders {
        assert_eq!(state(&replicas[0], order).await, OrderState::Closed);
    }
    assert_eq!(lamps(&pool).await, (500, 0));
    assert_eq!(expire::run(&replicas[1]).await.unwrap(), Expired::default(), "nothing is held any more");
    assert_books_balance(&pool, &provider).await;
}

/// Pay is pressed after the payment intent was cancelled and before the order closes. Nothing is charged, the customer hears
/// that, and only then the order closes.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pay_at_the_moment_of_closing_is_told_not_charged(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = hasty(&pool, &provider);
    let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
    let (cancelling, confirming) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    provider.hold_cancels(Some(Arc::clone(&cancelling)));
    provider.next([Mood::Gate(Arc::clone(&confirming))]);
    let (closer, customer, of_customer) = (ctx.clone(), ctx.clone(), order.clone());
    let closing = ctx.tasks.spawn(async move { expire::run_once(&closer).await });
    eventually("it is cancelled", || async { (provider.cancels() == 1).then_some(()) }).await;
    let paying = ctx.tasks.spawn(async move { pay_with(&customer, &of_customer, intent).await });
    eventually("it is reserved", || async { state_of(&pool, intent).await }).await;

    cancelling.add_permits(1);
    assert_eq!(closing.await.unwrap().unwrap(), HELD, "an order that is being paid does not close");
    assert_eq!((state(&ctx, &order).await, lamps(&pool).await), (OrderState::Open, (499, 0)));
    confirming.add_permits(1);
    let _wait_may_be_over = paying.await.unwrap();
    let answer = eventually("an end", || async {
        pay_with(&ctx, &order, intent).await.ok().filter(|answer| answer.answer.status == 402)
    })
    .await;
    assert!(String::from_utf8_lossy(&answer.answer.body).contains("not_charged"));

    provider.hold_cancels(None);
    assert_eq!(expire::run(&ctx).await.unwrap(), CLOSED);
    assert!(matches!(pay_with(&ctx, &order, ctx.ids.intent()).await, Err(PayError::OrderClosed)));
    assert_eq!((provider.charges().len(), lamps(&pool).await), (0, (500, 0)));
    assert_books_balance(&pool, &provider).await;
}

/// Pay is faster than the cancelling, which then finds the charge.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pay_before_the_cancelling_is_paid(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = hasty(&pool, &provider);
    let (order, intent) = (lamp(&ctx).await, ctx.ids.intent());
    let gate = Arc::new(Semaphore::new(0));
    provider.next([Mood::ChargeThenGate(Arc::clone(&gate))]);
    let (customer, of_customer) = (ctx.clone(), order.clone());
    let paying = ctx.tasks.spawn(async move { pay_with(&customer, &of_customer, intent).await });
    eventually("it is charged", || async { provider.charges().first().map(|_| ()) }).await;
    assert_eq!(expire::run(&ctx).await.unwrap(), HELD, "its executor is at work");
    gate.add_permits(1);
    let _wait_may_be_over = paying.await.unwrap();
    assert_eq!(pay_with(&ctx, &order, intent).await.unwrap().answer.status, 200);
    assert_eq!((provider.cancels(), lamps(&pool).await), (0, (499, 0)));
    assert_books_balance(&pool, &provider).await;
}

/// The reserve holds the order's row and is not committed when the closing comes: the closing waits for it, and then sees it,
/// although its own view of the intents is older.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_reserve_that_the_closing_waits_for_wins(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = hasty(&pool, &provider);
    let order = lamp(&ctx).await;
    let gate = Arc::new(Semaphore::new(0));
    provider.hold_cancels(Some(Arc::clone(&gate)));
    let closer = ctx.clone();
    let closing = ctx.tasks.spawn(async move { expire::run_once(&closer).await });
    eventually("it is cancelled", || async { (provider.cancels() == 1).then_some(()) }).await;

    let mut reserve = pool.acquire().await.unwrap();
    sqlx::query("begin").execute(&mut *reserve).await.unwrap();
    sqlx::query("select from orders where id = $1 for share")
        .bind(order.id.as_uuid())
        .execute(&mut *reserve)
        .await
        .unwrap();
    let insert = "insert into intents (operation, order_id, id, fingerprint, amount_minor, currency, provider_payment_intent,
            request, owner, lease_expires_at, look_at)
        select 'pay', id, offered_intent, sha256(''), amount_minor, currency, provider_payment_intent, '', id, now(), now()
        from orders where id = $1";
    sqlx::query(insert).bind(order.id.as_uuid()).execute(&mut *reserve).await.unwrap();
    gate.add_permits(1);
    let waiting = "select count(*) from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like 'with closed as%'";
    eventually("the closing waits", || async { (count(&pool, waiting).await == 1).then_some(()) }).await;
    sqlx::query("commit").execute(&mut *reserve).await.unwrap();

    assert_eq!(closing.await.unwrap().unwrap(), HELD);
    assert_eq!((state(&ctx, &order).await, lamps(&pool).await), (OrderState::Open, (499, 0)));
    assert_books_balance(&pool, &provider).await;
}

/// Two orders that hold the same products, closed while a third is made of them: nobody waits in a ring.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn closing_and_ordering_the_same_products_do_not_wait_for_each_other_in_a_ring(pool: PgPool) {
    let provider = Arc::new(Fake::default());
    let ctx = hasty(&pool, &provider);
    let wanted = [("mug", 1), ("lamp", 1), ("notebook", 1)];
    for _ in 0..30 {
        order::create(&ctx, new_order(ctx.ids.cart(), &wanted)).await.unwrap();
    }
    let making = join_all((0..30).map(|_| order::create(&ctx, new_order(ctx.ids.cart(), &wanted))));
    let (made, closed) = tokio::join!(making, expire::run(&ctx));
    assert!(made.iter().all(Result::is_ok));
    assert!(closed.unwrap().closed >= 30);
    while expire::run(&ctx).await.unwrap().closed > 0 {}
    assert_eq!(lamps(&pool).await, (500, 0));
    assert_eq!(count(&pool, "select deadlocks from pg_stat_database where datname = current_database()").await, 0);
    assert_books_balance(&pool, &provider).await;
}
