//! Who may come in, and how often: API keys that were looked up, rate limits, and whose word on addresses is believed.
//!
//! All of it lives in this process: N replicas allow N times as much, and a restart forgets. It never fails open: where a
//! limit cannot be kept for somebody alone, they share one, and a key that cannot be looked up opens nothing.

pub mod callers;
pub mod proxies;
pub mod rate;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::extract::ConnectInfo;
use http::{Extensions, HeaderMap};
use payments::api_key::ApiKeyId;

use self::{
    callers::Callers,
    proxies::Proxies,
    rate::{Limiter, Rate},
};

pub use self::rate::TooMany;

/// The guard of one replica.
#[derive(Debug)]
pub struct Guard {
    pub callers: Callers,
    proxies: Proxies,
    api_keys: Limiter<ApiKeyId>,
    addresses: Limiter<IpAddr>,
}

/// What a deployment chooses.
#[derive(Clone, Debug, Default)]
pub struct GuardOptions {
    /// How often one API key may call.
    pub api_key: Rate,
    /// How often one address may post from a browser, or come with a key that has to be looked up.
    pub address: Rate,
    /// Whose word on the address of a client is believed.
    pub proxies: Proxies,
}

impl Guard {
    /// A guard that has seen nobody yet.
    pub fn new(options: GuardOptions) -> Self {
        Self {
            callers: Callers::default(),
            proxies: options.proxies,
            api_keys: Limiter::new(options.api_key),
            addresses: Limiter::new(options.address),
        }
    }

    /// Counts a call of an API key.
    ///
    /// # Errors
    /// When there were too many.
    pub fn admit_api_key(&self, key: ApiKeyId) -> Result<(), TooMany> {
        self.api_keys.admit(key)
    }

    /// Counts something that an address did.
    ///
    /// # Errors
    /// When it did too much.
    pub fn admit_address(&self, extensions: &Extensions, headers: &HeaderMap) -> Result<(), TooMany> {
        self.addresses.admit(self.client(extensions, headers))
    }

    /// Whom to count a request for. Those whose address is not known share one bucket.
    fn client(&self, extensions: &Extensions, headers: &HeaderMap) -> IpAddr {
        let peer = extensions.get::<ConnectInfo<std::net::SocketAddr>>().map(|peer| peer.0.ip());
        let client = self.proxies.client(peer, headers);
        client.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), one_household)
    }
}

/// One customer usually has a whole /64 of IPv6; whoever counted single addresses would count nothing.
fn one_household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::one_household;

    #[test]
    fn a_household_is_one_address() {
        let of = |text: &str| one_household(text.parse().expect("an address")).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
    }
}
