//! What comes next in a life: drawn from a seed alone, never from what a tree answered.

use std::collections::VecDeque;

use rustix::fs::{FallocateFlags, FileType, IFlags, OFlags, RenameFlags, XattrFlags};

use super::caller::{USERS, Users};
use super::operation::{Bytes, Call, Links, Operation, Place, SLOTS, SetTime, Synced, User};
use crate::numbers::Numbers;

/// How many operations a path that was made immutable or append-only stays so.
const FROZEN_FOR: usize = 12;

/// Operations after which the folders are made once more.
const RENEW_EVERY: u64 = 80;

/// The folders of a life, the last ones first.
fn folders() -> Vec<Vec<u8>> {
    let deep = |folder| (0..2).map(move |number| format!("d{folder}/e{number}").into_bytes());
    let mut folders: Vec<Vec<u8>> = (0..3).flat_map(deep).collect();
    folders.extend((0..3).map(|folder| format!("d{folder}").into_bytes()));
    folders
}

/// The operations of one seed, without end.
pub struct Draw {
    numbers: Numbers,
    users: Users,
    /// How many were drawn.
    drawn: u64,
    /// Paths whose flags are taken away again, with the operations until then.
    frozen: VecDeque<(usize, Bytes)>,
    /// Folders that are made next.
    beginning: Vec<Vec<u8>>,
}

impl Draw {
    /// The operations of this seed, made by these users.
    pub fn new(seed: u64, users: Users) -> Draw {
        let numbers = Numbers::new(seed);
        Draw { numbers, users, drawn: 0, frozen: VecDeque::new(), beginning: folders() }
    }

    /// The next one.
    pub fn next(&mut self) -> Operation {
        self.drawn += 1;
        // Folders get lost, and with them most of what a life can do.
        if self.beginning.is_empty() && self.drawn.is_multiple_of(RENEW_EVERY) {
            self.beginning = folders();
        }
        if let Some(path) = self.beginning.pop() {
            let call = Call::MakeDirectory { path: Bytes(path), mode: 0o777 };
            return Operation { user: 0, call };
        }
        self.frozen.iter_mut().for_each(|(left, _)| *left = left.saturating_sub(1));
        if self.frozen.front().is_some_and(|(left, _)| *left == 0) {
            let path = self.frozen.pop_front().map_or_else(|| Bytes(Vec::new()), |(_, path)| path);
            let clear = IFlags::IMMUTABLE | IFlags::APPEND;
            return Operation {
                user: 0,
                call: Call::SetFlags { path, set: IFlags::empty(), clear },
            };
        }
        let user = self.user();
        let call = match self.numbers.below(100) {
            0..=17 => self.open(),
            18..=47 => self.on_slot(),
            48..=69 => self.on_name(),
            72..=89 => self.on_metadata(),
            _ => self.look(),
        };
        Operation { user, call }
    }

    /// Mostly the superuser: what others may not do makes no tree grow.
    fn user(&mut self) -> User {
        match self.users {
            Users::One => 0,
            Users::Many => match self.numbers.below(2) {
                0 => 0,
                _ => self.numbers.below(USERS.len() as u64) as User,
            },
        }
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.numbers.below(count) == 0
    }

    fn name(&mut self, kind: &str, count: u64) -> Vec<u8> {
        let number = self.numbers.below(count);
        let name = format!("{kind}{number}").into_bytes();
        match self.numbers.below(150) {
            // The longest name there is, one byte more, and bytes that are no text.
            0 => [name, vec![b'x'; 253]].concat(),
            1 => [name, vec![b'y'; 254]].concat(),
            2 => [name, vec![0xff, 0xc3, b' ', b'\n']].concat(),
            _ => name,
        }
    }

    fn folder(&mut self) -> Vec<u8> {
        match self.numbers.below(8) {
            0 => Vec::new(),
            1..=4 => self.name("d", 3),
            _ => [self.name("d", 3), b"/".to_vec(), self.name("e", 2)].concat(),
        }
    }

    /// Of few places, so that operations meet.
    fn path(&mut self) -> Bytes {
        Bytes(self.draw_path())
    }

    fn draw_path(&mut self) -> Vec<u8> {
        let mut path = self.folder();
        if path.is_empty() || !self.one_in(6) {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend(self.name("f", 9));
        }
        match self.numbers.below(200) {
            0 => path.push(b'/'),
            // Leads out of the folder that a life has for itself at most to the root of the volume:
            // no target of a symbolic link goes up.
            1 => path.extend(b"/.."),
            2 => path.extend(b"/."),
            3 => path.extend(b"/f1"),
            _ => {}
        }
        path
    }

    fn slot(&mut self) -> usize {
        self.numbers.below(SLOTS as u64) as usize
    }

    fn offset(&mut self) -> u64 {
        match self.numbers.below(12) {
            0 => self.numbers.below(64 << 20),
            1..=3 => self.numbers.below(64) * 4096,
            4..=6 => self.numbers.below(6000),
            _ => self.numbers.below(200_000),
        }
    }

    fn length(&mut self) -> usize {
        match self.numbers.below(12) {
            0 => 0,
            1 => self.numbers.below(300_000) as usize,
            2..=4 => 4096 * (1 + self.numbers.below(8) as usize),
            5..=7 => self.numbers.below(200) as usize,
            _ => self.numbers.below(10_000) as usize,
        }
    }

    /// Without the sticky bit where one user has a mount: FUSE hides it from the kernel then, which
    /// would judge by it who may remove or open what.
    fn mode(&mut self) -> u32 {
        const STICKY: u32 = 0o1000;
        let mode = self.any_mode();
        if self.users == Users::One { mode & !STICKY } else { mode }
    }

    fn any_mode(&mut self) -> u32 {
        match self.numbers.below(6) {
            0 => self.numbers.below(0o10000) as u32,
            1 => 0o777,
            2 => 0o1777,
            3 => 0o2775,
            _ => 0o600 | self.numbers.below(0o200) as u32,
        }
    }

    fn links(&mut self) -> Links {
        if self.one_in(3) { Links::Stay } else { Links::Follow }
    }

    fn open(&mut self) -> Call {
        let access = [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR, OFlags::RDWR, OFlags::RDWR];
        let mut flags = access[self.numbers.below(5) as usize] | OFlags::NONBLOCK;
        let rare = [
            (OFlags::NOATIME, 30),
            (OFlags::EXCL, 9),
            (OFlags::TRUNC, 7),
            (OFlags::APPEND, 7),
            (OFlags::NOFOLLOW, 12),
            (OFlags::DIRECTORY, 25),
            (OFlags::DSYNC, 25),
            (OFlags::DIRECT, 10),
        ];
        if !self.one_in(4) {
            flags |= OFlags::CREATE;
        }
        for (flag, count) in rare {
            if self.one_in(count) {
                flags |= flag;
            }
        }
        if flags.contains(OFlags::DIRECT) {
            // It would write at the end of the file, which is no multiple of a sector.
            flags -= OFlags::APPEND;
        }
        let path = if self.one_in(8) {
            flags -= OFlags::CREATE | OFlags::EXCL | OFlags::DIRECTORY;
            flags |= OFlags::TMPFILE;
            if self.one_in(4) {
                flags |= OFlags::EXCL;
            }
            Bytes(self.folder())
        } else {
            self.path()
        };
        Call::Open { slot: self.slot(), path, flags, mode: self.mode() }
    }

    fn on_slot(&mut self) -> Call {
        let slot = self.slot();
        let (offset, length) = (self.offset(), self.length());
        match self.numbers.below(32) {
            0 => Call::Close { slot },
            1..=4 => Call::Read { slot, length },
            5..=9 => Call::Write { slot, length, seed: self.numbers.draw() },
            10..=13 => Call::ReadAt { slot, offset, length },
            14..=19 => Call::WriteAt { slot, offset, length, seed: self.numbers.draw() },
            20 => Call::Seek { slot, to: self.place() },
            21 if self.one_in(2) => Call::Ranges { slot },
            21 => Call::StatOpen { slot },
            22 | 23 => Call::TruncateOpen { slot, length: offset },
            24..=26 => {
                Call::Allocate { slot, mode: self.allocation(), offset, length: length as u64 }
            }
            27 => {
                let (to, to_offset) = (self.slot(), self.offset());
                Call::CopyRange { from: slot, from_offset: offset, to, to_offset, length }
            }
            28 if self.one_in(2) => {
                let kind = if self.one_in(2) { Synced::All } else { Synced::Data };
                Call::Sync { slot, kind }
            }
            28 | 29 => Call::LinkOpen { slot, path: self.path() },
            30 => Call::ChangeModeOpen { slot, mode: self.mode() },
            _ if self.one_in(2) => {
                Call::MapRead { path: self.path(), offset, length: 1 + length as u64 }
            }
            _ => {
                let byte = self.numbers.below(256) as u8;
                Call::MapWrite { path: self.path(), offset, length: 1 + length as u64, byte }
            }
        }
    }

    /// The modes that FUSE forwards; the others are refused by it (see `differences`).
    fn allocation(&mut self) -> FallocateFlags {
        match self.numbers.below(8) {
            0 | 1 => FallocateFlags::empty(),
            2 => FallocateFlags::KEEP_SIZE,
            3..=5 => FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE,
            6 => FallocateFlags::ZERO_RANGE,
            _ => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        }
    }

    fn place(&mut self) -> Place {
        let offset = self.offset();
        match self.numbers.below(4) {
            0 | 1 => Place::Start(offset),
            2 => Place::Current(offset.cast_signed() - 100_000),
            _ => Place::End(offset.cast_signed() - 100_000),
        }
    }

    fn on_name(&mut self) -> Call {
        match self.numbers.below(28) {
            0..=5 => {
                let flags = match self.numbers.below(8) {
                    0 => RenameFlags::EXCHANGE,
                    1 => RenameFlags::NOREPLACE,
                    2 => RenameFlags::WHITEOUT,
                    _ => RenameFlags::empty(),
                };
                Call::Rename { from: self.path(), to: self.path(), flags }
            }
            6..=9 => Call::Link { from: self.path(), to: self.path(), links: self.links() },
            10 | 11 => {
                let target = match self.numbers.below(6) {
                    // Beyond 59 bytes it has a block of its own.
                    0 => vec![b't'; 1 + self.numbers.below(300) as usize],
                    1 => self.name("f", 9),
                    _ => self.draw_path(),
                };
                let target = target.strip_suffix(b"/..").map(<[u8]>::to_vec).unwrap_or(target);
                Call::SymbolicLink { target: Bytes(target), path: self.path() }
            }
            12..=15 => Call::Unlink { path: self.path() },
            16 => Call::RemoveDirectory { path: self.any_folder() },
            17..=23 => Call::MakeDirectory { path: self.any_folder(), mode: self.mode() },
            24 | 25 => self.make_node(),
            _ => Call::Truncate { path: self.path(), length: self.offset() },
        }
    }

    fn any_folder(&mut self) -> Bytes {
        if self.one_in(6) { self.path() } else { Bytes(self.folder()) }
    }

    fn make_node(&mut self) -> Call {
        let kinds = [
            FileType::Fifo,
            FileType::Socket,
            FileType::RegularFile,
            FileType::CharacterDevice,
            FileType::BlockDevice,
        ];
        let kind = kinds[self.numbers.below(5) as usize];
        let has_numbers = matches!(kind, FileType::CharacterDevice | FileType::BlockDevice);
        let device = match self.numbers.below(3) {
            _ if !has_numbers => (0, 0),
            0 => (0, 0),
            // With more bits than the old form of such numbers has.
            1 => (700, 70_000),
            _ => (1, 3),
        };
        Call::MakeNode { path: self.path(), kind, mode: self.mode(), device }
    }

    fn on_metadata(&mut self) -> Call {
        match self.numbers.below(24) {
            0..=4 => Call::ChangeMode { path: self.path(), mode: self.mode() },
            5..=7 => {
                let mut owner = || match self.numbers.below(6) {
                    0 => None,
                    1 => Some(70_000),
                    other => USERS.get(other as usize - 2).map(|user| user.uid),
                };
                let (mut uid, gid) = (owner(), owner());
                if self.users == Users::Many {
                    // One that names nobody is refused to strangers, if it would end rights. FUSE
                    // hands it on like the end of rights by a write, which is not.
                    uid = uid.or(Some(0));
                }
                Call::ChangeOwner { path: self.path(), uid, gid, links: self.links() }
            }
            8..=11 => {
                let (accessed, modified) = (self.time(), self.time());
                Call::SetTimes { path: self.path(), accessed, modified, links: self.links() }
            }
            12..=17 => self.set_attribute(),
            18 | 19 => Call::RemoveAttribute { path: self.path(), name: self.attribute_name() },
            20 => self.set_flags(),
            _ => Call::SetAttribute {
                path: self.path(),
                name: if self.one_in(3) {
                    Bytes(b"system.posix_acl_default".to_vec())
                } else {
                    Bytes(b"system.posix_acl_access".to_vec())
                },
                value: self.access_list(),
                flags: XattrFlags::empty(),
            },
        }
    }

    /// Before the life began, or now: so that what sets a time and should not is seen.
    fn time(&mut self) -> SetTime {
        match self.numbers.below(6) {
            0 => SetTime::Keep,
            1 => SetTime::Now,
            2 => SetTime::At(self.numbers.below(1 << 31).cast_signed() - (1 << 31), 0),
            _ => {
                let seconds = self.numbers.below(1 << 30).cast_signed();
                SetTime::At(seconds, self.numbers.below(1_000_000_000) as u32)
            }
        }
    }

    fn attribute_name(&mut self) -> Bytes {
        let spaces = ["user", "user", "user", "trusted", "security", "system", "nothing"];
        let space = spaces[self.numbers.below(7) as usize];
        let number = self.numbers.below(4);
        let name = match self.numbers.below(12) {
            0 => format!("{space}.{}", "n".repeat(250 - space.len())).into_bytes(),
            1 => format!("{space}.").into_bytes(),
            _ => format!("{space}.a{number}").into_bytes(),
        };
        Bytes(name)
    }

    fn set_attribute(&mut self) -> Call {
        // All of them together fit into a block of 1 KiB, or a single one into none: what lies
        // between depends on how they are packed.
        let length = match self.numbers.below(8) {
            0 => 5000 + self.numbers.below(66_000),
            // Never the value that is there: ext4 then changes nothing, and FUSE's kernel the time.
            _ => 8 + self.numbers.below(16),
        };
        let flags = match self.numbers.below(6) {
            0 => XattrFlags::CREATE,
            1 => XattrFlags::REPLACE,
            _ => XattrFlags::empty(),
        };
        let mut name = self.attribute_name();
        if name.len() > 64 {
            name.0.extend(b"longer than any");
        }
        let value = Bytes(self.numbers.bytes(length as usize));
        Call::SetAttribute { path: self.path(), name, value, flags }
    }

    /// An access list as the kernel takes it; now and then one that is none.
    fn access_list(&mut self) -> Bytes {
        const OWNER: u16 = 0x01;
        const USER: u16 = 0x02;
        const GROUP: u16 = 0x04;
        const NAMED_GROUP: u16 = 0x08;
        const MASK: u16 = 0x10;
        const OTHER: u16 = 0x20;
        const NO_ID: u32 = u32::MAX;
        let mut rights = || self.numbers.below(8) as u16;
        let mut entries = vec![(OWNER, rights(), NO_ID)];
        let (user, group) = (rights(), rights());
        let has_named = rights() > 2;
        if has_named {
            entries.push((USER, user, USERS[1].uid));
        }
        entries.push((GROUP, rights(), NO_ID));
        if has_named {
            entries.push((NAMED_GROUP, group, 3000));
            entries.push((MASK, rights(), NO_ID));
        }
        entries.push((OTHER, rights(), NO_ID));
        if self.one_in(12) {
            entries.pop();
        }
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, rights, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(rights.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        Bytes(bytes)
    }

    fn set_flags(&mut self) -> Call {
        let kept = [IFlags::NODUMP, IFlags::NOATIME];
        // Of a folder: when a file changed, the kernel above FUSE keeps itself.
        let path = Bytes([self.name("d", 3), b"/".to_vec(), self.name("e", 2)].concat());
        let flag = kept[self.numbers.below(2) as usize];
        match self.numbers.below(8) {
            0 | 1 => {
                let set = if self.one_in(2) { IFlags::IMMUTABLE } else { IFlags::APPEND };
                // A folder: of a file that is open, the kernel's cache takes what it is written.
                self.frozen.push_back((FROZEN_FOR, path.clone()));
                Call::SetFlags { path, set, clear: IFlags::empty() }
            }
            2 | 3 => Call::SetFlags { path, set: IFlags::empty(), clear: flag },
            _ => Call::SetFlags { path, set: flag, clear: IFlags::empty() },
        }
    }

    fn look(&mut self) -> Call {
        let path = self.path();
        match self.numbers.below(24) {
            0..=7 => Call::Stat { path, links: self.links() },
            8..=10 => Call::Access { path, bits: self.numbers.below(8) as i32 },
            11 | 12 => Call::ReadLink { path },
            13..=15 => Call::GetAttribute { path, name: self.attribute_name() },
            16 => Call::GetAttribute { path, name: Bytes(b"system.posix_acl_access".to_vec()) },
            17 | 18 => Call::ListAttributes { path },
            19 | 20 => Call::List { path: self.any_folder() },
            21 => {
                let after = self.numbers.below(12) as usize;
                Call::ListFrom { path: self.any_folder(), after }
            }
            22 => Call::GetFlags { path },
            _ => Call::StatVolume,
        }
    }
}
