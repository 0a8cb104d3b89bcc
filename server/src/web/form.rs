//! Plain forms: how their bodies are read, and the page that tells what is wrong with one.

use app::error::CheckoutError;
use axum::{
    extract::{FromRequest, Request},
    response::{Html, IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde::de::DeserializeOwned;

use super::rpc::{self, carrying};
use crate::shop::Shop;

/// A plain form's body; what cannot be read answers with a page, not with a library's sentence.
pub struct Form<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Shop> for Form<T> {
    type Rejection = Response;

    async fn from_request(request: Request, shop: &Shop) -> Result<Self, Response> {
        match axum::Form::<T>::from_request(request, shop).await {
            Ok(axum::Form(form)) => Ok(Self(form)),
            Err(_) => Err(problem(shop, &CheckoutError::MalformedRequest, None)),
        }
    }
}

/// `303 See Other`, so that a reload of the next page never posts again.
pub fn see_other(address: &str) -> Response {
    let location = HeaderValue::from_str(address).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response()
}

/// The page that says what is wrong and what to do next. `order` is the token of the order it speaks of.
pub fn problem(shop: &Shop, error: &CheckoutError, order: Option<&str>) -> Response {
    let page = Html(app::problem_document(&shop.site.storefront, error, order));
    carrying(error, ([(header::CACHE_CONTROL, "no-store")], page).into_response())
}

/// An error of a request that did not come as far as its handler: what reads the answer there is a program or a person.
pub fn refusal(shop: &Shop, path: &str, error: &CheckoutError) -> Response {
    if rpc::is_at(path) { rpc::refuse(error) } else { problem(shop, error, None) }
}
