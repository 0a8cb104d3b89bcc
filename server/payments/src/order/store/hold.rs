//! The SQL of unpaid orders: which are due, and the closing that gives their stock back.

use uuid::Uuid;

use crate::{
    intent::store::claim::seconds, limits::Limits, order::Order, pool::Pool, provider::ProviderPaymentIntentId,
};

/// Takes orders whose hold time is over, the oldest first; what a rival is taking is passed over. Those that are open come back,
/// and come again after a pause unless they are closed by then. The others are left alone from now on.
pub(crate) async fn take_due(pool: &Pool, limits: &Limits) -> Result<Vec<Uuid>, sqlx::Error> {
    let taken = sqlx::query!(
        "with due as (
            select id
            from orders
            where hold_from <= now() - make_interval(secs => $1)
            order by hold_from
            limit $2
            for no key update skip locked
        )
        update orders o
        set hold_from = case o.state when 'open' then now() - make_interval(secs => $1 - $3) end
        from due d
        where o.id = d.id
        returning o.id, o.state",
        seconds(limits.order_hold),
        limits.expire_batch,
        seconds(limits.expire_pause),
    )
    .fetch_all(pool)
    .await?;
    Ok(taken.into_iter().filter(|order| order.state == "open").map(|order| order.id).collect())
}

/// Closes an open order and gives its pieces back, if it still has the payment intent that was found to be uncharged for ever.
/// Returns whether it did. Where an intent of the order is under way or has paid, `orders_closed_have_no_live_intent` refuses.
///
/// Products are locked in order of SKU, as by the making of orders. What is owed is paid off before anything is for sale again.
pub(crate) async fn close(pool: &Pool, order: &Order) -> Result<bool, sqlx::Error> {
    let closed = sqlx::query_scalar!(
        r#"with closed as (
            update orders
            set state = 'closed', closed_at = now(), hold_from = null
            where id = $1 and state = 'open'
                and provider_payment_intent is not distinct from $2 and payment_intents_retired = $3
            returning id
        ),
        pieces as (
            select l.sku, sum(l.quantity)::integer as quantity
            from closed c
            join order_lines l on l.order_id = c.id
            where l.sku is not null
            group by l.sku
        ),
        locked as materialized (
            select p.sku
            from products p
            where p.sku in (select sku from pieces)
            order by p.sku
            for no key update
        ),
        returned as (
            update products p
            set stock = p.stock + w.quantity - least(p.owed, w.quantity), owed = p.owed - least(p.owed, w.quantity)
            from locked l
            join pieces w on w.sku = l.sku
            where p.sku = l.sku
        )
        select count(*) as "closed!" from closed"#,
        order.id.as_uuid(),
        order.provider_payment_intent.as_ref().map(ProviderPaymentIntentId::as_str),
        order.payment_intents_retired,
    )
    .fetch_one(pool)
    .await?;
    Ok(closed == 1)
}
