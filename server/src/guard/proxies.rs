//! Whose word on a client's address is believed.
//!
//! `X-Forwarded-For` is a list to which each proxy adds the address that it saw; everything left of what a trusted proxy added
//! may have been written by the client itself. It is read from the right, as far as trust reaches.

use std::{net::IpAddr, str::FromStr};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Entries of the list that are looked at, from the right: more proxies than anybody has in a row.
const HOPS_MAX: usize = 32;

/// The proxies in front of this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Proxies {
    /// There are none: the peer is the client.
    #[default]
    None,
    /// So many, one behind the other, and no way around them.
    Count(u8),
    /// Those with an address in one of these networks.
    Networks(Vec<IpNet>),
}

impl FromStr for Proxies {
    type Err = String;

    /// A number, or addresses and networks with commas between them.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(count) = text.trim().parse::<u8>() {
            return Ok(if count == 0 { Self::None } else { Self::Count(count) });
        }
        let network = |part: &str| {
            let part = part.trim();
            part.parse::<IpNet>().or_else(|_| part.parse::<IpAddr>().map(IpNet::from)).or(Err(format!(
                "is {text:?}, which is neither a number of proxies nor a list such as 10.0.0.0/8,fd00::/8"
            )))
        };
        text.split(',').map(network).collect::<Result<_, _>>().map(Self::Networks)
    }
}

impl Proxies {
    /// The client's address, as far as it is known.
    pub fn client(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
        match self {
            Self::None => peer,
            Self::Count(count) => {
                let forwarded = forwarded_from_the_right(headers);
                let reached = forwarded.take(usize::from(*count)).last();
                reached.flatten().or(peer)
            }
            Self::Networks(networks) => {
                let trusted =
                    |address: &IpAddr| networks.iter().any(|network| network.contains(&address.to_canonical()));
                let mut client = peer?;
                for forwarded in forwarded_from_the_right(headers) {
                    match forwarded {
                        Some(address) if trusted(&client) => client = address,
                        Some(_) | None => break,
                    }
                }
                Some(client)
            }
        }
    }
}

/// The list from its right end; `None` where an entry is no address.
fn forwarded_from_the_right(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines: Vec<_> = headers.get_all(X_FORWARDED_FOR).iter().collect();
    lines
        .into_iter()
        .rev()
        .flat_map(|line| line.to_str().unwrap_or_default().rsplit(','))
        .map(|entry| entry.trim().parse().ok())
        .take(HOPS_MAX)
}

#[cfg(test)]
mod tests {
    use super::Proxies;

    fn client(proxies: &str, peer: &str, forwarded: &[&str]) -> String {
        let mut headers = http::HeaderMap::new();
        for line in forwarded {
            headers.append("x-forwarded-for", line.parse().expect("a header value"));
        }
        let proxies: Proxies = proxies.parse().expect("proxies");
        proxies.client(peer.parse().ok(), &headers).map(|address| address.to_string()).unwrap_or_default()
    }

    #[test]
    fn nobody_is_believed_who_is_not_trusted() {
        assert_eq!(client("0", "192.0.2.1", &["198.51.100.9"]), "192.0.2.1");
        assert_eq!(client("10.0.0.0/8", "192.0.2.1", &["198.51.100.9"]), "192.0.2.1");
    }

    #[test]
    fn what_the_client_wrote_itself_is_not_believed() {
        assert_eq!(client("1", "10.0.0.1", &["1.1.1.1, 198.51.100.9"]), "198.51.100.9");
        assert_eq!(client("2", "10.0.0.1", &["1.1.1.1", "198.51.100.9, 10.0.0.2"]), "198.51.100.9");
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &["1.1.1.1, 198.51.100.9, 10.0.0.2"]), "198.51.100.9");
        assert_eq!(client("10.0.0.1", "::ffff:10.0.0.1", &["198.51.100.9"]), "198.51.100.9");
    }

    #[test]
    fn odd_lists_end_the_trust() {
        assert_eq!(client("1", "10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("1", "10.0.0.1", &["unknown"]), "10.0.0.1");
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &["198.51.100.9, unknown"]), "10.0.0.1");
    }

    #[test]
    fn settings_that_are_neither_number_nor_networks_are_refused() {
        for text in ["-1", "256", "proxy.example", "10.0.0.0/33", "10.0.0.1;10.0.0.2", ","] {
            assert!(text.parse::<Proxies>().is_err(), "{text}");
        }
    }
}
