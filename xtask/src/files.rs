//! Reading and writing the built files; a file that would not change is not written, so that its age tells something.

use std::{
    fs,
    hash::{DefaultHasher, Hasher as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// Reads a whole file.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
}

/// Writes a file with the folders above it, unless it is like that already.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}

/// Every file under a folder, in a fixed order; none if there is no such folder.
pub fn under(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(under(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// A number that changes with the bytes. It only says whether work can be skipped, so it need not resist an attacker.
pub fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = DefaultHasher::new();
    for part in parts {
        hasher.write_usize(part.len());
        hasher.write(part);
    }
    format!("{:016x}", hasher.finish())
}

/// Remembers of which inputs something was made.
pub struct Stamp {
    path: PathBuf,
    fingerprint: String,
}

impl Stamp {
    pub fn new(name: &str, fingerprint: String) -> Self {
        Self { path: crate::command::target("xtask").join(name), fingerprint }
    }

    /// Whether the last work was done on the same inputs.
    pub fn is_current(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|last| last == self.fingerprint)
    }

    /// To be called when the work is done.
    pub fn set(&self) -> anyhow::Result<()> {
        write(&self.path, self.fingerprint.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::fingerprint;

    #[test]
    fn a_fingerprint_tells_parts_apart() {
        let of = |parts: &[&str]| fingerprint(parts.iter().map(|part| part.as_bytes()));
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
    }
}
