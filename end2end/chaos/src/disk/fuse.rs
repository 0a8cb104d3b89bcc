//! Shows [`Files`] to the kernel as a file system.

use std::{
    ffi::{OsStr, OsString},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::files::{Content, File, Files, Refused, Twice};

/// Nobody but the kernel changes anything, so that it may believe what it knows.
const KNOWN_FOR: Duration = Duration::from_hours(1);
/// Files have no handles: their numbers are enough.
const NO_HANDLE: FileHandle = FileHandle(0);
/// Nor times: nobody asks for them.
const NO_TIME: SystemTime = SystemTime::UNIX_EPOCH;
/// What is told of the free space: plenty.
const BLOCKS: u64 = 1 << 20;
const BLOCK_BYTES: u32 = 4_096;
/// Where the entries of a folder begin, after itself and its parent.
const ENTRIES_FROM: u64 = 2;

/// Files that are mounted.
#[derive(Clone, Debug)]
pub(super) struct Mounted(pub(super) Arc<Mutex<Files>>);

impl From<Refused> for Errno {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Off => Self::EIO,
            Refused::Missing => Self::ENOENT,
            Refused::Exists => Self::EEXIST,
            Refused::NotEmpty => Self::ENOTEMPTY,
            Refused::WrongKind => Self::EINVAL,
            Refused::NoSpace => Self::ENOSPC,
        }
    }
}

/// Numbers of ours count from 0, the kernel's from 1.
fn id(number: INodeNo) -> Result<usize, Refused> {
    usize::try_from(number.0).ok().and_then(|number| number.checked_sub(1)).ok_or(Refused::Missing)
}

fn number(id: usize) -> INodeNo {
    INodeNo(u64::try_from(id).unwrap_or(u64::MAX).saturating_add(1))
}

fn size(bytes: u64) -> Result<usize, Refused> {
    usize::try_from(bytes).or(Err(Refused::NoSpace))
}

/// The bits of a mode that are permissions.
fn permissions(mode: u32) -> u16 {
    u16::try_from(mode & 0o7777).unwrap_or_default()
}

fn kind(content: &Content) -> FileType {
    if content.is_folder() { FileType::Directory } else { FileType::RegularFile }
}

impl Mounted {
    fn files(&self) -> Result<MutexGuard<'_, Files>, Refused> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.is_on { Ok(files) } else { Err(Refused::Off) }
    }

    fn attributes(&self, id: usize) -> Result<FileAttr, Refused> {
        let files = self.files()?;
        let file = files.get(id)?;
        let length = match &file.content {
            Content::Bytes(bytes) => bytes.now.length(),
            Content::Names(_) => 0,
        };
        let length = u64::try_from(length).or(Err(Refused::NoSpace))?;
        Ok(FileAttr {
            ino: number(id),
            size: length,
            blocks: length.div_ceil(512),
            atime: NO_TIME,
            mtime: NO_TIME,
            ctime: NO_TIME,
            crtime: NO_TIME,
            kind: kind(&file.content),
            perm: file.permissions,
            nlink: 1,
            uid: file.user,
            gid: file.group,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        })
    }

    fn found(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Refused> {
        let found = self.files()?.find(id(parent)?, &name.to_owned())?;
        self.attributes(found)
    }

    fn made(
        &self,
        of: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        content: Content,
    ) -> Result<FileAttr, Refused> {
        let file = File { permissions: permissions(mode), user: of.uid(), group: of.gid(), content };
        let made = self.files()?.make(id(parent)?, name.to_owned(), file)?;
        self.attributes(made)
    }

    fn changed(
        &self,
        of: INodeNo,
        mode: Option<u32>,
        owner: (Option<u32>, Option<u32>),
        length: Option<u64>,
    ) -> Result<FileAttr, Refused> {
        let id = id(of)?;
        let mut files = self.files()?;
        if let Some(length) = length {
            files.bytes(id)?.resize(size(length)?)?;
        }
        let file = files.get_mut(id)?;
        file.permissions = mode.map_or(file.permissions, permissions);
        (file.user, file.group) = (owner.0.unwrap_or(file.user), owner.1.unwrap_or(file.group));
        drop(files);
        self.attributes(id)
    }

    fn written(&self, to: INodeNo, offset: u64, data: &[u8]) -> Result<u32, Refused> {
        let (id, mut files) = (id(to)?, self.files()?);
        files.bytes(id)?.write(size(offset)?, data)?;
        u32::try_from(data.len()).or(Err(Refused::NoSpace))
    }

    fn moved(&self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr), flags: RenameFlags) -> Result<(), Refused> {
        if !flags.is_empty() {
            return Err(Refused::WrongKind);
        }
        let (from, to) = ((id(from.0)?, &from.1.to_owned()), (id(to.0)?, to.1.to_owned()));
        self.files()?.rename(from, to)
    }

    /// The folder itself, its parent (which the kernel knows better), and what is in it, each with the place after it. Places go
    /// by the files' numbers, so that removing one while reading moves no other.
    fn listed(&self, folder: INodeNo) -> Result<Vec<(u64, INodeNo, FileType, OsString)>, Refused> {
        let mut files = self.files()?;
        let names = files.names(id(folder)?)?.clone();
        let mut listed = vec![
            (1, folder, FileType::Directory, OsString::from(".")),
            (ENTRIES_FROM, folder, FileType::Directory, OsString::from("..")),
        ];
        for (name, id) in names {
            let number = number(id);
            listed.push((number.0 + ENTRIES_FROM, number, kind(&files.get(id)?.content), name));
        }
        listed.sort_by_key(|(place, ..)| *place);
        Ok(listed)
    }
}

fn entry(reply: ReplyEntry, end: Result<FileAttr, Refused>) {
    match end {
        Ok(attributes) => reply.entry(&KNOWN_FOR, &attributes, Generation(0)),
        Err(refused) => reply.error(refused.into()),
    }
}

fn attributes(reply: ReplyAttr, end: Result<FileAttr, Refused>) {
    match end {
        Ok(attributes) => reply.attr(&KNOWN_FOR, &attributes),
        Err(refused) => reply.error(refused.into()),
    }
}

fn done(reply: ReplyEmpty, end: Result<(), Refused>) {
    match end {
        Ok(()) => reply.ok(),
        Err(refused) => reply.error(refused.into()),
    }
}

impl Filesystem for Mounted {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.found(parent, name));
    }

    fn getattr(&self, _: &Request, of: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attributes(reply, id(of).and_then(|id| self.attributes(id)));
    }

    fn setattr(
        &self,
        _: &Request,
        of: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        length: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        attributes(reply, self.changed(of, mode, (user, group), length));
    }

    fn mkdir(&self, of: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        entry(reply, self.made(of, parent, name, mode, Content::Names(Twice::default())));
    }

    fn create(&self, of: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        match self.made(of, parent, name, mode, Content::Bytes(Twice::default())) {
            Ok(made) => reply.created(&KNOWN_FOR, &made, Generation(0), NO_HANDLE, FopenFlags::FOPEN_KEEP_CACHE),
            Err(refused) => reply.error(refused.into()),
        }
    }

    fn link(&self, _: &Request, of: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let link = || {
            self.files()?.link(id(parent)?, name.to_owned(), id(of)?)?;
            self.attributes(id(of)?)
        };
        entry(reply, link());
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || self.files()?.remove(id(parent)?, &name.to_owned());
        done(reply, remove());
    }

    fn rmdir(&self, of: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(of, parent, name, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        done(reply, self.moved((parent, name), (new_parent, new_name), flags));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.files() {
            Ok(_) => reply.opened(NO_HANDLE, FopenFlags::FOPEN_KEEP_CACHE),
            Err(refused) => reply.error(refused.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        from: INodeNo,
        _: FileHandle,
        offset: u64,
        count: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read =
            || -> Result<_, Refused> { Ok(self.files()?.bytes(id(from)?)?.read(size(offset)?, size(count.into())?)) };
        match read() {
            Ok(bytes) => reply.data(&bytes),
            Err(refused) => reply.error(refused.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        to: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.written(to, offset, data) {
            Ok(count) => reply.written(count),
            Err(refused) => reply.error(refused.into()),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        done(reply, self.files().map(drop));
    }

    fn fsync(&self, _: &Request, of: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let sync = || self.files()?.sync(id(of)?);
        done(reply, sync());
    }

    fn fsyncdir(&self, of: &Request, folder: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.fsync(of, folder, handle, data_only, reply);
    }

    fn readdir(&self, _: &Request, folder: INodeNo, _: FileHandle, from: u64, mut reply: ReplyDirectory) {
        match self.listed(folder) {
            Ok(listed) => {
                for (place, number, kind, name) in listed.into_iter().filter(|(place, ..)| *place > from) {
                    if reply.add(number, place, kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(refused) => reply.error(refused.into()),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCK_BYTES, 255, BLOCK_BYTES);
    }
}
