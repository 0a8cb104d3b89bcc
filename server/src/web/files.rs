//! The built browser files and the pictures, and what is said where there is nothing.

use app::error::CheckoutError;
use axum::{
    Router,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, Uri, header};
use tower::ServiceBuilder;
use tower_http::{services::ServeDir, set_header::SetResponseHeaderLayer};

use super::{api, form::problem};
use crate::shop::Shop;

/// Pictures change with a release only.
const PICTURES_MAX_AGE: &str = "public, max-age=86400";
/// Script, WASM and style must fit the page that names them, so browsers ask each time whether they changed.
const PACKAGE_REVALIDATE: &str = "public, no-cache";

/// Everything under the site's root, precompressed where the build did so.
pub fn router(shop: &Shop) -> Router<Shop> {
    let root = &shop.site.site_root;
    let serve = |folder: &str, caching: &'static str| {
        ServiceBuilder::new()
            .layer(SetResponseHeaderLayer::if_not_present(header::CACHE_CONTROL, HeaderValue::from_static(caching)))
            .service(ServeDir::new(root.join(folder)).precompressed_br().append_index_html_on_directories(false))
    };
    Router::new()
        .nest_service("/pkg", serve("pkg", PACKAGE_REVALIDATE))
        .nest_service("/pictures", serve("pictures", PICTURES_MAX_AGE))
        .route_service("/favicon.svg", tower_http::services::ServeFile::new(root.join("favicon.svg")))
        .route_service("/robots.txt", tower_http::services::ServeFile::new(root.join("robots.txt")))
}

/// Nothing is here, said in the language of whoever asks.
pub async fn not_found(State(shop): State<Shop>, uri: Uri) -> Response {
    if api::is_for_programs(&uri) {
        return api::not_found().into_response();
    }
    problem(&shop, &CheckoutError::NotFound, None)
}
