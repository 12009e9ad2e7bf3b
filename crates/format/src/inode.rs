//! Inodes: 128 bytes and what follows them, as bytes and as values.
//!
//! `RawInode` is the first 128 bytes, `RawExtra` the fixed fields after them; each of the latter
//! means something only where `extra_isize` reaches past it.
mod stored;
mod sum;
mod value;

pub use stored::{StoredInode, is_extra_size_possible};
pub use value::ValueFacts;

use sum::{ChecksumWidth, checksum};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::attribute::inline_rest;
use crate::superblock::{Feature, Superblock};
use crate::{BlockNo, Fault, Ino};

/// Bytes of an inode of ext2, and of the first part of any.
pub const BASE_SIZE: usize = 128;
/// Bytes of the map in an inode, or of what is kept in its place.
pub const MAP_SIZE: usize = 60;
/// Where the map is in an inode, in bytes.
pub const MAP_OFFSET: usize = std::mem::offset_of!(RawInode, block);
/// The least bytes of extra fields, where an inode has any: their own size, and the checksum.
pub const EXTRA_SIZE_MIN: u16 = 4;
/// The largest file of a volume without the feature large_file, in bytes.
pub const SMALL_FILE_MAX: u64 = 0x7fff_ffff;
/// Links of an inode at most. A directory with more says that it has 1 (dir_nlink).
pub const LINKS_MAX: u16 = 65_000;
/// The Hurd, as the creator of a volume: `s_creator_os`.
const HURD: u32 = 1;

/// The first 128 bytes.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawInode {
    mode: U16,
    uid_low: U16,
    size_low: U32,
    access_time: U32,
    change_time: U32,
    modify_time: U32,
    deletion_time: U32,
    gid_low: U16,
    links: U16,
    sectors_low: U32,
    flags: U32,
    version_low: U32,
    block: [u8; MAP_SIZE],
    generation: U32,
    attribute_block_low: U32,
    size_high: U32,
    fragment: U32,
    sectors_high: U16,
    attribute_block_high: U16,
    uid_high: U16,
    gid_high: U16,
    checksum_low: U16,
    reserved: U16,
}

/// The fixed fields after them.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawExtra {
    extra_isize: U16,
    checksum_high: U16,
    change_time_extra: U32,
    modify_time_extra: U32,
    access_time_extra: U32,
    create_time: U32,
    create_time_extra: U32,
    version_high: U32,
    project: U32,
}

/// What `extra_isize` must be at least for those to exist that are not simply zero without it.
mod reach {
    pub const CHECKSUM: u16 = 4;
    pub const CHANGE_TIME: u16 = 8;
    pub const MODIFY_TIME: u16 = 12;
    pub const ACCESS_TIME: u16 = 16;
    pub const CREATE_TIME: u16 = 20;
    pub const CREATE_TIME_EXTRA: u16 = 24;
    pub const PROJECT: u16 = 32;
}

/// Bits of `i_mode` that have a meaning of their own.
pub mod mode {
    /// A program runs as the owner of its file.
    pub const SET_USER_ID: u16 = 0o4000;
    /// A program runs as the group of its file; what is made in a directory gets its group.
    pub const SET_GROUP_ID: u16 = 0o2000;
    /// Names in a directory are removed by their owners alone.
    pub const STICKY: u16 = 0o1000;
    /// The group may execute it. Without this bit set-group-ID does not make it run as the group.
    pub const GROUP_EXECUTE: u16 = 0o0010;
}

/// What kind of object an inode is: the high bits of `i_mode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
#[allow(missing_docs)]
pub enum FileType {
    Fifo,
    CharacterDevice,
    Directory,
    BlockDevice,
    #[default]
    Regular,
    Symlink,
    Socket,
}

impl FileType {
    /// From `i_mode`; `None` for a value that is no type.
    pub fn from_mode(mode: u16) -> Option<FileType> {
        match mode & 0o170_000 {
            0o010_000 => Some(FileType::Fifo),
            0o020_000 => Some(FileType::CharacterDevice),
            0o040_000 => Some(FileType::Directory),
            0o060_000 => Some(FileType::BlockDevice),
            0o100_000 => Some(FileType::Regular),
            0o120_000 => Some(FileType::Symlink),
            0o140_000 => Some(FileType::Socket),
            _ => None,
        }
    }

    /// Whether it has the numbers of a device.
    pub fn is_device(self) -> bool {
        matches!(self, FileType::CharacterDevice | FileType::BlockDevice)
    }

    /// The bits for `i_mode` (0o100000 and so on).
    pub fn mode_bits(self) -> u16 {
        match self {
            FileType::Fifo => 0o010_000,
            FileType::CharacterDevice => 0o020_000,
            FileType::Directory => 0o040_000,
            FileType::BlockDevice => 0o060_000,
            FileType::Regular => 0o100_000,
            FileType::Symlink => 0o120_000,
            FileType::Socket => 0o140_000,
        }
    }

    /// The byte in a directory entry (1 regular, 2 directory, 3 character, 4 block, 5 fifo, 6
    /// socket, 7 symlink).
    pub fn entry_code(self) -> u8 {
        match self {
            FileType::Regular => 1,
            FileType::Directory => 2,
            FileType::CharacterDevice => 3,
            FileType::BlockDevice => 4,
            FileType::Fifo => 5,
            FileType::Socket => 6,
            FileType::Symlink => 7,
        }
    }

    /// From the letter that ls and find have for it, `f` too for a regular file; `None` for any
    /// other.
    pub fn from_letter(letter: u8) -> Option<FileType> {
        Some(match letter {
            b'-' | b'f' => FileType::Regular,
            b'd' => FileType::Directory,
            b'l' => FileType::Symlink,
            b'c' => FileType::CharacterDevice,
            b'b' => FileType::BlockDevice,
            b'p' => FileType::Fifo,
            b's' => FileType::Socket,
            _ => return None,
        })
    }

    /// From the byte in a directory entry; `None` for 0 (unknown) and for what is no type.
    pub fn from_entry_code(code: u8) -> Option<FileType> {
        match code {
            1 => Some(FileType::Regular),
            2 => Some(FileType::Directory),
            3 => Some(FileType::CharacterDevice),
            4 => Some(FileType::BlockDevice),
            5 => Some(FileType::Fifo),
            6 => Some(FileType::Socket),
            7 => Some(FileType::Symlink),
            _ => None,
        }
    }
}

/// A point in time as ext4 keeps it: 34 bits of seconds (1901 to 2446) and nanoseconds; 32 bits and
/// none in 128-byte inodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// 0..1_000_000_000.
    pub nanoseconds: u32,
}

/// The room that an inode has for a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimeRoom {
    /// 32 bits of seconds.
    Base,
    /// Two more bits of seconds, and nanoseconds.
    Extra,
}

impl TimeRoom {
    /// Of a time whose extra bits exist from an `extra_isize` of `reach` on.
    fn of(extra_isize: u16, reach: u16) -> TimeRoom {
        if extra_isize >= reach { TimeRoom::Extra } else { TimeRoom::Base }
    }
}

const SECONDS_MIN: i64 = i32::MIN as i64;
const SECONDS_MAX: i64 = i32::MAX as i64;
/// The last second that two more bits reach.
const SECONDS_MAX_EXTRA: i64 = SECONDS_MAX + 3 * (1 << 32);
const NANOSECONDS_MAX: u32 = 999_999_999;

impl Time {
    /// The nearest time that an inode of `inode_size` bytes keeps.
    #[must_use]
    pub fn kept(self, inode_size: u16) -> Time {
        if inode_size <= 128 {
            let seconds = self.seconds.clamp(SECONDS_MIN, SECONDS_MAX);
            return Time { seconds, nanoseconds: 0 };
        }
        let seconds = self.seconds.clamp(SECONDS_MIN, SECONDS_MAX_EXTRA);
        Time { seconds, ..self }
    }

    /// From the signed 32 bits and, where there are some, the extra ones: 2 of seconds, 30 of
    /// nanoseconds.
    fn decode(base: U32, extra: Option<U32>) -> Time {
        let extra = extra.map_or(0, U32::get);
        let seconds =
            i64::from(base.get().cast_signed()).saturating_add(i64::from(extra & 3) << 32);
        Time { seconds, nanoseconds: (extra >> 2).min(NANOSECONDS_MAX) }
    }

    /// The nearest time that can be kept in that room.
    fn clamped(self, room: TimeRoom) -> Time {
        let (most, last) = match room {
            TimeRoom::Base => (SECONDS_MAX, 0),
            TimeRoom::Extra => (SECONDS_MAX_EXTRA, NANOSECONDS_MAX),
        };
        if self.seconds < SECONDS_MIN {
            return Time { seconds: SECONDS_MIN, nanoseconds: 0 };
        }
        if self.seconds > most {
            return Time { seconds: most, nanoseconds: last };
        }
        Time { seconds: self.seconds, nanoseconds: self.nanoseconds.min(last) }
    }

    /// The two words. The second one is to be dropped where there is no room for it.
    // Splitting is what it is for, and the value is clamped.
    #[allow(clippy::cast_possible_truncation)]
    fn encode(self, room: TimeRoom) -> (U32, U32) {
        let time = self.clamped(room);
        let base = time.seconds as i32;
        let epoch = (time.seconds.saturating_sub(i64::from(base)) >> 32) as u32 & 3;
        (U32::new(base.cast_unsigned()), U32::new(time.nanoseconds << 2 | epoch))
    }
}

/// Inode flags (`i_flags`).
#[allow(missing_docs)]
pub mod flags {
    pub const SECURE_DELETION: u32 = 0x1;
    pub const UNDELETE: u32 = 0x2;
    pub const COMPRESS: u32 = 0x4;
    pub const SYNC: u32 = 0x8;
    pub const IMMUTABLE: u32 = 0x10;
    pub const APPEND: u32 = 0x20;
    pub const NODUMP: u32 = 0x40;
    pub const NOATIME: u32 = 0x80;
    /// What a volume that compresses files would keep of the state of one.
    pub const COMPRESSION_STATE: u32 = 0x700;
    pub const ENCRYPTED: u32 = 0x800;
    pub const INDEX: u32 = 0x1000;
    pub const IMAGIC: u32 = 0x2000;
    pub const JOURNALED_DATA: u32 = 0x4000;
    pub const NO_TAIL_MERGING: u32 = 0x8000;
    pub const DIRECTORY_SYNC: u32 = 0x1_0000;
    pub const TOP_DIRECTORY: u32 = 0x2_0000;
    pub const HUGE_FILE: u32 = 0x4_0000;
    pub const EXTENTS: u32 = 0x8_0000;
    pub const VERITY: u32 = 0x10_0000;
    pub const EA_INODE: u32 = 0x20_0000;
    /// Blocks are allocated after the end, as Linux once noted.
    pub const BLOCKS_AFTER_END: u32 = 0x40_0000;
    pub const NO_COPY_ON_WRITE: u32 = 0x80_0000;
    pub const DIRECT_ACCESS: u32 = 0x200_0000;
    pub const INLINE_DATA: u32 = 0x1000_0000;
    pub const PROJECT_INHERIT: u32 = 0x2000_0000;
    pub const CASEFOLDED: u32 = 0x4000_0000;
}

/// A checked inode. With what follows the first 128 bytes, where the inode is larger.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the names say it
pub struct Inode {
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    /// Bytes. 64 bits for regular files; other types keep 32, as the kernel reads them.
    pub size: u64,
    pub access_time: Time,
    pub change_time: Time,
    pub modify_time: Time,
    /// `None` where the inode is too small to keep it.
    pub create_time: Option<Time>,
    pub deletion_time: u32,
    pub links: u16,
    /// In units of 512 bytes whatever the disk says (huge_file).
    pub sectors: u64,
    pub flags: u32,
    pub generation: u32,
    pub version: u64,
    /// The block of extended attributes, or 0.
    pub attribute_block: BlockNo,
    pub project: u32,
    /// `i_block`: pointers, extent root, fast symlink, or device number.
    pub block: [u8; 60],
    /// Bytes used beyond 128 by fixed fields; 0 in 128-byte inodes.
    pub extra_isize: u16,
    /// The bytes after 128 + extra_isize: in-inode attributes (with their magic), to the end of the
    /// inode. Empty where the inode has 128 bytes.
    pub tail: Vec<u8>,
}

/// The high half of a word of 64 bits, and the low one.
#[allow(clippy::cast_possible_truncation)] // splitting is what it is for
fn split(value: u64) -> (u32, u32) {
    ((value >> 32) as u32, value as u32)
}

#[allow(clippy::cast_possible_truncation)] // splitting is what it is for
fn split16(value: u32) -> (U16, U16) {
    (U16::new((value >> 16) as u16), U16::new(value as u16))
}

fn join16(high: U16, low: U16) -> u32 {
    u32::from(high.get()) << 16 | u32::from(low.get())
}

/// The two parts of an inode's bytes. What is missing counts as zero; fields that `extra_isize`
/// does not reach too.
fn raw_parts(bytes: &[u8]) -> (RawInode, RawExtra) {
    let after = bytes.get(BASE_SIZE..).unwrap_or_default();
    let extra_size = StoredInode::new(bytes).extra_size();
    (raw_prefix(bytes), raw_prefix(after.get(..extra_size.into()).unwrap_or(after)))
}

/// A structure from the start of bytes. What is missing counts as zero.
fn raw_prefix<T: FromBytes + IntoBytes>(bytes: &[u8]) -> T {
    let mut raw = T::new_zeroed();
    let to = raw.as_mut_bytes();
    let length = to.len().min(bytes.len());
    // In one piece: inodes are decoded by the million.
    if let (Some(to), Some(from)) = (to.get_mut(..length), bytes.get(..length)) {
        to.copy_from_slice(from);
    }
    raw
}

impl Inode {
    /// Reads an inode from its `inode_size` bytes. The checksum is verified (metadata_csum). Field
    /// checks are those that keep later code in range (extra_isize); what the mode or map mean is
    /// judged by their users. An inode of zeros only, never used, needs no checksum.
    ///
    /// # Errors
    /// [`Fault::Checksum`], or [`Fault::Field`] when the fixed fields would not fit in the inode.
    pub fn parse(bytes: &[u8], ino: Ino, superblock: &Superblock) -> Result<Inode, Fault> {
        Self::verify_checksum(bytes, ino, superblock)?;
        let (_, extra) = raw_parts(bytes);
        let extra_isize = extra.extra_isize.get();
        let room = bytes.len().saturating_sub(BASE_SIZE);
        let fault = |reason| Fault::Field {
            structure: "inode",
            field: "extra size",
            value: extra_isize.into(),
            reason,
        };
        if usize::from(extra_isize) > room {
            return Err(fault("larger than the inode"));
        }
        if extra_isize % 4 != 0 {
            return Err(fault("not a multiple of 4"));
        }
        Ok(Self::decode(bytes, superblock))
    }

    /// The block of the program that the Hurd starts for a file, where the Hurd has made the
    /// volume; 0 for none. Others keep the version there.
    pub fn translator(&self, superblock: &Superblock) -> BlockNo {
        let is_hurd = superblock.creator_os == HURD;
        BlockNo(if is_hurd { self.version & u64::from(u32::MAX) } else { 0 })
    }

    /// Sets the block of [`Inode::translator`].
    pub fn set_translator(&mut self, block: BlockNo) {
        let high = self.version & !u64::from(u32::MAX);
        self.version = high | block.0 & u64::from(u32::MAX);
    }

    /// Compares the stored checksum with that of the bytes; nothing to compare without
    /// metadata_csum.
    ///
    /// # Errors
    /// [`Fault::Checksum`].
    pub fn verify_checksum(bytes: &[u8], ino: Ino, superblock: &Superblock) -> Result<(), Fault> {
        if !superblock.has(Feature::METADATA_CSUM) || bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let (base, extra) = raw_parts(bytes);
        let width = ChecksumWidth::of(extra.extra_isize.get());
        let stored = join16(extra.checksum_high, base.checksum_low);
        let computed = checksum(bytes, width, ino, base.generation.get(), superblock);
        if stored == computed {
            return Ok(());
        }
        Err(Fault::Checksum { structure: "inode", stored, computed })
    }

    /// Stores the checksum of the bytes as they are in them (metadata_csum). An inode of zeros only
    /// needs none.
    pub fn seal(bytes: &mut [u8], ino: Ino, superblock: &Superblock) {
        if !superblock.has(Feature::METADATA_CSUM) || bytes.iter().all(|byte| *byte == 0) {
            return;
        }
        let (mut base, mut extra): (RawInode, RawExtra) = raw_parts(bytes);
        let width = ChecksumWidth::of(extra.extra_isize.get());
        let sum = checksum(bytes, width, ino, base.generation.get(), superblock);
        (extra.checksum_high, base.checksum_low) = split16(sum);
        for (to, from) in bytes.iter_mut().zip(base.as_bytes()) {
            *to = *from;
        }
        let room = usize::from(extra.extra_isize.get());
        let after = bytes.get_mut(BASE_SIZE..).unwrap_or_default();
        for (to, from) in after.iter_mut().zip(extra.as_bytes()).take(room) {
            *to = *from;
        }
    }

    /// The values as they are stored, unchecked: for a judge. Missing bytes count as 0.
    pub fn decode(bytes: &[u8], superblock: &Superblock) -> Inode {
        let inode = Inode::decode_fields(bytes, superblock);
        let start = BASE_SIZE.saturating_add(inode.extra_isize.into());
        let tail = bytes.get(start..).unwrap_or_default();
        Inode { tail: tail.to_vec(), ..inode }
    }

    /// As [`Inode::decode`], but with no `tail`: nothing is allocated.
    pub fn decode_fields(bytes: &[u8], superblock: &Superblock) -> Inode {
        let (base, extra) = raw_parts(bytes);
        let extra_isize = extra.extra_isize.get();
        let when = |reach: u16, word: U32| (extra_isize >= reach).then_some(word);
        let create_extra = when(reach::CREATE_TIME_EXTRA, extra.create_time_extra);
        Inode {
            mode: base.mode.get(),
            uid: join16(base.uid_high, base.uid_low),
            gid: join16(base.gid_high, base.gid_low),
            size: base.size(superblock),
            access_time: Time::decode(
                base.access_time,
                when(reach::ACCESS_TIME, extra.access_time_extra),
            ),
            change_time: Time::decode(
                base.change_time,
                when(reach::CHANGE_TIME, extra.change_time_extra),
            ),
            modify_time: Time::decode(
                base.modify_time,
                when(reach::MODIFY_TIME, extra.modify_time_extra),
            ),
            create_time: when(reach::CREATE_TIME, extra.create_time)
                .map(|word| Time::decode(word, create_extra)),
            deletion_time: base.deletion_time.get(),
            links: base.links.get(),
            sectors: base.sectors(superblock),
            flags: base.flags.get(),
            generation: base.generation.get(),
            version: u64::from(extra.version_high.get()) << 32 | u64::from(base.version_low.get()),
            attribute_block: base.attribute_block(superblock),
            project: extra.project.get(),
            block: base.block,
            extra_isize,
            tail: Vec::new(),
        }
    }

    /// Writes it over the whole `inode_size` bytes, with its checksum. Times out of range are
    /// clamped to the nearest that can be kept. `sectors` beyond 32 bits uses huge_file (48 bits)
    /// and, beyond that, block units with the flag. A tail that is too long is cut, and a short one
    /// is followed by zeros.
    pub fn encode(&self, bytes: &mut [u8], ino: Ino, superblock: &Superblock) {
        bytes.fill(0);
        let room = bytes.len().saturating_sub(BASE_SIZE);
        let extra_isize = self.extra_isize.min(u16::try_from(room).unwrap_or(u16::MAX)) & !3;
        let mut base = self.raw_base(extra_isize, superblock);
        let mut extra = self.raw_extra(extra_isize);
        self.put(bytes, &base, &extra);
        if superblock.has(Feature::METADATA_CSUM) {
            let width = ChecksumWidth::of(extra_isize);
            let (high, low) = split16(checksum(bytes, width, ino, self.generation, superblock));
            base.checksum_low = low;
            extra.checksum_high = high;
            self.put(bytes, &base, &extra);
        }
    }

    /// The parts, one after the other, each as far as there is room. The tail goes first: where
    /// there are no fixed fields after the first 128 bytes it starts where their size is kept,
    /// which must stay 0.
    fn put(&self, bytes: &mut [u8], base: &RawInode, extra: &RawExtra) {
        let extra_isize = usize::from(extra.extra_isize.get());
        let tail = bytes.get_mut(BASE_SIZE.saturating_add(extra_isize)..).unwrap_or_default();
        for (to, from) in tail.iter_mut().zip(&self.tail) {
            *to = *from;
        }
        let after = bytes.get_mut(BASE_SIZE..).unwrap_or_default();
        for (to, from) in after.iter_mut().zip(extra.as_bytes()).take(extra_isize.max(2)) {
            *to = *from;
        }
        for (to, from) in bytes.iter_mut().zip(base.as_bytes()) {
            *to = *from;
        }
    }

    fn raw_base(&self, extra_isize: u16, superblock: &Superblock) -> RawInode {
        let (uid_high, uid_low) = split16(self.uid);
        let (gid_high, gid_low) = split16(self.gid);
        let (size_high, size_low) = split(self.size);
        let (attribute_high, attribute_low) = split(self.attribute_block.0);
        let wide = superblock.has(Feature::SIXTY_FOUR_BIT);
        let (sectors_high, sectors_low, flags) = self.stored_sectors(superblock);
        RawInode {
            mode: self.mode.into(),
            uid_low,
            size_low: size_low.into(),
            access_time: self.access_time.encode(TimeRoom::of(extra_isize, reach::ACCESS_TIME)).0,
            change_time: self.change_time.encode(TimeRoom::of(extra_isize, reach::CHANGE_TIME)).0,
            modify_time: self.modify_time.encode(TimeRoom::of(extra_isize, reach::MODIFY_TIME)).0,
            deletion_time: self.deletion_time.into(),
            gid_low,
            links: self.links.into(),
            sectors_low: sectors_low.into(),
            flags: flags.into(),
            version_low: split(self.version).1.into(),
            block: self.block,
            generation: self.generation.into(),
            attribute_block_low: attribute_low.into(),
            size_high: match self.file_type() {
                Some(FileType::Regular | FileType::Directory) => size_high,
                _ => 0,
            }
            .into(),
            fragment: 0.into(),
            sectors_high: sectors_high.into(),
            attribute_block_high: if wide { split16(attribute_high).1 } else { 0.into() },
            uid_high,
            gid_high,
            checksum_low: 0.into(),
            reserved: 0.into(),
        }
    }

    fn raw_extra(&self, extra_isize: u16) -> RawExtra {
        let (create_time, create_time_extra) = self
            .create_time
            .unwrap_or_default()
            .encode(TimeRoom::of(extra_isize, reach::CREATE_TIME_EXTRA));
        RawExtra {
            extra_isize: extra_isize.into(),
            checksum_high: 0.into(),
            change_time_extra: self
                .change_time
                .encode(TimeRoom::of(extra_isize, reach::CHANGE_TIME))
                .1,
            modify_time_extra: self
                .modify_time
                .encode(TimeRoom::of(extra_isize, reach::MODIFY_TIME))
                .1,
            access_time_extra: self
                .access_time
                .encode(TimeRoom::of(extra_isize, reach::ACCESS_TIME))
                .1,
            create_time,
            create_time_extra,
            version_high: split(self.version).0.into(),
            project: self.project.into(),
        }
    }

    /// The count of sectors as it is stored (high, low), and the flags that go with it.
    fn stored_sectors(&self, superblock: &Superblock) -> (u16, u32, u32) {
        let (high, low) = split(self.sectors);
        if !superblock.has(Feature::HUGE_FILE) {
            return (0, if high == 0 { low } else { u32::MAX }, self.flags);
        }
        if let Ok(high) = u16::try_from(high) {
            return (high, low, self.flags & !flags::HUGE_FILE);
        }
        let (high, low) = split(
            self.sectors.checked_div(sectors_per_block(superblock)).unwrap_or(0).min((1 << 48) - 1),
        );
        (u16::try_from(high).unwrap_or(u16::MAX), low, self.flags | flags::HUGE_FILE)
    }

    /// Whether it has room for the number of a project.
    pub fn keeps_project(&self) -> bool {
        self.extra_isize >= reach::PROJECT
    }

    /// A new inode of this size class, everything zero but `mode`, `extra_isize` (want_extra_isize)
    /// and `tail` (sized).
    pub fn new(mode: u16, superblock: &Superblock) -> Inode {
        let room = usize::from(superblock.inode_size).saturating_sub(BASE_SIZE);
        let want = usize::from(superblock.want_extra_isize & !3);
        // A superblock that wants nothing sensible gets what the fixed fields need.
        let want = if want < size_of::<RawExtra>() { size_of::<RawExtra>() } else { want };
        let extra_isize = if want <= room { want } else { room.min(size_of::<RawExtra>()) };
        let extra_isize = u16::try_from(extra_isize).unwrap_or(0);
        Inode {
            mode,
            uid: 0,
            gid: 0,
            size: 0,
            access_time: Time::default(),
            change_time: Time::default(),
            modify_time: Time::default(),
            create_time: (extra_isize >= reach::CREATE_TIME).then(Time::default),
            deletion_time: 0,
            links: 0,
            sectors: 0,
            flags: 0,
            generation: 0,
            version: 0,
            attribute_block: BlockNo(0),
            project: 0,
            block: [0; 60],
            extra_isize,
            tail: vec![0; room.saturating_sub(extra_isize.into())],
        }
    }

    /// The type; `None` when the mode has none.
    pub fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }

    /// Whether the blocks are mapped by extents.
    pub fn has_extents(&self) -> bool {
        self.flags & flags::EXTENTS != 0
    }

    /// A symlink whose target is in `block` (no blocks but an attribute block, size < 60).
    pub fn is_fast_symlink(&self, superblock: &Superblock) -> bool {
        let attributes =
            if self.attribute_block.0 == 0 { 0 } else { sectors_per_block(superblock) };
        // Where values of attributes may be in inodes, their blocks are counted too.
        let has_no_map = self.sectors == attributes || superblock.has(Feature::EA_INODE);
        self.file_type() == Some(FileType::Symlink)
            && self.size < 60
            && has_no_map
            && self.flags & flags::INLINE_DATA == 0
    }

    /// Whether its content is in the inode itself: in `block`, and in an attribute of the tail.
    pub fn is_inline(&self, superblock: &Superblock) -> bool {
        self.flags & flags::INLINE_DATA != 0 && superblock.has(Feature::INLINE_DATA)
    }

    /// Whether its content, or the names in it, are encrypted.
    pub fn is_encrypted(&self, superblock: &Superblock) -> bool {
        self.flags & flags::ENCRYPTED != 0 && superblock.has(Feature::ENCRYPT)
    }

    /// The bytes that are kept in the inode, if it [`is_inline`](Inode::is_inline): fewer than its
    /// size where the rest reads as zeros, or more.
    ///
    /// # Errors
    /// [`Fault::Field`] if the attribute that has the second part is missing or damaged.
    pub fn inline_data(&self) -> Result<Vec<u8>, Fault> {
        let missing = |reason| Fault::Field {
            structure: "inode",
            field: "size of inline data",
            value: self.size,
            reason,
        };
        let rest = inline_rest(&self.tail)?;
        let rest = rest.ok_or_else(|| missing("that of data without its attribute"))?;
        let rest = self.tail.get(rest).ok_or_else(|| missing("beyond the inode"))?;
        Ok([&self.block, rest].concat())
    }

    /// Device numbers of a device inode: old (16 bits) and new encoding.
    pub fn device(&self) -> Device {
        let [a, b, c, d, e, f, g, h, ..] = self.block;
        let old = u32::from_le_bytes([a, b, c, d]);
        let new = u32::from_le_bytes([e, f, g, h]);
        if old != 0 {
            return Device { major: old >> 8 & 0xff, minor: old & 0xff };
        }
        Device { major: new >> 8 & 0xfff, minor: new & 0xff | new >> 12 & 0xf_ff00 }
    }

    /// Stores device numbers: the old encoding where both are below 256, as the kernel does. Bits
    /// beyond the 12 and 20 that the disk has are dropped.
    pub fn set_device(&mut self, device: Device) {
        let Device { major, minor } = device;
        let (old, new) = if major < 256 && minor < 256 {
            (major << 8 | minor, 0)
        } else {
            (0, (major & 0xfff) << 8 | minor & 0xff | (minor & 0xf_ff00) << 12)
        };
        self.block = [0; 60];
        for (to, from) in
            self.block.iter_mut().zip(old.to_le_bytes().into_iter().chain(new.to_le_bytes()))
        {
            *to = from;
        }
    }
}

fn sectors_per_block(superblock: &Superblock) -> u64 {
    u64::from(superblock.block_size() / 512).max(1)
}

impl RawInode {
    fn size(&self, superblock: &Superblock) -> u64 {
        let is_wide = match FileType::from_mode(self.mode.get()) {
            Some(FileType::Regular) => true,
            Some(FileType::Directory) => superblock.has(Feature::LARGE_DIR),
            _ => false,
        };
        let high = if is_wide { self.size_high.get() } else { 0 };
        u64::from(high) << 32 | u64::from(self.size_low.get())
    }

    fn sectors(&self, superblock: &Superblock) -> u64 {
        let low = u64::from(self.sectors_low.get());
        if !superblock.has(Feature::HUGE_FILE) {
            return low;
        }
        let stored = u64::from(self.sectors_high.get()) << 32 | low;
        let unit = if self.flags.get() & flags::HUGE_FILE == 0 {
            1
        } else {
            sectors_per_block(superblock)
        };
        stored.saturating_mul(unit)
    }

    fn attribute_block(&self, superblock: &Superblock) -> BlockNo {
        // The Hurd keeps the high half of the mode there.
        let wide = superblock.has(Feature::SIXTY_FOUR_BIT) && superblock.creator_os != HURD;
        let high = if wide { self.attribute_block_high.get() } else { 0 };
        BlockNo(u64::from(high) << 32 | u64::from(self.attribute_block_low.get()))
    }
}

/// Major and minor number of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord, Hash)]
pub struct Device {
    /// 12 bits on disk.
    pub major: u32,
    /// 20 bits on disk.
    pub minor: u32,
}
