//! What runs in the browser.

/// Referenced by `frontend`, so that the linker keeps this crate's islands.
pub const KEEP: () = ();
