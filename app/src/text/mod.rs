//! The customer's words. One catalogue per language, shared by the pages and the islands, so that a page says the same
//! sentence whether the server or the browser wrote it.
//!
//! Three grammars only: *known yes*, *known no*, *not known yet*. "No money was taken" is said of proven states alone.

pub mod en;
