//! What is paid: orders that the measurement lays straight into the tables, ten thousands in a second. Their names follow from
//! their number, so that pgbench can name them too.

use bytes::Bytes;
use sqlx::PgPool;

pub const AMOUNT_MINOR: i64 = 4990;
pub const CURRENCY: &str = "EUR";
/// Largest number of an order; twelve hexadecimal digits would allow more.
pub const NUMBER_MAX: i64 = 1 << 40;

/// Makes `count` open orders from number `first` on, each with its payment intent.
pub async fn make(pool: &PgPool, first: i64, count: i64) -> anyhow::Result<()> {
    sqlx::query(
        "with numbers as (select n from generate_series($1::bigint, $1 + $2 - 1) as n),
        made as (
            insert into orders (
                id, token, reference, cart_id, content_hash, currency, amount_minor, offered_intent, provider_payment_intent
            )
            select order_id, 'b' || lpad(n::text, 21, '0'), 'B' || n, order_id, sha256(int8send(n)), 'EUR', 4990, order_id,
                'pi_' || n
            from numbers
            cross join lateral (values (('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid)) as named (order_id)
            returning id
        )
        insert into order_lines (order_id, position, sku, name, picture, quantity, unit_minor)
        select id, 1, 'lamp', 'Lamp', '/pictures/lamp.svg', 1, 4990 from made",
    )
    .bind(first)
    .bind(count)
    .execute(pool)
    .await?;
    Ok(())
}

pub fn token(number: i64) -> String {
    format!("b{number:021}")
}

/// Order and intent share their UUID; they are never in the same column.
pub fn uuid(number: i64) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

/// The call that pays an order, as the browser sends it.
pub fn pay_body(number: i64) -> Bytes {
    format!(
        r#"{{"pay":{{"order":"{}","intent":"{}","replaces":null,"payment_method":"pm_card_visa","email":"ana@example.org","amount":{AMOUNT_MINOR},"currency":"{CURRENCY}"}}}}"#,
        token(number),
        uuid(number)
    )
    .into()
}
