//! Stripe's script in the page: where it comes from, and what a page that has it may load.
//!
//! Promise: these origins are allowed on the checkout page alone, and only where Stripe's script shows the card fields. Never:
//! no other page and no other setting lets a foreign origin in.

/// The script. Stripe wants it loaded from its own server, always the newest of a release. This release is the last whose
/// card fields are chosen by the `paymentMethodTypes` that match how the adapter makes payment intents.
pub const SCRIPT: &str = "https://js.stripe.com/dahlia/stripe.js";

/// Whence scripts may come: the one above, and what it loads from names beside it.
pub const SCRIPTS: &str = "https://js.stripe.com https://*.js.stripe.com";

/// What may be framed: the card fields themselves, and what Stripe shows of banks.
pub const FRAMES: &str = "https://js.stripe.com https://*.js.stripe.com https://hooks.stripe.com";

/// Where the script brings the card.
pub const API: &str = "https://api.stripe.com";

/// The host of Stripe's API: whoever is paid through it has Stripe's card fields.
pub const API_HOST: &str = "api.stripe.com";
