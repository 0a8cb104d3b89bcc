//! What runs in the browser.
//!
//! The server writes each page whole; an island renders nothing of its own, but brings the written page to life: it follows
//! [`crate::intent::machine`] and writes what [`crate::intent::words`] says into the elements that are there already. So the
//! page pays without the island, nothing typed before it came is lost, no difference between two renderings can kill its
//! handlers, and the browser loads no view code.

#[cfg(feature = "ssr")]
mod outcome;
#[cfg(feature = "ssr")]
mod pay_form;

#[cfg(feature = "ssr")]
pub use outcome::OutcomeWatch;
#[cfg(feature = "ssr")]
pub use pay_form::PayForm;

/// Referenced by `frontend`, so that the linker keeps this crate's islands.
pub const KEEP: () = ();
