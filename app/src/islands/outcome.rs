//! `<main>` of the outcome page. While the outcome is not known it says so and finds it out; once known, the page is the
//! server's alone.

use leptos::{either::Either, prelude::*};
use leptos_meta::Title;

use super::{
    Live,
    pay_form::{Onward, Regions, Said, live},
};
use crate::{
    components::Storefront,
    dto::{DeclineReason, OrderDto, OutcomeDto},
    intent::{
        machine::{Kind, Machine, Seed},
        wire::LiveSeed,
        words::screen,
    },
};

/// `<main>` of the outcome page. While unresolved it shows where the payment stands, above `children` (the order summary);
/// in a final state it adds nothing to `children`, which then bring their own `<h1 tabindex="-1">`. Sets the `<title>` only
/// while unresolved.
#[component]
pub fn OutcomeWatch(order: OrderDto, outcome: OutcomeDto, children: Children) -> impl IntoView {
    let shop = Storefront::current();
    let state = match outcome.decline {
        Some(DeclineReason::NotCharged) => "not_charged",
        _ => outcome.state.as_data_state(),
    };
    let seed = Seed {
        order: order.token.clone(),
        intent: outcome.intent.clone().unwrap_or_default(),
        replaces: None,
        price: order.total,
        outcome: outcome.clone(),
        refused: None,
        kind: Kind::Outcome,
    };
    let said = if outcome.state.is_unresolved() {
        let screen = screen(&Machine::new(&seed), &shop.name);
        Either::Left(view! {
            <Title text=shop.title(&screen.title) />
            <div class="outcome__said">
                <Said screen=screen.clone() />
                <Onward screen />
                <Regions />
            </div>
        })
    } else {
        Either::Right(())
    };
    let live =
        live(LiveSeed { seed, shop: shop.name, payment_methods_url: String::new(), publishable_key: String::new() });
    view! {
        <main
            id="main"
            class="outcome"
            data-state=state
            data-intent=outcome.intent
            data-order=order.token
            data-live=live
        >
            {said}
            {children()}
            <Live />
        </main>
    }
}
