//! What runs in the browser.
//!
//! The server writes each page whole; the island renders nothing of its own, but brings the written page to life: it follows
//! [`crate::intent::machine`] and writes what [`crate::intent::words`] says into the elements that are there already. So the
//! page pays without the island, nothing typed before it came is lost, no difference between two renderings can kill its
//! handlers, and the browser loads no view code.

#[cfg(feature = "ssr")]
mod adopt;
#[cfg(feature = "hydrate")]
mod dom;
#[cfg(feature = "hydrate")]
mod driver;
#[cfg(feature = "hydrate")]
mod element;
#[cfg(feature = "ssr")]
mod element_row;
#[cfg(feature = "hydrate")]
mod form;
#[cfg(feature = "hydrate")]
mod net;
#[cfg(feature = "hydrate")]
mod news;
#[cfg(feature = "ssr")]
mod outcome;
#[cfg(feature = "hydrate")]
mod paint;
#[cfg(feature = "ssr")]
mod pay_form;

use leptos::prelude::*;

#[cfg(feature = "ssr")]
pub use adopt::{Adopt, adopt_script};
#[cfg(feature = "ssr")]
pub use outcome::OutcomeWatch;
#[cfg(feature = "ssr")]
pub use pay_form::PayForm;

/// Brings the page around it to life; shows nothing itself. What it must know stands in `<main data-live>`, not in properties:
/// those would bring a second JSON reader into the browser.
#[island]
pub fn Live() -> impl IntoView {
    #[cfg(feature = "hydrate")]
    driver::start();
}
