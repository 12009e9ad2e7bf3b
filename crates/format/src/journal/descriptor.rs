//! Descriptors: which blocks are copied in the log after them, and where they belong.
//!
//! ```text
//! until version 2   | block: 4 | checksum: 2 | flags: 2 | high: 4 (64bit) | 2 bytes (version 2) |
//! version 3         | block: 4 | flags: 4 | high: 4 | checksum: 4 |
//! ```
//!
//! After a tag without [`flag::SAME_UUID`] comes a UUID of 16 bytes. In version 2 a tag is two
//! bytes longer than its fields are: Linux counted the checksum twice, and that became the format.
use super::{
    BlockKind, BlockNumbers, Checksums, HEADER_BYTES, Header, LogFormat, MAGIC, Sequence, put,
};
use crate::journal::log_format::UUID_BYTES;
use crate::{BlockNo, Fault};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const STRUCTURE: &str = "journal descriptor";

/// Bits of a tag's flags.
pub mod flag {
    /// The copy begins with zeros in place of the magic number.
    pub const ESCAPED: u32 = 1;
    /// No UUID follows.
    pub const SAME_UUID: u32 = 2;
    /// The block was freed by this transaction. Linux has never written it.
    pub const DELETED: u32 = 4;
    /// The last tag of the descriptor.
    pub const LAST: u32 = 8;
}

/// What a descriptor says of one copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    /// Where the copy belongs.
    pub target: BlockNo,
    /// Bits of [`flag`].
    pub flags: u32,
    /// The checksum of the copy as it is stored, 16 bits of it in version 2; 0 in others before 3.
    pub checksum: u32,
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawTag {
    block: U32,
    checksum: U16,
    flags: U16,
    block_high: U32,
    /// In version 2 only.
    padding: [u8; 2],
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawTag3 {
    block: U32,
    flags: U32,
    block_high: U32,
    checksum: U32,
}

impl Tag {
    /// Whether the copy's first four bytes stand for the magic number.
    pub fn is_escaped(&self) -> bool {
        self.flags & flag::ESCAPED != 0
    }

    /// Whether the copy in the log is what was written there; always, where copies have no
    /// checksums of their own.
    pub fn fits(&self, format: &LogFormat, sequence: Sequence, copy: &[u8]) -> bool {
        match format.checksums {
            Checksums::None | Checksums::Version1 => true,
            Checksums::Version2 => {
                self.checksum == format.copy_checksum(sequence, copy) & u32::from(u16::MAX)
            }
            Checksums::Version3 => self.checksum == format.copy_checksum(sequence, copy),
        }
    }

    /// Of the bytes of one tag; `None` when they are too few.
    fn parse(format: &LogFormat, bytes: &[u8]) -> Option<Tag> {
        let bytes = bytes.get(..format.tag_bytes())?;
        if format.checksums == Checksums::Version3 {
            let raw = RawTag3::ref_from_bytes(bytes).ok()?;
            return Some(Tag {
                target: target(format, raw.block, raw.block_high),
                flags: raw.flags.get(),
                checksum: raw.checksum.get(),
            });
        }
        let mut raw = RawTag::new_zeroed();
        put(raw.as_mut_bytes(), 0, bytes);
        Some(Tag {
            target: target(format, raw.block, raw.block_high),
            flags: raw.flags.get().into(),
            checksum: raw.checksum.get().into(),
        })
    }

    /// Its bytes, in an array that begins with them: a tag has [`LogFormat::tag_bytes`].
    #[allow(clippy::cast_possible_truncation)] // halves of numbers, and flags of four bits
    fn bytes(&self, format: &LogFormat) -> [u8; size_of::<RawTag3>()] {
        let (block, high) = ((self.target.0 as u32).into(), ((self.target.0 >> 32) as u32).into());
        let mut bytes = [0; size_of::<RawTag3>()];
        if format.checksums == Checksums::Version3 {
            let (flags, checksum) = (self.flags.into(), self.checksum.into());
            let raw = RawTag3 { block, flags, block_high: high, checksum };
            put(&mut bytes, 0, raw.as_bytes());
        } else {
            let (flags, checksum) = ((self.flags as u16).into(), (self.checksum as u16).into());
            let raw = RawTag { block, checksum, flags, block_high: high, padding: [0; 2] };
            put(&mut bytes, 0, raw.as_bytes());
        }
        bytes
    }
}

/// The number of a tag's block; its high half counts only where numbers are wide.
fn target(format: &LogFormat, low: U32, high: U32) -> BlockNo {
    match format.block_numbers {
        BlockNumbers::Narrow => BlockNo(low.get().into()),
        BlockNumbers::Wide => BlockNo(u64::from(high.get()) << 32 | u64::from(low.get())),
    }
}

/// The tags of a descriptor, one for each copy that follows it, at most as many as fit.
///
/// # Errors
/// A checksum that is wrong, or bytes that are not one block.
pub fn tags(format: &LogFormat, block: &[u8]) -> Result<Vec<Tag>, Fault> {
    format.check_tail(STRUCTURE, block)?;
    let body = block.get(..format.body_end()).unwrap_or_default();
    let mut rest = body.get(HEADER_BYTES..).unwrap_or_default();
    let mut tags = Vec::new();
    while let Some(tag) = Tag::parse(format, rest) {
        let uuid = if tag.flags & flag::SAME_UUID == 0 { UUID_BYTES } else { 0 };
        tags.push(tag);
        if tag.flags & flag::LAST != 0 {
            break;
        }
        rest = rest.get(format.tag_bytes().saturating_add(uuid)..).unwrap_or_default();
    }
    Ok(tags)
}

/// Puts back the magic number that an escaped copy had; others are left as they are.
pub fn unescape(tag: &Tag, copy: &mut [u8]) {
    if tag.is_escaped() {
        restore(copy);
    }
}

/// Puts the magic number at the beginning of a copy that is known to be escaped.
pub fn restore(copy: &mut [u8]) {
    put(copy, 0, &MAGIC.to_be_bytes());
}

/// A descriptor that is being filled.
///
/// ```
/// use extant_format::BlockNo;
/// use extant_format::journal::{BlockNumbers, Checksums, LogFormat, Sequence, descriptor};
/// let (block_numbers, checksums) = (BlockNumbers::Wide, Checksums::Version3);
/// let format = LogFormat { block_size: 1024, block_numbers, checksums, uuid: [7; 16] };
/// let sequence = Sequence(1);
/// let mut writer = descriptor::Writer::new(&format, sequence);
/// let bytes = vec![1; 1024];
/// assert!(writer.add(BlockNo(40), &bytes).is_none(), "it is logged as it is");
/// let tags = descriptor::tags(&format, &writer.finish()).expect("it is sound");
/// assert_eq!(tags[0].target, BlockNo(40));
/// assert!(tags[0].fits(&format, sequence, &bytes));
/// ```
#[derive(Debug)]
pub struct Writer {
    format: LogFormat,
    sequence: Sequence,
    block: Vec<u8>,
    /// The last tag and where it is; it is written again when it is known to be the last.
    last: Option<(usize, Tag)>,
    /// Where the next tag goes.
    end: usize,
}

impl Writer {
    /// An empty descriptor of a transaction.
    pub fn new(format: &LogFormat, sequence: Sequence) -> Writer {
        let block = Header { kind: BlockKind::Descriptor, sequence }.block(format);
        Writer { format: *format, sequence, block, last: None, end: HEADER_BYTES }
    }

    /// Whether it has no tag yet.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Whether no tag fits any more. It takes [`LogFormat::tags_per_descriptor`] tags.
    pub fn is_full(&self) -> bool {
        self.end.saturating_add(self.format.tag_bytes()) > self.format.body_end()
    }

    /// Adds a tag for a block whose frozen bytes follow the descriptor in the log, after those
    /// added before. Returns the bytes to log in their place when they have to be escaped: a copy,
    /// whose first four bytes are zeros.
    ///
    /// # Panics
    /// When it is full, or when the number of the block needs more bits than the log has: both
    /// would be a commit that cannot be replayed.
    pub fn add(&mut self, target: BlockNo, bytes: &[u8]) -> Option<Vec<u8>> {
        assert!(!self.is_full(), "a descriptor has no room for a tag of {target}");
        let is_narrow = self.format.block_numbers == BlockNumbers::Narrow;
        assert!(!is_narrow || target.0 <= u32::MAX.into(), "{target} in a log of 32-bit numbers");
        let escaped = bytes.starts_with(&MAGIC.to_be_bytes()).then(|| {
            let mut copy = bytes.to_vec();
            put(&mut copy, 0, &[0; size_of::<u32>()]);
            copy
        });
        let escape = if escaped.is_some() { flag::ESCAPED } else { 0 };
        let same_uuid = if self.is_empty() { 0 } else { flag::SAME_UUID };
        let checksum = self
            .format
            .has_block_checksums()
            .then(|| self.format.copy_checksum(self.sequence, escaped.as_deref().unwrap_or(bytes)));
        let checksum = checksum.unwrap_or_default();
        let tag = Tag { target, flags: escape | same_uuid, checksum };
        self.put_tag(self.end, &tag);
        self.last = Some((self.end, tag));
        self.end = self.end.saturating_add(self.format.tag_bytes());
        if same_uuid == 0 {
            // Linux and debugfs leave the UUID of an internal journal zero, and read none.
            self.end = self.end.saturating_add(UUID_BYTES);
        }
        escaped
    }

    /// The bytes of the descriptor, sealed.
    ///
    /// # Panics
    /// When it is empty: a reader would take what follows the header for a tag.
    pub fn finish(mut self) -> Vec<u8> {
        let (offset, mut tag) = self.last.expect("a descriptor has at least one tag");
        tag.flags |= flag::LAST;
        self.put_tag(offset, &tag);
        self.format.seal(&mut self.block);
        self.block
    }

    fn put_tag(&mut self, offset: usize, tag: &Tag) {
        let bytes = tag.bytes(&self.format);
        let bytes = bytes.get(..self.format.tag_bytes()).unwrap_or_default();
        put(&mut self.block, offset, bytes);
    }
}
