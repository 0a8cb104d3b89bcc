//! Writes a screen into the elements that the server wrote.

use super::{dom, form};
use crate::intent::words::{Focus, Screen};

/// Changes the page from one screen to the next, and touches only what differs.
pub fn paint(before: &Screen, now: &Screen, shop: &str) {
    if let Some(document) = dom::document() {
        document.set_title(&[&now.title, " – ", shop].concat());
    }
    if let Some(main) = dom::one("main") {
        dom::set_attribute(&main, "data-state", Some(now.state));
    }
    if now.heading != before.heading
        && let Some(heading) = dom::one("main h1")
    {
        dom::set_text(&heading, &now.heading);
    }
    if let Some(notice) = dom::one(".notice") {
        notice.set_class_name(&["notice notice--", now.state].concat());
        notice.set_hidden(now.notice.is_empty());
    }
    write(".notice__text", &now.notice);
    paint_form(now);
    paint_onward(now);
    write("[role=status]", &now.status);
    write("[role=alert]", &now.alert);
    if now.state != before.state || now.faults != before.faults || now.heading != before.heading {
        take_focus(now.focus);
        // News above the field or button that has the focus must not stay above the edge of a small screen.
        if now.focus != Focus::Summary
            && !now.notice.is_empty()
            && now.heading != before.heading
            && let Some(heading) = dom::one("main h1")
        {
            heading.scroll_into_view();
        }
    }
}

/// Says again what the page says; a region speaks when its text changes, so a blank comes and goes.
pub fn repeat() {
    for selector in ["[role=status]", "[role=alert]"] {
        if let Some(region) = dom::one(selector)
            && let Some(text) = region.text_content().filter(|text| !text.is_empty())
        {
            let again = text.strip_suffix('\u{a0}').map_or_else(|| [&text, "\u{a0}"].concat(), ToOwned::to_owned);
            dom::set_text(&region, &again);
            return;
        }
    }
}

/// Puts the focus where the state wants it.
pub fn take_focus(focus: Focus) {
    match focus {
        Focus::Stays => {}
        Focus::Heading => focus_on("main h1"),
        Focus::Summary => focus_on(".error-summary"),
        Focus::Field(field) => form::focus(field),
    }
}

fn focus_on(selector: &str) {
    if let Some(element) = dom::one(selector) {
        dom::focus(&element);
    }
}

fn write(selector: &str, text: &str) {
    if let Some(element) = dom::one(selector) {
        dom::set_text(&element, text);
    }
}

fn paint_form(now: &Screen) {
    let Some(form) = dom::one(form::FORM) else { return };
    form.set_hidden(now.button.is_none());
    form::show_faults(&now.faults);
    if let (Some(button), Some(text)) = (dom::one(".pay-button"), &now.button) {
        write(".pay-button__text", text);
        dom::set_attribute(&button, "aria-disabled", now.busy.then_some("true"));
    }
}

fn paint_onward(now: &Screen) {
    if let Some(onward) = dom::one(".onward") {
        onward.set_hidden(now.link.is_none() && now.check.is_none());
    }
    if let Some(link) = dom::one(".onward__link") {
        link.set_hidden(now.link.is_none());
        if let Some((address, text)) = &now.link {
            dom::set_attribute(&link, "href", Some(address));
            dom::set_text(&link, text);
        }
    }
    if let Some(check) = dom::one(".onward__check") {
        check.set_hidden(now.check.is_none());
        dom::set_text(&check, now.check.unwrap_or_default());
    }
}
