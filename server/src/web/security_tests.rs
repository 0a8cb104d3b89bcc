//! Who may send what changes something, in a table.

use std::path::PathBuf;

use super::*;
use crate::shop::{CardFields, ProviderAddress};

fn site(public_url: Option<&str>) -> Site {
    Site {
        site_root: PathBuf::new(),
        public_url: public_url.map(|url| Url::parse(url).expect("an address")),
        provider: ProviderAddress::SameHost { port: 3001 },
        publishable_key: String::new(),
        card_fields: CardFields::Own,
        storefront: app::Storefront::default(),
    }
}

#[track_caller]
fn check(public_url: Option<&str>, headers: &[(&'static str, &'static str)], expected: bool) {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_static(value));
    }
    assert_eq!(is_our_own(&site(public_url), &map), expected, "{public_url:?} {headers:?}");
}

#[test]
fn a_browser_that_knows_the_site_of_the_page_is_believed() {
    let host = ("host", "127.0.0.1:3000");
    check(None, &[host, ("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:3000")], true);
    check(None, &[host, ("sec-fetch-site", "same-origin"), ("origin", "null")], true);
    check(None, &[host, ("sec-fetch-site", "none")], true);
    for foreign in ["cross-site", "same-site", "", "SAME-ORIGIN"] {
        check(None, &[host, ("sec-fetch-site", foreign), ("origin", "http://127.0.0.1:3000")], false);
    }
    check(None, &[host, ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], false);
}

#[test]
fn on_plain_http_over_a_local_network_the_origin_decides() {
    let host = ("host", "192.168.1.50:3000");
    check(None, &[host, ("origin", "http://192.168.1.50:3000")], true);
    check(None, &[("host", "[fd00::1]:3000"), ("origin", "http://[fd00::1]:3000")], true);
    check(None, &[("host", "SHOP.lan:3000"), ("origin", "http://shop.lan:3000")], true);
    for foreign in [
        "http://192.168.1.50:3001",
        "http://192.168.1.50",
        "http://192.168.1.5:3000",
        "http://192.168.1.50:3000.evil.example",
        "null",
        "",
        "192.168.1.50:3000",
    ] {
        check(None, &[host, ("origin", foreign)], false);
    }
    check(None, &[host, ("origin", "http://192.168.1.50:3000"), ("origin", "http://evil.example")], false);
    check(None, &[("origin", "http://evil.example")], false);
}

#[test]
fn behind_a_proxy_that_ends_tls_host_and_port_decide() {
    check(None, &[("host", "shop.example"), ("origin", "https://shop.example")], true);
    check(None, &[("host", "shop.example:443"), ("origin", "https://shop.example")], true);
    check(None, &[("host", "shop.example"), ("origin", "https://shop.example:8443")], false);
    let rewritten = ("host", "10.0.0.7:3000");
    check(Some("https://shop.example/"), &[rewritten, ("origin", "https://shop.example")], true);
    check(Some("https://shop.example/"), &[rewritten, ("origin", "https://other.example")], false);
    check(None, &[rewritten, ("origin", "https://shop.example")], false);
}

#[test]
fn a_program_that_is_no_browser_is_let_in() {
    check(None, &[("host", "127.0.0.1:3000")], true);
    check(None, &[], true);
}

#[test]
fn origins_are_written_as_policies_read_them() {
    assert_eq!(source("https://pay.example/v1/"), "https://pay.example");
    assert_eq!(source("http://192.168.1.50:3001"), "http://192.168.1.50:3001");
    assert_eq!(source("http://[::1]:3001"), "http:");
    assert_eq!(source("nonsense"), "'none'");
}

/// The policy of a page of a shop at `provider`, without what it says of every page alike.
fn policy(provider: &str, card_fields: CardFields, path: &str) -> String {
    let address = ProviderAddress::Fixed(Url::parse(provider).expect("an address"));
    let site = Site { provider: address, card_fields, ..site(None) };
    policy_of_page(&site, &RequestFacts::default(), path, "n")
}

#[test]
fn stripes_script_is_let_into_the_checkout_page_and_no_other() {
    let stripe = "https://api.stripe.com";
    let checkout = policy(stripe, CardFields::Element, "/checkout/token");
    for part in [
        "script-src 'self' 'nonce-n' 'wasm-unsafe-eval' https://js.stripe.com https://*.js.stripe.com;",
        " frame-src https://js.stripe.com https://*.js.stripe.com https://hooks.stripe.com;",
        " connect-src 'self' https://api.stripe.com;",
        " style-src 'self';",
    ] {
        assert!(checkout.contains(part), "{part} in {checkout}");
    }
    for path in ["/", "/cart", "/checkout/", "/checkout/token/review", "/checkout/token/pay", "/orders/token"] {
        let policy = policy(stripe, CardFields::Element, path);
        assert!(!policy.contains("js.stripe.com") && !policy.contains("frame-src"), "{path}: {policy}");
    }
    let own = policy("http://127.0.0.1:3001", CardFields::Own, "/checkout/token");
    assert!(!own.contains("stripe") && !own.contains("frame-src"), "{own}");
    let stand_in = policy("http://127.0.0.1:3001", CardFields::Element, "/checkout/token");
    assert!(stand_in.contains("connect-src 'self' http://127.0.0.1:3001 https://api.stripe.com;"), "{stand_in}");
}
