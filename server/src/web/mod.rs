//! The shop over HTTP. [`router`] is the whole map; everything it names lives in a file of the same name.

pub mod api;
mod cart;
mod checkout;
mod files;
mod form;
mod headers;
mod health;
mod limit;
mod pay;
mod request;
mod rpc;

use app::port::CheckoutPort;
use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware,
    routing::{get, post},
};
use leptos::prelude::{LeptosOptions, provide_context, use_context};
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
    let options = shop.leptos.clone();
    let pages = leptos_axum::generate_route_list(app::App);
    let context = provide_port(shop.clone());
    Router::new()
        .route("/cart", post(cart::change))
        .route("/checkout", post(checkout::begin))
        .route("/checkout/{order}/pay", post(pay::submit))
        .leptos_routes_with_context(&shop, pages, context, move || app::shell(options.clone()))
        .layer(middleware::from_fn(rpc::around))
        .layer(middleware::from_fn_with_state(shop.clone(), limit::posts))
        .layer(middleware::from_fn(headers::never_store))
        .merge(api::router())
        .merge(files::router(&shop))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/version", get(health::version))
        .fallback(files::not_found)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn(headers::harden))
        .layer(CatchPanicLayer::new())
        .with_state(shop)
}

/// Gives every page and server function of one request its port.
fn provide_port(shop: Shop) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let facts = use_context::<http::request::Parts>()
            .map_or_else(RequestFacts::default, |parts| RequestFacts::of(&parts.headers));
        let port = ShopPort::new(shop.clone(), facts, use_context());
        provide_context(shop.site.storefront.clone());
        provide_context(CheckoutPort(std::sync::Arc::new(port)));
    }
}

impl axum::extract::FromRef<Shop> for LeptosOptions {
    fn from_ref(shop: &Shop) -> Self {
        shop.leptos.clone()
    }
}
