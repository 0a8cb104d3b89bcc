//! What every answer says to the browser for the customer's protection, and which requests are not even looked at.
//!
//! A page may run the shop's own scripts, talk to the shop and to the provider, and nothing else. A request that changes
//! something comes from the shop's own pages, as far as the browser tells; programs without a browser tell nothing and are
//! let in, since they hold nobody's cookies.

use app::error::CheckoutError;
use axum::{
    body::HttpBody as _,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use leptos::{nonce::use_nonce, prelude::use_context};
use leptos_axum::ResponseOptions;
use url::Url;

use super::{RequestFacts, form::refusal};
use crate::{
    shop::{CardFields, Shop, Site},
    stripe_js,
};

/// For everything that is not a page with scripts: problem pages, files, JSON.
const NO_SCRIPTS: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);
/// A year, as browsers' preload lists ask for; of this host name only, since the shop does not know its neighbours.
const TLS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");
/// What every answer carries.
const ALWAYS: [(HeaderName, HeaderValue); 6] = [
    // Content is what it says it is.
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    // An order's address, which is the capability to see it, leaks to no other origin.
    (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    // Nobody frames the Pay button; older browsers know only this header.
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    // No page that opened ours, or that ours opened, gets hold of it; no other site embeds our files.
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    // A checkout needs nothing of the device.
    (
        HeaderName::from_static("permissions-policy"),
        HeaderValue::from_static("camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ),
];

/// Never cached: pages and answers of a checkout speak of one customer at one moment.
pub async fn never_store(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Gives every answer its headers, and an answer that only has a status the words for it.
pub async fn harden(State(shop): State<Shop>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let response = next.run(request).await;
    let mut response = if is_bare_refusal_of_method(&response) { explain(&shop, &path, &response) } else { response };
    let headers = response.headers_mut();
    headers.extend(ALWAYS);
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(NO_SCRIPTS);
    if shop.site.public_url.as_ref().is_some_and(|url| url.scheme() == "https") {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, TLS_ONLY);
    }
    response
}

fn is_bare_refusal_of_method(response: &Response) -> bool {
    response.status() == StatusCode::METHOD_NOT_ALLOWED && response.body().size_hint().exact() == Some(0)
}

/// There is something at this address, but not for this method: `Allow` tells programs, a page tells people.
fn explain(shop: &Shop, path: &str, bare: &Response) -> Response {
    let mut response = refusal(shop, path, &CheckoutError::NotFound);
    *response.status_mut() = bare.status();
    if let Some(allow) = bare.headers().get(header::ALLOW) {
        response.headers_mut().insert(header::ALLOW, allow.clone());
    }
    response
}

/// Sets the policy of the page that is being rendered. Its inline scripts are known by a nonce of this one answer.
///
/// Not `strict-dynamic`: it would make the browser ignore `'self'`, by which it loads the program's module ahead of time.
pub fn allow_scripts_of_page(site: &Site, facts: &RequestFacts, path: &str) {
    let (Some(nonce), Some(response)) = (use_nonce(), use_context::<ResponseOptions>()) else { return };
    let policy = policy_of_page(site, facts, path, &nonce.to_string());
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.insert_header(header::CONTENT_SECURITY_POLICY, policy);
    }
}

fn policy_of_page(site: &Site, facts: &RequestFacts, path: &str, nonce: &str) -> String {
    let provider = source(&site.provider_url(facts.host_name()));
    // Chromium holds the redirect after a form against the policy too: the provider's form comes back to the public address.
    let back = site.public_url.as_ref().map(|url| format!(" {}", source(url.as_str()))).unwrap_or_default();
    let (scripts, frames, api) = match site.card_fields {
        CardFields::Element if is_checkout(path) => (
            format!(" {}", stripe_js::SCRIPTS),
            format!(" frame-src {};", stripe_js::FRAMES),
            if provider == stripe_js::API { String::new() } else { format!(" {}", stripe_js::API) },
        ),
        CardFields::Element | CardFields::Own => Default::default(),
    };
    format!(
        "default-src 'none'; script-src 'self' 'nonce-{nonce}' 'wasm-unsafe-eval'{scripts};{frames} style-src 'self'; \
         img-src 'self'; connect-src 'self' {provider}{api}; form-action 'self' {provider}{back}; base-uri 'none'; \
         frame-ancestors 'none'"
    )
}

/// The page with the card fields, and nothing below it.
fn is_checkout(path: &str) -> bool {
    path.strip_prefix("/checkout/").is_some_and(|order| !order.is_empty() && !order.contains('/'))
}

/// The origin of an address, as policies write it. Their grammar has no numeric IPv6 hosts; there the scheme has to do.
fn source(address: &str) -> String {
    match Url::parse(address) {
        Ok(url) if matches!(url.host(), Some(url::Host::Ipv6(_))) => format!("{}:", url.scheme()),
        Ok(url) => url.origin().ascii_serialization(),
        Err(_) => "'none'".to_owned(),
    }
}

/// Lets a request through that changes nothing, or that no other site has made its browser send.
pub async fn same_origin_only(State(shop): State<Shop>, request: Request, next: Next) -> Response {
    if request.method().is_safe() || is_our_own(&shop.site, request.headers()) {
        return next.run(request).await;
    }
    tracing::info!(method = %request.method(), "a request from another site was refused");
    refusal(&shop, request.uri().path(), &CheckoutError::CrossSite)
}

/// Whether a request that changes something comes from a page of this shop, or from no page at all.
///
/// Browsers on TLS and on loopback say so themselves (`Sec-Fetch-Site`); on plain http over a local network they only name the
/// page's origin. A program that says nothing is no browser: each one sends `Origin` with every request of this kind.
fn is_our_own(site: &Site, headers: &HeaderMap) -> bool {
    let mut said = headers.get_all("sec-fetch-site").iter().peekable();
    if said.peek().is_some() {
        // `none` is the customer's own doing: a page restored after a crash that sends its form again.
        return said.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"));
    }
    headers
        .get_all(header::ORIGIN)
        .iter()
        .all(|origin| origin.to_str().is_ok_and(|origin| is_ours(site, headers, origin)))
}

/// Compares host and port, not the scheme: behind a proxy that ends TLS the page is https and we are not. An origin that is not
/// told (`null`) is not ours.
fn is_ours(site: &Site, headers: &HeaderMap, origin: &str) -> bool {
    let Ok(origin) = Url::parse(origin) else { return false };
    let by_host =
        RequestFacts::of(headers).host.and_then(|host| Url::parse(&format!("{}://{host}", origin.scheme())).ok());
    [by_host.as_ref(), site.public_url.as_ref()].into_iter().flatten().any(|ours| {
        ours.host().is_some()
            && ours.host() == origin.host()
            && ours.port_or_known_default() == origin.port_or_known_default()
    })
}

/// Refuses a request whose host is not told exactly once, and finds nothing at an address that its page would read as another:
/// `/orders/%2e%2e` is the shop's front page for the table of pages, and an order for the table of routes.
pub async fn sound(State(shop): State<Shop>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let hosts = request.headers().get_all(header::HOST).iter().count();
    let absent_is_sound = request.version() < Version::HTTP_11 || request.uri().host().is_some();
    if hosts > 1 || (hosts == 0 && !absent_is_sound) {
        return refusal(&shop, path, &CheckoutError::MalformedRequest);
    }
    let read_back = Url::parse("http://shop/").and_then(|shop| shop.join(path));
    if request.method() != Method::OPTIONS && !read_back.is_ok_and(|url| url.path() == path) {
        return refusal(&shop, path, &CheckoutError::NotFound);
    }
    next.run(request).await
}

#[cfg(test)]
#[path = "security_tests.rs"]
mod tests;
