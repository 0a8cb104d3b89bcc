//! `POST /checkout`: makes the order of one part of the cart, or finds the one that the same click made before.

use axum::{extract::State, response::Response};
use http::HeaderMap;
use payments::{
    ids::CartId,
    money::Currency,
    order::{self, CreateOrderError, NewLine, NewOrder},
};
use serde::Deserialize;

use app::error::CheckoutError;

use super::{
    RequestFacts,
    form::{Form, problem, see_other},
};
use crate::{port::unavailable, shop::Shop};

/// What the Checkout button sends: which cart the customer saw, and which part of it.
#[derive(Deserialize)]
pub struct CheckoutForm {
    cart: String,
    currency: String,
}

/// Clicking twice, or in two tabs, leads to one order.
pub async fn begin(State(shop): State<Shop>, headers: HeaderMap, Form(form): Form<CheckoutForm>) -> Response {
    let facts = RequestFacts::of(&headers);
    match address_of_order(&shop, facts, &form).await {
        Ok(address) => see_other(&address),
        Err(error) => problem(&shop, &error, None),
    }
}

async fn address_of_order(shop: &Shop, facts: RequestFacts, form: &CheckoutForm) -> Result<String, CheckoutError> {
    let seen = CartId::parse(&form.cart).or(Err(CheckoutError::MalformedRequest))?;
    let currency = Currency::parse(&form.currency).or(Err(CheckoutError::MalformedRequest))?;
    let Some(cart) = facts.cart.filter(|cart| cart.id == seen) else {
        return address_without_cart(shop, seen, currency).await;
    };
    let products = payments::catalog::list_products(&shop.ctx).await.map_err(unavailable)?;
    let lines: Vec<NewLine> = products
        .iter()
        .filter(|product| product.price.currency == currency)
        .filter_map(|product| {
            let quantity = *cart.lines.get(product.sku.as_str())?;
            Some(NewLine { sku: product.sku.clone(), quantity })
        })
        .collect();
    match order::create(&shop.ctx, NewOrder { cart: seen, currency, lines }).await {
        Ok(order) => Ok(format!("/checkout/{}", order.token.expose())),
        // The cart's page tells which lines are short, and how many pieces are left.
        Err(CreateOrderError::OutOfStock { .. } | CreateOrderError::Empty) => Ok("/cart".to_owned()),
        Err(error) => Err(crate::port::order_error(error)),
    }
}

/// The cart has moved on since this page was made, for instance because its order was paid in another tab: the order of the
/// cart that the customer saw tells what became of it.
async fn address_without_cart(shop: &Shop, seen: CartId, currency: Currency) -> Result<String, CheckoutError> {
    let order = order::find_by_cart(&shop.ctx, seen, currency).await.map_err(unavailable)?;
    Ok(order.map_or_else(|| "/cart".to_owned(), |order| format!("/orders/{}", order.token.expose())))
}
