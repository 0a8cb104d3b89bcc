//! The files for the browser, in `target/site`: program, style sheet, pictures, each also as brotli.
//!
//! What did not change is not made again. With Node there, the program is made as small as it gets; without, the page works the
//! same and is larger.

mod compress;
mod css;
mod program;
mod weights;

use std::fs;

use crate::{
    command::{root, target},
    files::{self, read, write},
    report,
};

/// Builds everything that changed, and prints what the page weighs.
pub fn build() -> anyhow::Result<()> {
    let program = program::build()?;
    report::timed("building the style sheet and the pictures", || {
        css::build()?;
        copy_public()?;
        compress::build()
    })?;
    weights::report(program)
}

/// Copies `public/` and removes what is no longer there.
fn copy_public() -> anyhow::Result<()> {
    let (public, site) = (root().join("public"), target("site"));
    for file in files::under(&public) {
        write(&site.join(file.strip_prefix(&public)?), &read(&file)?)?;
    }
    for file in files::under(&site) {
        let name = file.strip_prefix(&site)?;
        if !name.starts_with("pkg") && !public.join(name).exists() && !is_compressed(name, &public) {
            fs::remove_file(&file)?;
        }
    }
    Ok(())
}

fn is_compressed(name: &std::path::Path, public: &std::path::Path) -> bool {
    name.extension().is_some_and(|extension| extension == "br") && public.join(name.with_extension("")).exists()
}
