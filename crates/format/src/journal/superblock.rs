//! The superblock of a journal: that of a fresh journal is made, any is read, and the fields that
//! change while a journal is used are stored.
use super::MAGIC;
use crate::checksum::crc32c;
use zerocopy::big_endian::{I32, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The type of a block that holds a superblock of version 1, which ends before its features.
pub const SUPERBLOCK_V1: u32 = 3;
/// The type of a block that holds a superblock of version 2.
pub const SUPERBLOCK_V2: u32 = 4;
/// Bytes of a journal's superblock.
pub const SUPERBLOCK_BYTES: usize = 1024;
/// `checksum_type`: crc32.
pub const CHECKSUM_CRC32: u8 = 1;
/// `checksum_type`: crc32c.
pub const CHECKSUM_CRC32C: u8 = 4;
/// Blocks of the shortest journal.
pub const BLOCKS_MIN: u64 = 1024;
/// Blocks kept for fast commits where the superblock says 0.
const FAST_COMMIT_BLOCKS: u32 = 256;

/// Bits of the features that need not be known to read a journal.
pub mod compat {
    /// Commit blocks have a crc32 of their transaction (version 1 of checksums).
    pub const CHECKSUM: u32 = 0x1;
}

/// Bits of the features that must be known to read a journal.
#[allow(missing_docs)] // each is the feature of that name
pub mod incompat {
    pub const REVOKE: u32 = 0x1;
    pub const SIXTY_FOUR_BIT: u32 = 0x2;
    pub const ASYNC_COMMIT: u32 = 0x4;
    pub const CHECKSUM_V2: u32 = 0x8;
    pub const CHECKSUM_V3: u32 = 0x10;
    pub const FAST_COMMIT: u32 = 0x20;
    /// All of them.
    pub const KNOWN: u32 =
        REVOKE | SIXTY_FOUR_BIT | ASYNC_COMMIT | CHECKSUM_V2 | CHECKSUM_V3 | FAST_COMMIT;
}

/// Names of the compatible features, by their bits.
const COMPAT_NAMES: [&str; 1] = ["journal_checksum"];
/// Names of the incompatible features, by their bits.
const INCOMPAT_NAMES: [&str; 6] = [
    "journal_incompat_revoke",
    "journal_64bit",
    "journal_async_commit",
    "journal_checksum_v2",
    "journal_checksum_v3",
    "fast_commit",
];

/// A journal's superblock as it is on the disk. A fresh one without features is zero after `users`.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawJournal {
    pub(super) magic: U32,
    pub(super) block_type: U32,
    pub(super) block_sequence: U32,
    pub(super) block_size: U32,
    pub(super) blocks: U32,
    /// First block of the log itself.
    pub(super) first: U32,
    /// The first commit that is expected.
    pub(super) sequence: U32,
    /// Where the log starts; 0 when it is empty.
    pub(super) start: U32,
    pub(super) error: I32,
    // From here on: version 2.
    pub(super) compat: U32,
    pub(super) incompat: U32,
    pub(super) ro_compat: U32,
    pub(super) uuid: [u8; 16],
    pub(super) users: U32,
    pub(super) dynamic_superblock: U32,
    pub(super) transaction_max: U32,
    pub(super) transaction_data_max: U32,
    pub(super) checksum_type: u8,
    pub(super) padding: [u8; 3],
    pub(super) fast_commit_blocks: U32,
    pub(super) head: U32,
    pub(super) reserved: [U32; 40],
    pub(super) checksum: U32,
    pub(super) user_ids: [u8; 768],
}

/// Bytes of a superblock of version 1.
pub(super) const VERSION_1_BYTES: usize = std::mem::offset_of!(RawJournal, compat);

/// What a new journal is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewJournal {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the journal, its superblock included.
    pub blocks: u32,
    /// The journal's own UUID; mke2fs gives an internal journal that of the volume.
    pub uuid: [u8; 16],
    /// Blocks at its end that are for fast commits, where it has other than the usual number; 0
    /// otherwise.
    pub fast_commit_blocks: u32,
}

/// Writes a version 2 superblock of an empty journal (sequence 1, start 0) over a zeroed block.
pub fn initialize(bytes: &mut [u8], journal: &NewJournal) {
    store(bytes, fresh(journal));
}

/// The same of a journal that has a device to itself: its log begins with block `first`, and it is
/// no volume's yet.
pub fn initialize_device(bytes: &mut [u8], journal: &NewJournal, first: u32) {
    let mut raw = fresh(journal);
    raw.first = first.into();
    raw.users = 0.into();
    store(bytes, raw);
}

/// Adds a volume to those whose journal it is, by the journal's first bytes, if it is not there.
///
/// # Errors
/// It is no superblock of a journal; there are as many volumes as it has room for.
pub fn add_user(bytes: &mut [u8; SUPERBLOCK_BYTES], uuid: &[u8; 16]) -> Result<(), &'static str> {
    let Ok(raw) = RawJournal::mut_from_bytes(bytes) else { return Err("too short for a journal") };
    if raw.magic.get() != MAGIC || raw.block_type.get() != SUPERBLOCK_V2 {
        return Err("it has no superblock of a journal");
    }
    let (ids, _) = raw.user_ids.as_chunks_mut::<16>();
    let users = usize::try_from(raw.users.get()).unwrap_or(usize::MAX);
    if ids.iter().take(users).any(|id| id == uuid) {
        return Ok(());
    }
    let slot = ids.get_mut(users).ok_or("it is the journal of too many volumes")?;
    *slot = *uuid;
    raw.users = raw.users.get().saturating_add(1).into();
    if StoredJournal(raw).has_checksums() {
        raw.checksum = StoredJournal(raw).computed_checksum().into();
    }
    Ok(())
}

fn store(bytes: &mut [u8], raw: RawJournal) {
    for (to, from) in bytes.iter_mut().zip(raw.as_bytes()) {
        *to = *from;
    }
}

fn fresh(journal: &NewJournal) -> RawJournal {
    let mut raw = RawJournal::new_zeroed();
    raw.magic = MAGIC.into();
    raw.block_type = SUPERBLOCK_V2.into();
    raw.block_size = journal.block_size.into();
    raw.blocks = journal.blocks.into();
    raw.first = 1.into();
    raw.sequence = 1.into();
    raw.uuid = journal.uuid;
    raw.users = 1.into();
    raw.fast_commit_blocks = journal.fast_commit_blocks.into();
    raw
}

/// A journal's superblock as it is stored, nothing checked.
#[derive(Clone, Copy)]
pub struct StoredJournal<'a>(&'a RawJournal);

#[allow(missing_docs)] // fields by the names of the public description
impl<'a> StoredJournal<'a> {
    /// Of the first block of a journal; `None` when it is shorter than a superblock.
    pub fn new(bytes: &'a [u8]) -> Option<StoredJournal<'a>> {
        RawJournal::ref_from_prefix(bytes).ok().map(|(raw, _)| StoredJournal(raw))
    }

    pub fn magic(self) -> u32 {
        self.0.magic.get()
    }

    /// [`SUPERBLOCK_V1`] or [`SUPERBLOCK_V2`] for a superblock.
    pub fn block_type(self) -> u32 {
        self.0.block_type.get()
    }

    /// Bytes of a block of the journal.
    pub fn block_size(self) -> u32 {
        self.0.block_size.get()
    }

    /// Blocks of the journal, its superblock included.
    pub fn blocks(self) -> u32 {
        self.0.blocks.get()
    }

    /// The first block of the log.
    pub fn first(self) -> u32 {
        self.0.first.get()
    }

    /// The first commit that is expected in the log.
    pub fn sequence(self) -> u32 {
        self.0.sequence.get()
    }

    /// Where the log begins; 0 when it is empty.
    pub fn start(self) -> u32 {
        self.0.start.get()
    }

    /// The error that stopped the journal; 0 for none.
    pub fn error(self) -> i32 {
        self.0.error.get()
    }

    pub fn compat(self) -> u32 {
        self.0.compat.get()
    }

    pub fn incompat(self) -> u32 {
        self.0.incompat.get()
    }

    pub fn ro_compat(self) -> u32 {
        self.0.ro_compat.get()
    }

    /// How many file systems use it.
    pub fn users(self) -> u32 {
        self.0.users.get()
    }

    /// The UUIDs of those file systems, as far as the superblock has room for them.
    pub fn user_ids(self) -> impl Iterator<Item = [u8; 16]> + use<'a> {
        let (ids, _) = self.0.user_ids.as_chunks::<16>();
        ids.iter().copied().take(usize::try_from(self.users()).unwrap_or(usize::MAX))
    }

    /// Blocks kept for fast commits.
    pub fn fast_commit_blocks(self) -> u32 {
        self.0.fast_commit_blocks.get()
    }

    /// Blocks for fast commits, where it has that feature: 0 stands for the usual number.
    pub fn fast_commit_blocks_or_usual(self) -> u32 {
        match self.fast_commit_blocks() {
            0 => FAST_COMMIT_BLOCKS,
            blocks => blocks,
        }
    }

    /// The kind of its checksums: [`CHECKSUM_CRC32`] or [`CHECKSUM_CRC32C`].
    pub fn checksum_type(self) -> u8 {
        self.0.checksum_type
    }

    pub fn checksum(self) -> u32 {
        self.0.checksum.get()
    }

    /// The journal's own UUID.
    pub fn uuid(self) -> [u8; 16] {
        self.0.uuid
    }

    /// Where the log ended when it was last emptied, for fast commits; 0 where nothing keeps it.
    pub fn head(self) -> u32 {
        self.0.head.get()
    }

    /// Whether blocks of the journal have checksums, and its superblock too.
    pub fn has_checksums(self) -> bool {
        self.incompat() & (incompat::CHECKSUM_V2 | incompat::CHECKSUM_V3) != 0
    }

    /// The checksum of its bytes, with 0 for the checksum.
    pub fn computed_checksum(self) -> u32 {
        let mut raw = self.0.clone();
        raw.checksum = U32::ZERO;
        crc32c(!0, raw.as_bytes())
    }

    /// Whether the fields that version 1 does not have are zero.
    pub fn is_clear_after_version_1(self) -> bool {
        let rest = self.0.as_bytes().get(VERSION_1_BYTES..).unwrap_or_default();
        rest.iter().all(|byte| *byte == 0)
    }

    /// Names of the features as dumpe2fs prints them, of a superblock of version 2.
    pub fn feature_names(self) -> Vec<String> {
        let classes: [(u32, &[&str], char); 3] = [
            (self.0.compat.get(), &COMPAT_NAMES, 'C'),
            (self.incompat(), &INCOMPAT_NAMES, 'I'),
            (self.ro_compat(), &[], 'R'),
        ];
        let mut all = Vec::new();
        for (set, names, class) in classes {
            let bits = (0..32_usize).filter(|bit| set >> bit & 1 == 1);
            all.extend(bits.map(|bit| match names.get(bit) {
                Some(name) => (*name).to_owned(),
                None => format!("FEATURE_{class}{bit}"),
            }));
        }
        all
    }
}

/// Blocks of the journal that mke2fs makes on a volume of that many blocks; 0 where it makes none.
pub fn default_blocks(volume_blocks: u64) -> u32 {
    const KI: u64 = 1024;
    match volume_blocks {
        0..2_048 => 0,
        2_048..32_768 => 1_024,
        _ if volume_blocks < 256 * KI => 4_096,
        _ if volume_blocks < 512 * KI => 8_192,
        _ if volume_blocks < 4_096 * KI => 16_384,
        _ if volume_blocks < 8_192 * KI => 32_768,
        _ if volume_blocks < 16_384 * KI => 65_536,
        _ if volume_blocks < 32_768 * KI => 131_072,
        _ => 262_144,
    }
}

const _: () = assert!(size_of::<RawJournal>() == SUPERBLOCK_BYTES);
