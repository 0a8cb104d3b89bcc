//! `/cart`: what was taken down from the shelves. Changed by plain forms; each currency goes to checkout by itself.

use leptos::{either::Either, prelude::*};
use leptos_meta::Title;

use crate::{
    components::{Frame, Storefront, page},
    dto::{CartDto, CartPartDto, LineDto},
    port::checkout,
};

/// The most pieces of one thing that the server takes.
const MOST_PIECES: i32 = 99;

#[component]
pub fn Cart() -> impl IntoView {
    page(None, async { checkout()?.cart().await }, |cart| view! { <Contents cart /> })
}

#[component]
fn Contents(cart: CartDto) -> impl IntoView {
    let CartDto { id, parts, pieces } = cart;
    let id = id.unwrap_or_default();
    let several = parts.len() > 1;
    let contents = if parts.is_empty() {
        Either::Left(view! {
            <h1>"Your cart is empty"</h1>
            <p class="lead">"Nothing has been taken down from the shelves yet."</p>
            <p><a class="button" href="/">"Look at the shelves"</a></p>
        })
    } else {
        Either::Right(view! {
            <h1>"Your cart"</h1>
            {several
                .then(|| view! {
                    <p class="lead">"These things are priced in different currencies, so each group is paid by itself."</p>
                })}
            {parts.into_iter().map(|part| view! { <Part part cart=id.clone() several /> }).collect_view()}
            <p><a href="/">"Back to the shelves"</a></p>
        })
    };
    view! {
        <Title text=Storefront::current().title("Cart") />
        <Frame pieces=pieces>
            <main id="main" class="wrap cart">{contents}</main>
        </Frame>
    }
}

#[component]
fn Part(part: CartPartDto, cart: String, several: bool) -> impl IntoView {
    let CartPartDto { currency, lines, total, short } = part;
    let heading = format!("part-{}", currency.to_ascii_lowercase());
    let notice = (!short.is_empty())
        .then(|| view! { <p class="notice notice--wait">"Fewer are left than your cart holds. Lower the number, then check out."</p> });
    view! {
        <section class="part" aria-labelledby=heading.clone()>
            <h2 id=heading.clone() class:unseen=!several>{format!("To pay in {currency}")}</h2>
            {notice}
            <ul class="lines lines--wide" role="list">
                {lines
                    .into_iter()
                    .map(|line| {
                        let short = short.contains(&line.sku);
                        view! { <Line line short /> }
                    })
                    .collect_view()}
            </ul>
            <form class="slip part__pay" method="post" action="/checkout">
                <p class="total"><span>"Total"</span><strong class="money">{total.display.clone()}</strong></p>
                <input type="hidden" name="cart" value=cart />
                <input type="hidden" name="currency" value=currency />
                <button class="button">"Check out"<span class="unseen">{format!(": {}", total.display)}</span></button>
            </form>
        </section>
    }
}

#[component]
fn Line(line: LineDto, short: bool) -> impl IntoView {
    let LineDto { sku, name, picture, quantity, unit, amount } = line;
    let fewer = quantity.saturating_sub(1).max(0);
    let more = quantity.saturating_add(1).min(MOST_PIECES);
    view! {
        <li class="line" class:line--short=short>
            <img class="line__picture" src=picture alt="" width="88" height="88" />
            <p class="line__name">{name.clone()}<small>{format!("{} each", unit.display)}</small></p>
            <div class="line__change">
                <form class="stepper" method="post" action="/cart">
                    <input type="hidden" name="sku" value=sku.clone() />
                    <input type="hidden" name="change" value="set" />
                    <button name="quantity" value=fewer><span aria-hidden="true">"−"</span><span class="unseen">"One fewer: "{name.clone()}</span></button>
                    <span class="stepper__held">{quantity}<span class="unseen">" in the cart"</span></span>
                    <button name="quantity" value=more><span aria-hidden="true">"+"</span><span class="unseen">"One more: "{name.clone()}</span></button>
                </form>
                <form method="post" action="/cart">
                    <input type="hidden" name="sku" value=sku />
                    <input type="hidden" name="change" value="remove" />
                    <button class="button--text">"Remove"<span class="unseen">": "{name}</span></button>
                </form>
            </div>
            <span class="money">{amount.display}</span>
        </li>
    }
}
