//! The one way from the port to a page: ask, then show the answer or what is wrong, with the right status. Everything is
//! there before the first byte of HTML leaves, so that pages are whole without scripts.

use leptos::{either::Either, prelude::*};
use leptos_meta::Title;

use crate::{
    error::CheckoutError,
    pages::{Problem, problem_title},
};

/// The page that `show` makes of what `load` brings. `order` is the token of the order that the page speaks of.
pub fn page<T, V>(
    order: Option<String>,
    load: impl Future<Output = Result<T, CheckoutError>> + Send + 'static,
    show: impl FnOnce(T) -> V + Send + 'static,
) -> impl IntoView
where
    T: Send + 'static,
    V: IntoView + 'static,
{
    Suspend::new(async move {
        match load.await {
            Ok(loaded) => Either::Left(show(loaded)),
            Err(error) => {
                set_status(error.http_status(), error.retry_after_seconds());
                let title = problem_title(&error);
                Either::Right(view! {
                    <Title text=title />
                    <Problem error order />
                })
            }
        }
    })
}

/// Sets the status of the answer that carries this page.
pub fn set_status(status: u16, retry_after_seconds: Option<u32>) {
    let Some(response) = use_context::<leptos_axum::ResponseOptions>() else { return };
    if let Ok(status) = http::StatusCode::from_u16(status) {
        response.set_status(status);
    }
    if let Some(seconds) = retry_after_seconds {
        response.insert_header(http::header::RETRY_AFTER, http::HeaderValue::from(seconds));
    }
}
