//! The document around every page, and the route table.

use leptos::{hydration::HydrationScripts, prelude::*};
use leptos_meta::{MetaTags, provide_meta_context};
use leptos_router::{
    SsrMode,
    components::{Route, Router, Routes},
    path,
};

use crate::{components::Storefront, error::CheckoutError, pages};

/// The HTML document of a page of the route table.
pub fn shell(options: LeptosOptions) -> impl IntoView {
    let scripts = needs_scripts().then(|| view! { <HydrationScripts options islands=true /> });
    view! {
        <!DOCTYPE html>
        <html lang="en">
            <head>
                <Head />
                {scripts}
                <MetaTags />
            </head>
            <body>
                <App />
            </body>
        </html>
    }
}

/// The HTML document that says what is wrong with a plain form, complete. `order` is the token of the order it speaks of.
pub fn problem_document(shop: &Storefront, error: &CheckoutError, order: Option<&str>) -> String {
    Owner::new().with(|| {
        provide_context(shop.clone());
        view! {
            <!DOCTYPE html>
            <html lang="en">
                <head>
                    <Head />
                    <title>{pages::problem_title(error)}</title>
                </head>
                <body>
                    <pages::Problem error=error.clone() order=order.map(str::to_owned) />
                </body>
            </html>
        }
        .to_html()
    })
}

#[component]
fn Head() -> impl IntoView {
    view! {
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <link rel="icon" href="/favicon.svg" type="image/svg+xml" />
        <link rel="stylesheet" href="/pkg/payonce.css" />
    }
}

/// Shop and cart work by plain forms; only the pages of an order carry islands.
fn needs_scripts() -> bool {
    use_context::<http::request::Parts>().is_some_and(|parts| {
        let path = parts.uri.path();
        path.starts_with("/checkout/") || path.starts_with("/orders/")
    })
}

/// The route table. Every page is rendered whole before it is sent, so that it works without scripts.
#[component]
pub fn App() -> impl IntoView {
    provide_meta_context();
    view! {
        <Router>
            <Routes fallback=pages::NotFound>
                <Route path=path!("/") view=pages::Shop ssr=SsrMode::Async />
                <Route path=path!("/cart") view=pages::Cart ssr=SsrMode::Async />
                <Route path=path!("/checkout/:order") view=pages::Checkout ssr=SsrMode::Async />
                <Route path=path!("/checkout/:order/review") view=pages::Review ssr=SsrMode::Async />
                <Route path=path!("/orders/:order") view=pages::Order ssr=SsrMode::Async />
            </Routes>
        </Router>
    }
}
