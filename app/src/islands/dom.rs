//! The few things the islands do to the page. Elements that a page does not have are skipped.

use wasm_bindgen::{JsCast, closure::Closure};
use web_sys::{Document, Element, Event, EventTarget, HtmlElement, Window};

pub fn window() -> Option<Window> {
    web_sys::window()
}

pub fn document() -> Option<Document> {
    window()?.document()
}

/// The first element that matches.
pub fn one(selector: &str) -> Option<HtmlElement> {
    document()?.query_selector(selector).ok()??.dyn_into().ok()
}

/// Writes the text, unless it is there already: live regions must not speak again.
pub fn set_text(element: &Element, text: &str) {
    if element.text_content().as_deref() != Some(text) {
        element.set_text_content(Some(text));
    }
}

/// Sets an attribute, or takes it away.
pub fn set_attribute(element: &Element, name: &str, value: Option<&str>) {
    // Neither can fail for names that are literals of this crate.
    let _ = match value {
        Some(value) => element.set_attribute(name, value),
        None => element.remove_attribute(name),
    };
}

pub fn focus(element: &HtmlElement) {
    let _ = element.focus();
}

/// Whether nobody put the focus anywhere yet.
pub fn focus_is_free() -> bool {
    document().and_then(|document| document.active_element()).is_none_or(|element| element.tag_name() == "BODY")
}

/// Listens for as long as the page lives.
pub fn on(target: &EventTarget, name: &str, handler: Box<dyn FnMut(Event)>) {
    let handler = Closure::wrap(handler);
    let _ = target.add_event_listener_with_callback(name, handler.as_ref().unchecked_ref());
    handler.forget();
}

/// Calls back once, later.
pub fn after(milliseconds: u32, callback: Box<dyn FnOnce()>) -> Option<i32> {
    let callback = Closure::once_into_js(callback);
    let milliseconds = i32::try_from(milliseconds).unwrap_or(i32::MAX);
    window()?.set_timeout_with_callback_and_timeout_and_arguments_0(callback.unchecked_ref(), milliseconds).ok()
}

pub fn cancel(timer: Option<i32>) {
    if let (Some(window), Some(timer)) = (window(), timer) {
        window.clear_timeout_with_handle(timer);
    }
}
