//! The card form's fields in the browser: reading them, and blaming late and forgiving early.
//!
//! A field is blamed on submit, or when it is left complete and wrong; never while typing, never for being empty. The keystroke
//! that mends it takes the blame away. Nothing typed is ever cleared; the number alone is grouped, when it is left.

use wasm_bindgen::JsCast;
use web_sys::{Event, HtmlFormElement, HtmlInputElement};

use super::dom;
use crate::fields::{self, Fault, Field, Month, Typed};

pub const FORM: &str = "#pay-form";

pub fn element() -> Option<HtmlFormElement> {
    dom::one(FORM)?.dyn_into().ok()
}

fn input(name: &str) -> Option<HtmlInputElement> {
    dom::one(&[FORM, " [name=", name, "]"].concat())?.dyn_into().ok()
}

/// What stands in the fields now, however it got there.
pub fn typed() -> Typed {
    let value = |field: Field| input(field.id()).map(|input| input.value()).unwrap_or_default();
    Typed {
        email: value(Field::Email),
        number: value(Field::Number),
        expiry: value(Field::Expiry),
        code: value(Field::Code),
        name: value(Field::Name),
    }
}

/// The month that it still is somewhere, by this device's clock.
pub fn now() -> Month {
    let date = js_sys::Date::new_0();
    let small = |value: u32| u8::try_from(value).unwrap_or_default();
    Month::still_somewhere(
        u16::try_from(date.get_utc_full_year()).unwrap_or_default(),
        small(date.get_utc_month() + 1),
        small(date.get_utc_date()),
        small(date.get_utc_hours()),
    )
}

/// Writes the UUIDs into the form, so that it also pays should it ever go plain.
pub fn set_intent(intent: &str, replaces: Option<&str>) {
    for (name, value) in [("intent", intent), ("replaces", replaces.unwrap_or_default())] {
        if let Some(input) = input(name) {
            input.set_value(value);
        }
    }
}

/// Shows exactly these faults.
pub fn show_faults(faults: &[Fault]) {
    for field in Field::ALL {
        let fault = faults.iter().find(|fault| fault.field == field);
        show_fault(field, fault.map(|fault| fault.problem.sentence.as_str()), true);
    }
    show_summary();
}

/// A field has changed under the customer's hands.
pub fn on_input(event: &Event) {
    if let Some(field) = field_of(event)
        && is_blamed(field)
        && fields::problem_of(field, &typed(), now()).is_none()
    {
        forgive(field);
    }
}

/// A field has been left.
pub fn on_leave(event: &Event) {
    let Some(field) = field_of(event) else { return };
    match fields::problem_of(field, &typed(), now()) {
        Some(problem) if problem.unfinished => {}
        Some(problem) => show_fault(field, Some(&problem.sentence), false),
        None => show_fault(field, None, true),
    }
    if field == Field::Number
        && let (Some(input), Ok(number)) = (input(field.id()), fields::card_number(&typed().number))
    {
        input.set_value(&fields::group(&number.digits));
    }
}

/// Puts the focus into a field; into the provider's card fields where it is theirs.
pub fn focus(field: Field) {
    match (input(field.id()), dom::one(".element")) {
        (Some(input), _) => dom::focus(&input),
        (None, Some(element)) => dom::focus(&element),
        (None, None) => {}
    }
}

/// Takes the blame from a field that was mended.
pub fn forgive(field: Field) {
    show_fault(field, None, true);
    show_summary();
}

/// A link of the summary was followed: to the field, without a mark in the history.
pub fn on_summary_click(event: &Event) {
    let link = event.target().and_then(|target| target.dyn_into::<web_sys::Element>().ok());
    let field = link.and_then(|link| link.get_attribute("href")).and_then(|href| Field::of_id(href.strip_prefix('#')?));
    if let Some(field) = field {
        event.prevent_default();
        focus(field);
    }
}

fn field_of(event: &Event) -> Option<Field> {
    let input: HtmlInputElement = event.target()?.dyn_into().ok()?;
    Field::of_id(&input.id())
}

fn is_blamed(field: Field) -> bool {
    input(field.id()).is_some_and(|input| input.has_attribute("aria-invalid"))
}

/// `summarised`: whether the summary speaks of the field, too.
fn show_fault(field: Field, sentence: Option<&str>, summarised: bool) {
    let id = field.id();
    if let Some(input) = input(id) {
        dom::set_attribute(&input, "aria-invalid", sentence.map(|_| "true"));
        if let Some(row) = input.parent_element() {
            dom::set_attribute(&row, "data-wrong", sentence.map(|_| "true"));
        }
    }
    if let Some(error) = dom::one(&["#", id, "-error"].concat()) {
        dom::set_text(&error, sentence.unwrap_or_default());
        error.set_hidden(sentence.is_none());
    }
    if summarised && let Some(item) = dom::one(&[".error-summary [data-field=", id, "]"].concat()) {
        item.set_hidden(sentence.is_none());
        if let Some(link) = item.first_element_child() {
            dom::set_text(&link, sentence.unwrap_or_default());
        }
    }
}

/// The summary is there while it has something to say.
fn show_summary() {
    let some = dom::one(".error-summary li:not([hidden])").is_some();
    if let Some(summary) = dom::one(".error-summary") {
        summary.set_hidden(!some);
    }
}
