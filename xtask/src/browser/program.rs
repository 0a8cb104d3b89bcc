//! The browser's program: compiled, given its JavaScript side, and made small.

use std::{fs, path::Path};

use anyhow::{Context as _, anyhow};
use wasm_bindgen_cli_support::Bindgen;

use crate::{
    command::{cargo, command, root, run, run_quietly, target},
    files::{self, Stamp, fingerprint, read, write},
    node, report,
    rust::WASM_TARGET,
};

/// The name of the files; `leptos` is told the same in Cargo.toml.
const NAME: &str = "payonce";
const PROFILE: &str = "wasm-release";
/// Raised when the steps below change, so that what they made before is made again.
const STEPS_VERSION: &[u8] = b"1";

/// How small the program is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Program {
    /// As small as it gets.
    Optimised,
    /// Without the steps that need Node.
    Plain,
}

pub fn build() -> anyhow::Result<Program> {
    report::timed("building the browser's program (WASM)", || {
        run(&mut cargo(&["build", "--package", "frontend", "--target", WASM_TARGET, "--profile", PROFILE]))
    })?;
    let program = if node::is_there() {
        node::install_copy(&root().join("xtask/tools"), &target("tools"))?;
        Program::Optimised
    } else {
        report::note("there is no Node (18 or newer) with npm: the page works, but is larger");
        Program::Plain
    };
    let compiled = target(WASM_TARGET).join(PROFILE).join("frontend.wasm");
    let lock = read(&root().join("xtask/tools/package-lock.json"))?;
    let how = if program == Program::Optimised { lock.as_slice() } else { b"plain" };
    let stamp = Stamp::new("program.stamp", fingerprint([read(&compiled)?.as_slice(), how, STEPS_VERSION]));
    if !stamp.is_current() || !target("site/pkg").join(format!("{NAME}.wasm")).exists() {
        report::timed("giving the program its JavaScript side, and making it small", || finish(&compiled, program))?;
        stamp.set()?;
    }
    Ok(program)
}

fn finish(compiled: &Path, program: Program) -> anyhow::Result<()> {
    let work = target("xtask/bindgen");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    bindgen(compiled, &work)?;
    let (script, wasm) = (work.join(format!("{NAME}.js")), work.join(format!("{NAME}_bg.wasm")));
    if program == Program::Optimised {
        optimise(&script, &wasm)?;
    }
    let site = target("site/pkg");
    let bytes = read(&wasm)?;
    write(&site.join(format!("{NAME}.js")), &read(&script)?)?;
    write(&site.join(format!("{NAME}.wasm")), &bytes)?;
    // The page asks for this name where `LEPTOS_OUTPUT_NAME` was not set when the server was compiled.
    write(&site.join(format!("{NAME}_bg.wasm")), &bytes)?;
    for snippet in files::under(&work.join("snippets")) {
        write(&site.join(snippet.strip_prefix(&work)?), &read(&snippet)?)?;
    }
    Ok(())
}

fn bindgen(compiled: &Path, work: &Path) -> anyhow::Result<()> {
    let mut bindgen = Bindgen::new();
    bindgen
        .web(true)
        .map_err(|error| anyhow!("{error:#}"))?
        .input_path(compiled)
        .out_name(NAME)
        .typescript(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        // The page always says where the program is.
        .omit_default_module_path(true)
        .generate(work)
        .map_err(|error| anyhow!("{error:#}"))
        .context("wasm-bindgen could not read the program; its version in Cargo.toml and in xtask must be the same")
}

fn optimise(script: &Path, wasm: &Path) -> anyhow::Result<()> {
    let tools = target("tools/node_modules");
    let tool = |name: &str| tools.join(name).to_string_lossy().into_owned();
    let (script, wasm) = (script.to_string_lossy(), wasm.to_string_lossy());
    let features = [
        "--enable-bulk-memory",
        "--enable-bulk-memory-opt",
        "--enable-multivalue",
        "--enable-mutable-globals",
        "--enable-nontrapping-float-to-int",
        "--enable-reference-types",
        "--enable-sign-ext",
    ];
    let wasm_opt = tool("binaryen/bin/wasm-opt");
    let arguments = [&[&*wasm_opt, "-Oz", &*wasm, "-o", &*wasm], &features[..]].concat();
    run_quietly(&mut command("node", &arguments))?;
    let esbuild = tool("esbuild/bin/esbuild");
    let output = format!("--outfile={script}");
    run_quietly(&mut command(
        "node",
        &[&esbuild, &script, "--minify", "--format=esm", "--target=es2022", "--allow-overwrite", &output],
    ))
}
