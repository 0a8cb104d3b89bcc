//! Ids in addresses. What is no id leads nowhere, like an id that does not exist.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use payments::ids::{IntentId, OrderId};

use super::{not_found, problem::Problem};
use crate::shop::Shop;

/// The order of an address.
pub struct OrderPath(pub OrderId);

/// The intent of an address.
pub struct IntentPath(pub IntentId);

impl FromRequestParts<Shop> for OrderPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shop: &Shop) -> Result<Self, Problem> {
        OrderId::parse(&text(parts, shop).await?).map(Self).or(Err(not_found()))
    }
}

impl FromRequestParts<Shop> for IntentPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shop: &Shop) -> Result<Self, Problem> {
        IntentId::parse(&text(parts, shop).await?).map(Self).or(Err(not_found()))
    }
}

async fn text(parts: &mut Parts, shop: &Shop) -> Result<String, Problem> {
    Path::<String>::from_request_parts(parts, shop).await.map(|Path(text)| text).or(Err(not_found()))
}
