//! `/checkout/{token}`: what is bought, and the form that pays it.

use leptos::prelude::*;

use crate::{
    components::{Frame, Slip, page},
    islands::PayForm,
    pages::{order_token, query},
    port::checkout,
};

#[component]
pub fn Checkout() -> impl IntoView {
    let order = order_token();
    let session = query("session");
    page(Some(order.clone()), async move { checkout()?.checkout(&order, session.as_deref()).await }, |checkout| {
        let order = checkout.order.clone();
        view! {
            <Frame back=("/cart", "Back to cart")>
                <PayForm checkout>
                    <Slip order />
                </PayForm>
            </Frame>
        }
    })
}
