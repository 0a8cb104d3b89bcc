//! `/checkout/{token}/review`: the script-less step between card form and payment. The card is with the provider by now; this
//! page shows what will be paid with it, and asks once more.

use leptos::{either::Either, prelude::*};
use leptos_meta::Title;

use crate::{
    components::{Frame, Slip, Storefront, page},
    dto::{CardDto, OutcomeState, ReviewDto},
    pages::{order_token, query},
    port::checkout,
    text::en::{self, Words},
};

#[component]
pub fn Review() -> impl IntoView {
    let order = order_token();
    let (session, intent) = (query("session").unwrap_or_default(), query("intent").unwrap_or_default());
    page(
        Some(order.clone()),
        async move { checkout()?.review(&order, &intent, &session).await },
        |review| view! { <Confirm review /> },
    )
}

#[component]
fn Confirm(review: ReviewDto) -> impl IntoView {
    let shop = Storefront::current();
    let total = review.order.total.display.clone();
    let order = review.order.clone();
    let token = order.token.clone();
    let state = review.outcome.state;
    let payable = matches!(state, OutcomeState::Ready | OutcomeState::Failed);
    let (title, intent) = (shop.title(&format!("Check and pay {total}")), review.intent.clone());
    let step = if payable {
        Either::Left(view! { <PayOnce review /> })
    } else {
        let (Words { heading, body, action, .. }, address) = match state {
            OutcomeState::Closed => (en::EXPIRED, "/cart".to_owned()),
            OutcomeState::Ready
            | OutcomeState::Failed
            | OutcomeState::Pending
            | OutcomeState::ActionRequired
            | OutcomeState::Unknown
            | OutcomeState::Paid => (en::ALREADY_SENT, format!("/orders/{token}")),
        };
        Either::Right(view! {
            <h1 tabindex="-1">{heading}</h1>
            <p class="lead">{body}</p>
            <p class="actions"><a class="button" href=address>{action}</a></p>
        })
    };
    let data_state = if payable { OutcomeState::Ready.as_data_state() } else { state.as_data_state() };
    view! {
        <Title text=title />
        <Frame back=("/cart", "Back to cart")>
            <main id="main" class="checkout" data-state=data_state data-intent=intent data-order=token.clone()>
                <div class="checkout__pay">{step}</div>
                <div class="checkout__summary"><Slip order /></div>
            </main>
        </Frame>
    }
}

#[component]
fn PayOnce(review: ReviewDto) -> impl IntoView {
    let ReviewDto { order, intent, replaces, email, card, session, .. } = review;
    let checkout = format!("/checkout/{}", order.token);
    let total = order.total;
    view! {
        <h1 class="checkout__title" tabindex="-1">"Check, then pay"</h1>
        <p class="lead">"Nothing has been charged yet."</p>
        <dl class="facts facts--wide">
            <div><dt>"Card"</dt><dd>{card_name(&card)}</dd></div>
            <div><dt>"E-mail"</dt><dd>{email}</dd></div>
            <div><dt>"To pay"</dt><dd class="money">{total.display.clone()}</dd></div>
        </dl>
        <form class="pay-form" method="post" action=format!("{checkout}/pay")>
            <input type="hidden" name="intent" value=intent />
            <input type="hidden" name="replaces" value=replaces.unwrap_or_default() />
            <input type="hidden" name="session" value=session />
            <input type="hidden" name="amount" value=total.minor />
            <input type="hidden" name="currency" value=total.currency />
            <button class="pay-button" type="submit">{format!("Pay {}", total.display)}</button>
            <p class="pay-form__promise">{en::CHARGED_ONCE}</p>
        </form>
        <p><a href=checkout>"Use another card"</a></p>
    }
}

/// `Visa ending in 4242`.
fn card_name(card: &CardDto) -> String {
    let brand = match card.brand.as_str() {
        "visa" => "Visa",
        "mastercard" => "Mastercard",
        "amex" => "American Express",
        "discover" => "Discover",
        "diners" => "Diners Club",
        "jcb" => "JCB",
        "unionpay" => "UnionPay",
        _ => "Card",
    };
    format!("{brand} ending in {}", card.last4)
}
