//! Orders: what is bought. Made once per cart and content, never changed after.

use time::OffsetDateTime;

use crate::{
    Ctx,
    ids::{CartId, IntentId, OrderId, OrderToken, Reference, Sku},
    intent::Intent,
    money::{Currency, Money},
    pool::StoreError,
    provider::{ProviderChargeId, ProviderPaymentIntentId},
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
    /// Where the receipt goes; known once paid.
    pub email: Option<crate::ids::Email>,
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
    /// The product.
    pub sku: Sku,
    /// Its name at that time.
    pub name: String,
    /// Its picture at that time.
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

/// The provider has no payment intent for this order yet, so that it cannot be paid now. Asking again is safe.
#[derive(Debug, thiserror::Error)]
#[error("the provider cannot take payments now: {reason}")]
pub struct ProviderUnavailable {
    /// Short and safe to log.
    pub reason: String,
}

/// Makes the order of this cart and content, or finds the one that was made before.
///
/// The order that comes back may be paid or closed already; a cart that wants to buy the same again needs a new id.
///
/// # Errors
/// See [`CreateOrderError`]. Nothing is made or taken then.
pub async fn create(ctx: &Ctx, new: NewOrder) -> Result<Order, CreateOrderError> {
    let _ = (ctx, new);
    Err(StoreError::Unavailable(sqlx::Error::PoolClosed).into())
}

/// The order of this token.
///
/// # Errors
/// When the database cannot answer.
pub async fn find_by_token(ctx: &Ctx, token: &OrderToken) -> Result<Option<Order>, StoreError> {
    let _ = (ctx, token);
    Err(StoreError::Unavailable(sqlx::Error::PoolClosed))
}

/// The newest order that this cart made in this currency.
///
/// # Errors
/// When the database cannot answer.
pub async fn find_by_cart(ctx: &Ctx, cart: CartId, currency: Currency) -> Result<Option<Order>, StoreError> {
    let _ = (ctx, cart, currency);
    Err(StoreError::Unavailable(sqlx::Error::PoolClosed))
}

/// Makes sure that the provider has a payment intent for this order, and that we know its id, before anybody can pay.
///
/// # Errors
/// When the provider or the database cannot answer now. Repeating is safe: key and id belong to the order.
pub async fn ensure_payment_intent(ctx: &Ctx, order: &Order) -> Result<ProviderPaymentIntentId, ProviderUnavailable> {
    let _ = (ctx, order);
    Err(ProviderUnavailable { reason: "not_connected".to_owned() })
}

/// The order of this token with its lines and intents.
///
/// # Errors
/// When the database cannot answer.
pub async fn status(ctx: &Ctx, token: &OrderToken) -> Result<Option<OrderStatus>, StoreError> {
    let _ = (ctx, token);
    Err(StoreError::Unavailable(sqlx::Error::PoolClosed))
}
