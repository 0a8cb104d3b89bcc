//! The server functions. Their addresses are fixed, so that a page which is open across a deploy still pays.

use leptos::{prelude::server, server_fn::codec::Json};

use crate::{
    dto::{Answer, OutcomeDto, PayDto},
    error::CheckoutError,
};

/// Pays an order with one checkout intent. Repeats of the same intent get the same bytes.
#[server(prefix = "/rpc", endpoint = "pay", input = Json, output = Json)]
pub async fn pay(pay: PayDto) -> Result<Answer, CheckoutError> {
    let said = crate::port::checkout()?.pay(pay).await?;
    mark_replayed(said.replayed);
    Ok(said.answer)
}

/// What is known of the order's payment. Asking never pays.
#[server(prefix = "/rpc", endpoint = "outcome", input = Json, output = Json)]
pub async fn outcome(order: String, intent: Option<String>) -> Result<OutcomeDto, CheckoutError> {
    crate::port::checkout()?.outcome(&order, intent.as_deref()).await
}

#[cfg(feature = "ssr")]
fn mark_replayed(replayed: bool) {
    if replayed && let Some(response) = leptos::prelude::use_context::<leptos_axum::ResponseOptions>() {
        response.insert_header(
            http::HeaderName::from_static("idempotent-replayed"),
            http::HeaderValue::from_static("true"),
        );
    }
}
