//! What every page says of the shop itself. The server provides it as context, the pages read it; where it is missing (a
//! document without routes) the defaults stand, which promise nothing of the provider.

use leptos::prelude::use_context;

/// The shop, as its pages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storefront {
    pub name: String,
    /// Where customers ask for help; every page names it, in the same place.
    pub help_email: String,
    /// Whether the provider is the sandbox, so that no real money moves; the footer says so.
    pub sandbox: bool,
}

impl Default for Storefront {
    fn default() -> Self {
        Self { name: "Tidewater Goods".to_owned(), help_email: "help@tidewater.example".to_owned(), sandbox: false }
    }
}

impl Storefront {
    /// The shop of this request.
    pub fn current() -> Self {
        use_context().unwrap_or_default()
    }

    /// A page's `<title>`: what it is about, then the shop.
    pub fn title(&self, about: &str) -> String {
        format!("{about} – {}", self.name)
    }
}
