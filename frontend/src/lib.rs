//! The browser's entry: hydrates the islands of `app`, nothing else.

/// Called by the page's script once the WASM is there.
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn hydrate() {
    // Keeps the islands of `app` in the build: they are called from the page's script by name only.
    let _ = app::islands::KEEP;
    leptos::mount::hydrate_islands();
}
