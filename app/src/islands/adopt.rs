//! The page's one inline script: what must happen before the browser program is there.
//!
//! Promises: the stored UUID of the order is in the form before anything can be clicked; a press that comes too early waits
//! for the island, and goes by the plain form if the island does not come within 8 s, or cannot. Works where storage throws.
//! Never mints: its UUIDs are the stored one and the server's.

use std::sync::LazyLock;

use leptos::{nonce::use_nonce, prelude::*};

/// The script as the page carries it: the source without comments and indentation. It never changes while the server runs,
/// so its hash can stand in a content security policy.
pub fn adopt_script() -> &'static str {
    static SCRIPT: LazyLock<String> = LazyLock::new(|| {
        include_str!("adopt.js").lines().map(str::trim).filter(|line| !line.starts_with("//")).collect()
    });
    &SCRIPT
}

/// The script, for right after the form.
#[component]
pub fn Adopt() -> impl IntoView {
    view! { <script nonce=use_nonce() inner_html=adopt_script() /> }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_tiny_and_cannot_close_its_element() {
        assert!(adopt_script().len() <= 1024, "{} bytes", adopt_script().len());
        assert!(!adopt_script().contains("</"));
    }
}
