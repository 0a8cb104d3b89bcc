//! The browser's entry: hydrates the islands of `app`, nothing else.

#![forbid(unsafe_code)]

// The islands are called from the page's script, by name only; naming their crate is what keeps them in the build.
use app as _;

/// Called by the page's script once the WASM is there.
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn hydrate() {
    leptos::mount::hydrate_islands();
}
