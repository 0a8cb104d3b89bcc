//! A disk whose power can be cut: what was written to it and not synced is lost then, every byte of it.
//!
//! It is a file system in the memory of this process (FUSE), since a process that is killed loses nothing: the kernel writes out
//! what it had written. Promise: what `fsync` has answered is kept, nothing else is. It is unmounted whatever becomes of the test.

mod files;
mod fuse;
mod mount;

pub use files::Lost;
pub use mount::Disk;
