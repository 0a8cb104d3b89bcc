//! The provider's own card fields, in frames of the provider's: loads its script, shows the fields, and makes a payment method
//! of what is in them.
//!
//! Promises: says what is going on while they are not there, and never waits without an end. A fault of theirs is told in our
//! words and loses nothing that was typed. Never: no card number is seen here.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use js_sys::{Array, Function, Object, Promise, Reflect};
use wasm_bindgen::{JsCast, JsValue, closure::Closure, prelude::wasm_bindgen};
use wasm_bindgen_futures::JsFuture;
use web_sys::{HtmlElement, HtmlScriptElement};

use super::{dom, form, net};
use crate::{
    fields::{self, Contact, Fault, Field, Typed},
    intent::{machine::Event, wire::Node},
    text::en::{CARD_FIELDS, CARD_FIELDS_EMPTY, CARD_FIELDS_MISSING, CARD_FIELDS_NOT_YET},
};

/// When the page says that the fields take long, in milliseconds.
const SLOW_AFTER_MS: u32 = 5_000;
/// When they count as missing; should they come after all, they are taken.
const FAILED_AFTER_MS: u32 = 20_000;
/// Until the provider must have answered for a card.
const TOKEN_LIMIT_MS: u32 = 12_000;

#[wasm_bindgen]
extern "C" {
    #[derive(Clone)]
    type StripeJs;
    #[wasm_bindgen(js_name = Stripe, catch)]
    fn open(key: &str) -> Result<StripeJs, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn elements(this: &StripeJs, options: &JsValue) -> Result<Elements, JsValue>;
    #[wasm_bindgen(method, catch, js_name = createPaymentMethod)]
    fn create_payment_method(this: &StripeJs, options: &JsValue) -> Result<Promise, JsValue>;

    #[derive(Clone)]
    type Elements;
    #[wasm_bindgen(method, catch)]
    fn create(this: &Elements, kind: &str, options: &JsValue) -> Result<PaymentElement, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn update(this: &Elements, options: &JsValue) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn submit(this: &Elements) -> Result<Promise, JsValue>;

    #[derive(Clone)]
    type PaymentElement;
    #[wasm_bindgen(method, catch)]
    fn mount(this: &PaymentElement, place: &HtmlElement) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn on(this: &PaymentElement, event: &str, handler: &Function) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn focus(this: &PaymentElement) -> Result<(), JsValue>;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The form is not shown yet, so nothing was asked of the provider.
    Idle,
    Loading,
    Ready,
    Failed,
}

/// What the provider's script made.
#[derive(Clone)]
struct Parts {
    stripe: StripeJs,
    elements: Elements,
}

/// The card fields of this page.
pub struct CardFields {
    place: HtmlElement,
    key: String,
    state: Cell<State>,
    /// Counts the loadings, so that a timer of an earlier one says nothing.
    loading: Cell<u32>,
    /// Whether the provider's fields said that they are filled in.
    complete: Cell<bool>,
    parts: RefCell<Option<Parts>>,
}

impl CardFields {
    /// The card fields, if this page has any of the provider's.
    pub fn of_page(key: &str) -> Option<Rc<Self>> {
        let place = dom::one(".element")?;
        let fields = Rc::new(Self {
            place,
            key: key.to_owned(),
            state: Cell::new(State::Idle),
            loading: Cell::new(0),
            complete: Cell::new(false),
            parts: RefCell::new(None),
        });
        if let Some(again) = dom::one(".element__help button") {
            let fields = Rc::clone(&fields);
            dom::on(&again, "click", Box::new(move |_| fields.load()));
        }
        if let Some(stuck) = dom::one("#stuck") {
            stuck.set_hidden(true);
        }
        Some(fields)
    }

    /// Loads them, once there is a form to fill in.
    pub fn ensure(self: &Rc<Self>) {
        if self.state.get() == State::Idle && form::element().is_some_and(|form| !form.hidden()) {
            self.load();
        }
    }

    /// What a press finds in the form.
    pub fn check(&self, typed: &Typed) -> Result<Contact, Vec<Fault>> {
        let missing = match self.state.get() {
            State::Ready => None,
            State::Idle | State::Loading => Some(CARD_FIELDS_NOT_YET),
            State::Failed => Some(CARD_FIELDS_MISSING),
        };
        let contact = fields::check_contact(typed, missing);
        if contact.is_err() && missing.is_none() && !self.complete.get() {
            return fields::check_contact(typed, Some(CARD_FIELDS_EMPTY));
        }
        contact
    }

    /// Takes what is in the fields to the provider; a payment method comes back, or what is wrong.
    pub async fn token(&self, contact: &Contact) -> Event {
        let Some(parts) = self.parts.borrow().clone() else { return Event::TokenLost };
        match parts.token(contact).await {
            Some(event) => event,
            None => Event::TokenLost,
        }
    }

    fn load(self: &Rc<Self>) {
        let loading = self.loading.get() + 1;
        self.loading.set(loading);
        // What did not come in time is thrown away, so that trying again starts anew.
        self.parts.replace(None);
        self.complete.set(false);
        self.turn(State::Loading);
        for (ms, late) in [(SLOW_AFTER_MS, false), (FAILED_AFTER_MS, true)] {
            let fields = Rc::clone(self);
            dom::after(
                ms,
                Box::new(move || {
                    if fields.loading.get() == loading && fields.state.get() == State::Loading {
                        if late { fields.turn(State::Failed) } else { say(CARD_FIELDS.slow, false) }
                    }
                }),
            );
        }
        if is_there() {
            self.mount();
        } else if self.fetch_script().is_none() {
            self.turn(State::Failed);
        }
    }

    fn fetch_script(self: &Rc<Self>) -> Option<()> {
        let document = dom::document()?;
        let script: HtmlScriptElement = document.create_element("script").ok()?.dyn_into().ok()?;
        for (name, came) in [("load", true), ("error", false)] {
            let fields = Rc::clone(self);
            let loading = self.loading.get();
            dom::on(
                &script,
                name,
                Box::new(move |_| {
                    if came && is_there() {
                        fields.mount();
                    } else if fields.loading.get() == loading {
                        fields.turn(State::Failed);
                    }
                }),
            );
        }
        script.set_src(&self.place.get_attribute("data-script")?);
        document.body()?.append_child(&script).ok()?;
        Some(())
    }

    /// Shows the fields; the script is there. Once only, however many scripts came.
    fn mount(self: &Rc<Self>) {
        if self.parts.borrow().is_none() && self.try_mount().is_none() {
            self.turn(State::Failed);
        }
    }

    fn try_mount(self: &Rc<Self>) -> Option<()> {
        let stripe = open(&self.key).ok()?;
        let elements = stripe.elements(&self.options("data-elements")?).ok()?;
        let element = elements.create("payment", &self.options("data-element")?).ok()?;
        self.when(&element, "ready", |fields, _| fields.turn(State::Ready))?;
        self.when(&element, "loaderror", |fields, _| fields.turn(State::Failed))?;
        self.when(&element, "change", |fields, change| {
            let complete = change.get("complete").and_then(|complete| complete.truth()).unwrap_or_default();
            fields.complete.set(complete);
            if complete {
                form::forgive(Field::Number);
            }
        })?;
        self.place.set_inner_html("");
        element.mount(&self.place).ok()?;
        let focused = element.clone();
        dom::on(
            &self.place,
            "focus",
            Box::new(move |_| {
                let _ = focused.focus();
            }),
        );
        self.follow_the_light(&elements);
        self.parts.replace(Some(Parts { stripe, elements }));
        Some(())
    }

    fn when(self: &Rc<Self>, element: &PaymentElement, event: &str, then: fn(&Self, JsValue)) -> Option<()> {
        let fields = Rc::clone(self);
        let handler = Closure::<dyn FnMut(JsValue)>::new(move |said| then(&fields, said));
        element.on(event, handler.as_ref().unchecked_ref()).ok()?;
        handler.forget();
        Some(())
    }

    /// The customer may turn the light off while the page is open.
    fn follow_the_light(self: &Rc<Self>, elements: &Elements) {
        let Some(dark) = dom::window().and_then(|w| w.match_media("(prefers-color-scheme: dark)").ok().flatten())
        else {
            return;
        };
        let (fields, elements) = (Rc::clone(self), elements.clone());
        dom::on(
            &dark,
            "change",
            Box::new(move |_| {
                if let Some(appearance) = fields.options("data-elements").and_then(|all| all.get("appearance")) {
                    let _ = elements.update(&object(&[("appearance", &appearance)]));
                }
            }),
        );
    }

    /// Options that the server wrote, with our style's values in the place of `§--…§`.
    fn options(&self, name: &str) -> Option<JsValue> {
        let written = self.place.get_attribute(name)?;
        let style = dom::window()?.get_computed_style(&self.place).ok()??;
        let mut filled = String::new();
        let mut is_name = false;
        for part in written.split('§') {
            if is_name {
                // Names of fonts are quoted; single quotes do not end the text around them.
                let value = style.get_property_value(part).unwrap_or_default();
                filled.extend(value.trim_ascii().chars().map(|letter| if letter == '"' { '\'' } else { letter }));
            } else {
                filled.push_str(part);
            }
            is_name = !is_name;
        }
        net::parse(&filled)
    }

    fn turn(&self, state: State) {
        self.state.set(state);
        match state {
            State::Idle | State::Ready => say("", false),
            State::Loading => say(CARD_FIELDS.loading, false),
            State::Failed => say(CARD_FIELDS.failed, true),
        }
        if let Some(row) = self.place.parent_element() {
            let name = match state {
                State::Idle | State::Loading => "loading",
                State::Ready => "ready",
                State::Failed => "failed",
            };
            dom::set_attribute(&row, "data-fields", Some(name));
        }
        if state == State::Ready {
            form::forgive(Field::Number);
        }
    }
}

/// Says where the fields are, and offers what helps where they are not.
fn say(text: &str, failed: bool) {
    if let Some(said) = dom::one(".element__said") {
        dom::set_text(&said, text);
    }
    if let Some(help) = dom::one(".element__help") {
        help.set_hidden(!failed && text != CARD_FIELDS.slow);
    }
}

impl Parts {
    /// `None`: no answer, or none that can be read.
    async fn token(&self, contact: &Contact) -> Option<Event> {
        // The fields check themselves, and show their faults at the place.
        let checked = within(self.elements.submit().ok()?).await?;
        if let Some(error) = checked.get("error") {
            return Some(refused(&error));
        }
        let billing =
            object(&[("name", &JsValue::from_str(&contact.name)), ("email", &JsValue::from_str(&contact.email))]);
        let params = object(&[("billing_details", &billing)]);
        let options = object(&[("elements", self.elements.as_ref()), ("params", &params)]);
        let made = within(self.stripe.create_payment_method(&options).ok()?).await?;
        if let Some(error) = made.get("error") {
            return Some(refused(&error));
        }
        made.get("paymentMethod")?.get("id")?.text().map(Event::TokenMade)
    }
}

fn refused(error: &JsValue) -> Event {
    let word = |name| error.get(name).and_then(|word| word.text()).unwrap_or_default();
    Event::TokenRefused(fields::element_fault(&word("type"), &word("code")).into_iter().collect())
}

/// Whether the provider's script has run.
fn is_there() -> bool {
    dom::window().is_some_and(|window| Reflect::has(&window, &JsValue::from_str("Stripe")).unwrap_or_default())
}

fn object(members: &[(&str, &JsValue)]) -> JsValue {
    let object = Object::new();
    for (name, value) in members {
        // Cannot fail for a plain object.
        let _ = Reflect::set(&object, &JsValue::from_str(name), value);
    }
    object.into()
}

/// What a promise gives in time.
async fn within(promise: Promise) -> Option<JsValue> {
    let limit = Promise::new(&mut |resolve: Function, _| {
        dom::after(
            TOKEN_LIMIT_MS,
            Box::new(move || {
                let _ = resolve.call0(&JsValue::NULL);
            }),
        );
    });
    let first = Promise::race(&Array::of2(&promise, &limit));
    JsFuture::from(first).await.ok().filter(JsValue::is_object)
}
