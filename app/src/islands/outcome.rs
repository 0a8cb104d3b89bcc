//! `<main>` of the outcome page. While the outcome is not known it says so and finds it out; once known, the page is the
//! server's alone.

use leptos::prelude::*;

use crate::dto::{OrderDto, OutcomeDto};

/// `<main>` of the outcome page. While unresolved it shows where the payment stands, above `children` (the order summary);
/// in a final state it adds nothing to `children`, which then bring their own `<h1 tabindex="-1">`. Sets the `<title>` only
/// while unresolved.
#[component]
pub fn OutcomeWatch(order: OrderDto, outcome: OutcomeDto, children: Children) -> impl IntoView {
    let state = outcome.state.as_data_state();
    view! {
        <main id="main" class="outcome" data-state=state data-intent=outcome.intent data-order=order.token>
            {children()}
        </main>
    }
}
