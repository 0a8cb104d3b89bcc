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
