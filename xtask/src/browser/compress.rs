//! A `.br` file beside each file that browsers are sent, so that the server has nothing to compress.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use brotli::enc::BrotliEncoderParams;

use crate::{
    command::target,
    files::{self, read},
};

const SUFFIXES: [&str; 4] = ["js", "wasm", "css", "svg"];
/// The best that brotli can do, and the largest window that every browser has.
const QUALITY: i32 = 11;
const WINDOW_BITS: i32 = 22;

/// The brotli file of a file.
pub fn path_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".br");
    PathBuf::from(name)
}

/// Compresses what is newer than its brotli file.
pub fn build() -> anyhow::Result<()> {
    for file in files::under(&target("site")) {
        let suffix = file.extension().unwrap_or_default().to_string_lossy().into_owned();
        if SUFFIXES.contains(&suffix.as_str()) && !is_current(&file) {
            compress(&file)?;
        }
    }
    Ok(())
}

fn is_current(file: &Path) -> bool {
    let age = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    matches!((age(file), age(&path_of(file))), (Ok(source), Ok(compressed)) if compressed >= source)
}

fn compress(file: &Path) -> anyhow::Result<()> {
    let bytes = read(file)?;
    let parameters = BrotliEncoderParams {
        quality: QUALITY,
        lgwin: WINDOW_BITS,
        size_hint: bytes.len(),
        ..BrotliEncoderParams::default()
    };
    let compressed = path_of(file);
    let mut output = File::create(&compressed).with_context(|| format!("{} cannot be made", compressed.display()))?;
    brotli::BrotliCompress(&mut bytes.as_slice(), &mut output, &parameters)
        .map(|_length| ())
        .with_context(|| format!("{} cannot be compressed", file.display()))
}
