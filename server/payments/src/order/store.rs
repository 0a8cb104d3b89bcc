//! All SQL of orders.

pub(crate) mod by_key;
pub(crate) mod hold;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    ids::{CartId, Email, IntentId, OrderId, OrderToken, Reference, Sku},
    money::{Currency, Money},
    order::{Line, Order, OrderState, Payment},
    pool::{Pool, StoreError},
    provider::{ProviderChargeId, ProviderPaymentIntentId},
};

/// A row of `orders`.
pub(crate) struct OrderRow {
    id: Uuid,
    token: String,
    reference: String,
    cart_id: Uuid,
    currency: String,
    amount_minor: i64,
    state: String,
    offered_intent: Uuid,
    provider_payment_intent: Option<String>,
    payment_intents_retired: i32,
    email: Option<String>,
    paid_intent: Option<Uuid>,
    charge: Option<String>,
    paid_at: Option<OffsetDateTime>,
    created_at: OffsetDateTime,
}

impl TryFrom<OrderRow> for Order {
    type Error = StoreError;

    fn try_from(row: OrderRow) -> Result<Self, StoreError> {
        let impossible = || StoreError::Impossible("order");
        let state = match (row.state.as_str(), row.paid_intent, row.charge, row.paid_at) {
            ("open", None, None, None) => OrderState::Open,
            ("closed", None, None, None) => OrderState::Closed,
            ("paid", Some(intent), Some(charge), Some(paid_at)) => OrderState::Paid(Payment {
                intent: IntentId(intent),
                charge: ProviderChargeId::parse(&charge).or(Err(impossible()))?,
                paid_at,
            }),
            _ => return Err(impossible()),
        };
        let payment_intent = row.provider_payment_intent.as_deref().map(ProviderPaymentIntentId::parse).transpose();
        Ok(Self {
            id: OrderId(row.id),
            token: OrderToken::parse(&row.token).or(Err(impossible()))?,
            reference: Reference::stored(row.reference),
            cart: CartId(row.cart_id),
            total: Money::new(row.amount_minor, Currency::parse(&row.currency).or(Err(impossible()))?),
            state,
            offered_intent: IntentId(row.offered_intent),
            provider_payment_intent: payment_intent.or(Err(impossible()))?,
            payment_intents_retired: row.payment_intents_retired,
            email: row.email.map(Email::stored),
            created_at: row.created_at,
        })
    }
}

/// What [`place`] writes. The three lists have one entry for each line, in order of SKU.
pub(crate) struct Placing<'a> {
    pub(crate) id: OrderId,
    pub(crate) token: &'a OrderToken,
    pub(crate) reference: &'a Reference,
    pub(crate) cart: CartId,
    pub(crate) content_hash: &'a [u8],
    pub(crate) total: Money,
    pub(crate) offered_intent: IntentId,
    pub(crate) skus: &'a [String],
    pub(crate) quantities: &'a [i32],
    pub(crate) unit_minors: &'a [i64],
}

/// Makes the order with its lines and takes its stock, unless this cart has made an order of this content before.
///
/// The statement does all or nothing: where a product has too few pieces, the check on `products.stock` undoes the order
/// too. Products are locked in order of SKU, so that two orders of the same products cannot deadlock.
pub(crate) async fn place(pool: &Pool, new: &Placing<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "with placed as (
            insert into orders
                (id, token, reference, cart_id, content_hash, currency, amount_minor, offered_intent)
            values ($1, $2, $3, $4, $5, $6, $7, $8)
            on conflict on constraint orders_one_per_cart_and_content do nothing
            returning id
        ),
        wanted as (
            select w.sku, w.quantity, w.unit_minor, w.position
            from unnest($9::text[], $10::integer[], $11::bigint[])
                with ordinality as w (sku, quantity, unit_minor, position)
        ),
        locked as materialized (
            select p.sku
            from products p
            where p.sku = any($9) and exists (select from placed)
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
        select o.id, w.position::integer, w.sku, t.name, t.picture, w.quantity, w.unit_minor
        from placed o
        cross join wanted w
        join taken t on t.sku = w.sku",
        new.id.as_uuid(),
        new.token.expose(),
        new.reference.as_str(),
        new.cart.as_uuid(),
        new.content_hash,
        new.total.currency.code(),
        new.total.minor,
        new.offered_intent.as_uuid(),
        new.skus,
        new.quantities,
        new.unit_minors,
    )
    .execute(pool)
    .await?;
    Ok(())
}

pub(crate) async fn find_by_content(
    pool: &Pool,
    cart: CartId,
    content_hash: &[u8],
) -> Result<Option<OrderRow>, sqlx::Error> {
    sqlx::query_as!(
        OrderRow,
        "select id, token, reference, cart_id, currency, amount_minor, state, offered_intent, provider_payment_intent,
            payment_intents_retired, email, paid_intent, charge, paid_at, created_at
        from orders
        where cart_id = $1 and content_hash = $2",
        cart.as_uuid(),
        content_hash,
    )
    .fetch_optional(pool)
    .await
}

pub(crate) async fn find_by_cart(
    pool: &Pool,
    cart: CartId,
    currency: Currency,
) -> Result<Option<OrderRow>, sqlx::Error> {
    sqlx::query_as!(
        OrderRow,
        "select id, token, reference, cart_id, currency, amount_minor, state, offered_intent, provider_payment_intent,
            payment_intents_retired, email, paid_intent, charge, paid_at, created_at
        from orders
        where cart_id = $1 and currency = $2
        order by created_at desc, id desc
        limit 1",
        cart.as_uuid(),
        currency.code(),
    )
    .fetch_optional(pool)
    .await
}

pub(crate) async fn find_by_token(pool: &Pool, token: &OrderToken) -> Result<Option<OrderRow>, sqlx::Error> {
    sqlx::query_as!(
        OrderRow,
        "select id, token, reference, cart_id, currency, amount_minor, state, offered_intent, provider_payment_intent,
            payment_intents_retired, email, paid_intent, charge, paid_at, created_at
        from orders
        where token = $1",
        token.expose(),
    )
    .fetch_optional(pool)
    .await
}

pub(crate) async fn find_by_id(pool: &Pool, id: OrderId) -> Result<Option<OrderRow>, sqlx::Error> {
    sqlx::query_as!(
        OrderRow,
        "select id, token, reference, cart_id, currency, amount_minor, state, offered_intent, provider_payment_intent,
            payment_intents_retired, email, paid_intent, charge, paid_at, created_at
        from orders
        where id = $1",
        id.as_uuid(),
    )
    .fetch_optional(pool)
    .await
}

/// Remembers the provider's payment intent, once: where a rival was faster, its id stands and is returned. Gives nothing where
/// the one that was created has been cancelled meanwhile.
pub(crate) async fn adopt_payment_intent(
    pool: &Pool,
    order: OrderId,
    payment_intent: &ProviderPaymentIntentId,
    retired: i32,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "update orders
        set provider_payment_intent = coalesce(provider_payment_intent, $2)
        where id = $1 and payment_intents_retired = $3
        returning provider_payment_intent",
        order.as_uuid(),
        payment_intent.as_str(),
        retired,
    )
    .fetch_optional(pool)
    .await
    .map(Option::flatten)
}

/// A row of `order_lines`.
pub(crate) struct LineRow {
    sku: Option<String>,
    name: String,
    picture: String,
    quantity: i32,
    unit_minor: i64,
}

impl LineRow {
    pub(crate) fn into_line(self, currency: Currency) -> Result<Line, StoreError> {
        let unit = Money::new(self.unit_minor, currency);
        Ok(Line {
            sku: self.sku.map(Sku::stored),
            name: self.name,
            picture: self.picture,
            quantity: self.quantity,
            unit,
            amount: unit.checked_mul(self.quantity).or(Err(StoreError::Impossible("order line")))?,
        })
    }
}

pub(crate) async fn list_lines(pool: &Pool, order: OrderId) -> Result<Vec<LineRow>, sqlx::Error> {
    sqlx::query_as!(
        LineRow,
        "select sku, name, picture, quantity, unit_minor from order_lines where order_id = $1 order by position",
        order.as_uuid(),
    )
    .fetch_all(pool)
    .await
}
