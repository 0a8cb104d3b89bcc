//! `POST /checkout/{order}/pay`: Pay without scripts. The same intent, the same use case; the answer is a redirect to the
//! outcome, so that a reload never posts again.

use app::{
    dto::PayDto,
    error::{Advice, CheckoutError},
    port::Checkout,
};
use axum::{
    extract::{Path, State},
    response::Response,
};
use http::HeaderMap;
use payments::ids::IntentId;
use serde::Deserialize;

use super::{
    RequestFacts,
    form::{Form, problem, see_other},
};
use crate::{port::ShopPort, shop::Shop};

/// What the review page's form sends.
#[derive(Deserialize)]
pub struct PayForm {
    intent: String,
    #[serde(default)]
    replaces: String,
    /// The provider's card session, which stands for the payment method.
    session: String,
    amount: i64,
    currency: String,
}

/// Pays, and shows the outcome of the order whatever it is.
pub async fn submit(
    State(shop): State<Shop>,
    Path(order): Path<String>,
    headers: HeaderMap,
    Form(form): Form<PayForm>,
) -> Response {
    let port = ShopPort::new(shop.clone(), RequestFacts::of(&headers), None);
    match pay(&port, &order, form).await {
        Ok(()) => see_other(&format!("/orders/{order}")),
        // Known to be under way or over: the outcome is the answer, never an error.
        Err(error) if error.advice() == Advice::Ask => see_other(&format!("/orders/{order}")),
        Err(error) => problem(&shop, &error, Some(&order)),
    }
}

async fn pay(port: &ShopPort, order: &str, form: PayForm) -> Result<(), CheckoutError> {
    let intent = IntentId::parse(&form.intent).or(Err(CheckoutError::InvalidIntent))?;
    let card = port.card_of_session(&form.session, intent).await?;
    let replaces = (!form.replaces.is_empty()).then_some(form.replaces);
    let pay = PayDto {
        order: order.to_owned(),
        intent: form.intent,
        replaces,
        payment_method: card.payment_method,
        email: card.email,
        amount: form.amount,
        currency: form.currency,
    };
    port.pay(pay).await.map(|_| ())
}
