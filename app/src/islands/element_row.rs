//! What the server writes of a form whose card fields the provider's script shows: where they go, what is said while they are
//! not there, and a small script for when ours is not there either.
//!
//! Promises: without scripts the page says that it cannot pay, and where the order stands; nothing of the form can be sent
//! anywhere by itself. Never: no card number passes through an element of ours.

use std::sync::LazyLock;

use leptos::{nonce::use_nonce, prelude::*};
use serde_json::json;

use crate::{dto::ElementDto, fields::Field, text::en::CARD_FIELDS};

/// The row of the card fields. `problem` is what is wrong with them, empty for nothing.
#[component]
pub fn ElementRow(element: ElementDto, problem: String, order: String) -> impl IntoView {
    let id = Field::Number.id();
    let error_id = format!("{id}-error");
    let wrong = !problem.is_empty();
    view! {
        <div class="field field--element" data-wrong=wrong.then_some("true") data-fields="loading">
            <p class="field__label" id="card-label">"Card"</p>
            <p class="field__error" id=error_id hidden=!wrong>{problem}</p>
            <p class="element__said" aria-live="polite">{CARD_FIELDS.loading}</p>
            <div
                class="element"
                id=id
                role="group"
                tabindex="-1"
                aria-labelledby="card-label"
                data-script=element.script_url.clone()
                data-elements=elements(&element)
                data-element=options()
            ></div>
            <p class="element__help" hidden>
                <button class="button button--quiet" type="button">{CARD_FIELDS.again}</button>
                <a href=["/orders/", &order].concat()>{CARD_FIELDS.outcome}</a>
            </p>
        </div>
    }
}

/// Lets the browser fetch the provider's script while ours is still on its way.
#[component]
pub fn Preload(element: ElementDto) -> impl IntoView {
    view! { <link rel="preload" r#as="script" href=element.script_url /> }
}

/// What stands in the form's place where it cannot work. No `<noscript>`: what keeps scripts away may be an add-on that does not
/// show those. The script below takes the first notice away and shows the form.
#[component]
pub fn Unscripted(order: String) -> impl IntoView {
    let outcome = ["/orders/", &order].concat();
    view! {
        <div class="notice notice--not_sent" id="unscripted">
            <p>{CARD_FIELDS.unscripted}</p>
            <p><a href=outcome.clone()>{CARD_FIELDS.outcome}</a></p>
        </div>
        <div class="notice notice--not_sent" id="stuck" hidden>
            <p>{CARD_FIELDS.stuck}</p>
            <p><a href=outcome>{CARD_FIELDS.outcome}</a></p>
        </div>
    }
}

/// The inline script, for right after the form and its other script.
#[component]
pub fn Unhide() -> impl IntoView {
    view! { <script nonce=use_nonce() inner_html=unhide_script() /> }
}

fn unhide_script() -> &'static str {
    static SCRIPT: LazyLock<String> = LazyLock::new(|| {
        include_str!("element.js").lines().map(str::trim).filter(|line| !line.starts_with("//")).collect()
    });
    &SCRIPT
}

/// Options of the script's `elements`, as JSON. `§--…§` stands for what our style says; the browser fills it in.
fn elements(element: &ElementDto) -> String {
    json!({
        "mode": "payment",
        "amount": element.amount,
        "currency": element.currency,
        // As the adapter makes payment intents: cards, and nothing that the dashboard may add.
        "paymentMethodTypes": ["card"],
        // The server confirms, under the intent's key; the page only makes a payment method.
        "paymentMethodCreation": "manual",
        "locale": "en",
        "appearance": appearance(),
    })
    .to_string()
}

/// How the card fields look: as ours do, in light and in dark.
fn appearance() -> serde_json::Value {
    json!({
        "theme": "§--card-theme§",
        "labels": "above",
        "variables": {
            "colorPrimary": "§--accent§",
            "colorBackground": "§--sheet§",
            "colorText": "§--ink§",
            "colorTextSecondary": "§--ink-soft§",
            "colorTextPlaceholder": "§--ink-soft§",
            "iconColor": "§--ink-soft§",
            "colorDanger": "§--no§",
            "fontFamily": "§--sans§",
            "fontSizeBase": "17px",
            "borderRadius": "6px",
            "gridRowSpacing": "24px",
            "gridColumnSpacing": "16px",
        },
        "rules": {
            ".Label": { "fontSize": "17px", "fontWeight": "600", "color": "§--ink§", "marginBottom": "8px" },
            ".Input": { "border": "1px solid §--edge-line§", "boxShadow": "none", "padding": "14px 12px" },
            ".Input:focus": { "border": "1px solid §--accent§", "boxShadow": "0 0 0 3px §--accent§" },
            ".Input--invalid": { "border": "2px solid §--no§", "boxShadow": "none" },
            ".Error": { "fontSize": "17px", "fontWeight": "600" },
        },
    })
}

/// Options of the card fields themselves. What we ask for is not asked twice, and no wallet takes another way than the form's.
fn options() -> String {
    json!({
        "layout": { "type": "tabs" },
        "fields": { "billingDetails": { "name": "never", "email": "never" } },
        "wallets": { "applePay": "never", "googlePay": "never", "link": "never" },
        "terms": { "card": "never" },
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_tiny_and_cannot_close_its_element() {
        assert!(unhide_script().len() <= 640, "{} bytes", unhide_script().len());
        assert!(!unhide_script().contains("</"));
    }

    #[test]
    fn the_amount_is_the_providers_number_and_cards_are_all_that_is_offered() {
        let element =
            ElementDto { script_url: "https://js.example/x.js".into(), amount: 500_000, currency: "isk".into() };
        let said: serde_json::Value = serde_json::from_str(&elements(&element)).expect("JSON");
        assert_eq!((&said["amount"], &said["currency"]), (&json!(500_000), &json!("isk")));
        assert_eq!((&said["mode"], &said["paymentMethodTypes"]), (&json!("payment"), &json!(["card"])));
        assert_eq!(said["paymentMethodCreation"], "manual");
    }
}
