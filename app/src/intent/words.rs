//! What the page says in each state of the client protocol. Pure, and the same on both sides: the server writes the first
//! screen, the browser the next ones.
//!
//! Promises: says what is known and no more. Never says "no money was taken" of anything but a proven state.

use crate::fields::Fault;

/// Everything on the page that depends on the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screen {
    /// `data-state` on `<main>`.
    pub state: &'static str,
    /// `<title>`, without the shop.
    pub title: String,
    /// The `<h1>`.
    pub heading: String,
    /// The sentence below the heading.
    pub notice: Option<String>,
    /// The text of the Pay button. `None` hides the form, with everything typed still in it.
    pub button: Option<String>,
    /// Whether the button is `aria-disabled`.
    pub busy: bool,
    /// A button that asks for the outcome.
    pub check: Option<&'static str>,
    /// Where to go on: address and text.
    pub link: Option<(String, &'static str)>,
    /// What stands in the live region below the button.
    pub status: String,
    /// What is said at once, by the other live region.
    pub alert: String,
    pub faults: Vec<Fault>,
    pub focus: Focus,
}

/// Where the focus goes when the state is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    Stays,
    Heading,
    Summary,
    Field(crate::fields::Field),
}
