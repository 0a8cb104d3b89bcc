//! One file per route.
use leptos::prelude::*;

#[component]
pub fn Shop() -> impl IntoView {}
#[component]
pub fn Cart() -> impl IntoView {}
#[component]
pub fn Checkout() -> impl IntoView {}
#[component]
pub fn Review() -> impl IntoView {}
#[component]
pub fn Order() -> impl IntoView {}
#[component]
pub fn NotFound() -> impl IntoView {}

/// What is wrong and what to do next; `shell::problem_document` puts it into a document of its own (no router, no context).
#[component]
pub fn Problem(error: crate::error::CheckoutError, order: Option<String>) -> impl IntoView {
    let _ = order;
    view! { <main>{error.to_string()}</main> }
}

/// Its `<title>`.
pub fn problem_title(error: &crate::error::CheckoutError) -> String {
    error.to_string()
}
