//! The checkout page's `<main>`: heading, notice, card form, live regions, order summary.
//!
//! Promises: a plain form that pays without scripts, written once by the server, unless the card fields are the provider's
//! script's. Never sends card data to this origin: the form's action is the provider's.

use leptos::{either::Either, prelude::*};
use leptos_meta::Title;

use super::{
    Adopt, Live,
    element_row::{ElementRow, Preload, Unhide, Unscripted},
};
use crate::{
    components::Storefront,
    dto::{CheckoutDto, ProviderDto},
    fields::Field,
    intent::{
        machine::{Kind, Machine, Seed},
        wire::LiveSeed,
        words::{Screen, screen},
    },
};

/// `<main>` of the checkout page. `children` is the order summary. Sets the page's `<title>`.
#[component]
pub fn PayForm(checkout: CheckoutDto, children: Children) -> impl IntoView {
    let shop = Storefront::current();
    let seed = seed(&checkout);
    let machine = Machine::new(&seed);
    let screen = screen(&machine, &shop.name);
    let order = seed.order.clone();
    let intent = machine.shown_intent().to_owned();
    let state = screen.state;
    let element = checkout.provider.element.clone();
    let payable = screen.button.is_some();
    let unscripted = element.as_ref().filter(|_| payable).map(|_| view! { <Unscripted order=order.clone() /> });
    let unhide = element.as_ref().map(|_| view! { <Unhide /> });
    let preload = element.filter(|_| payable).map(|element| view! { <Preload element /> });
    let live = live(LiveSeed {
        seed,
        shop: shop.name.clone(),
        payment_methods_url: checkout.provider.payment_methods_url.clone(),
        publishable_key: checkout.provider.publishable_key.clone(),
    });
    view! {
        <Title text=shop.title(&screen.title) />
        {preload}
        <main id="main" class="checkout" data-state=state data-intent=intent data-order=order data-live=live>
            <div class="checkout__pay">
                <Said screen=screen.clone() />
                <ErrorSummary screen=screen.clone() />
                {unscripted}
                <CardForm checkout screen=screen.clone() />
                <Onward screen />
                <Regions />
            </div>
            <div class="checkout__summary">{children()}</div>
            <Live />
        </main>
        <Adopt />
        {unhide}
    }
}

fn seed(checkout: &CheckoutDto) -> Seed {
    Seed {
        order: checkout.order.token.clone(),
        intent: checkout.intent.clone(),
        replaces: checkout.replaces.clone(),
        price: checkout.order.total.clone(),
        outcome: checkout.outcome.clone(),
        refused: checkout.returned.as_ref().map(|returned| returned.error_code.clone()),
        kind: Kind::Checkout,
    }
}

/// What the island reads.
pub(super) fn live(seed: LiveSeed) -> Option<String> {
    serde_json::to_string(&seed).ok()
}

/// The heading and what follows from it.
#[component]
pub(super) fn Said(screen: Screen) -> impl IntoView {
    let (tone, silent) = (["notice notice--", screen.state].concat(), screen.notice.is_empty());
    view! {
        <h1 class="checkout__title" tabindex="-1">{screen.heading}</h1>
        <div class=tone hidden=silent>
            <p class="notice__text">{screen.notice}</p>
        </div>
    }
}

/// The live regions: in the page, empty, from the first HTML on.
#[component]
pub(super) fn Regions() -> impl IntoView {
    view! {
        <p class="status" role="status"></p>
        <p class="unseen" role="alert"></p>
    }
}

/// Links to every field with a fault; hidden while there is none.
#[component]
fn ErrorSummary(screen: Screen) -> impl IntoView {
    let none = screen.faults.is_empty();
    let items = Field::ALL.map(|field| {
        let sentence = sentence_for(&screen, field);
        let fine = sentence.is_none();
        view! {
            <li data-field=field.id() hidden=fine>
                <a href=["#", field.id()].concat()>{sentence}</a>
            </li>
        }
    });
    view! {
        <div class="error-summary" role="group" aria-labelledby="error-summary-title" tabindex="-1" hidden=none>
            <h2 class="error-summary__title" id="error-summary-title">"There is a problem"</h2>
            <ul class="error-summary__list">{items.into_iter().collect_view()}</ul>
        </div>
    }
}

fn sentence_for(screen: &Screen, field: Field) -> Option<String> {
    screen.faults.iter().find(|fault| fault.field == field).map(|fault| fault.problem.sentence.clone())
}

/// The card form. Plain: the provider takes it and sends the browser on to the review page. Where the provider's script shows
/// the card fields there is no such way: then the form is hidden until a script runs, and sends itself nowhere.
#[component]
fn CardForm(checkout: CheckoutDto, screen: Screen) -> impl IntoView {
    let CheckoutDto { order, intent, replaces, provider, review_url, returned, .. } = checkout;
    let returned = returned.unwrap_or_default();
    let typed = |field| match field {
        Field::Email => returned.email.clone(),
        Field::Name => returned.name.clone(),
        Field::Number | Field::Expiry | Field::Code => String::new(),
    };
    let element = provider.element.clone();
    let fields = Field::ALL.map(|field| {
        let problem = sentence_for(&screen, field).unwrap_or_default();
        match (field, &element) {
            (Field::Expiry | Field::Code, Some(_)) => None,
            (Field::Number, Some(element)) => {
                let (element, order) = (element.clone(), order.token.clone());
                Some(Either::Left(view! { <ElementRow element problem order /> }))
            }
            (Field::Email | Field::Name, _) | (Field::Number | Field::Expiry | Field::Code, None) => {
                Some(Either::Right(view! { <FieldRow field typed=typed(field) problem /> }))
            }
        }
    });
    let scripted = element.is_some();
    let payable = screen.button.is_some();
    let method = if scripted { "dialog" } else { "post" };
    let plain = (!scripted).then(|| view! { <PlainWay provider=provider.clone() review_url /> });
    view! {
        <form
            class="pay-form"
            id="pay-form"
            method=method
            action=(!scripted).then_some(provider.hosted_cards_url)
            hidden=scripted || !payable
            data-payable=(scripted && payable).then_some("")
            aria-label="Payment"
        >
            // Without `autocomplete="off"` some browsers bring back what a script once wrote here.
            <input type="hidden" name="intent" value=intent autocomplete="off" />
            <input type="hidden" name="replaces" value=replaces.unwrap_or_default() autocomplete="off" />
            {plain}
            {fields.into_iter().collect_view()}
            <button class="pay-button" type="submit" data-busy=["Paying ", &order.total.display, "…"].concat()>
                <span class="pay-button__text">{screen.button.clone()}</span>
            </button>
            <p class="pay-form__promise">{crate::text::en::CHARGED_ONCE}</p>
        </form>
    }
}

/// What the provider needs to know of a plain form: whose it is, and where the browser goes afterwards.
#[component]
fn PlainWay(provider: ProviderDto, review_url: String) -> impl IntoView {
    let retry_url = review_url.strip_suffix("/review").unwrap_or(&review_url).to_owned();
    view! {
        <input type="hidden" name="key" value=provider.publishable_key />
        <input type="hidden" name="return_url" value=review_url />
        <input type="hidden" name="retry_url" value=retry_url />
    }
}

/// What a field looks like to the browser: label, hint, `type`, `autocomplete`, `inputmode`, `enterkeyhint`.
struct Shape {
    label: &'static str,
    hint: &'static str,
    kind: &'static str,
    autocomplete: &'static str,
    inputmode: &'static str,
    enterkeyhint: &'static str,
}

const fn shape(field: Field) -> Shape {
    let (label, hint, kind, autocomplete, inputmode, enterkeyhint) = match field {
        Field::Email => ("E-mail", "For questions about this order", "email", "email", "email", "next"),
        Field::Number => ("Card number", "", "text", "cc-number", "numeric", "next"),
        Field::Expiry => ("Expiry date", "Month and year, like 06/29", "text", "cc-exp", "numeric", "next"),
        Field::Code => (
            "Security code",
            "3 digits on the back, or 4 on the front of American Express",
            "text",
            "cc-csc",
            "numeric",
            "next",
        ),
        Field::Name => ("Name on the card", "", "text", "cc-name", "text", "done"),
    };
    Shape { label, hint, kind, autocomplete, inputmode, enterkeyhint }
}

/// One field: label, hint, error, input.
#[component]
fn FieldRow(field: Field, typed: String, problem: String) -> impl IntoView {
    let Shape { label, hint, kind, autocomplete, inputmode, enterkeyhint } = shape(field);
    let id = field.id();
    let hint_id = format!("{id}-hint");
    let error_id = format!("{id}-error");
    let wrong = !problem.is_empty();
    let described = match (hint.is_empty(), wrong) {
        (true, _) => error_id.clone(),
        (false, _) => format!("{hint_id} {error_id}"),
    };
    view! {
        <div class=format!("field field--{id}") data-wrong=wrong.then_some("true")>
            <label class="field__label" for=id>{label}</label>
            {(!hint.is_empty()).then(|| view! { <p class="field__hint" id=hint_id>{hint}</p> })}
            <p class="field__error" id=error_id hidden=!wrong>{problem}</p>
            <input
                class="field__input"
                id=id
                name=id
                type=kind
                value=typed
                required
                autocomplete=autocomplete
                inputmode=inputmode
                enterkeyhint=enterkeyhint
                spellcheck="false"
                autocapitalize="off"
                aria-describedby=described
                aria-invalid=wrong.then_some("true")
            />
        </div>
    }
}

/// What stands in the form's place while there is nothing to fill in.
#[component]
pub(super) fn Onward(screen: Screen) -> impl IntoView {
    let (address, text) = screen.link.unzip();
    let (no_link, no_check) = (text.is_none(), screen.check.is_none());
    view! {
        <div class="onward" hidden=no_link && no_check>
            <a class="onward__link" href=address hidden=no_link>{text}</a>
            <button class="onward__check" type="button" hidden=no_check>{screen.check}</button>
        </div>
    }
}
