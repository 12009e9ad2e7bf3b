//! Operations: done to the engine, done to the model.

use crate::model::tree::{Follow, Id, Outcome, Touch, Tree};
use crate::volume::Random;
use extant_engine::{Change, File, Filesystem, FlagChange, Rename, Result, SetAttribute, Size};
use extant_format::inode::{Device, FileType};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// A path, printed as text.
#[derive(Clone, PartialEq, Eq)]
pub struct Path(pub Vec<u8>);

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.0);
        match name.len() {
            0..=80 => write!(f, "{name:?}"),
            length => write!(f, "{:?}...({length})", name.chars().take(40).collect::<String>()),
        }
    }
}
impl AsRef<std::path::Path> for Path {
    fn as_ref(&self) -> &std::path::Path {
        std::path::Path::new(OsStr::from_bytes(&self.0))
    }
}

/// Bytes from a seed.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    pub seed: u64,
    pub length: usize,
}

impl Bytes {
    pub fn make(self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        Random::new(self.seed).fill(&mut bytes);
        bytes
    }
}

/// How many files are open at a time at most.
pub const SLOTS: usize = 4;

/// Which file an operation is done to.
#[derive(Clone, Debug)]
pub enum Target {
    Path(Path),
    Slot(usize),
}

#[derive(Clone, Debug)]
pub enum Operation {
    Make { path: Path, kind: FileType, permissions: u16, device: Device },
    Directory { path: Path, permissions: u16 },
    Symlink { target: Path, path: Path },
    Link { original: Path, path: Path },
    Unlink(Path),
    RemoveDirectory(Path),
    Rename { from: Path, to: Path, how: Rename },
    Open { path: Path, slot: usize },
    Close { slot: usize },
    Write { target: Target, offset: u64, bytes: Bytes },
    Truncate { target: Target, size: u64 },
    Allocate { target: Target, offset: u64, length: u64, size: Size },
    Punch { target: Target, offset: u64, length: u64 },
    Zero { target: Target, offset: u64, length: u64, size: Size },
    Collapse { target: Target, offset: u64, length: u64 },
    Insert { target: Target, offset: u64, length: u64 },
    Read { target: Target, offset: u64, length: usize },
    SetAttribute { path: Path, name: Path, value: Bytes, how: SetAttribute },
    RemoveAttribute { path: Path, name: Path },
    Change { path: Path, touch: Touch },
    Flags { path: Path, set: u32, clear: u32 },
    Stat(Path),
    List(Path),
    ReadLink(Path),
    Sync,
    Reopen,
}

/// Open files of both sides.
#[derive(Default)]
pub struct Slots {
    pub files: [Option<(File, Id)>; SLOTS],
}

/// What an operation gave besides success.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    Count(usize),
    Bytes(Vec<u8>),
    Length(u64),
}

fn on_file(
    volume: &Filesystem,
    slots: &Slots,
    target: &Target,
    work: impl FnOnce(&File) -> Result<Answer>,
) -> Option<Result<Answer>> {
    match target {
        Target::Path(path) => Some(volume.open_file(path).and_then(|file| work(&file))),
        Target::Slot(slot) => slots.files[*slot].as_ref().map(|(file, _)| work(file)),
    }
}

impl Operation {
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Make { .. } => "make",
            Operation::Directory { .. } => "mkdir",
            Operation::Symlink { .. } => "symlink",
            Operation::Link { .. } => "link",
            Operation::Unlink(_) => "unlink",
            Operation::RemoveDirectory(_) => "rmdir",
            Operation::Rename { .. } => "rename",
            Operation::Open { .. } => "open",
            Operation::Close { .. } => "close",
            Operation::Write { .. } => "write",
            Operation::Truncate { .. } => "truncate",
            Operation::Allocate { .. } => "allocate",
            Operation::Punch { .. } => "punch",
            Operation::Zero { .. } => "zero",
            Operation::Collapse { .. } => "collapse",
            Operation::Insert { .. } => "insert",
            Operation::Read { .. } => "read",
            Operation::SetAttribute { .. } => "set attribute",
            Operation::RemoveAttribute { .. } => "remove attribute",
            Operation::Change { .. } => "change",
            Operation::Flags { .. } => "change flags",
            Operation::Stat(_) => "stat",
            Operation::List(_) => "list",
            Operation::ReadLink(_) => "read link",
            Operation::Sync => "sync",
            Operation::Reopen => "reopen",
        }
    }

    /// Blocks that it may need, and more: with less room than this, `ENOSPC` is believed.
    pub fn blocks_max(&self, block_size: u64) -> u64 {
        let bytes = match self {
            Operation::Write { bytes, .. } => bytes.length as u64,
            Operation::SetAttribute { value, .. } => value.length as u64,
            Operation::Allocate { length, .. } | Operation::Zero { length, .. } => *length,
            _ => 0,
        };
        16 * (bytes / block_size + 2) + 64
    }

    /// Does it to the engine; `None` when there is nothing to do it to.
    pub fn run(&self, volume: &Filesystem, slots: &mut Slots) -> Option<Result<Answer>> {
        let done = |()| Answer::Done;
        Some(match self {
            Operation::Make { path, kind, permissions, device } => {
                volume.make_node(path, *kind, *permissions, *device).map(done)
            }
            Operation::Directory { path, permissions } => {
                volume.create_dir(path, *permissions).map(done)
            }
            Operation::Symlink { target, path } => volume.symlink(target, path).map(done),
            Operation::Link { original, path } => volume.hard_link(original, path).map(done),
            Operation::Unlink(path) => volume.remove_file(path).map(done),
            Operation::RemoveDirectory(path) => volume.remove_dir(path).map(done),
            Operation::Rename { from, to, how } => volume.rename(from, to, *how).map(done),
            Operation::Open { path, slot } => {
                if slots.files[*slot].is_some() {
                    return None;
                }
                // The model tells which object it is; see `model`.
                volume.open_file(path).map(|file| {
                    slots.files[*slot] = Some((file, Id::MAX));
                    Answer::Done
                })
            }
            Operation::Close { .. } => Ok(Answer::Done),
            Operation::Write { target, offset, bytes } => {
                return on_file(volume, slots, target, |file| {
                    file.write_at(*offset, &bytes.make()).map(Answer::Count)
                });
            }
            Operation::Truncate { target, size } => {
                return on_file(volume, slots, target, |file| file.set_len(*size).map(done));
            }
            Operation::Allocate { target, offset, length, size } => {
                return on_file(volume, slots, target, |file| {
                    file.allocate(*offset, *length, *size).map(done)
                });
            }
            Operation::Punch { target, offset, length } => {
                return on_file(volume, slots, target, |file| {
                    file.punch_hole(*offset, *length).map(done)
                });
            }
            Operation::Zero { target, offset, length, size } => {
                return on_file(volume, slots, target, |file| {
                    file.zero_range(*offset, *length, *size).map(done)
                });
            }
            Operation::Collapse { target, offset, length } => {
                return on_file(volume, slots, target, |file| {
                    file.collapse_range(*offset, *length).map(done)
                });
            }
            Operation::Insert { target, offset, length } => {
                return on_file(volume, slots, target, |file| {
                    file.insert_range(*offset, *length).map(done)
                });
            }
            Operation::Read { target, offset, length } => {
                let mut bytes = vec![0xee; *length];
                return on_file(volume, slots, target, |file| {
                    let read = file.read_at(*offset, &mut bytes)?;
                    bytes.truncate(read);
                    Ok(Answer::Bytes(bytes))
                });
            }
            Operation::SetAttribute { path, name, value, how } => {
                volume.set_attribute(path, &name.0, &value.make(), *how).map(done)
            }
            Operation::RemoveAttribute { path, name } => {
                volume.remove_attribute(path, &name.0).map(done)
            }
            Operation::Change { path, touch } => volume.change(path, &change(touch)).map(done),
            Operation::Stat(path) => {
                volume.metadata(path).map(|metadata| Answer::Length(metadata.links.into()))
            }
            Operation::Flags { path, set, clear } => {
                let (set, clear) = (*set, *clear);
                volume.change_flags(path, FlagChange { set, clear }).map(done)
            }
            Operation::List(path) => {
                volume.read_dir(path).map(|entries| Answer::Count(entries.len()))
            }
            Operation::ReadLink(path) => volume.read_link(path).map(Answer::Bytes),
            Operation::Sync => volume.sync().map(done),
            Operation::Reopen => return None,
        })
    }

    /// Does it to the model.
    pub fn model(&self, tree: &mut Tree, slots: &mut Slots) -> Outcome<Answer> {
        let done = |()| Answer::Done;
        match self {
            Operation::Make { path, kind, permissions, device } => {
                tree.make(&path.0, *kind, *permissions, *device, b"").map(|_| Answer::Done)
            }
            Operation::Directory { path, permissions } => tree
                .make(&path.0, FileType::Directory, *permissions, Device::default(), b"")
                .map(|_| Answer::Done),
            Operation::Symlink { target, path } => tree
                .make(&path.0, FileType::Symlink, 0o777, Device::default(), &target.0)
                .map(|_| Answer::Done),
            Operation::Link { original, path } => tree.link(&original.0, &path.0).map(done),
            Operation::Unlink(path) => tree.unlink(&path.0).map(done),
            Operation::RemoveDirectory(path) => tree.rmdir(&path.0).map(done),
            Operation::Rename { from, to, how } => tree.rename(&from.0, &to.0, *how).map(done),
            Operation::Open { path, slot } => {
                let id = tree.open(&path.0)?;
                match &mut slots.files[*slot] {
                    Some((_, known)) => *known = id,
                    None => tree.close(id),
                }
                Ok(Answer::Done)
            }
            Operation::Close { slot } => {
                if let Some((file, id)) = slots.files[*slot].take() {
                    drop(file);
                    tree.close(id);
                }
                Ok(Answer::Done)
            }
            Operation::Sync | Operation::Reopen => Ok(Answer::Done),
            Operation::SetAttribute { path, name, value, how } => {
                tree.set_attribute(&path.0, &name.0, &value.make(), *how).map(done)
            }
            Operation::RemoveAttribute { path, name } => {
                tree.remove_attribute(&path.0, &name.0).map(done)
            }
            Operation::Change { path, touch } => tree.change(&path.0, touch).map(done),
            Operation::Stat(path) => {
                let id = tree.resolve(&path.0, Follow::Last)?;
                Ok(Answer::Length(tree.object(id).links.into()))
            }
            Operation::Flags { path, set, clear } => {
                tree.change_flags(&path.0, *set, *clear).map(done)
            }
            Operation::List(path) => {
                let id = tree.resolve(&path.0, Follow::Last)?;
                if !tree.object(id).is_directory() {
                    return Err(crate::model::tree::ENOTDIR);
                }
                tree.accessed(id);
                Ok(Answer::Count(tree.object(id).names.len()))
            }
            Operation::ReadLink(path) => {
                let id = tree.resolve(&path.0, Follow::NotLast)?;
                if tree.object(id).kind != FileType::Symlink {
                    return Err(crate::model::tree::EINVAL);
                }
                tree.accessed(id);
                Ok(Answer::Bytes(tree.object(id).target.clone()))
            }
            Operation::Write { target, .. }
            | Operation::Truncate { target, .. }
            | Operation::Allocate { target, .. }
            | Operation::Punch { target, .. }
            | Operation::Zero { target, .. }
            | Operation::Collapse { target, .. }
            | Operation::Insert { target, .. }
            | Operation::Read { target, .. } => {
                let (id, is_own) = match target {
                    Target::Path(path) => (tree.open(&path.0)?, true),
                    Target::Slot(slot) => match &slots.files[*slot] {
                        Some((_, id)) => (*id, false),
                        None => return Ok(Answer::Done),
                    },
                };
                let outcome = self.model_file(tree, id);
                if is_own {
                    tree.close(id);
                }
                outcome
            }
        }
    }

    fn model_file(&self, tree: &mut Tree, id: Id) -> Outcome<Answer> {
        let done = |()| Answer::Done;
        match self {
            Operation::Write { offset, bytes, .. } => {
                tree.write(id, *offset, &bytes.make()).map(Answer::Count)
            }
            Operation::Truncate { size, .. } => tree.truncate(id, *size).map(done),
            Operation::Allocate { offset, length, size, .. } => {
                tree.allocate(id, *offset, *length, *size).map(done)
            }
            Operation::Punch { offset, length, .. } => tree.punch(id, *offset, *length).map(done),
            Operation::Zero { offset, length, size, .. } => {
                tree.zero_range(id, *offset, *length, *size).map(done)
            }
            Operation::Collapse { offset, length, .. } => {
                tree.collapse_range(id, *offset, *length).map(done)
            }
            Operation::Insert { offset, length, .. } => {
                tree.insert_range(id, *offset, *length).map(done)
            }
            Operation::Read { offset, length, .. } => {
                let object = tree.object(id);
                if object.kind != FileType::Regular {
                    return Err(crate::model::tree::EINVAL);
                }
                let read = object.size.saturating_sub(*offset).min(*length as u64) as usize;
                let mut bytes = vec![0; read];
                object.content.read(*offset, &mut bytes);
                if *length > 0 {
                    tree.accessed(id);
                }
                Ok(Answer::Bytes(bytes))
            }
            _ => Ok(Answer::Done),
        }
    }
}

/// What the engine is asked for.
fn change(touch: &Touch) -> Change {
    Change {
        permissions: touch.permissions,
        uid: touch.uid,
        gid: touch.gid,
        access_time: touch.access_time,
        modify_time: touch.modify_time,
        change_time: None,
    }
}
