//! The SQL of orders that programs make.

use uuid::Uuid;

use crate::{
    api_key::ApiKeyId,
    ids::{CartId, Email, IntentId, OrderId, OrderToken, Reference},
    intent::{archive::Answer, fingerprint::Fingerprint},
    limits::Limits,
    order::by_key::{Content, NewOrderByKey, OrderKey},
    pool::Pool,
};

/// What [`place`] writes.
pub(crate) struct Placing<'a> {
    pub(crate) new: &'a NewOrderByKey,
    pub(crate) fingerprint: &'a Fingerprint,
    pub(crate) id: OrderId,
    pub(crate) token: &'a OrderToken,
    pub(crate) reference: &'a Reference,
    /// No browser has it.
    pub(crate) cart: CartId,
    pub(crate) offered_intent: IntentId,
    pub(crate) content: &'a Content,
    pub(crate) answer: &'a Answer,
}

/// Makes key, answer, order and lines, and takes the stock, unless the key has made an order before. Returns whether it did.
///
/// The statement does all or nothing. A rival with the same key is waited for, and then found by [`find`]. Products are locked
/// in order of SKU, as in [`super::place`], so that two orders of the same products cannot deadlock.
pub(crate) async fn place(pool: &Pool, placing: &Placing<'_>) -> Result<bool, sqlx::Error> {
    let Placing { new, content, answer, .. } = placing;
    let placed = sqlx::query!(
        r#"with keyed as (
            insert into order_keys (
                api_key_id, key, fingerprint, order_id, archive_status, archive_content_type, archive_body
            )
            values ($1, $2, $3, $4, $5, $6, $7)
            on conflict on constraint order_keys_pkey do nothing
            returning order_id
        ),
        placed as (
            insert into orders
                (id, token, reference, cart_id, content_hash, currency, amount_minor, offered_intent, email)
            select k.order_id, $8, $9, $10, $11, $12, $13, $14, $15
            from keyed k
            returning id
        ),
        wanted as (
            select nullif(w.sku, '') as sku, w.name, w.quantity, w.unit_minor, w.position
            from unnest($16::text[], $17::text[], $18::integer[], $19::bigint[])
                with ordinality as w (sku, name, quantity, unit_minor, position)
        ),
        locked as materialized (
            select p.sku
            from products p
            where p.sku = any($16) and exists (select from placed)
            order by p.sku
            for no key update
        ),
        taken as (
            update products p
            set stock = p.stock - w.quantity
            from locked l
            join wanted w on w.sku = l.sku
            where p.sku = l.sku
            returning p.sku, p.name, p.picture
        )
        insert into order_lines (order_id, position, sku, name, picture, quantity, unit_minor)
        select o.id, w.position::integer, w.sku, coalesce(t.name, w.name), coalesce(t.picture, ''), w.quantity, w.unit_minor
        from placed o
        cross join wanted w
        left join taken t on t.sku = w.sku"#,
        new.api_key.as_uuid(),
        new.key.as_str(),
        placing.fingerprint.as_bytes(),
        placing.id.as_uuid(),
        i16::try_from(answer.status).expect("HTTP statuses have three digits"),
        answer.content_type.as_ref(),
        &answer.body[..],
        placing.token.expose(),
        placing.reference.as_str(),
        placing.cart.as_uuid(),
        &content.hash[..],
        content.total.currency.code(),
        content.total.minor,
        placing.offered_intent.as_uuid(),
        new.email.as_ref().map(Email::as_str),
        &content.skus,
        &content.names,
        &content.quantities,
        &content.unit_minors,
    )
    .execute(pool)
    .await?;
    Ok(placed.rows_affected() > 0)
}

/// A row of `order_keys`.
pub(crate) struct OrderKeyRow {
    pub(crate) order_id: Uuid,
    pub(crate) fingerprint: Vec<u8>,
    archive_status: Option<i16>,
    archive_content_type: Option<String>,
    archive_body: Option<Vec<u8>>,
}

impl OrderKeyRow {
    /// The archived answer, until it is purged.
    pub(crate) fn answer(self) -> Option<Answer> {
        Some(Answer {
            status: u16::try_from(self.archive_status?).ok()?,
            content_type: self.archive_content_type?.into(),
            body: self.archive_body?.into(),
        })
    }
}

pub(crate) async fn find(pool: &Pool, api_key: ApiKeyId, key: &OrderKey) -> Result<Option<OrderKeyRow>, sqlx::Error> {
    sqlx::query_as!(
        OrderKeyRow,
        "select order_id, fingerprint, archive_status, archive_content_type, archive_body
        from order_keys
        where api_key_id = $1 and key = $2",
        api_key.as_uuid(),
        key.as_str(),
    )
    .fetch_optional(pool)
    .await
}

/// Drops the oldest answers whose time is over; what another replica is dropping is passed over. Returns how many.
pub(crate) async fn purge(pool: &Pool, limits: &Limits) -> Result<u64, sqlx::Error> {
    let purged = sqlx::query!(
        "with due as (
            select api_key_id, key
            from order_keys
            where purged_at is null and created_at <= now() - make_interval(secs => $1)
            order by created_at
            limit $2
            for update skip locked
        )
        update order_keys k
        set purged_at = now(), archive_status = null, archive_content_type = null, archive_body = null
        from due d
        where k.api_key_id = d.api_key_id and k.key = d.key",
        limits.order_key_memory.as_secs_f64(),
        limits.order_key_purge_batch,
    )
    .execute(pool)
    .await?;
    Ok(purged.rows_affected())
}
