//! Every address that leads nowhere: says so, with status 404.

use leptos::prelude::*;
use leptos_meta::Title;

use crate::{
    components::set_status,
    error::CheckoutError,
    pages::{Problem, problem_title},
};

#[component]
pub fn NotFound() -> impl IntoView {
    let error = CheckoutError::NotFound;
    set_status(error.http_status(), None);
    view! {
        <Title text=problem_title(&error) />
        <Problem error order=None />
    }
}
