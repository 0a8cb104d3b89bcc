//! The invariants that every test that pays ends with.

use sqlx::PgPool;

use crate::{fake::Fake, support::count};

/// Compares the shop's books with the provider's truth.
pub async fn assert_books_balance(pool: &PgPool, provider: &Fake) {
    let charges = provider.charges();
    for (order, _) in &charges {
        let of_order = charges.iter().filter(|(other, _)| other == order).count();
        assert_eq!(of_order, 1, "I1, I12: more than one charge for order {order}");
    }

    // I3 and L2: each paid order has a charge of the provider's, and each charge is booked or an open discrepancy.
    let paid: Vec<String> = strings(pool, "select charge from orders where state = 'paid'").await;
    for charge in &paid {
        assert!(charges.iter().any(|(_, made)| made.id.as_str() == charge), "I3: paid by a charge that nobody made");
    }
    let known = "select charge from ledger_entries union select charge from discrepancies";
    let known = strings(pool, known).await;
    for (order, charge) in &charges {
        assert!(known.contains(&charge.id.as_str().to_owned()), "L2: a charge of order {order} is lost");
    }

    // I13: what changes together is there together.
    for (what, sql) in [
        (
            "a ledger that does not sum to zero",
            "select count(*) from (
            select from ledger_entries group by operation, order_id, intent_id
            having sum(amount_minor) <> 0 or count(*) <> 2) as wrong",
        ),
        (
            "a succeeded intent without ledger",
            "select count(*) from intents i where state = 'succeeded'
            and not exists (select from ledger_entries l where l.intent_id = i.id and l.order_id = i.order_id)",
        ),
        (
            "a final intent without exactly one event",
            "select count(*) from intents i where finished_at is not null
            and 1 <> (select count(*) from outbox_events e where e.intent_id = i.id and e.order_id = i.order_id
                and e.kind in ('intent_succeeded', 'intent_failed'))",
        ),
        (
            "an event of an intent that has no end",
            "select count(*) from outbox_events e where not exists (
            select from intents i where i.id = e.intent_id and i.order_id = e.order_id and i.finished_at is not null)",
        ),
        (
            "a succeeded intent of an unpaid order",
            "select count(*) from intents i join orders o on o.id = i.order_id
            where i.state = 'succeeded' and o.state <> 'paid'",
        ),
        (
            "a closed order with a live intent",
            "select count(*) from intents i join orders o on o.id = i.order_id
            where o.state = 'closed' and i.state <> 'failed'",
        ),
        (
            "pieces that are neither on the shelf nor in an order, or both",
            "select count(*) from products p
            join (values ('lamp', 500), ('mug', 100000), ('notebook', 100000)) as seeded (sku, pieces) on seeded.sku = p.sku
            where p.stock - p.owed <> seeded.pieces - (select coalesce(sum(l.quantity), 0)
                from order_lines l join orders o on o.id = l.order_id where l.sku = p.sku and o.state <> 'closed')",
        ),
        (
            "two live intents of one order",
            "select count(*) from (select from intents where state <> 'failed'
            group by order_id having count(*) > 1) as wrong",
        ),
        (
            "a booked amount that was not agreed",
            "select count(*) from ledger_entries l join intents i
            on i.id = l.intent_id and i.order_id = l.order_id
            where abs(l.amount_minor) <> i.amount_minor or l.currency <> i.currency",
        ),
    ] {
        assert_eq!(count(pool, sql).await, 0, "{what}");
    }
}

async fn strings(pool: &PgPool, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql).fetch_all(pool).await.unwrap()
}
