//! What makes objects, or gives a file its content: mkdir, ln, write, truncate.
use crate::change::Change;
use crate::error::{Error, Result};
use crate::mode::{Mode, UMASK};
use crate::tree::{self, Links};
use extant_engine::{ErrorKind, Filesystem, Follow, Inode, MetadataChange, New, NewKind, Rights};
use extant_format::inode::FileType;
use std::ffi::OsStr;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that are read and written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// What becomes of folders on the way that are not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parents {
    /// They are made, and what exists is no error (`mkdir -p`).
    Make,
    /// They have to be there.
    Need,
}

/// Makes an object, owned by root.
///
/// # Errors
/// Those of the engine.
pub fn object(
    filesystem: &Filesystem,
    path: &Path,
    kind: NewKind<'_>,
    permissions: u16,
) -> Result<Inode> {
    let (folder, name) = match kind {
        NewKind::Directory => tree::parent(filesystem, path),
        _ => tree::parent_of_file(filesystem, path),
    }
    .map_err(Error::of_missing_folder)?;
    let new = New { kind, permissions, umask: 0, ..New::default() };
    Ok(filesystem.inodes().create(&folder, name, &new).map_err(|error| error.at(path))?)
}

/// Makes a directory, with the permissions 0755 unless `mode` says others. Returns how many were
/// made.
///
/// # Errors
/// It exists, unless parents are made; those of the engine.
pub fn directory(
    filesystem: &Filesystem,
    path: &Path,
    parents: Parents,
    mode: Option<&Mode>,
) -> Result<u64> {
    if parents == Parents::Make {
        return directories(filesystem, path, mode);
    }
    let permissions = match mode {
        Some(mode) => mode.applied(0o777, FileType::Directory),
        None => 0o777 & !UMASK,
    };
    object(filesystem, path, NewKind::Directory, permissions)?;
    // Where a default access list changes what a new directory gets, the mode that was asked for
    // counts.
    if mode.is_some() {
        let inode = tree::inode(filesystem, path, Links::Stay)?;
        let wanted = MetadataChange { permissions: Some(permissions), ..MetadataChange::default() };
        filesystem.inodes().set_metadata(&inode, &wanted).map_err(|error| error.at(path))?;
    }
    Ok(1)
}

/// Makes a directory and those on the way that are not there, name by name from the root.
fn directories(filesystem: &Filesystem, path: &Path, mode: Option<&Mode>) -> Result<u64> {
    let inodes = filesystem.inodes();
    let failed = |error: extant_engine::Error| Error::from(error.at(path));
    let bytes = path.as_os_str().as_bytes();
    let mut here = inodes.root().map_err(failed)?;
    let (mut made, mut at) = (0, 0);
    while let Some(part) = next_name(bytes, at) {
        at = part.end;
        let name = bytes.get(part).unwrap_or_default();
        let is_last = next_name(bytes, at).is_none();
        let so_far = || Path::new(OsStr::from_bytes(bytes.get(..at).unwrap_or_default()));
        here = match inodes.resolve(&here, name, Follow::Last) {
            Ok(found) => {
                if inodes.metadata(&found).map_err(failed)?.file_type != FileType::Directory {
                    return Err(Error::inside(so_far(), "exists, and is no directory"));
                }
                found
            }
            Err(error) if matches!(error.kind, ErrorKind::NotFound) => {
                let permissions = match mode.filter(|_| is_last) {
                    Some(mode) => mode.applied(0o777, FileType::Directory),
                    None => 0o777 & !UMASK,
                };
                let new = New { kind: NewKind::Directory, permissions, ..New::default() };
                let directory = inodes.create(&here, name, &new);
                let directory = directory.map_err(|error| error.at(so_far()))?;
                made += 1;
                // As above.
                if is_last && mode.is_some() {
                    let permissions = Some(permissions);
                    let wanted = MetadataChange { permissions, ..MetadataChange::default() };
                    inodes.set_metadata(&directory, &wanted).map_err(failed)?;
                }
                directory
            }
            Err(error) => return Err(error.at(so_far()).into()),
        };
    }
    Ok(made)
}

/// Where the next name of a path is, from a byte on.
fn next_name(path: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = path.get(at..)?;
    let start = at + rest.iter().position(|byte| *byte != b'/')?;
    let length = path.get(start..)?.iter().position(|byte| *byte == b'/');
    Some(start..length.map_or(path.len(), |length| start + length))
}

/// What becomes of a name that is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// It is an error.
    Refuse,
    /// It is removed (`-f`), unless it is a directory.
    Replace,
}

/// Makes a symbolic link with this target.
///
/// # Errors
/// Those of the engine.
pub fn symlink(change: &Change, target: &[u8], link: &Path, existing: Existing) -> Result<()> {
    if target.is_empty() {
        return Err(Error::inside(link, "a symbolic link needs a target"));
    }
    make_room(change, link, existing)?;
    object(change, link, NewKind::Symlink(target), 0o777).map(drop)
}

/// Gives an object another name. A symbolic link itself gets it, not what it leads to.
///
/// # Errors
/// Those of the engine.
pub fn hard_link(change: &Change, original: &Path, link: &Path, existing: Existing) -> Result<()> {
    let metadata = change.symlink_metadata(original)?;
    if metadata.file_type == FileType::Directory {
        return Err(Error::inside(original, "is a directory, which has one name only"));
    }
    if let Some(there) = tree::found(change, link, Links::Stay)?
        && there.ino == metadata.ino
    {
        return match existing {
            Existing::Replace => {
                let (from, to) = (original.display(), link.display());
                Err(Error::inside(original, format!("{from} and {to} are the same file")))
            }
            Existing::Refuse => Err(Error::inside(link, "file exists")),
        };
    }
    tree::parent_of_file(change, link).map_err(Error::of_missing_folder)?;
    make_room(change, link, existing)?;
    Ok(change.hard_link(original, link)?)
}

fn make_room(change: &Change, link: &Path, existing: Existing) -> Result<()> {
    if existing == Existing::Replace && tree::found(change, link, Links::Stay)?.is_some() {
        change.remove_file(link)?;
    }
    Ok(())
}

/// Where bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Into {
    /// They are the whole content.
    Whole,
    /// They come after what is there.
    End,
}

/// Writes a stream into a file, which is made with the permissions 0644 if it is not there. Returns
/// how many bytes.
///
/// # Errors
/// A stream that fails; those of the engine.
pub fn write(change: &Change, path: &Path, into: Into, stream: &mut dyn Read) -> Result<u64> {
    let inode = match tree::found(change, path, Links::Follow)? {
        Some(_) => tree::inode(change, path, Links::Follow)?,
        None => object(change, path, NewKind::File, 0o666 & !UMASK)?,
    };
    let mode = change.inodes().metadata(&inode).map_err(|error| error.at(path))?.mode;
    let file = change.inodes().open(&inode, Rights::WRITE);
    let file = file.map_err(|error| error.at(path))?;
    let mut at = match into {
        Into::Whole => {
            file.set_len(0).map_err(|error| error.at(path))?;
            0
        }
        Into::End => file.metadata()?.size,
    };
    let begin = at;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = match stream.read(&mut piece) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.map_err(|error| Error::host("standard input", error))?,
        };
        if length == 0 {
            keep_mode(change, path, &inode, mode)?;
            return Ok(at - begin);
        }
        file.write_all_at(at, &piece[..length]).map_err(|error| error.at(path))?;
        at += length as u64;
    }
}

/// What a size is made of, as truncate(1) has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewSize {
    /// This many bytes.
    To(u64),
    /// This many more.
    More(u64),
    /// This many fewer, down to 0.
    Less(u64),
    /// At most this many.
    AtMost(u64),
    /// At least this many.
    AtLeast(u64),
    /// Rounded down to a multiple.
    Down(u64),
    /// Rounded up to a multiple.
    Up(u64),
}

impl NewSize {
    /// The size that a file of this size gets; `None` if no file can be that large.
    pub fn of(self, size: u64) -> Option<u64> {
        match self {
            NewSize::To(bytes) => Some(bytes),
            NewSize::More(bytes) => size.checked_add(bytes),
            NewSize::Less(bytes) => Some(size.saturating_sub(bytes)),
            NewSize::AtMost(bytes) => Some(size.min(bytes)),
            NewSize::AtLeast(bytes) => Some(size.max(bytes)),
            NewSize::Down(unit) => size.checked_rem(unit).map(|rest| size - rest),
            NewSize::Up(unit) => size.checked_next_multiple_of(unit),
        }
    }
}

/// Whether a file that is not there is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// It is made.
    Make,
    /// Nothing happens.
    Leave,
}

/// Cuts a file, or makes it longer with a hole.
///
/// # Errors
/// Those of the engine.
pub fn truncate(change: &Change, path: &Path, size: NewSize, missing: Missing) -> Result<()> {
    let inode = match tree::found(change, path, Links::Follow)? {
        Some(_) => tree::inode(change, path, Links::Follow)?,
        None if missing == Missing::Leave => return Ok(()),
        None => object(change, path, NewKind::File, 0o666 & !UMASK)?,
    };
    let now = change.inodes().metadata(&inode)?;
    let too_large = || Error::inside(path, "file too large");
    let size = size.of(now.size).ok_or_else(too_large)?;
    let wanted = MetadataChange { size: Some(size), ..MetadataChange::default() };
    change.inodes().set_metadata(&inode, &wanted).map_err(|error| error.at(path))?;
    keep_mode(change, path, &inode, now.mode)
}

/// Gives a file the mode back that it had before its content changed: root's writes leave
/// set-user-ID and set-group-ID in Linux.
pub(crate) fn keep_mode(
    filesystem: &Filesystem,
    path: &Path,
    inode: &Inode,
    mode: u16,
) -> Result<()> {
    let failed = |error: extant_engine::Error| error.at(path);
    let inodes = filesystem.inodes();
    if inodes.metadata(inode).map_err(failed)?.mode == mode {
        return Ok(());
    }
    let wanted = MetadataChange { permissions: Some(mode & 0o7777), ..MetadataChange::default() };
    Ok(inodes.set_metadata(inode, &wanted).map_err(failed)?)
}
