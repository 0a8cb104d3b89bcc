//! What the page weighs, and the limit on it.

use std::{fs, path::Path};

use anyhow::{Context as _, bail};

use super::{compress, program::Program};
use crate::{command::target, report};

/// Program and style together, in bytes of brotli. The whole page may weigh 140 kB; the rest is for the document itself, which
/// the browser tests weigh.
const BYTES_MAX: u64 = 135_000;
const FILES: [&str; 3] = ["payonce.wasm", "payonce.js", "payonce.css"];

/// Prints the table; too much is an error, except where the program could not be made small.
pub fn report(program: Program) -> anyhow::Result<()> {
    report::step("what the page weighs, without the document itself (bytes)");
    report::note(format_args!("{:<14}{:>10}{:>10}", "file", "raw", "brotli"));
    let mut total = (0, 0);
    for name in FILES {
        let file = target("site/pkg").join(name);
        let (raw, brotli) = (bytes(&file)?, bytes(&compress::path_of(&file))?);
        report::note(format_args!("{name:<14}{raw:>10}{brotli:>10}"));
        total = (total.0 + raw, total.1 + brotli);
    }
    report::note(format_args!("{:<14}{:>10}{:>10}  of at most {BYTES_MAX}", "together", total.0, total.1));
    if total.1 > BYTES_MAX && program == Program::Optimised {
        bail!("program and style weigh {} bytes in brotli, more than {BYTES_MAX}", total.1);
    }
    Ok(())
}

fn bytes(file: &Path) -> anyhow::Result<u64> {
    Ok(fs::metadata(file).with_context(|| format!("{} is missing", file.display()))?.len())
}
