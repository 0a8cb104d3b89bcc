//! The shop's two drawings that live in the page itself: the mark beside its name, and the tide line, which moves while an
//! outcome is not known yet and lies still once it is. Both are decoration; the words beside them carry the meaning.

use leptos::prelude::*;

/// The mark beside the shop's name.
#[component]
pub fn TideMark() -> impl IntoView {
    view! {
        <svg class="mark" viewBox="0 0 32 20" width="32" height="20" aria-hidden="true">
            <path d="M2 6c4.700-5 9.300-5 14 0s9.300 5 14 0M2 15c4.700-5 9.300-5 14 0s9.300 5 14 0" />
        </svg>
    }
}

/// A line of waves across the column; `moving` while something is under way.
#[component]
pub fn Tide(#[prop(optional)] moving: bool) -> impl IntoView {
    view! {
        <svg class="tide" class:tide--moving=moving width="100%" height="12" aria-hidden="true">
            <defs>
                <pattern id="tide" width="24" height="12" patternUnits="userSpaceOnUse">
                    <path d="M-12 6q6-7 12 0t12 0 12 0 12 0" />
                </pattern>
            </defs>
            <rect x="-48" width="200%" height="12" fill="url(#tide)" />
        </svg>
    }
}
