//! What can be bought. The catalogue is a small table, read whole.

pub(crate) mod store;

use crate::{
    Ctx,
    ids::Sku,
    money::Money,
    pool::{StoreError, keyed},
};

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
    keyed(&ctx.limits, || store::list_all(&ctx.pool)).await?.into_iter().map(Product::try_from).collect()
}

/// Those of the products that exist, in order of SKU.
pub(crate) async fn list_by_sku(ctx: &Ctx, skus: &[String]) -> Result<Vec<Product>, StoreError> {
    keyed(&ctx.limits, || store::list_by_sku(&ctx.pool, skus)).await?.into_iter().map(Product::try_from).collect()
}
