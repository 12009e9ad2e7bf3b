//! Operations made at random, with an eye on what is there.

use crate::model::operation::{Bytes, Operation, Path, SLOTS, Target};
use crate::model::rules::FLAGS;
use crate::model::tree::{Follow, Touch, Tree};
use crate::volume::Random;
use extant_engine::{Rename, SetAttribute, Size};
use extant_format::inode::flags::{APPEND, IMMUTABLE, NOATIME, NODUMP};
use extant_format::inode::{Device, FileType, Time};

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

    fn existing(
        &mut self,
        tree: &Tree,
        wanted: impl Fn(&crate::model::tree::Object) -> bool,
    ) -> Vec<u8> {
        let paths = tree.paths();
        let found: Vec<&Vec<u8>> =
            paths.iter().filter(|(_, id)| wanted(tree.object(*id))).map(|(path, _)| path).collect();
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

    /// A range of a file is changed; what moves bytes is mostly at boundaries of blocks.
    fn range(&mut self, tree: &Tree, offset: u64, length: u64) -> Operation {
        let target = self.target(tree);
        let block_size = tree.limits.block_size;
        let size = if self.random.one_in(2) { Size::Grow } else { Size::Keep };
        let (from, blocks) = match self.random.one_in(8) {
            true => (offset, length),
            false => {
                (offset / block_size * block_size, length.min(1 << 40).next_multiple_of(block_size))
            }
        };
        match self.random.below(4) {
            0 => Operation::Zero { target, offset, length: length.min(1 << 20), size },
            1 => Operation::Collapse { target, offset: from, length: blocks },
            2 => Operation::Insert { target, offset: from, length: blocks },
            _ => Operation::Punch { target, offset, length },
        }
    }

    fn time(&mut self) -> Option<Time> {
        let random = &mut self.random;
        let seconds = match random.below(3) {
            0 => random.below(1 << 31) as i64,
            1 => -(random.below(1 << 31) as i64),
            // e2fsck takes times after 2310 for mistakes.
            _ => random.below(10_700_000_000) as i64,
        };
        random.one_in(2).then(|| Time { seconds, nanoseconds: random.below(1_000_000_000) as u32 })
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
                Operation::Symlink { target: Path(target), path }
            }
            4 => {
                let kinds = [
                    FileType::Fifo,
                    FileType::Socket,
                    FileType::CharacterDevice,
                    FileType::BlockDevice,
                ];
                let (major, minor) =
                    (self.random.below(1 << 12) as u32, self.random.below(1 << 20) as u32);
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
            let names =
                tree.resolve(&directory, Follow::Last).ok().map(|id| &tree.object(id).names);
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
            self.planned.push(Operation::Make { path, kind, permissions: 0o644, device });
        }
    }

    /// Many small pieces of one file, one after the other: maps with many entries.
    fn plan_pieces(&mut self, tree: &Tree) {
        let target = Target::Path(self.file(tree));
        let (start, step) =
            (self.offset(tree) / 2, (1 + self.random.below(3)) * tree.limits.block_size);
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
                true => Operation::Punch { target: target.clone(), offset, length: step / 2 + 1 },
                false => Operation::Write { target: target.clone(), offset, bytes },
            });
        }
    }

    /// Flags for an object, operations of all kinds, and the flags away again, most of the time.
    fn plan_flags(&mut self, tree: &Tree) -> Operation {
        let path = self.anything(tree);
        if !self.random.one_in(4) {
            self.planned.push(Operation::Flags { path: path.clone(), set: 0, clear: FLAGS });
        }
        for _ in 0..self.random.below(12) {
            let operation = self.draw(tree);
            self.planned.push(operation);
        }
        let set = *self.random.pick(&[IMMUTABLE, APPEND, IMMUTABLE | APPEND, NOATIME, NODUMP]);
        let clear = self.random.next() as u32 & FLAGS;
        Operation::Flags { path, set, clear }
    }

    pub fn next(&mut self, tree: &Tree) -> Operation {
        match self.planned.pop() {
            Some(operation) => operation,
            None => self.draw(tree),
        }
    }

    fn draw(&mut self, tree: &Tree) -> Operation {
        let slot = self.random.below(SLOTS as u64) as usize;
        match self.random.below(105) {
            0..=14 => self.make(tree),
            15..=18 => Operation::Link { original: self.anything(tree), path: self.new_path(tree) },
            19..=23 => Operation::Unlink(self.anything(tree)),
            24..=26 => Operation::RemoveDirectory(Path(self.directory(tree))),
            27..=34 => {
                let hows =
                    [Rename::Replace, Rename::KeepTarget, Rename::Exchange, Rename::Whiteout];
                let how = *self.random.pick(&hows);
                let to =
                    if self.random.one_in(2) { self.anything(tree) } else { self.new_path(tree) };
                Operation::Rename { from: self.anything(tree), to, how }
            }
            35..=36 => Operation::Open { path: self.file(tree), slot },
            37 => Operation::Close { slot },
            38..=54 => {
                let (target, offset) = (self.target(tree), self.offset(tree));
                Operation::Write {
                    target,
                    offset,
                    bytes: Bytes { seed: self.random.next(), length: self.length(tree) },
                }
            }
            55..=60 => {
                let size = self.offset(tree);
                Operation::Truncate { target: self.target(tree), size }
            }
            61..=64 => {
                let size = if self.random.one_in(2) { Size::Grow } else { Size::Keep };
                let (offset, length) = (self.offset(tree), self.length(tree) as u64);
                Operation::Allocate { target: self.target(tree), offset, length, size }
            }
            65..=69 => {
                let (offset, length) = (self.offset(tree), self.length(tree) as u64);
                let length = if self.random.one_in(10) { u64::MAX } else { length };
                self.range(tree, offset, length)
            }
            70..=74 => Operation::Read {
                offset: self.offset(tree),
                length: self.length(tree),
                target: self.target(tree),
            },
            75..=81 => self.set_attribute(tree),
            82..=84 => {
                Operation::RemoveAttribute { path: self.anything(tree), name: self.attribute() }
            }
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
                Operation::Change { path: self.anything(tree), touch }
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
            99..=100 => self.plan_flags(tree),
            101 => Operation::List(Path(self.directory(tree))),
            102 => Operation::ReadLink(Path(
                self.existing(tree, |object| object.kind == FileType::Symlink),
            )),
            103 => Operation::ReadLink(self.anything(tree)),
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
        let kind = tree.resolve(&path.0, Follow::NotLast).ok().map(|id| tree.object(id).kind);
        if !matches!(kind, Some(FileType::Regular | FileType::Directory))
            && name.0.starts_with(b"user.")
        {
            // The kernel lists such a name, and denies that it is there.
            name.0.splice(..4, *b"trusted");
        }
        let random = &mut self.random;
        let length = match random.below(4) {
            0 => random.below(16),
            1 => random.below(100),
            2 => random.below(tree.limits.block_size),
            3 if tree.limits.has_large_values => random.below(65_537),
            _ => random.below(40),
        } as usize;
        let hows =
            [SetAttribute::Any, SetAttribute::Any, SetAttribute::Create, SetAttribute::Replace];
        let (how, value) = (*random.pick(&hows), Bytes { seed: random.next(), length });
        Operation::SetAttribute { path, name, value, how }
    }
}
