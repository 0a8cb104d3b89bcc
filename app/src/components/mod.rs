//! Static pieces that pages share. None of them asks the domain for anything; they show what they are given.

mod frame;
mod load;
mod order;
mod storefront;
mod tide;
mod when;

pub use frame::Frame;
pub use load::{page, set_status};
pub use order::{Receipt, Slip};
pub use storefront::Storefront;
pub use tide::{Tide, TideMark};
pub use when::When;
