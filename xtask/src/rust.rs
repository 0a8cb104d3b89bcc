//! The Rust side: what the toolchain must have, and the server.

use std::path::Path;

use anyhow::bail;

use crate::{
    command::{cargo, command, find, first_line, run},
    report,
};

pub const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// Adds the WASM target where it is missing.
pub fn ensure_wasm_target() -> anyhow::Result<()> {
    let libraries = first_line("rustc", &["--print", "target-libdir", "--target", WASM_TARGET]).unwrap_or_default();
    if Path::new(&libraries).is_dir() {
        return Ok(());
    }
    add("the WASM target", &["target", "add", WASM_TARGET])
}

/// Adds rustfmt and clippy where they are missing, as in a minimal profile of rustup.
pub fn ensure_components() -> anyhow::Result<()> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if first_line("cargo", &[subcommand, "--version"]).is_none() {
            add(component, &["component", "add", component])?;
        }
    }
    Ok(())
}

fn add(what: &str, arguments: &[&str]) -> anyhow::Result<()> {
    report::step(format_args!("adding {what} to the Rust toolchain"));
    let by_hand = format!("rustup {}", arguments.join(" "));
    if find("rustup").is_none() {
        bail!(
            "{what} is missing and there is no rustup; install it as your Rust came, or get rustup and run `{by_hand}`"
        );
    }
    if let Err(error) = run(&mut command("rustup", arguments)) {
        bail!("{what} could not be added ({error}); with a network, `{by_hand}` does it");
    }
    Ok(())
}

/// The release binary, `target/release/payonce`.
pub fn build_server() -> anyhow::Result<()> {
    report::timed("building the server (release)", || {
        // Without `--package`, as every other build: the features of what is shared are then the same, and it is built once.
        run(&mut cargo(&["build", "--release", "--bin", "payonce"]))
    })
}
