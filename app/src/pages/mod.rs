//! One file per route. Pages show what the port says and decide nothing; each works without scripts, and only the pages of
//! an order hold islands.

mod cart;
mod checkout;
mod not_found;
mod order;
mod problem;
mod review;
mod shop;

pub use cart::Cart;
pub use checkout::Checkout;
pub use not_found::NotFound;
pub use order::Order;
pub use problem::{Problem, problem_title};
pub use review::Review;
pub use shop::Shop;

use leptos::prelude::*;
use leptos_router::hooks::{use_params_map, use_query_map};

/// The token of the order in the page's address.
fn order_token() -> String {
    use_params_map().read_untracked().get("order").unwrap_or_default()
}

/// A parameter of the page's address.
fn query(name: &str) -> Option<String> {
    use_query_map().read_untracked().get(name).filter(|value| !value.is_empty())
}
