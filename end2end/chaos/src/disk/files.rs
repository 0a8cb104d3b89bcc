//! What a disk holds, twice: as its users see it, and as it is after a loss of power.
//!
//! Promise: what was not synced is gone after [`Files::lose`], and all else is there. A name counts as synced when its folder
//! was, or when the file behind it was, as in the journaling file systems of Linux. Nothing of a write is kept by chance.

use std::{collections::BTreeMap, ffi::OsString, sync::Arc};

/// Written and lost as a whole: the page of Postgres.
const PAGE_BYTES: usize = 8_192;
/// What the files of a test may hold together; a cluster of ours holds some 40 MB.
const FILE_BYTES_MAX: usize = 256 * 1024 * 1024;

type Page = [u8; PAGE_BYTES];
pub(super) type Names = BTreeMap<OsString, usize>;

/// All files and folders. The first is the root; none is ever forgotten, since a removal may be lost as well.
#[derive(Debug)]
pub(super) struct Files {
    all: Vec<File>,
    /// Whether there is power.
    pub(super) is_on: bool,
}

/// A file or a folder.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) permissions: u16,
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Bytes(Twice<Bytes>),
    Names(Twice<Names>),
}

/// As it is now, and as it was when it was last synced.
#[derive(Clone, Debug, Default)]
pub(super) struct Twice<T> {
    pub(super) now: T,
    safe: T,
}

/// Pages are shared between the two until one is written to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes {
    pages: Vec<Arc<Page>>,
    length: usize,
}

/// Why something cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There is no power.
    Off,
    Missing,
    Exists,
    NotEmpty,
    WrongKind,
    NoSpace,
}

/// How much was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Files that had bytes which were not synced.
    pub files: usize,
    /// Folders with names that were made or removed and not synced.
    pub folders: usize,
}

impl<T: Clone + PartialEq> Twice<T> {
    fn sync(&mut self) {
        self.safe = self.now.clone();
    }

    /// Whether there was something to lose.
    fn lose(&mut self) -> bool {
        let differs = self.now != self.safe;
        self.now = self.safe.clone();
        differs
    }
}

impl Content {
    pub(super) fn is_folder(&self) -> bool {
        matches!(self, Self::Names(_))
    }

    fn sync(&mut self) {
        match self {
            Self::Bytes(bytes) => bytes.sync(),
            Self::Names(names) => names.sync(),
        }
    }
}

impl Bytes {
    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn read(&self, from: usize, count: usize) -> Vec<u8> {
        let end = from.saturating_add(count).min(self.length);
        let mut read = Vec::with_capacity(end.saturating_sub(from));
        let mut at = from;
        while at < end {
            let (page, within) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let part = (PAGE_BYTES - within).min(end - at);
            read.extend_from_slice(&self.pages[page][within..within + part]);
            at += part;
        }
        read
    }

    pub(super) fn write(&mut self, to: usize, data: &[u8]) -> Result<(), Refused> {
        let end = to.checked_add(data.len()).ok_or(Refused::NoSpace)?;
        self.resize(self.length.max(end))?;
        let (mut at, mut rest) = (to, data);
        while !rest.is_empty() {
            let (page, within) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let (part, more) = rest.split_at((PAGE_BYTES - within).min(rest.len()));
            Arc::make_mut(&mut self.pages[page])[within..within + part.len()].copy_from_slice(part);
            (at, rest) = (at + part.len(), more);
        }
        Ok(())
    }

    /// Cuts it off, or lengthens it by zeros.
    pub(super) fn resize(&mut self, length: usize) -> Result<(), Refused> {
        if length > FILE_BYTES_MAX {
            return Err(Refused::NoSpace);
        }
        if length < self.length && !length.is_multiple_of(PAGE_BYTES) {
            Arc::make_mut(&mut self.pages[length / PAGE_BYTES])[length % PAGE_BYTES..].fill(0);
        }
        self.pages.resize_with(length.div_ceil(PAGE_BYTES), || Arc::new([0; PAGE_BYTES]));
        self.length = length;
        Ok(())
    }
}

impl Files {
    /// An empty disk that anybody may look into.
    pub(super) fn new() -> Self {
        let root = File { permissions: 0o755, user: 0, group: 0, content: Content::Names(Twice::default()) };
        Self { all: vec![root], is_on: true }
    }

    pub(super) fn get(&self, id: usize) -> Result<&File, Refused> {
        self.all.get(id).ok_or(Refused::Missing)
    }

    pub(super) fn get_mut(&mut self, id: usize) -> Result<&mut File, Refused> {
        self.all.get_mut(id).ok_or(Refused::Missing)
    }

    pub(super) fn bytes(&mut self, id: usize) -> Result<&mut Bytes, Refused> {
        match &mut self.get_mut(id)?.content {
            Content::Bytes(bytes) => Ok(&mut bytes.now),
            Content::Names(_) => Err(Refused::WrongKind),
        }
    }

    pub(super) fn names(&mut self, id: usize) -> Result<&mut Names, Refused> {
        match &mut self.get_mut(id)?.content {
            Content::Names(names) => Ok(&mut names.now),
            Content::Bytes(_) => Err(Refused::WrongKind),
        }
    }

    pub(super) fn find(&mut self, folder: usize, name: &OsString) -> Result<usize, Refused> {
        self.names(folder)?.get(name).copied().ok_or(Refused::Missing)
    }

    /// Makes a file or a folder; gives its number.
    pub(super) fn make(&mut self, folder: usize, name: OsString, file: File) -> Result<usize, Refused> {
        let id = self.all.len();
        self.link(folder, name, id)?;
        self.all.push(file);
        Ok(id)
    }

    /// Gives something one more name.
    pub(super) fn link(&mut self, folder: usize, name: OsString, id: usize) -> Result<(), Refused> {
        let names = self.names(folder)?;
        if names.contains_key(&name) {
            return Err(Refused::Exists);
        }
        names.insert(name, id);
        Ok(())
    }

    pub(super) fn remove(&mut self, folder: usize, name: &OsString) -> Result<(), Refused> {
        let id = self.find(folder, name)?;
        if let Content::Names(names) = &self.get(id)?.content
            && !names.now.is_empty()
        {
            return Err(Refused::NotEmpty);
        }
        self.names(folder)?.remove(name);
        Ok(())
    }

    /// Gives it another name, which it takes from whoever has it.
    pub(super) fn rename(&mut self, from: (usize, &OsString), to: (usize, OsString)) -> Result<(), Refused> {
        let id = self.find(from.0, from.1)?;
        self.names(to.0)?.insert(to.1, id);
        self.names(from.0)?.remove(from.1);
        Ok(())
    }

    /// Syncs a file with its names, or a folder.
    pub(super) fn sync(&mut self, id: usize) -> Result<(), Refused> {
        self.get_mut(id)?.content.sync();
        for file in &mut self.all {
            if let Content::Names(names) = &mut file.content
                && names.now.iter().any(|(name, named)| *named == id && names.safe.get(name) != Some(&id))
            {
                names.sync();
            }
        }
        Ok(())
    }

    /// Syncs all there is.
    pub(super) fn sync_all(&mut self) {
        self.all.iter_mut().for_each(|file| file.content.sync());
    }

    /// The power goes: nothing is served any more, and what is not synced is gone.
    pub(super) fn lose(&mut self) -> Lost {
        self.is_on = false;
        let mut lost = Lost::default();
        for file in &mut self.all {
            match &mut file.content {
                Content::Bytes(bytes) => lost.files += usize::from(bytes.lose()),
                Content::Names(names) => lost.folders += usize::from(names.lose()),
            }
        }
        lost
    }
}
