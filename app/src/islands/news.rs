//! Hears from the server that a payment has moved, so that the page knows it at once instead of at its next asking.
//!
//! A courtesy: what moved, only asking tells, and a page that hears nothing asks all the same. A hidden page does not listen,
//! since a browser keeps few connections to one origin and the tabs share them.

use std::cell::RefCell;

use wasm_bindgen::{JsCast, closure::Closure};
use web_sys::{EventSource, VisibilityState};

use super::dom;

/// The stream of one page, open or not.
#[derive(Default)]
pub struct News(RefCell<Option<Open>>);

struct Open {
    source: EventSource,
    /// Lives as long as it may be called.
    _told: Closure<dyn FnMut()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.source.close();
    }
}

impl News {
    /// Listens, or stops listening. `told` is called at each news; where the stream breaks, the browser opens it again.
    pub fn listen(&self, wanted: bool, order: &str, told: impl FnOnce() -> Box<dyn FnMut()>) {
        let open = self.0.borrow().is_some();
        if (wanted && is_visible()) == open {
            return;
        }
        *self.0.borrow_mut() = if open { None } else { Open::of(order, told()) };
    }

    /// Stops listening where nobody looks.
    pub fn hush_when_hidden(&self) {
        if !is_visible() {
            self.0.take();
        }
    }
}

fn is_visible() -> bool {
    dom::document().is_some_and(|page| page.visibility_state() == VisibilityState::Visible)
}

impl Open {
    fn of(order: &str, told: Box<dyn FnMut()>) -> Option<Self> {
        let source = EventSource::new(&["/orders/", order, "/news"].concat()).ok()?;
        let told = Closure::wrap(told);
        source.set_onmessage(Some(told.as_ref().unchecked_ref()));
        Some(Self { source, _told: told })
    }
}
