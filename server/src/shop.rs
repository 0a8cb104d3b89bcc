//! What every request of the shop shares. Cheap to clone.

use std::{path::PathBuf, sync::Arc};

use app::Storefront;
use leptos::prelude::LeptosOptions;
use url::Url;

/// The shop: the domain, what is known of this installation, and leptos' own options.
#[derive(Clone)]
pub struct Shop {
    pub ctx: payments::Ctx,
    pub site: Arc<Site>,
    pub leptos: LeptosOptions,
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
    /// What every page says of the shop.
    pub storefront: Storefront,
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
}
