//! All SQL of the catalogue.

use crate::{
    catalog::Product,
    ids::Sku,
    limits::MAX_PRODUCTS,
    money::{Currency, Money},
    pool::{Pool, StoreError},
};

/// A row of `products`.
pub(crate) struct ProductRow {
    sku: String,
    name: String,
    description: String,
    picture: String,
    currency: String,
    price_minor: i64,
    stock: i32,
}

impl TryFrom<ProductRow> for Product {
    type Error = StoreError;

    fn try_from(row: ProductRow) -> Result<Self, StoreError> {
        let currency = Currency::parse(&row.currency).or(Err(StoreError::Impossible("currency of a product")))?;
        Ok(Self {
            sku: Sku::stored(row.sku),
            name: row.name,
            description: row.description,
            picture: row.picture,
            price: Money::new(row.price_minor, currency),
            stock: row.stock,
        })
    }
}

pub(crate) async fn list_all(pool: &Pool) -> Result<Vec<ProductRow>, sqlx::Error> {
    sqlx::query_as!(
        ProductRow,
        "select sku, name, description, picture, currency, price_minor, stock
        from products
        order by position, sku
        limit $1",
        MAX_PRODUCTS,
    )
    .fetch_all(pool)
    .await
}

pub(crate) async fn list_by_sku(pool: &Pool, skus: &[String]) -> Result<Vec<ProductRow>, sqlx::Error> {
    sqlx::query_as!(
        ProductRow,
        "select sku, name, description, picture, currency, price_minor, stock
        from products
        where sku = any($1)
        order by sku",
        skus,
    )
    .fetch_all(pool)
    .await
}
