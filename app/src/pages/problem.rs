//! What is wrong and what to do next: what happened, whether money moved, and the way on, in that order. Says that nothing
//! was charged only where the error proves it, and shows no text from below.

use leptos::prelude::*;

use crate::{
    components::{Frame, Storefront},
    error::CheckoutError,
};

/// A whole page, also fit for a document without routes. `order` is the token of the order it speaks of.
#[component]
pub fn Problem(error: CheckoutError, order: Option<String>) -> impl IntoView {
    let said = Said::of(&error);
    let state = said.state;
    view! {
        <Frame>
            <main id="main" class="wrap outcome outcome--alone" data-state=state data-order=order.clone()>
                <div class="outcome__said">
                    <h1 tabindex="-1">{said.heading}</h1>
                    <p class="lead">{said.body}</p>
                    <p class="actions">{ways_on(&error, order.as_deref())}</p>
                </div>
            </main>
        </Frame>
    }
}

/// Its `<title>`.
pub fn problem_title(error: &CheckoutError) -> String {
    Storefront::current().title(Said::of(error).title)
}

const FROM_ELSEWHERE: &str =
    "Another site sent it in your name, so nothing was done. If it was you, go on from our own pages.";

struct Said {
    /// `data-state` of `<main>`.
    state: &'static str,
    title: &'static str,
    heading: &'static str,
    body: String,
}

impl Said {
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of error: a table, read by its rows")]
    fn of(error: &CheckoutError) -> Self {
        let (state, title, heading, body) = match error {
            CheckoutError::NotFound => (
                "not_found",
                "Nothing here",
                "There is nothing at this address",
                "The address may be cut short or mistyped. An order is found only by its whole address.".to_owned(),
            ),
            CheckoutError::CrossSite => {
                ("refused", "Not from here", "This did not come from our shop", FROM_ELSEWHERE.to_owned())
            }
            CheckoutError::MalformedRequest
            | CheckoutError::TooLarge
            | CheckoutError::TooSlow
            | CheckoutError::InvalidIntent => (
                "refused",
                "Not understood",
                "We could not read what this page sent",
                "Nothing was sent to your bank by it. Go back, reload the page and try again.".to_owned(),
            ),
            CheckoutError::InvalidField { problem, .. } => (
                "fields",
                "Error: one field needs a look",
                "There is a problem",
                format!("{problem}. Nothing has been sent."),
            ),
            CheckoutError::PriceChanged { shown, now } => (
                "price_changed",
                "Check the new total",
                "The total changed",
                format!("It was {}, it is now {}. Nothing has been charged.", shown.display, now.display),
            ),
            CheckoutError::IntentReused | CheckoutError::OrderTaken { .. } | CheckoutError::ReplacesUnfinished => (
                "already_sent",
                "Already sent",
                "This order already has a payment",
                "This page started no second one. The order's page shows the outcome of the first.".to_owned(),
            ),
            CheckoutError::Purged { .. } => (
                "already_sent",
                "Already sent",
                "This payment ended a while ago",
                "This page started no new one. The order's page shows how it ended.".to_owned(),
            ),
            CheckoutError::InProgress { .. } | CheckoutError::LostAnswer => (
                "unknown",
                "We're checking",
                "Your payment is still under way",
                "You don't need to pay again. The order's page shows the outcome as soon as we know it.".to_owned(),
            ),
            CheckoutError::OrderClosed => (
                "expired",
                "Closed",
                "This checkout has closed",
                "It can no longer be paid, and this page charged nothing.".to_owned(),
            ),
            CheckoutError::AmountRefused => (
                "amount_refused",
                "Not payable",
                "This total can't be paid here",
                "Our payment provider takes no payment of this amount: it may be too small. Nothing has been charged. Change \
                 your cart, then check out again."
                    .to_owned(),
            ),
            CheckoutError::OutOfStock { left, .. } => {
                ("out_of_stock", "Not enough left", "Fewer are left than you want", out_of_stock(*left))
            }
            CheckoutError::NotSent => (
                "not_sent",
                "Problem",
                "We could not start your payment",
                "This is our problem, not yours. Nothing was sent to your bank, so you have not been charged."
                    .to_owned(),
            ),
            CheckoutError::RateLimited { retry_after_seconds } => (
                "busy",
                "Too many tries",
                "Too many tries",
                format!("Nothing was started by the last try. Wait {}, then try again.", wait(*retry_after_seconds)),
            ),
            CheckoutError::Unavailable { .. } => (
                "unavailable",
                "Back shortly",
                "The shop can't answer right now",
                "This is our problem, not yours. Wait a moment, then load this page again. If you have just paid, don't pay \
                 again: this page will show the outcome."
                    .to_owned(),
            ),
        };
        Self { state, title, heading, body }
    }
}

fn wait(seconds: u32) -> String {
    match seconds {
        ..=1 => "a second".to_owned(),
        2..=90 => format!("{seconds} seconds"),
        _ => format!("{} minutes", seconds.div_ceil(60)),
    }
}

fn out_of_stock(left: i32) -> String {
    let left = match left {
        ..=0 => "It has just sold out".to_owned(),
        1 => "One piece is left".to_owned(),
        _ => format!("{left} pieces are left"),
    };
    format!("{left}. Nothing has been ordered or charged.")
}

/// Where to go from here, the most useful way first.
fn ways_on(error: &CheckoutError, order: Option<&str>) -> impl IntoView + use<> {
    let checkout = order.map(|order| format!("/checkout/{order}"));
    let outcome = order.map(|order| format!("/orders/{order}"));
    let cart = || Some("/cart".to_owned());
    let (first, second) = match error {
        CheckoutError::PriceChanged { now, .. } => {
            ((checkout, format!("See the new total, {}", now.display)), (cart(), "Back to cart"))
        }
        CheckoutError::MalformedRequest
        | CheckoutError::TooLarge
        | CheckoutError::TooSlow
        | CheckoutError::CrossSite
        | CheckoutError::InvalidIntent
        | CheckoutError::InvalidField { .. }
        | CheckoutError::NotSent
        | CheckoutError::RateLimited { .. }
        | CheckoutError::Unavailable { .. } => ((checkout, "Back to payment".to_owned()), (cart(), "Back to cart")),
        CheckoutError::IntentReused
        | CheckoutError::Purged { .. }
        | CheckoutError::OrderTaken { .. }
        | CheckoutError::ReplacesUnfinished
        | CheckoutError::InProgress { .. }
        | CheckoutError::LostAnswer => ((outcome, "Show the outcome".to_owned()), (None, "")),
        CheckoutError::OrderClosed => {
            ((outcome, "See this order".to_owned()), (cart(), "Start again with the same cart"))
        }
        CheckoutError::AmountRefused | CheckoutError::OutOfStock { .. } => {
            ((cart(), "Back to cart".to_owned()), (None, ""))
        }
        CheckoutError::NotFound => ((None, String::new()), (None, "")),
    };
    let ways =
        [(first.0, first.1), (second.0, second.1.to_owned()), (Some("/".to_owned()), "Back to the shop".to_owned())];
    ways.into_iter()
        .filter_map(|(address, label)| Some((address?, label)))
        .enumerate()
        .map(|(place, (address, label))| {
            let class = if place == 0 { "button" } else { "actions__other" };
            view! { <a class=class href=address>{label}</a> }
        })
        .collect_view()
}
