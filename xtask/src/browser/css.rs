//! The style sheet: the files that `style/main.css` imports, as one and without what only people need.

use anyhow::anyhow;
use lightningcss::{
    bundler::{Bundler, FileProvider},
    stylesheet::{MinifyOptions, ParserOptions, PrinterOptions},
    targets::{Browsers, Targets},
};

use crate::{
    command::{root, target},
    files::write,
};

/// A version as lightningcss writes it: one byte each for major, minor and patch.
const fn version(major: u32) -> u32 {
    major << 16
}

pub fn build() -> anyhow::Result<()> {
    let main = root().join("style/main.css");
    let provider = FileProvider::new();
    let mut bundler = Bundler::new(&provider, None, ParserOptions::default());
    let mut sheet = bundler.bundle(&main).map_err(|error| anyhow!("the style sheet: {error}"))?;
    // Browsers of the last three years; older ones get the page without the finest touches.
    let browsers = Browsers {
        chrome: Some(version(111)),
        edge: Some(version(111)),
        firefox: Some(version(114)),
        safari: Some(version(16)),
        ios_saf: Some(version(16)),
        ..Browsers::default()
    };
    let targets = Targets::from(browsers);
    sheet
        .minify(MinifyOptions { targets, ..MinifyOptions::default() })
        .map_err(|error| anyhow!("the style sheet: {error}"))?;
    let printed = sheet
        .to_css(PrinterOptions { minify: true, targets, ..PrinterOptions::default() })
        .map_err(|error| anyhow!("the style sheet: {error}"))?;
    write(&target("site/pkg/payonce.css"), printed.code.as_bytes())
}
