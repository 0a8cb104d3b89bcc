//! `/`: everything that is for sale, on one shelf per currency.

use leptos::prelude::*;
use leptos_meta::Title;

use crate::{
    components::{Frame, Storefront, Tide, page},
    dto::{CartDto, ProductDto, ShelfDto},
    port::checkout,
};

/// From this many pieces down the shelf says how many are left.
const FEW_PIECES: i32 = 5;

#[component]
pub fn Shop() -> impl IntoView {
    page(
        None,
        async {
            let port = checkout()?;
            Ok((port.shop().await?, port.cart().await?))
        },
        |(shelves, cart)| view! { <Shelves shelves cart /> },
    )
}

#[component]
fn Shelves(shelves: Vec<ShelfDto>, cart: CartDto) -> impl IntoView {
    let shop = Storefront::current().name;
    view! {
        <Title text=format!("{shop}: for the kitchen and the desk") />
        <Frame pieces=cart.pieces>
            <main id="main" class="shop">
                <div class="wrap intro">
                    <h1>"Plain things for the kitchen and the desk"</h1>
                    <p>"Made to be used every day, and to be mended when they wear. Take one down."</p>
                    <Tide />
                </div>
                {shelves.into_iter().map(shelf).collect_view()}
            </main>
        </Frame>
    }
}

fn shelf(shelf: ShelfDto) -> impl IntoView {
    let heading = format!("shelf-{}", shelf.currency.to_ascii_lowercase());
    view! {
        <section class="shelf" aria-labelledby=heading.clone()>
            <div class="wrap shelf__head">
                <h2 id=heading.clone()>{shelf.title}</h2>
                <p class="shelf__currency">{format!("Prices in {}", shelf.currency)}</p>
            </div>
            <ul class="goods" role="list">{shelf.products.into_iter().map(product).collect_view()}</ul>
        </section>
    }
}

fn product(product: ProductDto) -> impl IntoView {
    let ProductDto { sku, name, description, picture, price, in_stock } = product;
    let sold_out = in_stock <= 0;
    let few = (!sold_out && in_stock <= FEW_PIECES)
        .then(|| view! { <span class="good__left">{format!("{in_stock} left")}</span> });
    let take = if sold_out {
        view! { <p class="good__gone">"Sold out"</p> }.into_any()
    } else {
        view! {
            <form method="post" action="/cart">
                <input type="hidden" name="sku" value=sku />
                <input type="hidden" name="change" value="add" />
                <button class="button button--quiet">"Add to cart"<span class="unseen">": "{name.clone()}</span></button>
            </form>
        }
        .into_any()
    };
    view! {
        <li class="good" class:good--gone=sold_out>
            <div class="good__wall"><img src=picture alt="" width="240" height="240" /></div>
            <div class="good__words">
                <h3>{name}</h3>
                <p class="good__price"><span class="money">{price.display}</span>{few}</p>
                <p class="good__story">{description}</p>
                {take}
            </div>
        </li>
    }
}
