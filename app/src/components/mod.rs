//! Static pieces that pages share.

mod storefront;

pub use storefront::Storefront;
