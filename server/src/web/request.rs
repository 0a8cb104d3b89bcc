//! What the shop reads off a request's headers, besides its body: the host it was reached by and the cart's cookie.

use http::{HeaderMap, header};
use url::Url;

use super::CartCookie;

/// Facts of one request. All of them come from the browser and are believed only as far as they harm nobody but itself.
#[derive(Clone, Debug, Default)]
pub struct RequestFacts {
    /// Host and port as the browser wrote them, e.g. `shop.lan:3000`; absent where they are not a plain host.
    pub host: Option<String>,
    pub cart: Option<CartCookie>,
}

impl RequestFacts {
    /// Reads the facts.
    pub fn of(headers: &HeaderMap) -> Self {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).filter(|host| is_plain_host(host));
        Self { host: host.map(str::to_owned), cart: CartCookie::of(headers) }
    }

    /// The host without its port.
    pub fn host_name(&self) -> Option<&str> {
        let host = self.host.as_deref()?;
        match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(name),
            Some(_) | None => Some(host),
        }
    }
}

/// A host, with or without a port, and nothing that could break out of an address or HTML: what an address made of it reads
/// back as.
fn is_plain_host(host: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']');
    let name = host.split(':').next().unwrap_or_default();
    (1..=255).contains(&host.len())
        && host.bytes().all(plain)
        && !name.split('.').any(str::is_empty)
        && Url::parse(&format!("http://{host}/")).is_ok_and(|url| url.has_host() && url.path() == "/")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn facts(host: &str) -> RequestFacts {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a header value"));
        RequestFacts::of(&headers)
    }

    #[test]
    fn the_port_is_told_apart_from_the_host() {
        assert_eq!(facts("shop.lan:3000").host_name(), Some("shop.lan"));
        assert_eq!(facts("192.168.1.50").host_name(), Some("192.168.1.50"));
        assert_eq!(facts("[::1]:3000").host_name(), Some("[::1]"));
        assert_eq!(facts("[::1]").host_name(), Some("[::1]"));
    }

    #[test]
    fn a_host_that_is_more_than_a_host_is_not_believed() {
        for host in ["a b", "shop\"><script>", "shop/evil", "user@shop", "", "::::", "a..b", "xn--", "127.0.0.1:99999"]
        {
            assert_eq!(facts(host).host, None, "{host}");
        }
    }

    proptest! {
        /// A host that is believed needs no escape in an address, a header or HTML, and an address made of it leads there and nowhere
        /// else.
        #[test]
        fn a_host_that_is_believed_is_a_host_and_nothing_more(
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..60),
                "[a-zA-Z0-9.-]{1,12}(:[0-9]{0,6})?".prop_map(String::into_bytes),
                "[a-z0-9.:\\[\\]@/?#%\\\\<\"' -]{0,20}".prop_map(String::into_bytes),
                "[a-z]{1,4}[@:/?#.\\\\<_-][a-z]{1,4}(:[0-9]{1,4})?".prop_map(String::into_bytes),
                "\\[[0-9a-f:.]{1,20}\\](:[0-9]{0,6})?".prop_map(String::into_bytes),
            ],
        ) {
            let Ok(value) = HeaderValue::from_bytes(&bytes) else { return Ok(()) };
            let facts = RequestFacts::of(&HeaderMap::from_iter([(header::HOST, value)]));
            let Some(host) = facts.host.as_deref() else { return Ok(()) };
            prop_assert!(host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte)), "{host}");
            let url = Url::parse(&format!("http://{host}/orders/token")).expect("an address");
            prop_assert_eq!(url.path(), "/orders/token");
            prop_assert!(url.username().is_empty() && url.password().is_none() && url.query().is_none(), "{host}");
            let name = facts.host_name().expect("a host has a name");
            let named = Url::parse(&format!("http://{name}/")).expect("an address");
            prop_assert_eq!(named.host_str(), url.host_str(), "{}: without the port", host);
            prop_assert_eq!(named.port(), None, "{}: without the port", host);
        }
    }
}
