//! Extended attributes: a list in the inode's tail (after a magic number) and a list in a block of
//! their own, which several inodes may share.
//!
//! Names are full names as in `getxattr` ("user.x", "security.capability",
//! "system.posix_acl_access"); values are as `getxattr` gives them: access lists are converted (see
//! `acl`).
//!
//! ```text
//! tail   | magic | entry | entry | ... | 0 |      ... | value | value |
//! block  | header, 32 bytes | entry | ... | 0 |   ... | value | value |
//! entry  | name length | prefix | value offset | value's inode | value size | hash | name ...
//! ```
//!
//! Offsets of values count from the first entry in a tail, and from the start of a block. An entry
//! is as long as the next multiple of 4.
//!
//! Values grow down from the end, each padded with zeros to a multiple of 4; four zero bytes end
//! the entries.
mod in_inodes;
mod stored;

pub use stored::{
    ListFault, StoredBlock, StoredEntry, StoredValue, list_in_tail, renumber_values, walk,
};

pub use in_inodes::{ValueRef, take_from_block, take_from_tail, values_in_block, values_in_tail};

use crate::acl;
use crate::checksum::crc32c;
use crate::superblock::{Feature, Superblock};
use crate::{BlockNo, Fault, Ino};
use std::ops::Range;
use stored::Characters;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A name and its value, as getxattr gives them.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub struct Attribute {
    /// Full name with prefix, without NUL; at most 255 bytes after the prefix.
    pub name: Vec<u8>,
    /// At most 64 KiB.
    pub value: Vec<u8>,
}

/// Why a list of attributes cannot be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttributeError {
    /// A name without a known prefix: EOPNOTSUPP.
    UnknownPrefix,
    /// A name too long, empty after its prefix, or in the list twice: ERANGE/EINVAL.
    BadName,
    /// They do not fit in inode and block together: ENOSPC.
    NoRoom,
    /// A value of more than [`VALUE_MAX`] bytes, wherever it would be kept: E2BIG.
    ValueTooLong,
    /// An access list that is not one: EINVAL.
    BadAccessList,
}

/// The number before a list in an inode, and at the start of a block of attributes.
pub const MAGIC: u32 = 0xea02_0000;
/// Bytes that end a list of entries.
const END: usize = 4;
/// Bytes of a block's header: its first entry follows.
pub const HEADER: usize = 32;
/// Bytes of an entry before its name.
const ENTRY: usize = 16;
/// Longest full name that a system call can give.
const NAME_MAX: usize = 255;

/// A prefix that is stored as a number. Nothing follows one that is a whole name.
struct Prefix {
    code: u8,
    text: &'static [u8],
    is_whole: bool,
}

const ACCESS: u8 = 2;
const DEFAULT: u8 = 3;
const SYSTEM: u8 = 7;
/// The prefix code of encryption contexts. They have no text: no system call gives them.
const ENCRYPTION: u8 = 9;

/// Data of a file in its inode goes on in the attribute of this prefix code and name.
pub const INLINE_DATA: (u8, &[u8]) = (SYSTEM, b"data");
/// An encryption context is the attribute of this prefix code and name.
pub const ENCRYPTION_CONTEXT: (u8, &[u8]) = (ENCRYPTION, b"c");

/// Whole names before the prefix that they begin with.
const PREFIXES: [Prefix; 7] = [
    Prefix { code: 1, text: b"user.", is_whole: false },
    Prefix { code: ACCESS, text: b"system.posix_acl_access", is_whole: true },
    Prefix { code: DEFAULT, text: b"system.posix_acl_default", is_whole: true },
    Prefix { code: 4, text: b"trusted.", is_whole: false },
    Prefix { code: 6, text: b"security.", is_whole: false },
    Prefix { code: 8, text: b"system.richacl", is_whole: true },
    Prefix { code: SYSTEM, text: b"system.", is_whole: false },
];

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: U32,
    reference_count: U32,
    blocks: U32,
    hash: U32,
    checksum: U32,
    reserved: [U32; 3],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawEntry {
    name_length: u8,
    prefix: u8,
    value_offset: U16,
    value_inode: U32,
    value_size: U32,
    hash: U32,
}

fn fault(field: &'static str, value: u64, reason: &'static str) -> Fault {
    Fault::Field { structure: "extended attribute", field, value, reason }
}

/// What one list holds, in the order in which it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct List {
    /// What getxattr gives; those in `distant` have no value yet.
    pub attributes: Vec<Attribute>,
    /// Values that are in inodes of their own (ea_inode).
    pub distant: Vec<Distant>,
    /// How many more there are that no system call gives: inline data, an encryption context.
    pub hidden: usize,
    /// The encryption context, which is one of those.
    pub context: Option<Vec<u8>>,
}

/// A value that is in an inode of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distant {
    /// Which of the list's attributes has it.
    pub at: usize,
    /// The inode.
    pub ino: Ino,
    /// Its bytes.
    pub bytes: u32,
    prefix: u8,
    suffix: Vec<u8>,
    hash: u32,
}

impl Distant {
    /// The attribute, of the bytes that its inode has.
    ///
    /// # Errors
    /// [`Fault::Field`] for an access list that is none.
    pub fn attribute(&self, value: &[u8]) -> Result<Attribute, Fault> {
        decode(self.prefix, &self.suffix, value)
    }

    /// How the entry of the same name is stored again, of the attribute with this number.
    pub fn kept(&self, at: usize) -> ValueInode {
        ValueInode { at, ino: self.ino, bytes: self.bytes, hash: self.hash }
    }

    /// Whether the hash in the entry is that of a value with this hash.
    pub fn is_hash_of(&self, value_hash: u32) -> bool {
        let value = StoredValue::Elsewhere { ino: self.ino, bytes: self.bytes };
        let (prefix, name, hash) = (self.prefix, self.suffix.as_slice(), self.hash);
        StoredEntry { prefix, name, value, offset: 0, hash }.is_hash_of_inode(value_hash)
    }
}

/// The longest value of an attribute, in bytes.
pub const VALUE_MAX: u32 = 1 << 16;

/// The attributes in an inode's tail; empty when it has no magic. Order as stored.
pub fn parse_tail(tail: &[u8]) -> Result<List, Fault> {
    match tail.split_first_chunk() {
        Some((magic, rest)) if u32::from_le_bytes(*magic) == MAGIC => parse_entries(rest, 0),
        _ => Ok(List::default()),
    }
}

/// Where in an inode's tail the part of its inline data is that `i_block` has no room for; `None`
/// where no attribute has it, which inline data needs even for no bytes.
///
/// # Errors
/// [`Fault::Field`] for a list with parts that overlap or pass its end.
pub fn inline_rest(tail: &[u8]) -> Result<Option<Range<usize>>, Fault> {
    let Some(list) = list_in_tail(tail) else { return Ok(None) };
    let mut found = None;
    let walked = walk(list, 0, &mut |entry| {
        if (entry.prefix, entry.name) == INLINE_DATA {
            found = Some((entry.offset, entry.value));
        }
    });
    let whole = list.len() as u64;
    walked.map_err(|_| fault("list", whole, "bytes long and has parts that overlap"))?;
    match found {
        None => Ok(None),
        Some((_, StoredValue::Here([]))) => Ok(Some(0..0)),
        Some((offset, StoredValue::Here(value))) => {
            let start = offset.saturating_add(size_of::<u32>());
            Ok(Some(start..start.saturating_add(value.len())))
        }
        Some((_, StoredValue::Elsewhere { ino, .. })) => {
            Err(fault("value's inode", ino.0.into(), "not 0, of inline data"))
        }
    }
}

/// The attributes in a block. The checksum is verified (metadata_csum), and the header (magic, one
/// block).
pub fn parse_block(bytes: &[u8], block: BlockNo, superblock: &Superblock) -> Result<List, Fault> {
    let structure = "attribute block";
    let Ok((header, _)) = RawHeader::ref_from_prefix(bytes) else {
        return Err(fault("block size", bytes.len() as u64, "too small"));
    };
    if header.magic.get() != MAGIC {
        return Err(Fault::Magic { structure, found: header.magic.get() });
    }
    if superblock.has(Feature::METADATA_CSUM) {
        let (stored, computed) = (header.checksum.get(), checksum(bytes, block, superblock));
        if stored != computed {
            return Err(Fault::Checksum { structure, stored, computed });
        }
    }
    if header.blocks.get() != 1 {
        let value = u64::from(header.blocks.get());
        return Err(Fault::Field { structure, field: "number of blocks", value, reason: "not 1" });
    }
    parse_entries(bytes, HEADER)
}

/// Reads the entries from `start` on; offsets of values count from the start of `region`.
fn parse_entries(region: &[u8], start: usize) -> Result<List, Fault> {
    let mut list = List::default();
    let mut rest = region.get(start..).unwrap_or_default();
    // What the values may take together. Values that overlap would make gigabytes of 64 KiB.
    let mut room = rest.len();
    loop {
        match rest.first_chunk() {
            Some(&[0, 0, 0, 0]) => return Ok(list),
            None => return Err(fault("list", region.len() as u64, "bytes long and has no end")),
            Some(_) => {}
        }
        let Ok((entry, after)) = RawEntry::ref_from_prefix(rest) else {
            return Err(fault(
                "entry",
                region.len().saturating_sub(rest.len()) as u64,
                "an offset too close to the end",
            ));
        };
        let name_length = usize::from(entry.name_length);
        let Some((suffix, next)) =
            after.get(..name_length).zip(after.get(name_length.next_multiple_of(4)..))
        else {
            return Err(fault("name length", u64::from(entry.name_length), "beyond the end"));
        };
        let value = value_of(region, entry)?;
        let size = padded(value.len()).saturating_add(entry_size(name_length));
        room = match room.checked_sub(size) {
            Some(room) => room,
            None => {
                return Err(fault(
                    "value size",
                    value.len() as u64,
                    "more than the values before it leave",
                ));
            }
        };
        rest = next;
        if [INLINE_DATA, ENCRYPTION_CONTEXT].contains(&(entry.prefix, suffix)) {
            list.hidden = list.hidden.saturating_add(1);
            if (entry.prefix, suffix) == ENCRYPTION_CONTEXT {
                if entry.value_inode != U32::ZERO {
                    let ino = entry.value_inode.get();
                    return Err(fault(
                        "value's inode",
                        ino.into(),
                        "not 0, of an encryption context",
                    ));
                }
                list.context.get_or_insert_with(|| value.to_vec());
            }
            continue;
        }
        let attribute = match entry.value_inode.get() {
            0 => decode(entry.prefix, suffix, value)?,
            ino => {
                let bytes = entry.value_size.get();
                if bytes > VALUE_MAX {
                    return Err(fault("value size", bytes.into(), "more than 65,536"));
                }
                let (at, ino, prefix) = (list.attributes.len(), Ino(ino), entry.prefix);
                let (suffix, hash) = (suffix.to_vec(), entry.hash.get());
                let distant = Distant { at, ino, bytes, prefix, suffix, hash };
                let name = name_of(prefix, &distant.suffix)?;
                list.distant.push(distant);
                Attribute { name, value: Vec::new() }
            }
        };
        list.attributes.push(attribute);
    }
}

fn value_of<'a>(region: &'a [u8], entry: &RawEntry) -> Result<&'a [u8], Fault> {
    if entry.value_inode != U32::ZERO {
        return Ok(&[]);
    }
    let size = entry.value_size.get() as usize;
    if size == 0 {
        return Ok(&[]);
    }
    let value =
        region.get(usize::from(entry.value_offset.get())..).and_then(|rest| rest.get(..size));
    value.ok_or_else(|| fault("value size", size as u64, "beyond the end"))
}

/// The full name of an entry on the disk.
fn name_of(code: u8, suffix: &[u8]) -> Result<Vec<u8>, Fault> {
    let Some(prefix) = PREFIXES.iter().find(|prefix| prefix.code == code) else {
        return Err(fault("name prefix", u64::from(code), "unknown"));
    };
    if suffix.is_empty() != prefix.is_whole {
        return Err(fault("name length", suffix.len() as u64, "wrong for its prefix"));
    }
    if suffix.contains(&0) {
        return Err(fault("name length", suffix.len() as u64, "that of a name with a zero byte"));
    }
    Ok([prefix.text, suffix].concat())
}

/// From an entry on the disk to what getxattr gives.
fn decode(code: u8, suffix: &[u8], value: &[u8]) -> Result<Attribute, Fault> {
    let name = name_of(code, suffix)?;
    let value = match code {
        ACCESS | DEFAULT => acl::from_disk(value).ok_or_else(|| {
            fault("access list size", value.len() as u64, "that of one that is not well formed")
        })?,
        _ => value.to_vec(),
    };
    Ok(Attribute { name, value })
}

/// How many inodes share the block (header field).
pub fn reference_count(bytes: &[u8]) -> u32 {
    RawHeader::ref_from_prefix(bytes).map_or(0, |(header, _)| header.reference_count.get())
}

/// Sets the count and the checksum.
pub fn set_reference_count(bytes: &mut [u8], count: u32, block: BlockNo, superblock: &Superblock) {
    if let Ok((header, _)) = RawHeader::mut_from_prefix(bytes) {
        header.reference_count = U32::new(count);
    }
    seal_block(bytes, block, superblock);
}

/// Most sharers that a block may have.
pub const REFERENCE_MAX: u32 = 1024;

/// Where each attribute of a list goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placed {
    /// The tail's new bytes (as long as the old), all zero when nothing goes there.
    pub tail: Vec<u8>,
    /// The block's new bytes (reference count 1, hashes set, checksum not), or `None` when no block
    /// is needed.
    pub block: Option<Vec<u8>>,
}

/// One attribute as it will be stored. Ordered as the kernel sorts the entries of a block; no two
/// have the same key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Stored {
    prefix: u8,
    name_length: usize,
    suffix: Vec<u8>,
    value: Vec<u8>,
    /// Where the value is, if it has an inode of its own. `value` is empty then.
    inode: Option<ValueInode>,
}

/// A value that is kept in an inode of its own (ea_inode).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ValueInode {
    /// Which of the attributes has it, by its number in the list.
    pub at: usize,
    /// The inode.
    pub ino: Ino,
    /// Bytes of the value.
    pub bytes: u32,
    /// The hash of the entry: see [`hash_of_entry`].
    pub hash: u32,
}

/// What one inode's tail and block have to hold.
#[derive(Clone, Copy, Default, Debug)]
pub struct Wanted<'a> {
    /// All that getxattr gives.
    pub attributes: &'a [Attribute],
    /// Those of them whose values are in inodes, rising.
    pub in_inodes: &'a [ValueInode],
    /// The second part of inline data, which stays in the tail; `None` for an inode without.
    pub inline_rest: Option<&'a [u8]>,
    /// The encryption context, which comes first of what may be elsewhere.
    pub context: Option<&'a [u8]>,
}

/// The hash of an entry whose value is in an inode: of the name, and of the hash of the value.
///
/// # Errors
/// As [`check_name`] has them.
pub fn hash_of_entry(name: &[u8], value_hash: u32) -> Result<u32, AttributeError> {
    let (_, suffix) = split_name(name)?;
    let name_hash = stored::hash_of_name(suffix, Characters::Unsigned);
    Ok(stored::hash_of_words(name_hash, [value_hash]))
}

/// The value of an attribute as the disk has it: access lists have another form there.
///
/// # Errors
/// `BadAccessList`; those of a bad name.
pub fn value_on_disk(attribute: &Attribute) -> Result<Vec<u8>, AttributeError> {
    Stored::new(attribute).map(|stored| stored.value)
}

impl Stored {
    fn new(attribute: &Attribute) -> Result<Stored, AttributeError> {
        let (prefix, suffix) = split_name(&attribute.name)?;
        let value = match prefix.code {
            ACCESS | DEFAULT => {
                acl::to_disk(&attribute.value).ok_or(AttributeError::BadAccessList)?
            }
            _ if attribute.value.len() > VALUE_MAX as usize => {
                return Err(AttributeError::ValueTooLong);
            }
            _ => attribute.value.clone(),
        };
        Ok(Stored {
            prefix: prefix.code,
            name_length: suffix.len(),
            suffix: suffix.to_vec(),
            value,
            inode: None,
        })
    }

    fn context(value: &[u8]) -> Stored {
        let (prefix, suffix) = ENCRYPTION_CONTEXT;
        let (name_length, suffix) = (suffix.len(), suffix.to_vec());
        Stored { prefix, name_length, suffix, value: value.to_vec(), inode: None }
    }

    /// The second part of inline data.
    fn of_inline_rest(rest: &[u8]) -> Stored {
        let (prefix, suffix) = INLINE_DATA;
        let (suffix, value) = (suffix.to_vec(), rest.to_vec());
        Stored { prefix, name_length: suffix.len(), suffix, value, inode: None }
    }

    /// The entry, with this hash.
    fn entry(&self, hash: u32) -> StoredEntry<'_> {
        let value = match self.inode {
            Some(ValueInode { ino, bytes, .. }) => StoredValue::Elsewhere { ino, bytes },
            None => StoredValue::Here(&self.value),
        };
        StoredEntry { prefix: self.prefix, name: &self.suffix, value, offset: 0, hash }
    }

    /// Bytes that entry and value take together.
    fn size(&self) -> usize {
        entry_size(self.name_length).saturating_add(padded(self.value.len()))
    }

    /// The hash of an entry in a block: over the name, and the value with its padding.
    fn hash(&self) -> u32 {
        if let Some(inode) = self.inode {
            return inode.hash;
        }
        let name = stored::hash_of_name(&self.suffix, Characters::Unsigned);
        stored::hash_of_words(name, stored::words(&self.value))
    }
}

fn padded(size: usize) -> usize {
    size.saturating_add(3) & !3
}

fn entry_size(name_length: usize) -> usize {
    padded(name_length).saturating_add(ENTRY)
}

/// Lays out a whole list: as many as fit in the tail, the rest in the block. Deterministic: sorted
/// as the kernel sorts block entries (prefix index, name length, name). Attributes already in the
/// tail need not stay there.
///
/// `NoRoom` means that no distribution over tail and block fits.
pub fn place(
    attributes: &[Attribute],
    tail_length: usize,
    superblock: &Superblock,
) -> Result<Placed, AttributeError> {
    place_all(&Wanted { attributes, ..Wanted::default() }, tail_length, superblock)
}

/// Which of the attributes of a new inode have to have their values in inodes of their own
/// (ea_inode), so that the rest has room in tail and block: the largest, by their numbers in the
/// list. None without the feature, or where all have room.
///
/// # Errors
/// `NoRoom` where they have none all the same; those of the attributes.
pub fn distant(
    attributes: &[Attribute],
    tail_length: usize,
    superblock: &Superblock,
) -> Result<Vec<usize>, AttributeError> {
    let length = |at: &usize| attributes.get(*at).map_or(0, |attribute| attribute.value.len());
    let mut candidates: Vec<usize> = (0..attributes.len()).filter(|at| length(at) > 0).collect();
    candidates.sort_by_key(length);
    let (mut chosen, mut in_inodes) = (Vec::new(), Vec::new());
    loop {
        let wanted = Wanted { attributes, in_inodes: &in_inodes, ..Wanted::default() };
        match place_all(&wanted, tail_length, superblock) {
            Ok(_) => return Ok(chosen),
            Err(AttributeError::NoRoom) if superblock.has(Feature::EA_INODE) => {}
            Err(error) => return Err(error),
        }
        let at = candidates.pop().ok_or(AttributeError::NoRoom)?;
        chosen.push(at);
        in_inodes.push(ValueInode { at, ino: Ino(1), bytes: 0, hash: 0 });
        in_inodes.sort_unstable_by_key(|value| value.at);
    }
}

/// As [`place`], beside inline data, which comes first in the tail, and an encryption context,
/// which is there before all others wherever it fits, and with values in inodes.
///
/// # Errors
/// `NoRoom`, also where inline data does not fit in the tail; those of the attributes.
pub fn place_all(
    wanted: &Wanted<'_>,
    tail_length: usize,
    superblock: &Superblock,
) -> Result<Placed, AttributeError> {
    let mut stored = wanted.attributes.iter().map(Stored::new).collect::<Result<Vec<_>, _>>()?;
    for inode in wanted.in_inodes {
        if let Some(stored) = stored.get_mut(inode.at) {
            (stored.value, stored.inode) = (Vec::new(), Some(*inode));
        }
    }
    stored.sort();
    let is_same =
        |pair: &[Stored]| matches!(pair, [a, b] if (a.prefix, &a.suffix) == (b.prefix, &b.suffix));
    if stored.windows(2).any(is_same) {
        return Err(AttributeError::BadName);
    }
    if let Some(value) = wanted.context {
        stored.insert(0, Stored::context(value));
    }
    let block_length = superblock.block_size() as usize;
    let tail_room = (tail_length & !3).saturating_sub(END).saturating_sub(END);
    let inline = wanted.inline_rest.map(Stored::of_inline_rest);
    let tail_room = tail_room
        .checked_sub(inline.as_ref().map_or(0, Stored::size))
        .ok_or(AttributeError::NoRoom)?;
    let block_room = block_length.saturating_sub(HEADER).saturating_sub(END);
    let in_tail = distribute(&stored, tail_room, block_room).ok_or(AttributeError::NoRoom)?;
    let (tail_part, block_part): (Vec<_>, Vec<_>) =
        stored.iter().zip(in_tail).partition(|(_, in_tail)| *in_tail);
    let tail_part = inline.iter().chain(tail_part.into_iter().map(|(stored, _)| stored));
    // In a tail the entries with a value in an inode alone have a hash.
    let tail_part =
        tail_part.map(|stored| stored.entry(stored.inode.map_or(0, |inode| inode.hash)));

    let tail = write_tail(tail_length, &tail_part.collect::<Vec<_>>());
    let mut placed = Placed { tail, block: None };
    if !block_part.is_empty() {
        let mut bytes = vec![0; block_length];
        let mut in_block: Vec<_> = block_part.into_iter().map(|(stored, _)| stored).collect();
        // The kernel searches a block as one that is sorted.
        in_block.sort();
        write_block(&mut bytes, &in_block);
        placed.block = Some(bytes);
    }
    Ok(placed)
}

/// A tail of these entries, in their order, which fit; all zero for none.
fn write_tail(tail_length: usize, entries: &[StoredEntry<'_>]) -> Vec<u8> {
    let mut tail = vec![0; tail_length];
    if let (false, Some((magic, region))) = (entries.is_empty(), tail.split_first_chunk_mut()) {
        *magic = MAGIC.to_le_bytes();
        write_entries(region, 0, entries.iter().copied());
    }
    tail
}

/// An inode's tail without the second part of inline data; the other entries are as they were.
///
/// # Errors
/// [`Fault::Field`] for a list with parts that overlap or pass its end.
pub fn without_inline_rest(tail: &[u8]) -> Result<Vec<u8>, Fault> {
    let Some(list) = list_in_tail(tail) else { return Ok(tail.to_vec()) };
    let mut entries = Vec::new();
    let walked = walk(list, 0, &mut |entry| {
        if (entry.prefix, entry.name) != INLINE_DATA {
            entries.push(entry);
        }
    });
    let whole = list.len() as u64;
    walked.map_err(|_| fault("list", whole, "bytes long and has parts that overlap"))?;
    Ok(write_tail(tail.len(), &entries))
}

/// Which attributes go in the tail: in order, whatever still fits there; or, when that leaves too
/// much for the block, those that fill the tail best. `None` when even these leave too much.
fn distribute(stored: &[Stored], tail_room: usize, block_room: usize) -> Option<Vec<bool>> {
    let sizes: Vec<usize> = stored.iter().map(Stored::size).collect();
    let total = sizes.iter().fold(0_usize, |sum, size| sum.saturating_add(*size));
    if total > tail_room.saturating_add(block_room) {
        return None;
    }
    let mut left = tail_room;
    let first_fit: Vec<bool> = sizes
        .iter()
        .map(|size| left.checked_sub(*size).map(|rest| left = rest).is_some())
        .collect();
    let rest_of = |left: usize| total.saturating_sub(tail_room.saturating_sub(left));
    if rest_of(left) <= block_room {
        return Some(first_fit);
    }
    let (chosen, filled) = fullest(&sizes, tail_room);
    (total.saturating_sub(filled) <= block_room).then_some(chosen)
}

/// The sizes (multiples of 4) whose sum comes nearest to `room` without passing it, and the sum.
fn fullest(sizes: &[usize], room: usize) -> (Vec<bool>, usize) {
    // Per sum, in units of 4 bytes: the first item that reached it. The rest of a sum was reached
    // by earlier items.
    let mut reached: Vec<Option<usize>> = vec![None; (room / 4).saturating_add(1)];
    for (item, size) in sizes.iter().enumerate() {
        let units = size / 4;
        for sum in (units..reached.len()).rev() {
            let before = sum.saturating_sub(units);
            let is_new = reached.get(sum).is_some_and(Option::is_none);
            let is_reachable = before == 0 || reached.get(before).is_some_and(Option::is_some);
            if let (true, true, Some(slot)) = (is_new, is_reachable, reached.get_mut(sum)) {
                *slot = Some(item);
            }
        }
    }
    let best = reached.iter().rposition(Option::is_some).unwrap_or(0);
    let mut chosen = vec![false; sizes.len()];
    let mut sum = best;
    while let Some(item) = reached.get(sum).copied().flatten().filter(|_| sum > 0) {
        if let (Some(mark), Some(size)) = (chosen.get_mut(item), sizes.get(item)) {
            *mark = true;
            sum = sum.saturating_sub(size / 4);
        }
    }
    (chosen, best.saturating_mul(4))
}

/// Writes entries from `start` on, and their values from the end of `region` down. The caller has
/// made sure that they fit.
fn write_entries<'a>(
    region: &mut [u8],
    start: usize,
    entries: impl Iterator<Item = StoredEntry<'a>>,
) {
    let mut at = start;
    // Values are aligned to the start of the region: a tail may end off the grid.
    let mut value_end = region.len() & !3;
    for StoredEntry { prefix, name, value, hash, .. } in entries {
        let (here, ino, value_size) = match value {
            StoredValue::Here(value) => (value, Ino(0), value.len() as u32),
            StoredValue::Elsewhere { ino, bytes } => (&[][..], ino, bytes),
        };
        value_end = value_end.saturating_sub(padded(here.len()));
        let entry = RawEntry {
            name_length: name.len() as u8,
            prefix,
            value_offset: U16::new(if here.is_empty() { 0 } else { value_end as u16 }),
            value_inode: U32::new(ino.0),
            value_size: U32::new(value_size),
            hash: U32::new(hash),
        };
        write_at(region, at, entry.as_bytes());
        write_at(region, at.saturating_add(ENTRY), name);
        write_at(region, value_end, here);
        at = at.saturating_add(entry_size(name.len()));
    }
}

fn write_at(region: &mut [u8], at: usize, bytes: &[u8]) {
    let place = region.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len()));
    place.expect("the sizes were added up before").copy_from_slice(bytes);
}

fn write_block(bytes: &mut [u8], entries: &[&Stored]) {
    let hashes: Vec<u32> = entries.iter().map(|stored| stored.hash()).collect();
    // A block with an entry whose hash happens to be 0 is marked as one that is not to be shared.
    let can_share = !hashes.contains(&0);
    let hash = hashes.iter().fold(0_u32, |hash, entry| hash.rotate_left(16) ^ entry);
    let header = RawHeader {
        magic: U32::new(MAGIC),
        reference_count: U32::new(1),
        blocks: U32::new(1),
        hash: U32::new(if can_share { hash } else { 0 }),
        checksum: U32::ZERO,
        reserved: [U32::ZERO; 3],
    };
    write_at(bytes, 0, header.as_bytes());
    let entries = entries.iter().zip(hashes).map(|(stored, hash)| stored.entry(hash));
    write_entries(bytes, HEADER, entries);
}

/// Writes the block's checksum for its place.
pub fn seal_block(bytes: &mut [u8], block: BlockNo, superblock: &Superblock) {
    let sum =
        if superblock.has(Feature::METADATA_CSUM) { checksum(bytes, block, superblock) } else { 0 };
    if let Ok((header, _)) = RawHeader::mut_from_prefix(bytes) {
        header.checksum = U32::new(sum);
    }
}

/// Over the block's number and the block, with zero for the checksum.
fn checksum(bytes: &[u8], block: BlockNo, superblock: &Superblock) -> u32 {
    const FIELD: usize = std::mem::offset_of!(RawHeader, checksum);
    let seed = crc32c(superblock.checksum_seed, &block.0.to_le_bytes());
    let (before, rest) = bytes.split_at_checked(FIELD).unwrap_or((bytes, &[]));
    let after = rest.get(4..).unwrap_or_default();
    crc32c(crc32c(crc32c(seed, before), &[0; 4]), after)
}

/// Whether a system call may set the name: it has a prefix that can be kept, and is not too long.
/// Names under "system." other than the access lists are refused, as the kernel refuses them;
/// `place` keeps those that an image has already.
pub fn check_name(name: &[u8]) -> Result<(), AttributeError> {
    if name.len() > NAME_MAX {
        return Err(AttributeError::BadName);
    }
    match split_name(name)?.0.code {
        8 | SYSTEM => Err(AttributeError::UnknownPrefix),
        _ => Ok(()),
    }
}

/// The prefix of a name and what follows it.
fn split_name(name: &[u8]) -> Result<(&'static Prefix, &[u8]), AttributeError> {
    let whole = PREFIXES.iter().find(|prefix| prefix.is_whole && prefix.text == name);
    let prefix = whole.or_else(|| {
        PREFIXES.iter().find(|prefix| !prefix.is_whole && name.starts_with(prefix.text))
    });
    let prefix = prefix.ok_or(AttributeError::UnknownPrefix)?;
    let suffix = name.get(prefix.text.len()..).unwrap_or_default();
    if (prefix.code, suffix) == INLINE_DATA {
        // The contents of an inline file: never an attribute.
        return Err(AttributeError::UnknownPrefix);
    }
    let is_bad = !prefix.is_whole && suffix.is_empty();
    if is_bad || suffix.len() > NAME_MAX || suffix.contains(&0) {
        Err(AttributeError::BadName)
    } else {
        Ok((prefix, suffix))
    }
}
