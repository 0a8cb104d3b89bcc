//! Where the browser keeps the UUID of an order's checkout intent: `localStorage`, so that it outlives reload, crash and tab.
//!
//! Every access may throw (site data blocked, storage full, private mode). Then the page's hidden field is the only place,
//! and nothing else changes: correctness lives in the server.

use super::mint::is_v4;

/// The key under which the UUID of this order is stored.
pub fn key(order: &str) -> String {
    ["payonce:intent:", order].concat()
}

/// Which UUID the page works with: a stored one wins over the page's, unless it is malformed or the one that the page says
/// has FAILED.
pub fn adopt(stored: Option<String>, page: &str, replaces: Option<&str>) -> String {
    match stored {
        Some(stored) if is_v4(&stored) && Some(stored.as_str()) != replaces => stored,
        _ => page.to_owned(),
    }
}

/// The UUID in a stored entry, `{"intent":"…"}`. Anything else is none.
pub fn read_entry(entry: &str) -> Option<String> {
    let intent = entry.strip_prefix("{\"intent\":\"")?.strip_suffix("\"}")?;
    is_v4(intent).then(|| intent.to_owned())
}

/// The entry that stores a UUID.
pub fn write_entry(intent: &str) -> String {
    ["{\"intent\":\"", intent, "\"}"].concat()
}

#[cfg(feature = "hydrate")]
pub use browser::{forget, load, store};

#[cfg(feature = "hydrate")]
mod browser {
    use web_sys::Storage;

    use super::{key, read_entry, write_entry};

    /// Touching the property alone may throw.
    fn local() -> Option<Storage> {
        web_sys::window()?.local_storage().ok()?
    }

    /// The UUID stored for this order, if storage works and has one.
    pub fn load(order: &str) -> Option<String> {
        read_entry(&local()?.get_item(&key(order)).ok()??)
    }

    /// Stores the UUID of this order; does nothing where storage is blocked.
    pub fn store(order: &str, intent: &str) {
        let _ = local().map(|storage| storage.set_item(&key(order), &write_entry(intent)));
    }

    /// Forgets the UUID of an order that is paid or closed.
    pub fn forget(order: &str) {
        let _ = local().map(|storage| storage.remove_item(&key(order)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: &str = "7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11";
    const PAGE: &str = "2b9d4f60-8e17-4a3b-b1c4-6f0e9d5a7c22";

    #[test]
    fn a_stored_uuid_wins_over_the_pages() {
        assert_eq!(adopt(Some(STORED.to_owned()), PAGE, None), STORED);
        assert_eq!(adopt(Some(STORED.to_owned()), PAGE, Some(PAGE)), STORED);
    }

    #[test]
    fn a_retired_or_malformed_uuid_does_not() {
        assert_eq!(adopt(Some(STORED.to_owned()), PAGE, Some(STORED)), PAGE);
        assert_eq!(adopt(Some("undefined".to_owned()), PAGE, None), PAGE);
        assert_eq!(adopt(None, PAGE, None), PAGE);
    }

    #[test]
    fn entries_survive_the_way_through_storage() {
        assert_eq!(read_entry(&write_entry(STORED)).as_deref(), Some(STORED));
        for odd in ["", "null", STORED, "{\"intent\":\"x\"}", "{\"intent\":null}", "[]"] {
            assert_eq!(read_entry(odd), None, "{odd}");
        }
    }
}
