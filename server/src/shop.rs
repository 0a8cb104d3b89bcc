//! What every request of the shop shares. Cheap to clone: a request does so a dozen times on its way through the layers.

use std::{ops::Deref, path::PathBuf, sync::Arc};

use app::Storefront;
use leptos::prelude::LeptosOptions;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{guard::Guard, serve::Bounds};

/// The shop, in every hand that needs it.
#[derive(Clone)]
pub struct Shop(Arc<Fittings>);

impl Deref for Shop {
    type Target = Fittings;

    fn deref(&self) -> &Fittings {
        &self.0
    }
}

impl From<Fittings> for Shop {
    fn from(fittings: Fittings) -> Self {
        Self(Arc::new(fittings))
    }
}

/// What a shop consists of: the domain, what is known of this installation, and leptos' own options.
pub struct Fittings {
    pub ctx: payments::Ctx,
    pub site: Site,
    pub leptos: LeptosOptions,
    /// What a client may take of time and room.
    pub bounds: Bounds,
    /// Cancelled when this replica begins to stop: it is no longer ready, before it refuses anybody.
    pub stopping: CancellationToken,
    /// Who may come in, and how often.
    pub guard: Guard,
}

/// What is known of this installation.
#[derive(Debug)]
pub struct Site {
    /// The built browser files.
    pub site_root: PathBuf,
    /// Where browsers reach the shop; where it is unset, the host they used.
    pub public_url: Option<Url>,
    /// Where browsers reach the provider.
    pub provider: ProviderAddress,
    pub publishable_key: String,
    pub card_fields: CardFields,
    /// What every page says of the shop.
    pub storefront: Storefront,
}

/// Who shows the fields for the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardFields {
    /// We do, and the browser sends the card to the provider: only the sandbox takes it that way.
    Own,
    /// Stripe's script does, in frames of its own.
    Element,
}

/// Where browsers reach the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderAddress {
    Fixed(Url),
    /// The sandbox of this process: the host name by which the browser reached the shop, on the sandbox's port. So a shop on
    /// a local network works by any of its addresses.
    SameHost {
        port: u16,
    },
}

impl Site {
    /// The shop's address for a browser that reached it by `host`, without a trailing slash.
    pub fn shop_url(&self, host: Option<&str>) -> String {
        match &self.public_url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("http://{}", host.unwrap_or("localhost")),
        }
    }

    /// The provider's address for a browser that reached the shop by `host_name`, without a trailing slash.
    pub fn provider_url(&self, host_name: Option<&str>) -> String {
        match &self.provider {
            ProviderAddress::Fixed(url) => url.as_str().trim_end_matches('/').to_owned(),
            ProviderAddress::SameHost { port } => format!("http://{}:{port}", host_name.unwrap_or("localhost")),
        }
    }

    /// An address at the provider, such as the bank's page, for a browser that reached the shop by `host_name`: the sandbox of
    /// this process names itself as this server called it, which only a browser on the same machine could follow.
    pub fn provider_page(&self, page: &str, host_name: Option<&str>) -> String {
        let moved = match (&self.provider, Url::parse(page)) {
            (ProviderAddress::SameHost { port }, Ok(mut url)) if url.port() == Some(*port) => {
                url.set_host(host_name).ok().map(|()| url.to_string())
            }
            (ProviderAddress::SameHost { .. } | ProviderAddress::Fixed(_), _) => None,
        };
        moved.unwrap_or_else(|| page.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(provider: ProviderAddress) -> Site {
        Site {
            site_root: PathBuf::new(),
            public_url: None,
            provider,
            publishable_key: String::new(),
            card_fields: CardFields::Own,
            storefront: Storefront::default(),
        }
    }

    #[test]
    fn b22_a_shop_on_a_local_network_sends_browsers_to_its_own_host() {
        let site = site(ProviderAddress::SameHost { port: 3001 });
        assert_eq!(site.provider_url(Some("192.168.1.50")), "http://192.168.1.50:3001");
        let bank = "http://127.0.0.1:3001/bank/pi_1?step=2";
        assert_eq!(site.provider_page(bank, Some("shop.lan")), "http://shop.lan:3001/bank/pi_1?step=2");
        let elsewhere = "https://bank.example/check?id=1";
        assert_eq!(site.provider_page(elsewhere, Some("shop.lan")), elsewhere);
    }

    #[test]
    fn a_provider_elsewhere_keeps_its_addresses() {
        let site = site(ProviderAddress::Fixed(Url::parse("https://pay.example/").expect("an address")));
        assert_eq!(site.provider_url(Some("shop.lan")), "https://pay.example");
        assert_eq!(
            site.provider_page("https://pay.example/bank/pi_1", Some("shop.lan")),
            "https://pay.example/bank/pi_1"
        );
    }
}
