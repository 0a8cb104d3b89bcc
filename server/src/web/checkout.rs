//! `POST /checkout`: makes the order of one part of the cart, or finds the one that the same click made before.

use axum::{extract::State, response::Response};
use http::HeaderMap;
use payments::{
    ids::CartId,
    money::Currency,
    order::{self, CreateOrderError, NewLine, NewOrder, OrderState},
};
use serde::Deserialize;

use app::error::CheckoutError;

use super::{
    CartCookie, RequestFacts,
    form::{Form, problem, see_other},
};
use crate::{port::unavailable, shop::Shop};

/// How many closed orders of one cart one click passes over. A cookie that is as old as that many hold times is rare.
const RENEWALS_MAX: usize = 8;

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
        Ok((address, cart)) => {
            let mut response = see_other(&address);
            if let Some(cart) = cart {
                cart.store(response.headers_mut());
            }
            response
        }
        Err(error) => problem(&shop, &error, None),
    }
}

/// Where the customer goes, and the cart as its cookie shall hold it from now on, if that changes.
async fn address_of_order(
    shop: &Shop,
    facts: RequestFacts,
    form: &CheckoutForm,
) -> Result<(String, Option<CartCookie>), CheckoutError> {
    let seen = CartId::parse(&form.cart).or(Err(CheckoutError::MalformedRequest))?;
    let currency = Currency::parse(&form.currency).or(Err(CheckoutError::MalformedRequest))?;
    // A second click may come from a page that still shows the cart's name before its renewal.
    let is_seen = |cart: &CartCookie| cart.id == seen || cart.id == seen.successor();
    let Some(mut cart) = facts.cart.filter(is_seen) else {
        return Ok((address_without_cart(shop, seen, currency).await?, None));
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
    let mut renewed = false;
    for _ in 0..RENEWALS_MAX {
        match order::create(&shop.ctx, NewOrder { cart: cart.id, currency, lines: lines.clone() }).await {
            // It was not paid in time. The same cart is ordered anew.
            Ok(order) if order.state == OrderState::Closed => {
                cart = cart.without(&[], cart.id.successor());
                renewed = true;
            }
            Ok(order) => return Ok((format!("/checkout/{}", order.token.expose()), renewed.then_some(cart))),
            // The cart's page tells which lines are short, and how many pieces are left.
            Err(CreateOrderError::OutOfStock { .. } | CreateOrderError::Empty) => {
                return Ok(("/cart".to_owned(), renewed.then_some(cart)));
            }
            Err(error) => return Err(crate::port::order_error(error)),
        }
    }
    // The cookie keeps how far the cart has come.
    Ok(("/cart".to_owned(), Some(cart)))
}

/// The cart has moved on since this page was made, for instance because its order was paid in another tab: the order of the
/// cart that the customer saw tells what became of it.
async fn address_without_cart(shop: &Shop, seen: CartId, currency: Currency) -> Result<String, CheckoutError> {
    let order = order::find_by_cart(&shop.ctx, seen, currency).await.map_err(unavailable)?;
    Ok(order.map_or_else(|| "/cart".to_owned(), |order| format!("/orders/{}", order.token.expose())))
}
