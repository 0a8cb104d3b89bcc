//! The house rules that a compiler does not hold: who may know what, and how long a file may be. Reads the sources as text.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Longest Rust file, in lines.
const MAX_FILE_LINES: usize = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Rust source below a folder, with its path from the root and its text.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && name != "node_modules" {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let place = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
                found.push((place, fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has sources");
    found
}

/// The lines that are neither comments nor below `#[cfg(test)]`.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[track_caller]
fn nowhere(rule: &str, folder: &str, spared: impl Fn(&str) -> bool, words: &[&str]) {
    let mut broken = Vec::new();
    for (place, text) in sources(folder).iter().filter(|(place, _)| !spared(place)) {
        for (number, line) in code(text) {
            if words.iter().any(|word| line.contains(word)) {
                broken.push(format!("{place}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

#[test]
fn only_stores_speak_sql() {
    let spared = |place: &str| place.ends_with("store.rs") || place.contains("/store/");
    let words = ["sqlx::query", "query!(", "query_as!(", "query_scalar!("];
    nowhere("SQL lives in the stores", "server/payments/src", spared, &words);
    nowhere("SQL lives in the domain", "server/src", |_| false, &words);
    nowhere("the pages know no database", "app/src", |_| false, &["sqlx", "select "]);
}

/// NOTIFY takes a lock on the whole database at each commit.
#[test]
fn pitfall_15_34_no_payment_commits_behind_a_lock_of_the_whole_database() {
    nowhere("no NOTIFY, no advisory locks", "server/payments/src", |_| false, &["notify", "pg_advisory", "listen "]);
}

#[test]
fn only_the_adapter_speaks_stripe() {
    let spared = |place: &str| place.contains("/provider/");
    nowhere("the domain knows a provider, not Stripe", "server/payments/src", spared, &["stripe", "Stripe"]);
}

#[test]
fn only_config_reads_the_environment() {
    let spared = |place: &str| place.ends_with("src/config.rs");
    nowhere("settings come from config.rs", "server/src", spared, &["env::var", "std::env"]);
    nowhere("settings come as parameters", "server/payments/src", |_| false, &["env::var"]);
    nowhere("settings come as parameters", "sandbox/src", |_| false, &["env::var"]);
}

#[test]
fn the_domain_knows_neither_pages_nor_routes() {
    nowhere("payments knows no HTTP server", "server/payments/src", |_| false, &["axum", "leptos", "use app"]);
}

#[test]
fn the_sandbox_shares_no_code_with_the_server() {
    nowhere(
        "the sandbox is a process of its own",
        "sandbox/src",
        |_| false,
        &["use payments", "use server", "use app"],
    );
}

#[test]
fn the_client_protocol_touches_no_browser() {
    let machine: Vec<_> =
        sources("app/src/intent").into_iter().filter(|(place, _)| place.contains("machine")).collect();
    assert!(!machine.is_empty());
    for (place, text) in machine {
        for (number, line) in code(&text) {
            assert!(
                !["web_sys", "js_sys", "wasm_bindgen", "leptos"].iter().any(|word| line.contains(word)),
                "{place}:{}: {line}",
                number + 1
            );
        }
    }
}

#[test]
fn nothing_begins_a_transaction_that_a_request_could_drop() {
    for folder in ["server/payments/src", "server/src"] {
        nowhere("single statements only", folder, |_| false, &[".begin()", "\"begin\""]);
    }
}

#[test]
fn files_fit_a_head() {
    let mut long = Vec::new();
    for folder in [
        "app/src",
        "frontend/src",
        "server/src",
        "server/payments/src",
        "server/embedded_postgres/src",
        "sandbox/src",
        "end2end/chaos/src",
        "end2end/chaos/tests",
        "xtask/src",
    ] {
        for (place, text) in sources(folder) {
            let lines = text.lines().count();
            if lines > MAX_FILE_LINES {
                long.push(format!("{place}: {lines}"));
            }
            assert!(text.starts_with("//!"), "{place} says what it promises");
        }
    }
    assert!(long.is_empty(), "longer than {MAX_FILE_LINES} lines: {long:?}");
}
