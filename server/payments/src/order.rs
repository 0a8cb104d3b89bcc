//! Orders: what is bought. Made once per cart and content, never changed after.

pub mod by_key;
pub(crate) mod store;

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};

use crate::{
    Ctx,
    catalog::{self, Product},
    ids::{CartId, Email, IntentId, OrderId, OrderToken, Reference, Sku},
    intent::{self, Intent},
    limits::{MAX_LINE_QUANTITY, MAX_ORDER_LINES, PLACE_TRIES},
    money::{Currency, Money},
    pool::{StoreError, keyed, refused_by},
    provider::{CreateOutcome, NewPaymentIntent, ProviderChargeId, ProviderPaymentIntentId, UnknownReason},
};

/// What a cart asks for.
#[derive(Clone, Debug)]
pub struct NewOrder {
    /// The cart; with the content the order's idempotency key.
    pub cart: CartId,
    /// The currency that all lines must have.
    pub currency: Currency,
    /// The lines, in any order; lines of one SKU are added up.
    pub lines: Vec<NewLine>,
}

/// One line of a cart.
#[derive(Clone, Debug)]
pub struct NewLine {
    /// The product.
    pub sku: Sku,
    /// Pieces.
    pub quantity: i32,
}

/// What is bought, for how much, and whether it is paid.
#[derive(Clone, Debug)]
pub struct Order {
    /// Told to the provider.
    pub id: OrderId,
    /// The capability to see and pay it.
    pub token: OrderToken,
    /// For people.
    pub reference: Reference,
    /// The cart it came from.
    pub cart: CartId,
    /// What is to be paid.
    pub total: Money,
    /// Whether it can be, or was, paid.
    pub state: OrderState,
    /// The UUID that pages offer for the next intent.
    pub offered_intent: IntentId,
    /// The provider's payment intent, once there is one.
    pub provider_payment_intent: Option<ProviderPaymentIntentId>,
    /// How many payment intents of this order were cancelled.
    pub(crate) payment_intents_retired: i32,
    /// Where the receipt goes; known once paid, or where a program named it.
    pub email: Option<Email>,
    /// When the checkout began.
    pub created_at: OffsetDateTime,
}

/// Whether an order can be, or was, paid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderState {
    /// Can be paid.
    Open,
    /// Was paid, for ever.
    Paid(Payment),
    /// Can no longer be paid.
    Closed,
}

/// What paid an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// The intent that the charge belongs to.
    pub intent: IntentId,
    /// The provider's charge.
    pub charge: ProviderChargeId,
    /// When, by the provider's clock where it told.
    pub paid_at: OffsetDateTime,
}

/// One line of an order, as it was when the checkout began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The product; none where a program named and priced the line itself.
    pub sku: Option<Sku>,
    /// Its name at that time.
    pub name: String,
    /// Its picture at that time; empty where there is none.
    pub picture: String,
    /// Pieces.
    pub quantity: i32,
    /// Price of one piece.
    pub unit: Money,
    /// Price of all pieces.
    pub amount: Money,
}

/// An order with everything its pages show.
#[derive(Clone, Debug)]
pub struct OrderStatus {
    /// The order. `order.state` has the payment, `order.offered_intent` the UUID for the next intent.
    pub order: Order,
    /// Its lines.
    pub lines: Vec<Line>,
    /// The intent that is under way, or has paid; at most one.
    pub live: Option<Intent>,
    /// The newest intent that failed.
    pub newest_failed: Option<Intent>,
}

/// Why no order was made.
#[derive(Debug, thiserror::Error)]
pub enum CreateOrderError {
    /// Fewer pieces are left than were asked for. Nothing was taken.
    #[error("only {left} left of {sku}")]
    OutOfStock {
        /// The first such product, in order of SKU.
        sku: Sku,
        /// Pieces left.
        left: i32,
    },
    /// No such product.
    #[error("no product {0}")]
    UnknownSku(Sku),
    /// The cart has no pieces.
    #[error("the cart is empty")]
    Empty,
    /// More lines, more pieces of one product, or more money than one order may have.
    #[error("more than one order may have")]
    TooMany,
    /// A product of another currency.
    #[error("{0} is sold in another currency")]
    MixedCurrency(Sku),
    /// The database cannot answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The provider has no payment intent for this order, so that it cannot be paid now. Asking again is safe.
#[derive(Debug, thiserror::Error)]
#[error("the provider cannot take payments now: {reason}")]
pub struct ProviderUnavailable {
    /// Short and safe to log.
    pub reason: String,
    /// Whether the provider will never have one, since it takes no payment of this amount.
    pub refused: bool,
}

/// Makes the order of this cart and content, or finds the one that was made before.
///
/// The order that comes back may be paid or closed already; a cart that wants to buy the same again needs a new id.
///
/// # Errors
/// See [`CreateOrderError`]. Nothing is made or taken then.
pub async fn create(ctx: &Ctx, new: NewOrder) -> Result<Order, CreateOrderError> {
    // Price: from our own catalogue, in order of SKU, so that content and locks always come in one order.
    let quantities = add_up(&new.lines)?;
    let skus: Vec<String> = quantities.keys().map(|sku| sku.as_str().to_owned()).collect();
    let products = catalog::list_by_sku(ctx, &skus).await?;
    let content = Content::priced(new.currency, &quantities, &products)?;

    // Place: one statement makes the order and takes the stock, or does neither.
    place(ctx, new.cart, &content, &products).await?;

    // Find: the one just made, or the one that this cart made of this content before.
    let row = keyed(&ctx.limits, || store::find_by_content(&ctx.pool, new.cart, &content.hash)).await;
    let row = row.map_err(StoreError::from)?.ok_or(StoreError::Impossible("absence of a placed order"))?;
    Ok(Order::try_from(row)?)
}

/// Pieces of each product.
fn add_up(lines: &[NewLine]) -> Result<BTreeMap<Sku, i32>, CreateOrderError> {
    let mut quantities = BTreeMap::new();
    for line in lines {
        let quantity: &mut i32 = quantities.entry(line.sku.clone()).or_default();
        *quantity = quantity.saturating_add(line.quantity);
    }
    if quantities.is_empty() || quantities.values().any(|quantity| *quantity < 1) {
        return Err(CreateOrderError::Empty);
    }
    if quantities.len() > MAX_ORDER_LINES || quantities.values().any(|quantity| *quantity > MAX_LINE_QUANTITY) {
        return Err(CreateOrderError::TooMany);
    }
    Ok(quantities)
}

/// The content of an order: what makes it this order and no other.
struct Content {
    skus: Vec<String>,
    quantities: Vec<i32>,
    unit_minors: Vec<i64>,
    total: Money,
    hash: [u8; 32],
}

impl Content {
    fn priced(
        currency: Currency,
        quantities: &BTreeMap<Sku, i32>,
        products: &[Product],
    ) -> Result<Self, CreateOrderError> {
        let mut content = Self {
            skus: Vec::new(),
            quantities: Vec::new(),
            unit_minors: Vec::new(),
            total: Money::new(0, currency),
            hash: [0; 32],
        };
        let mut hash = Sha256::new();
        hash.update(format!("order/1 {currency}\n"));
        for (sku, quantity) in quantities {
            let product = products.iter().find(|product| product.sku == *sku);
            let product = product.ok_or_else(|| CreateOrderError::UnknownSku(sku.clone()))?;
            if product.price.currency != currency {
                return Err(CreateOrderError::MixedCurrency(sku.clone()));
            }
            let amount = product.price.checked_mul(*quantity).or(Err(CreateOrderError::TooMany))?;
            content.total = content.total.checked_add(amount).or(Err(CreateOrderError::TooMany))?;
            content.skus.push(sku.as_str().to_owned());
            content.quantities.push(*quantity);
            content.unit_minors.push(product.price.minor);
            hash.update(format!("{sku} {quantity} {}\n", product.price.minor));
        }
        content.hash = hash.finalize().into();
        Ok(content)
    }

    /// Pieces of each product.
    fn wanted(&self) -> BTreeMap<String, i32> {
        self.skus.iter().cloned().zip(self.quantities.iter().copied()).collect()
    }
}

async fn place(ctx: &Ctx, cart: CartId, content: &Content, products: &[Product]) -> Result<(), CreateOrderError> {
    for _ in 0..PLACE_TRIES {
        let (token, reference) = (ctx.ids.order_token(), ctx.ids.reference());
        let placing = store::Placing {
            id: ctx.ids.order(ctx.clock.now()),
            token: &token,
            reference: &reference,
            cart,
            content_hash: &content.hash,
            total: content.total,
            offered_intent: ctx.ids.intent(),
            skus: &content.skus,
            quantities: &content.quantities,
            unit_minors: &content.unit_minors,
        };
        let Err(error) = keyed(&ctx.limits, || store::place(&ctx.pool, &placing)).await else { return Ok(()) };
        match refused_by(&error) {
            Some("products_stock_not_negative") => return Err(shortage(ctx, &content.wanted(), products).await?),
            // Two orders drew the same reference: draw again.
            Some("orders_reference_key") => {}
            Some(_) | None => return Err(StoreError::from(error).into()),
        }
    }
    Err(StoreError::Impossible("row of collisions").into())
}

/// The first product of which fewer pieces are left than were asked for.
async fn shortage(
    ctx: &Ctx,
    wanted: &BTreeMap<String, i32>,
    before: &[Product],
) -> Result<CreateOrderError, StoreError> {
    let skus: Vec<String> = wanted.keys().cloned().collect();
    let now = catalog::list_by_sku(ctx, &skus).await?;
    let is_short = |product: &&Product| wanted.get(product.sku.as_str()).is_some_and(|pieces| product.stock < *pieces);
    let short = now.iter().find(is_short);
    // A rival may have given pieces back meanwhile; then what was seen before the attempt is as good an answer as any.
    let product = short.or(before.first()).ok_or(StoreError::Impossible("shortage"))?;
    Ok(CreateOrderError::OutOfStock { sku: product.sku.clone(), left: product.stock })
}

/// The order of this token.
///
/// # Errors
/// When the database cannot answer.
pub async fn find_by_token(ctx: &Ctx, token: &OrderToken) -> Result<Option<Order>, StoreError> {
    keyed(&ctx.limits, || store::find_by_token(&ctx.pool, token)).await?.map(Order::try_from).transpose()
}

/// The order of this id. An id is no capability: only for callers who may see every order.
///
/// # Errors
/// When the database cannot answer.
pub async fn find_by_id(ctx: &Ctx, id: OrderId) -> Result<Option<Order>, StoreError> {
    keyed(&ctx.limits, || store::find_by_id(&ctx.pool, id)).await?.map(Order::try_from).transpose()
}

/// The newest order that this cart made in this currency.
///
/// # Errors
/// When the database cannot answer.
pub async fn find_by_cart(ctx: &Ctx, cart: CartId, currency: Currency) -> Result<Option<Order>, StoreError> {
    keyed(&ctx.limits, || store::find_by_cart(&ctx.pool, cart, currency)).await?.map(Order::try_from).transpose()
}

/// Makes sure that the provider has a payment intent for this order, and that we know its id, before anybody can pay.
///
/// # Errors
/// When the provider or the database cannot answer now. Repeating is safe: key and id belong to the order.
pub async fn ensure_payment_intent(ctx: &Ctx, order: &Order) -> Result<ProviderPaymentIntentId, ProviderUnavailable> {
    if let Some(known) = &order.provider_payment_intent {
        return Ok(known.clone());
    }
    let new = NewPaymentIntent {
        order: order.id.to_string(),
        reference: order.reference.as_str().to_owned(),
        money: order.total,
        // A provider that remembers the key of a cancelled one would hand that out again.
        idempotency_key: format!("payonce:order:{}:{}", order.id, order.payment_intents_retired + 1),
    };
    let unavailable = |reason: &str| ProviderUnavailable { reason: reason.to_owned(), refused: false };
    let until = Instant::now() + ctx.limits.busy_patience;
    let mut pause = ctx.limits.first_pause;
    let created = loop {
        match ctx.provider.create_payment_intent(&new).await {
            CreateOutcome::Created(created) => break created,
            CreateOutcome::NotSent(reason) => return Err(unavailable(reason.as_str())),
            CreateOutcome::Refused { code } => return Err(ProviderUnavailable { refused: true, ..unavailable(&code) }),
            // Somebody else pays the same order for the first time, here or at another replica, and has the key.
            CreateOutcome::Unknown(UnknownReason::Busy) if Instant::now() + pause < until => {
                sleep(pause).await;
                pause = (pause * 2).min(ctx.limits.longest_pause);
                let now = find_by_id(ctx, order.id).await.or(Err(unavailable("store_unavailable")))?;
                if let Some(known) = now.and_then(|order| order.provider_payment_intent) {
                    return Ok(known);
                }
            }
            CreateOutcome::Unknown(reason) => return Err(unavailable(reason.as_str())),
        }
    };
    let adopted = keyed(&ctx.limits, || {
        store::adopt_payment_intent(&ctx.pool, order.id, &created, order.payment_intents_retired)
    })
    .await;
    match adopted {
        Ok(Some(adopted)) => ProviderPaymentIntentId::parse(&adopted).or(Err(unavailable("impossible_id"))),
        Ok(None) => Err(unavailable("impossible_id")),
        Err(error) => {
            tracing::warn!(%error, order = %order.id, "could not store the payment intent of an order");
            Err(unavailable("store_unavailable"))
        }
    }
}

/// The lines of an order, in their order.
///
/// # Errors
/// When the database cannot answer.
pub async fn list_lines(ctx: &Ctx, order: &Order) -> Result<Vec<Line>, StoreError> {
    let lines = keyed(&ctx.limits, || store::list_lines(&ctx.pool, order.id)).await?;
    lines.into_iter().map(|line| line.into_line(order.total.currency)).collect()
}

/// The order of this token with its lines and intents.
///
/// # Errors
/// When the database cannot answer.
pub async fn status(ctx: &Ctx, token: &OrderToken) -> Result<Option<OrderStatus>, StoreError> {
    let Some(order) = find_by_token(ctx, token).await? else { return Ok(None) };
    let lines = list_lines(ctx, &order).await?;
    let intents = intent::list_telling(ctx, order.id, None).await?;
    let live = intents.iter().find(|intent| !intent.has_failed()).cloned();
    let newest_failed = intents.into_iter().find(Intent::has_failed);
    Ok(Some(OrderStatus { order, lines, live, newest_failed }))
}
