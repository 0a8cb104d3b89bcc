//! Orders of programs: made once per API key and idempotency key, with the answer archived in the statement that makes them.
//!
//! A repeat of the same request gets the same bytes, whatever became of the catalogue meanwhile; another request under the same
//! key changes nothing. Unlike a cart's, a program's order may have lines that it names and prices itself.

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{CreateOrderError, store::by_key as rows};
use crate::{
    Ctx,
    api_key::ApiKeyId,
    catalog::{self, Product},
    ids::{Email, InvalidId, OrderId, OrderToken, Sku},
    intent::{
        archive::{Answer, JSON},
        fingerprint::Fingerprint,
    },
    limits::{MAX_LINE_NAME_BYTES, MAX_LINE_QUANTITY, MAX_ORDER_KEY_BYTES, MAX_ORDER_LINES, PLACE_TRIES},
    money::{Currency, Money},
    pool::{StoreError, keyed, refused_by},
    purge::in_batches,
};

/// The idempotency key of a program's order: 1 to 255 printable characters of ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderKey(String);

impl OrderKey {
    /// Parses a key, without the quotes it may have travelled in.
    ///
    /// # Errors
    /// When it is empty, too long, or has other characters.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if printable && (1..=MAX_ORDER_KEY_BYTES).contains(&text.len()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId { kind: "idempotency key" })
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of a line that is no product: 1 to 200 bytes, no control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineName(String);

impl LineName {
    /// Parses a name; spaces around it are dropped.
    ///
    /// # Errors
    /// When nothing can be seen of it, or it is too long, or has characters that hide or turn what stands beside them.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let text = text.trim();
        let fits = (1..=MAX_LINE_NAME_BYTES).contains(&text.len())
            && !text.chars().any(|letter| letter.is_control() || deceives(letter))
            && !text.chars().all(joins);
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidId { kind: "name of a line" }) }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Line and paragraph separators, and what turns the direction of other text or stands invisibly in it.
fn deceives(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{200b}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Invisible alone, and needed between letters: joiners of Indic and Arabic words and of pictures, marks of direction.
fn joins(letter: char) -> bool {
    matches!(letter, '\u{200c}'..='\u{200f}' | ' ')
}

/// What a program asks for.
#[derive(Clone, Debug)]
pub struct NewOrderByKey {
    /// The subject of the key.
    pub api_key: ApiKeyId,
    /// The idempotency key.
    pub key: OrderKey,
    /// The currency that all lines must have.
    pub currency: Currency,
    /// The lines; those of one SKU are added up where the first of them stands.
    pub lines: Vec<NewLine>,
    /// Where the receipt goes.
    pub email: Option<Email>,
    /// The address of checkouts, to which the order's token is added.
    pub checkouts_url: String,
}

/// One line of a program's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewLine {
    /// A product, at the catalogue's price. Its pieces are taken from the stock.
    Product {
        /// Which.
        sku: Sku,
        /// Pieces.
        quantity: i32,
    },
    /// Something that only the program knows.
    Free {
        /// As customers read it.
        name: LineName,
        /// Price of one piece, in minor units.
        unit_minor: i64,
        /// Pieces.
        quantity: i32,
    },
}

/// The order of a key, and what its program is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderByKey {
    /// The order.
    pub id: OrderId,
    /// The archived answer.
    pub answer: Answer,
    /// Whether an earlier call made it.
    pub replayed: bool,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum OrderByKeyError {
    /// The key was used for another request; that one stands.
    #[error("this key was used for another request")]
    Reused,
    /// The order was made, but its answer is no longer archived.
    #[error("the answer is no longer archived")]
    Purged(OrderId),
    /// No order was made, and the key is free.
    #[error(transparent)]
    Refused(#[from] CreateOrderError),
}

impl From<StoreError> for OrderByKeyError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

/// Makes the order of this key, or repeats the answer to the call that did.
///
/// # Errors
/// See [`OrderByKeyError`]. Nothing is made or taken by this call then.
pub async fn create(ctx: &Ctx, new: &NewOrderByKey) -> Result<OrderByKey, OrderByKeyError> {
    let fingerprint = fingerprint(new);
    if let Some(made) = find(ctx, new, &fingerprint).await? {
        return Ok(made);
    }

    // Price: products from our own catalogue, the rest as the program says.
    let lines = added_up(&new.lines)?;
    let skus: Vec<String> = lines.iter().filter_map(sku).map(Sku::to_string).collect();
    let products = if skus.is_empty() { Vec::new() } else { catalog::list_by_sku(ctx, &skus).await? };
    let content = Content::priced(new.currency, &lines, &products)?;

    // Place: one statement makes key, order, lines and answer, and takes the stock, or does nothing.
    if let Some(made) = place(ctx, new, &fingerprint, &content, &products).await? {
        return Ok(made);
    }
    find(ctx, new, &fingerprint).await?.ok_or_else(|| StoreError::Impossible("absence of a placed order").into())
}

/// What an earlier call of this key has made.
async fn find(
    ctx: &Ctx,
    new: &NewOrderByKey,
    fingerprint: &Fingerprint,
) -> Result<Option<OrderByKey>, OrderByKeyError> {
    let found = keyed(&ctx.limits, || rows::find(&ctx.pool, new.api_key, &new.key)).await.map_err(StoreError::from)?;
    let Some(found) = found else { return Ok(None) };
    if found.fingerprint.as_slice() != fingerprint.as_bytes() {
        return Err(OrderByKeyError::Reused);
    }
    let id = OrderId(found.order_id);
    let answer = found.answer().ok_or(OrderByKeyError::Purged(id))?;
    Ok(Some(OrderByKey { id, answer, replayed: true }))
}

/// `None`: a rival with the same key was faster, or an earlier try of this call whose answer was lost.
async fn place(
    ctx: &Ctx,
    new: &NewOrderByKey,
    fingerprint: &Fingerprint,
    content: &Content,
    products: &[Product],
) -> Result<Option<OrderByKey>, OrderByKeyError> {
    for _ in 0..PLACE_TRIES {
        let (id, token, reference) = (ctx.ids.order(ctx.clock.now()), ctx.ids.order_token(), ctx.ids.reference());
        let answer = answer(id, &token, content.total, &new.checkouts_url);
        let placing = rows::Placing {
            new,
            fingerprint,
            id,
            token: &token,
            reference: &reference,
            cart: ctx.ids.cart(),
            offered_intent: ctx.ids.intent(),
            content,
            answer: &answer,
        };
        match keyed(&ctx.limits, || rows::place(&ctx.pool, &placing)).await {
            Ok(true) => return Ok(Some(OrderByKey { id, answer, replayed: false })),
            Ok(false) => return Ok(None),
            Err(error) => match refused_by(&error) {
                Some("products_stock_not_negative") => {
                    let wanted = content.wanted();
                    return Err(super::shortage(ctx, &wanted, products).await?.into());
                }
                // Two orders drew the same reference: draw again.
                Some("orders_reference_key") => {}
                Some(_) | None => return Err(StoreError::from(error).into()),
            },
        }
    }
    Err(StoreError::Impossible("row of collisions").into())
}

/// Purges, batch after batch, until one is not full or the bound of one run is reached. Returns how many were purged.
///
/// # Errors
/// When the database cannot answer.
pub async fn purge(ctx: &Ctx) -> Result<u64, StoreError> {
    in_batches(ctx.limits.order_key_purge_batch, || purge_once(ctx)).await
}

/// Drops the archived answers that are older than their memory; what stays is the key and its order. Returns how many.
///
/// # Errors
/// When the database cannot answer.
pub async fn purge_once(ctx: &Ctx) -> Result<u64, StoreError> {
    Ok(keyed(&ctx.limits, || rows::purge(&ctx.pool, &ctx.limits)).await?)
}

/// Never to be changed for what it covers today, since stored ones are compared with it.
fn fingerprint(new: &NewOrderByKey) -> Fingerprint {
    let mut fields = vec!["order/1".to_owned(), new.currency.code().to_owned()];
    fields.push(new.email.as_ref().map(|email| email.as_str().to_lowercase()).unwrap_or_default());
    for line in &new.lines {
        fields.extend(match line {
            NewLine::Product { sku, quantity } => ["product".to_owned(), sku.to_string(), quantity.to_string()].into(),
            NewLine::Free { name, unit_minor, quantity } => {
                vec!["free".to_owned(), name.as_str().to_owned(), unit_minor.to_string(), quantity.to_string()]
            }
        });
    }
    Fingerprint::of_fields(fields.iter().map(String::as_str))
}

fn sku(line: &NewLine) -> Option<&Sku> {
    match line {
        NewLine::Product { sku, .. } => Some(sku),
        NewLine::Free { .. } => None,
    }
}

/// The lines, each SKU once: the statement takes the stock of a product once.
fn added_up(lines: &[NewLine]) -> Result<Vec<NewLine>, CreateOrderError> {
    let mut once: Vec<NewLine> = Vec::new();
    for line in lines {
        let same = once.iter_mut().find(|earlier| sku(line).is_some() && sku(earlier) == sku(line));
        match (same, line) {
            (Some(NewLine::Product { quantity, .. }), NewLine::Product { quantity: more, .. }) => {
                *quantity = quantity.saturating_add(*more);
            }
            (_, line) => once.push(line.clone()),
        }
    }
    let pieces = |line: &NewLine| match line {
        NewLine::Product { quantity, .. } | NewLine::Free { quantity, .. } => *quantity,
    };
    if once.is_empty() || once.iter().any(|line| pieces(line) < 1) {
        return Err(CreateOrderError::Empty);
    }
    if once.len() > MAX_ORDER_LINES || once.iter().any(|line| pieces(line) > MAX_LINE_QUANTITY) {
        return Err(CreateOrderError::TooMany);
    }
    Ok(once)
}

/// The priced lines, as parallel lists.
pub(crate) struct Content {
    /// Empty for a line that is no product.
    pub(crate) skus: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) quantities: Vec<i32>,
    pub(crate) unit_minors: Vec<i64>,
    pub(crate) total: Money,
    pub(crate) hash: [u8; 32],
}

impl Content {
    fn priced(currency: Currency, lines: &[NewLine], products: &[Product]) -> Result<Self, CreateOrderError> {
        let mut content = Self {
            skus: Vec::new(),
            names: Vec::new(),
            quantities: Vec::new(),
            unit_minors: Vec::new(),
            total: Money::new(0, currency),
            hash: [0; 32],
        };
        let mut hash = Sha256::new();
        hash.update(format!("order/2 {currency}\n"));
        for line in lines {
            let (name, quantity, unit) = match line {
                NewLine::Product { sku, quantity } => {
                    let product = products.iter().find(|product| product.sku == *sku);
                    let product = product.ok_or_else(|| CreateOrderError::UnknownSku(sku.clone()))?;
                    if product.price.currency != currency {
                        return Err(CreateOrderError::MixedCurrency(sku.clone()));
                    }
                    (product.name.clone(), *quantity, product.price)
                }
                NewLine::Free { name, unit_minor, quantity } => {
                    (name.as_str().to_owned(), *quantity, Money::new(*unit_minor, currency))
                }
            };
            let amount = unit.checked_mul(quantity).or(Err(CreateOrderError::TooMany))?;
            content.total = content.total.checked_add(amount).or(Err(CreateOrderError::TooMany))?;
            let sku = sku(line).map(Sku::to_string).unwrap_or_default();
            hash.update(format!("{} {quantity} {} {name}\n", sku, unit.minor));
            content.skus.push(sku);
            content.names.push(name);
            content.quantities.push(quantity);
            content.unit_minors.push(unit.minor);
        }
        content.hash = hash.finalize().into();
        Ok(content)
    }

    /// Pieces of each product, in order of SKU, as the catalogue lists them.
    fn wanted(&self) -> std::collections::BTreeMap<String, i32> {
        let lines = self.skus.iter().zip(&self.quantities);
        lines.filter(|(sku, _)| !sku.is_empty()).map(|(sku, quantity)| (sku.clone(), *quantity)).collect()
    }
}

/// What the program is told, now and by every repeat.
fn answer(id: OrderId, token: &OrderToken, total: Money, checkouts_url: &str) -> Answer {
    #[derive(Serialize)]
    struct Body<'a> {
        id: String,
        token: &'a str,
        checkout_url: String,
        amount: i64,
        currency: &'a str,
        state: &'a str,
    }
    let body = Body {
        id: id.to_string(),
        token: token.expose(),
        checkout_url: format!("{checkouts_url}{}", token.expose()),
        amount: total.minor,
        currency: total.currency.code(),
        state: "open",
    };
    let body = serde_json::to_vec(&body).expect("a struct of strings and integers always serialises");
    Answer { status: 201, content_type: JSON.into(), body: Bytes::from(body) }
}
