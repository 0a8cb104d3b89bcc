//! What stands around every page: the shop's name above, help and the small print below, always in the same place.

use leptos::prelude::*;

use crate::components::{Storefront, TideMark};

/// The page between masthead and footer. `children` hold the one `<main id="main">`; `pieces` is what the cart holds, where
/// the page knows it.
#[component]
pub fn Frame(
    #[prop(optional, into)] pieces: Option<i32>,
    /// Leads back from a checkout, in the place of the cart: `(address, label)`.
    #[prop(optional, into)]
    back: Option<(&'static str, &'static str)>,
    children: Children,
) -> impl IntoView {
    let Storefront { name, help_email, sandbox } = Storefront::current();
    let (address, label) = back.unwrap_or(("/cart", "Cart"));
    let count = pieces.filter(|pieces| *pieces > 0).map(|pieces| {
        let unit = if pieces == 1 { " piece" } else { " pieces" };
        view! { <span class="count">{pieces}<span class="unseen">{unit}</span></span> }
    });
    view! {
        <a class="skip" href="#main">"Skip to the page"</a>
        <header class="masthead wrap">
            <a class="wordmark" href="/"><TideMark /><span>{name}</span></a>
            <nav aria-label="Shop"><a class="masthead__link" href=address>{label}{count}</a></nav>
        </header>
        {children()}
        <footer class="footer wrap">
            <p>
                "Questions about an order? Write to "<a href=format!("mailto:{help_email}")>{help_email.clone()}</a>
                " and name its reference."
            </p>
            {sandbox
                .then(|| view! {
                    <p class="footer__note">"Payments: sandbox. This is a demonstration, and no real money moves."</p>
                })}
        </footer>
    }
}
