//! Operations: made at random with an eye on what is there, done to the engine, done to the model.

use crate::tree::{Follow, Id, Outcome, Touch, Tree};
use crate::volume::Random;
use extant_engine::{Change, File, Filesystem, Rename, Result, SetAttribute, Size};
use extant_format::inode::{Device, FileType, Time};
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

/// Open files are kept in so many slots.
pub const SLOTS: usize = 4;

/// Which file an operation is done to.
#[derive(Clone, Debug)]
pub enum Target {
    Path(Path),
    Slot(usize),
}

#[derive(Clone, Debug)]
pub enum Operation {
    Make {
        path: Path,
        kind: FileType,
        permissions: u16,
        device: Device,
    },
    Directory {
        path: Path,
        permissions: u16,
    },
    Symlink {
        target: Path,
        path: Path,
    },
    Link {
        original: Path,
        path: Path,
    },
    Unlink(Path),
    RemoveDirectory(Path),
    Rename {
        from: Path,
        to: Path,
        how: Rename,
    },
    Open {
        path: Path,
        slot: usize,
    },
    Close {
        slot: usize,
    },
    Write {
        target: Target,
        offset: u64,
        bytes: Bytes,
    },
    Truncate {
        target: Target,
        size: u64,
    },
    Allocate {
        target: Target,
        offset: u64,
        length: u64,
        size: Size,
    },
    Punch {
        target: Target,
        offset: u64,
        length: u64,
    },
    Read {
        target: Target,
        offset: u64,
        length: usize,
    },
    SetAttribute {
        path: Path,
        name: Path,
        value: Bytes,
        how: SetAttribute,
    },
    RemoveAttribute {
        path: Path,
        name: Path,
    },
    Change {
        path: Path,
        touch: Touch,
    },
    Stat(Path),
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
            Operation::Read { .. } => "read",
            Operation::SetAttribute { .. } => "set attribute",
            Operation::RemoveAttribute { .. } => "remove attribute",
            Operation::Change { .. } => "change",
            Operation::Stat(_) => "stat",
            Operation::Sync => "sync",
            Operation::Reopen => "reopen",
        }
    }

    /// Blocks that it may need, and more: with less room than this, `ENOSPC` is believed.
    pub fn blocks_max(&self, block_size: u64) -> u64 {
        let bytes = match self {
            Operation::Write { bytes, .. } => bytes.length as u64,
            Operation::Allocate { length, .. } => *length,
            _ => 0,
        };
        16 * (bytes / block_size + 2) + 64
    }

    /// Does it to the engine; `None` when there is nothing to do it to.
    pub fn run(&self, volume: &Filesystem, slots: &mut Slots) -> Option<Result<Answer>> {
        let done = |()| Answer::Done;
        Some(match self {
            Operation::Make {
                path,
                kind,
                permissions,
                device,
            } => volume.make_node(path, *kind, *permissions, *device).map(done),
            Operation::Directory { path, permissions } => volume.create_dir(path, *permissions).map(done),
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
            Operation::Allocate {
                target,
                offset,
                length,
                size,
            } => {
                return on_file(volume, slots, target, |file| {
                    file.allocate(*offset, *length, *size).map(done)
                });
            }
            Operation::Punch { target, offset, length } => {
                return on_file(volume, slots, target, |file| {
                    file.punch_hole(*offset, *length).map(done)
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
            Operation::RemoveAttribute { path, name } => volume.remove_attribute(path, &name.0).map(done),
            Operation::Change { path, touch } => volume.change(path, &change(touch)).map(done),
            Operation::Stat(path) => volume
                .metadata(path)
                .map(|metadata| Answer::Length(metadata.links.into())),
            Operation::Sync => volume.sync().map(done),
            Operation::Reopen => return None,
        })
    }

    /// Does it to the model.
    pub fn model(&self, tree: &mut Tree, slots: &mut Slots) -> Outcome<Answer> {
        let done = |()| Answer::Done;
        match self {
            Operation::Make {
                path,
                kind,
                permissions,
                device,
            } => tree
                .make(&path.0, *kind, *permissions, *device, b"")
                .map(|_| Answer::Done),
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
            Operation::RemoveAttribute { path, name } => tree.remove_attribute(&path.0, &name.0).map(done),
            Operation::Change { path, touch } => tree.change(&path.0, touch).map(done),
            Operation::Stat(path) => {
                let id = tree.resolve(&path.0, Follow::Last)?;
                Ok(Answer::Length(tree.object(id).links.into()))
            }
            Operation::Write { target, .. }
            | Operation::Truncate { target, .. }
            | Operation::Allocate { target, .. }
            | Operation::Punch { target, .. }
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
            Operation::Write { offset, bytes, .. } => tree.write(id, *offset, &bytes.make()).map(Answer::Count),
            Operation::Truncate { size, .. } => tree.truncate(id, *size).map(done),
            Operation::Allocate {
                offset, length, size, ..
            } => tree.allocate(id, *offset, *length, *size).map(done),
            Operation::Punch { offset, length, .. } => tree.punch(id, *offset, *length).map(done),
            Operation::Read { offset, length, .. } => {
                let object = tree.object(id);
                if object.kind != FileType::Regular {
                    return Err(crate::tree::EINVAL);
                }
                let length = object.size.saturating_sub(*offset).min(*length as u64) as usize;
                let mut bytes = vec![0; length];
                object.content.read(*offset, &mut bytes);
                Ok(Answer::Bytes(bytes))
            }
            _ => Ok(Answer::Done),
        }
    }
}

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

/// Makes operations.
pub struct Generator {
    pub random: Random,
    /// Operations that were decided on already.
    pub planned: Vec<Operation>,
}

impl Generator {
    fn name(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let number = random.below(40);
        match random.below(20) {
            0 => vec![b'n'; 255],
            1 => vec![b'm'; 256],
            2 => format!("{:0>200}", number).into_bytes(),
            3 => b"..".to_vec(),
            4 => vec![0xff, 0xfe, b'0' + (number % 10) as u8],
            5..=9 => format!("name of some length {number}").into_bytes(),
            _ => format!("n{number}").into_bytes(),
        }
    }

    fn existing(&mut self, tree: &Tree, wanted: impl Fn(&crate::tree::Object) -> bool) -> Vec<u8> {
        let paths = tree.paths();
        let found: Vec<&Vec<u8>> = paths
            .iter()
            .filter(|(_, id)| wanted(tree.object(*id)))
            .map(|(path, _)| path)
            .collect();
        match found.is_empty() {
            true => b"/".to_vec(),
            false => self.random.pick(&found).to_vec(),
        }
    }

    fn anything(&mut self, tree: &Tree) -> Path {
        let mut path = self.existing(tree, |_| true);
        match self.random.below(24) {
            0 => path.push(b'/'),
            1 => path.extend(b"/."),
            2 => path.extend(b"/.."),
            3 => path = self.new_path(tree).0,
            _ => {}
        }
        Path(path)
    }

    fn file(&mut self, tree: &Tree) -> Path {
        if self.random.one_in(20) {
            return self.anything(tree);
        }
        Path(self.existing(tree, |object| object.kind == FileType::Regular))
    }

    fn directory(&mut self, tree: &Tree) -> Vec<u8> {
        if self.random.one_in(20) {
            return self.anything(tree).0;
        }
        self.existing(tree, |object| object.is_directory())
    }

    fn new_path(&mut self, tree: &Tree) -> Path {
        let directory = self.directory(tree);
        let name = self.name();
        let mut path = [directory.as_slice(), b"/", name.as_slice()].concat();
        if self.random.one_in(30) {
            path.push(b'/');
        }
        Path(path)
    }

    fn target(&mut self, tree: &Tree) -> Target {
        match self.random.one_in(4) {
            true => Target::Slot(self.random.below(SLOTS as u64) as usize),
            false => Target::Path(self.file(tree)),
        }
    }

    fn offset(&mut self, tree: &Tree) -> u64 {
        let (block_size, size_max) = (tree.limits.block_size, tree.limits.size_max);
        let random = &mut self.random;
        match random.below(12) {
            0 => 0,
            1 => random.below(block_size),
            2 => random.below(20) * block_size,
            3 => {
                let bits = 1 + random.below(40);
                random.below(1 << bits)
            }
            4 => size_max - random.below(2 * block_size).min(size_max),
            5 => size_max.saturating_add(random.below(100)),
            _ => random.below(40 * block_size),
        }
    }

    fn length(&mut self, tree: &Tree) -> usize {
        let block_size = tree.limits.block_size;
        let random = &mut self.random;
        let length = match random.below(8) {
            0 => random.below(8),
            1 => block_size,
            2 => random.below(block_size),
            3 => random.below(60 * block_size),
            _ => random.below(6 * block_size),
        };
        length.min(2 << 20) as usize
    }

    fn time(&mut self) -> Option<Time> {
        let random = &mut self.random;
        let seconds = match random.below(3) {
            0 => random.below(1 << 31) as i64,
            1 => -(random.below(1 << 31) as i64),
            // e2fsck takes times behind 2310 for mistakes.
            _ => random.below(10_700_000_000) as i64,
        };
        random.one_in(2).then(|| Time {
            seconds,
            nanoseconds: random.below(1_000_000_000) as u32,
        })
    }

    fn make(&mut self, tree: &Tree) -> Operation {
        let path = self.new_path(tree);
        let permissions = self.random.below(0o10000) as u16;
        match self.random.below(12) {
            0..=2 => Operation::Directory { path, permissions },
            3 => {
                let target = match self.random.below(4) {
                    0 => self.name(),
                    1 => vec![b't'; self.random.below(2 * tree.limits.block_size) as usize],
                    2 => vec![b't'; self.random.below(70) as usize],
                    _ => self.anything(tree).0,
                };
                Operation::Symlink {
                    target: Path(target),
                    path,
                }
            }
            4 => {
                let kinds = [
                    FileType::Fifo,
                    FileType::Socket,
                    FileType::CharacterDevice,
                    FileType::BlockDevice,
                ];
                let (major, minor) = (self.random.below(1 << 12) as u32, self.random.below(1 << 20) as u32);
                Operation::Make {
                    path,
                    kind: *self.random.pick(&kinds),
                    permissions,
                    device: Device { major, minor },
                }
            }
            _ => Operation::Make {
                path,
                kind: FileType::Regular,
                permissions,
                device: Device::default(),
            },
        }
    }

    /// Many names in one directory, or most of them away again.
    fn plan_burst(&mut self, tree: &Tree) {
        let directory = self.directory(tree);
        let count = self.random.below(120);
        if self.random.one_in(2) {
            let names = tree
                .resolve(&directory, Follow::Last)
                .ok()
                .map(|id| &tree.object(id).names);
            let names: Vec<&Vec<u8>> = names.into_iter().flat_map(|names| names.keys()).collect();
            for name in names.into_iter().take(count as usize) {
                self.planned
                    .push(Operation::Unlink(Path([directory.as_slice(), b"/", name].concat())));
            }
            return;
        }
        let (width, salt) = (self.random.below(60) as usize, self.random.below(100));
        for number in 0..count {
            let name = format!("{salt}-{number:0>width$}");
            let path = Path([directory.as_slice(), b"/", name.as_bytes()].concat());
            let (kind, device) = (FileType::Regular, Device::default());
            self.planned.push(Operation::Make {
                path,
                kind,
                permissions: 0o644,
                device,
            });
        }
    }

    /// Many small pieces of one file, one after the other: maps with many entries.
    fn plan_pieces(&mut self, tree: &Tree) {
        let target = Target::Path(self.file(tree));
        let (start, step) = (
            self.offset(tree) / 2,
            (1 + self.random.below(3)) * tree.limits.block_size,
        );
        let (count, is_falling) = (self.random.below(60), self.random.one_in(2));
        let punches = self.random.one_in(3);
        for number in 0..count {
            let number = if is_falling { count - number } else { number };
            let offset = start + number * step;
            let bytes = Bytes {
                seed: number,
                length: 1 + self.random.below(tree.limits.block_size) as usize,
            };
            self.planned.push(match punches {
                true => Operation::Punch {
                    target: target.clone(),
                    offset,
                    length: step / 2 + 1,
                },
                false => Operation::Write {
                    target: target.clone(),
                    offset,
                    bytes,
                },
            });
        }
    }

    pub fn next(&mut self, tree: &Tree) -> Operation {
        if let Some(operation) = self.planned.pop() {
            return operation;
        }
        let slot = self.random.below(SLOTS as u64) as usize;
        match self.random.below(100) {
            0..=14 => self.make(tree),
            15..=18 => Operation::Link {
                original: self.anything(tree),
                path: self.new_path(tree),
            },
            19..=23 => Operation::Unlink(self.anything(tree)),
            24..=26 => Operation::RemoveDirectory(Path(self.directory(tree))),
            27..=34 => {
                let hows = [Rename::Replace, Rename::KeepTarget, Rename::Exchange, Rename::Whiteout];
                let how = *self.random.pick(&hows);
                let to = if self.random.one_in(2) {
                    self.anything(tree)
                } else {
                    self.new_path(tree)
                };
                Operation::Rename {
                    from: self.anything(tree),
                    to,
                    how,
                }
            }
            35..=36 => Operation::Open {
                path: self.file(tree),
                slot,
            },
            37 => Operation::Close { slot },
            38..=54 => {
                let (target, offset) = (self.target(tree), self.offset(tree));
                Operation::Write {
                    target,
                    offset,
                    bytes: Bytes {
                        seed: self.random.next(),
                        length: self.length(tree),
                    },
                }
            }
            55..=60 => {
                let size = self.offset(tree);
                Operation::Truncate {
                    target: self.target(tree),
                    size,
                }
            }
            61..=64 => {
                let size = if self.random.one_in(2) { Size::Grow } else { Size::Keep };
                let (offset, length) = (self.offset(tree), self.length(tree) as u64);
                Operation::Allocate {
                    target: self.target(tree),
                    offset,
                    length,
                    size,
                }
            }
            65..=69 => {
                let (offset, length) = (self.offset(tree), self.length(tree) as u64);
                let length = if self.random.one_in(10) { u64::MAX } else { length };
                Operation::Punch {
                    target: self.target(tree),
                    offset,
                    length,
                }
            }
            70..=74 => Operation::Read {
                offset: self.offset(tree),
                length: self.length(tree),
                target: self.target(tree),
            },
            75..=81 => self.set_attribute(tree),
            82..=84 => Operation::RemoveAttribute {
                path: self.anything(tree),
                name: self.attribute(),
            },
            85..=89 => {
                let random = &mut self.random;
                let id = random.one_in(2).then(|| random.next() as u32);
                let permissions = random.one_in(2).then(|| random.below(0o10000) as u16);
                let (access_time, modify_time) = (self.time(), self.time());
                let touch = Touch {
                    permissions,
                    uid: id,
                    gid: id.map(|id| id / 3),
                    access_time,
                    modify_time,
                };
                Operation::Change {
                    path: self.anything(tree),
                    touch,
                }
            }
            90..=91 => Operation::Stat(self.anything(tree)),
            92 => Operation::Sync,
            93..=95 => {
                self.plan_burst(tree);
                Operation::Sync
            }
            96..=98 => {
                self.plan_pieces(tree);
                Operation::Stat(Path(b"/".to_vec()))
            }
            _ => Operation::Reopen,
        }
    }

    fn attribute(&mut self) -> Path {
        let random = &mut self.random;
        let number = random.below(6) / 2;
        Path(match random.below(16) {
            0 => b"nothing.known".to_vec(),
            1 => b"user.".to_vec(),
            2 => [b"user.".as_slice(), &[b'x'; 260]].concat(),
            3 => format!("security.n{number}").into_bytes(),
            4 => format!("trusted.overlay.n{number}").into_bytes(),
            _ => format!("user.shared.prefix.n{number}").into_bytes(),
        })
    }

    fn set_attribute(&mut self, tree: &Tree) -> Operation {
        let (path, mut name) = (self.anything(tree), self.attribute());
        let kind = tree
            .resolve(&path.0, Follow::NotLast)
            .ok()
            .map(|id| tree.object(id).kind);
        if !matches!(kind, Some(FileType::Regular | FileType::Directory)) && name.0.starts_with(b"user.") {
            // The kernel lists such a name, and denies that it is there.
            name.0.splice(..4, *b"trusted");
        }
        let random = &mut self.random;
        let length = match random.below(4) {
            0 => random.below(16),
            1 => random.below(100),
            2 => random.below(tree.limits.block_size),
            _ => random.below(40),
        } as usize;
        let hows = [
            SetAttribute::Any,
            SetAttribute::Any,
            SetAttribute::Create,
            SetAttribute::Replace,
        ];
        let (how, value) = (
            *random.pick(&hows),
            Bytes {
                seed: random.next(),
                length,
            },
        );
        Operation::SetAttribute { path, name, value, how }
    }
}
