//! Orders: once per cart and content, with stock that is never oversold.

use std::sync::Arc;

use futures::future::join_all;
use payments::{
    catalog,
    money::Currency,
    order::{self, CreateOrderError, NewOrder},
};
use sqlx::PgPool;

use crate::{
    fake::Fake,
    support::{count, eur, lines, new_order, replica},
};

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b06_the_same_cart_and_content_is_one_order_however_often(pool: PgPool) {
    let ctx = replica(&pool, &Arc::new(Fake::default()));
    let cart = ctx.ids.cart();

    let twenty = (0..20).map(|_| order::create(&ctx, new_order(cart, &[("lamp", 1), ("mug", 2)])));
    let orders = join_all(twenty).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let turned = order::create(&ctx, new_order(cart, &[("mug", 1), ("lamp", 1), ("mug", 1)])).await.unwrap();

    assert!(orders.iter().all(|order| order.id == turned.id && order.token == turned.token));
    assert_eq!(turned.total.minor, 4990 + 2 * 820);
    assert_eq!(count(&pool, "select stock::bigint from products where sku = 'lamp'").await, 499);
    let status = order::status(&ctx, &turned.token).await.unwrap().unwrap();
    let read: Vec<_> = status
        .lines
        .iter()
        .map(|line| (line.sku.as_ref().unwrap().as_str(), line.quantity, line.amount.minor))
        .collect();
    assert_eq!(read, [("lamp", 1, 4990), ("mug", 2, 1640)]);
    assert!(status.live.is_none() && status.newest_failed.is_none());

    let other = order::create(&ctx, new_order(cart, &[("lamp", 2)])).await.unwrap();
    assert_ne!(other.id, turned.id);
    let newest = order::find_by_cart(&ctx, cart, eur()).await.unwrap().unwrap();
    assert_eq!(newest.id, other.id);
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_last_pieces_are_sold_once(pool: PgPool) {
    let ctx = replica(&pool, &Arc::new(Fake::default()));

    let carts = (0..30).map(|_| order::create(&ctx, new_order(ctx.ids.cart(), &[("clock", 3)])));
    let made = join_all(carts).await;

    assert_eq!(made.iter().filter(|order| order.is_ok()).count(), 13);
    for refused in made.into_iter().filter_map(Result::err) {
        assert!(matches!(refused, CreateOrderError::OutOfStock { left: 1, .. }), "{refused:?}");
    }
    assert_eq!(count(&pool, "select stock::bigint from products where sku = 'clock'").await, 1);
    assert_eq!(count(&pool, "select count(*) from orders").await, 13);
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn orders_of_the_same_products_do_not_deadlock(pool: PgPool) {
    let ctx = replica(&pool, &Arc::new(Fake::default()));
    let ways: [&[(&str, i32)]; 3] = [
        &[("mug", 1), ("lamp", 1), ("apron", 1)],
        &[("apron", 1), ("mug", 1), ("lamp", 1)],
        &[("lamp", 1), ("apron", 1), ("mug", 1)],
    ];

    let made = join_all((0..60).map(|n| order::create(&ctx, new_order(ctx.ids.cart(), ways[n % 3])))).await;

    assert!(made.iter().all(Result::is_ok));
    assert_eq!(count(&pool, "select stock::bigint from products where sku = 'apron'").await, 240);
    let database = "select deadlocks from pg_stat_database where datname = current_database()";
    assert_eq!(count(&pool, database).await, 0);
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn carts_that_cannot_be_ordered_are_refused_with_the_reason(pool: PgPool) {
    let ctx = replica(&pool, &Arc::new(Fake::default()));
    let refused =
        async |wanted: &[(&str, i32)]| order::create(&ctx, new_order(ctx.ids.cart(), wanted)).await.unwrap_err();

    assert!(matches!(refused(&[]).await, CreateOrderError::Empty));
    assert!(matches!(refused(&[("mug", 0)]).await, CreateOrderError::Empty));
    assert!(matches!(refused(&[("mug", 60), ("mug", 60)]).await, CreateOrderError::TooMany));
    assert!(matches!(refused(&[("unicorn", 1)]).await, CreateOrderError::UnknownSku(_)));
    assert!(matches!(refused(&[("mug", 1), ("tenugui", 1)]).await, CreateOrderError::MixedCurrency(_)));
    assert!(matches!(refused(&[("clock", 41)]).await, CreateOrderError::OutOfStock { left: 40, .. }));
    assert_eq!(count(&pool, "select count(*) from orders").await, 0);
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b96_b97_every_shelf_is_priced_in_its_own_minor_units(pool: PgPool) {
    let ctx = replica(&pool, &Arc::new(Fake::default()));
    let products = catalog::list_products(&ctx).await.unwrap();
    let price = |sku: &str| products.iter().find(|product| product.sku.as_str() == sku).unwrap().price.format();
    assert_eq!(price("lamp"), "€49.90");
    assert_eq!(price("clock"), "€1,234.50");
    assert_eq!(price("chopsticks"), "¥10,000");
    assert_eq!(price("coffeepot"), "BHD\u{a0}35.200");

    for (currency, sku, minor) in [("JPY", "tenugui", 500), ("BHD", "coffeepot", 35_200), ("EUR", "mug", 820)] {
        let currency = Currency::parse(currency).unwrap();
        let new = NewOrder { cart: ctx.ids.cart(), currency, lines: lines(&[(sku, 1)]) };
        assert_eq!(order::create(&ctx, new).await.unwrap().total.minor, minor);
    }
}
