//! The document around every page, and the route table.

use leptos::{hydration::HydrationScripts, prelude::*};
use leptos_meta::{MetaTags, provide_meta_context};
use leptos_router::{
    SsrMode,
    components::{Route, Router, Routes},
    path,
};

use crate::pages;

/// The HTML document.
pub fn shell(options: LeptosOptions) -> impl IntoView {
    view! {
        <!DOCTYPE html>
        <html lang="en">
            <head>
                <meta charset="utf-8" />
                <meta name="viewport" content="width=device-width, initial-scale=1" />
                <link rel="stylesheet" href="/pkg/payonce.css" />
                <HydrationScripts options islands=true />
                <MetaTags />
            </head>
            <body>
                <App />
            </body>
        </html>
    }
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
