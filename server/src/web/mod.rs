//! The shop over HTTP. [`router`] is the whole map; everything it names lives in a file of the same name.

pub mod api;
mod body;
mod cart;
mod checkout;
mod files;
mod form;
mod health;
mod limit;
mod news;
mod pay;
mod request;
mod rpc;
mod security;
mod webhooks;

use app::port::CheckoutPort;
use axum::{
    Router, middleware,
    routing::{get, post},
};
use leptos::prelude::{IntoAny as _, LeptosOptions, provide_context, use_context};
use leptos_axum::LeptosRoutes;
use tower_http::catch_panic::CatchPanicLayer;

pub use cart::CartCookie;
pub use request::RequestFacts;

use crate::{port::ShopPort, shop::Shop};

/// The largest body that a checkout sends, in bytes. The longest honest one, a pay call with a 254-character e-mail
/// address, is under 1,000.
pub const MAX_BODY_BYTES: usize = 16 * 1024;

/// Every route of the shop. leptos adds the pages of `app::App` and the server functions of `app::api`.
pub fn router(shop: Shop) -> Router {
    let pages = leptos_axum::generate_route_list(app::App);
    let context = provide_port(shop.clone());
    Router::new()
        .route("/cart", post(cart::change))
        .route("/checkout", post(checkout::begin))
        .route("/checkout/{order}/pay", post(pay::submit))
        .route("/orders/{order}/news", get(news::listen))
        .leptos_routes_with_context(&shop, pages, context, page(&shop))
        .layer(middleware::from_fn(rpc::around))
        .layer(middleware::from_fn_with_state(shop.clone(), limit::posts))
        .layer(middleware::from_fn_with_state(shop.clone(), body::read_whole))
        .layer(middleware::from_fn_with_state(shop.clone(), security::same_origin_only))
        .layer(middleware::from_fn(security::never_store))
        .merge(api::router())
        .merge(files::router(&shop))
        .merge(
            Router::new()
                .route("/webhooks/stripe", post(webhooks::receive))
                .layer(middleware::from_fn_with_state(shop.clone(), body::read_event)),
        )
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/version", get(health::version))
        .fallback(files::not_found)
        .layer(CatchPanicLayer::new())
        .layer(middleware::from_fn_with_state(shop.clone(), security::sound))
        .layer(middleware::from_fn_with_state(shop.clone(), security::harden))
        .with_state(shop)
}

/// Gives every page and server function of one request its port.
fn provide_port(shop: Shop) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let port = ShopPort::new(shop.clone(), facts_of_page(), use_context());
        provide_context(shop.site.storefront.clone());
        provide_context(CheckoutPort(std::sync::Arc::new(port)));
    }
}

/// The document of one page, and what it may do.
fn page(shop: &Shop) -> impl Fn() -> leptos::prelude::AnyView + Clone + Send + Sync + 'static {
    let shop = shop.clone();
    move || {
        let path = use_context::<http::request::Parts>().map(|parts| parts.uri.path().to_owned()).unwrap_or_default();
        security::allow_scripts_of_page(&shop.site, &facts_of_page(), &path);
        app::shell(shop.leptos.clone()).into_any()
    }
}

/// The facts of the request that a page or server function answers.
fn facts_of_page() -> RequestFacts {
    use_context::<http::request::Parts>().map_or_else(RequestFacts::default, |parts| RequestFacts::of(&parts.headers))
}

impl axum::extract::FromRef<Shop> for LeptosOptions {
    fn from_ref(shop: &Shop) -> Self {
        shop.leptos.clone()
    }
}
