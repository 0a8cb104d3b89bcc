//! `/orders/{token}`: the outcome of an order, whatever it is, and its receipt. The address to come back to: it never offers
//! to pay while an outcome is not known.

use leptos::{either::Either, prelude::*};
use leptos_meta::Title;

use crate::{
    components::{Frame, Receipt, Storefront, Tide, When, page},
    dto::{OrderDto, OutcomeDto, OutcomeState, RefundDto},
    islands::OutcomeWatch,
    pages::order_token,
    port::checkout,
    text::en::{self, Words},
};

/// How often the page asks again by itself where no script can.
const REFRESH_SECONDS: u32 = 5;

#[component]
pub fn Order() -> impl IntoView {
    let order = order_token();
    page(
        Some(order.clone()),
        async move { checkout()?.order(&order).await },
        |(order, outcome)| view! { <Outcome order outcome /> },
    )
}

#[component]
fn Outcome(order: OrderDto, outcome: OutcomeDto) -> impl IntoView {
    let said = if outcome.state.is_unresolved() {
        // At the bank's step the customer has something to do, and nothing changes before that.
        let waiting = outcome.state != OutcomeState::ActionRequired;
        Either::Left(waiting.then(|| view! { <AskAgain token=order.token.clone() /> }))
    } else {
        Either::Right(view! { <Final order=order.clone() outcome=outcome.clone() /> })
    };
    view! {
        <Frame>
            <OutcomeWatch order=order.clone() outcome=outcome.clone()>
                {said}
                <Receipt order outcome />
            </OutcomeWatch>
        </Frame>
    }
}

/// Without scripts the page loads itself again, and a link does so at once.
#[component]
fn AskAgain(token: String) -> impl IntoView {
    view! {
        <Tide moving=true />
        <noscript>
            <meta http-equiv="refresh" content=REFRESH_SECONDS />
            <p class="actions"><a class="button" href=format!("/orders/{token}")>{en::UNKNOWN.action}</a></p>
            <p class="hint">{format!("This page also asks by itself every {REFRESH_SECONDS} seconds.")}</p>
        </noscript>
    }
}

/// Money that goes back, in a sentence.
#[component]
fn Refund(refund: RefundDto) -> impl IntoView {
    let RefundDto { amount, sent_at, second_charge } = refund;
    let before = second_charge.then(|| en::charged_again(&amount.display));
    let said = match sent_at {
        Some(at) => {
            let (begin, end) = en::refund_sent(&amount.display);
            Either::Left(view! { {begin}<When at />{end} })
        }
        None => Either::Right(en::refund_under_way(&amount.display)),
    };
    view! { <p class="refund">{before}{said}</p> }
}

/// What is known for good, and the way on.
#[component]
fn Final(order: OrderDto, outcome: OutcomeDto) -> impl IntoView {
    let shop = Storefront::current();
    let amount = outcome.amount.display.clone();
    let checkout = format!("/checkout/{}", order.token);
    if outcome.state == OutcomeState::Paid {
        let once = if order.refunds.iter().any(|refund| refund.second_charge) { "" } else { " You were charged once." };
        return Either::Left(view! {
            <Title text=shop.title(&format!("Paid: {amount}")) />
            <div class="outcome__said">
                <h1 tabindex="-1">"Paid: "<span class="money">{amount}</span></h1>
                <p class="lead">{format!("Thank you. {} has your payment.{once}", shop.name)}</p>
                {order.refunds.into_iter().map(|refund| view! { <Refund refund /> }).collect_view()}
                <Tide />
                <p class="keep">{en::KEEP_ADDRESS}</p>
                <p class="actions"><a class="button button--quiet" href="/">{format!("Back to {}", shop.name)}</a></p>
            </div>
        });
    }
    let (Words { title, heading, body, action }, address) = match outcome.state {
        OutcomeState::Closed => (en::EXPIRED, "/cart".to_owned()),
        OutcomeState::Failed => match outcome.not_charged() {
            Some(proof) => (en::decline(proof), checkout),
            None => (en::UNKNOWN, format!("/orders/{}", order.token)),
        },
        // The other states are unresolved, or paid, and shown elsewhere.
        OutcomeState::Ready
        | OutcomeState::Pending
        | OutcomeState::ActionRequired
        | OutcomeState::Unknown
        | OutcomeState::Paid => (en::READY, checkout),
    };
    Either::Right(view! {
        <Title text=shop.title(title) />
        <div class="outcome__said">
            <h1 tabindex="-1">{heading}</h1>
            <p class="lead">{body}</p>
            <p class="actions">
                <a class="button" href=address>{action}</a>
                <a class="actions__other" href="/">{format!("Back to {}", shop.name)}</a>
            </p>
            <p class="hint">"Your reference is "<span class="reference">{outcome.reference}</span>"."</p>
        </div>
    })
}
