//! The only door from the pages and server functions to the domain.
//!
//! `server` implements [`Checkout`] and provides [`CheckoutPort`] as context to every route; nothing here knows how.

use std::sync::Arc;

use async_trait::async_trait;
use leptos::prelude::use_context;

use crate::{
    dto::{Answer, CartDto, CheckoutDto, OutcomeDto, PayDto, ReviewDto, ShelfDto},
    error::CheckoutError,
};

/// An answer to Pay, and whether it comes from the archive.
#[derive(Debug)]
pub struct PaySaid {
    pub answer: Answer,
    pub replayed: bool,
}

/// Everything the pages and server functions ask of the domain.
#[async_trait]
pub trait Checkout: Send + Sync {
    /// The catalogue.
    async fn shop(&self) -> Result<Vec<ShelfDto>, CheckoutError>;
    /// The cart of the request's cookie; an empty one where there is none.
    async fn cart(&self) -> Result<CartDto, CheckoutError>;
    /// The checkout page of the order; `session` is the provider's card session of a plain form that it sent back.
    async fn checkout(&self, order: &str, session: Option<&str>) -> Result<CheckoutDto, CheckoutError>;
    /// The script-less review page.
    async fn review(&self, order: &str, intent: &str, session: &str) -> Result<ReviewDto, CheckoutError>;
    /// The order for its outcome page.
    async fn order(&self, order: &str) -> Result<(crate::dto::OrderDto, OutcomeDto), CheckoutError>;
    /// What is known of the order's payment, after looking it up at the provider where that is due. `intent` is the one the
    /// browser holds.
    async fn outcome(&self, order: &str, intent: Option<&str>) -> Result<OutcomeDto, CheckoutError>;
    /// Pays: reserves the intent, confirms it, settles it; or gives the archived answer.
    async fn pay(&self, pay: PayDto) -> Result<PaySaid, CheckoutError>;
}

/// [`Checkout`], as it travels in the context of one request.
#[derive(Clone)]
pub struct CheckoutPort(pub Arc<dyn Checkout>);

/// The port of this request.
///
/// # Errors
/// `Unavailable` where the context has none, which one boot test over every route excludes.
pub fn checkout() -> Result<Arc<dyn Checkout>, CheckoutError> {
    use_context::<CheckoutPort>().map(|port| port.0).ok_or(CheckoutError::Unavailable { retry_after_seconds: 2 })
}
