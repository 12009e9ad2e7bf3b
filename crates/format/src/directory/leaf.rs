//! Leaves: blocks of entries.
//!
//! Readers walk records with [`Style::record`], which checks each one before anything relies on it;
//! writers only touch places that such a walk has found.
// Offsets below come from checked records (offset + length <= block) and from constants; lengths
// are below 65,537.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
use super::{Entry, HEADER, NAME_MAX, RECORD_MIN, RawEntry, RawTail, Style, TAIL, field, legal};
use crate::inode::{FileType, MAP_SIZE};
use crate::{Fault, Ino};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

/// One checked link of the chain: it ends inside the block, and its name inside itself.
#[derive(Clone, Copy)]
struct Record {
    offset: usize,
    length: usize,
    ino: Ino,
    name_length: usize,
    code: u8,
}

impl Record {
    fn end(&self) -> usize {
        self.offset + self.length
    }

    fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let start = self.offset + HEADER;
        &bytes[start..start + self.name_length]
    }

    /// Whether this is its name. Names of one directory often differ in their end alone.
    #[inline]
    fn has_name(&self, bytes: &[u8], name: &[u8]) -> bool {
        self.name_length == name.len() && {
            let own = self.name(bytes);
            own.last() == name.last() && own == name
        }
    }

    /// Bytes that the record cannot give away.
    fn used(&self) -> usize {
        if self.ino.0 == 0 { 0 } else { entry_size(self.name_length) }
    }
}

/// What [`Style::seek`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought<'a> {
    /// The name is there.
    There(Entry<'a>),
    /// It is not there.
    Vacant {
        /// [`Style::insert`] would find room. If not, that is not certain.
        has_room: bool,
    },
}

/// The used entries of one block; see [`Style::entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    style: Style,
    bytes: &'a [u8],
    offset: usize,
    names: Names,
}

/// Which names an entry may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Names {
    /// Those that a path can hold; any other is a fault.
    Legal,
    Any,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Fault>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while self.offset < self.bytes.len() {
            let record = match self.style.record(self.bytes, self.offset) {
                Ok(record) => record,
                Err(fault) => return self.fail(fault),
            };
            self.offset = record.end();
            if record.ino.0 == 0 {
                continue;
            }
            let name = record.name(self.bytes);
            if self.names == Names::Legal
                && let Err(fault) = check_name(name)
            {
                return self.fail(fault);
            }
            let file_type = self.style.file_type(record.code);
            return Some(Ok(Entry { offset: record.offset, ino: record.ino, file_type, name }));
        }
        None
    }
}

impl Entries<'_> {
    /// Gives the fault, and nothing after it.
    #[cold]
    fn fail<T>(&mut self, fault: Fault) -> Option<Result<T, Fault>> {
        self.offset = self.bytes.len();
        Some(Err(fault))
    }
}

fn entry_size(name_length: usize) -> usize {
    (HEADER + name_length + 3) & !3
}

/// A name from the disk must be one that a path can hold: else "../x" in a hostile image would lead
/// out of an export.
#[inline]
fn check_name(name: &[u8]) -> Result<(), Fault> {
    if !legal::is_legal(name) {
        let reason = if name.is_empty() {
            "no bytes"
        } else {
            "the length of one with a slash or a zero byte"
        };
        return Err(field("directory entry", "name", name.len() as u64, reason));
    }
    Ok(())
}

impl Style {
    /// Bytes that an entry with a name of this length needs: 8 + length, rounded up to 4.
    pub fn entry_size(&self, name_length: usize) -> usize {
        entry_size(name_length)
    }

    /// Bytes for entries in a leaf.
    pub fn leaf_capacity(&self) -> usize {
        self.block_bytes() - if self.checksummed { TAIL } else { 0 }
    }

    /// Walks the used entries of a leaf (also "." and ".."; not the tail). An item is an error, and
    /// the last one, where the chain is broken: length not a multiple of 4, too short for the name,
    /// across the end, name of no bytes, or with a slash or a zero byte. The root of an index gives
    /// "." and ".."; a node gives nothing.
    #[inline]
    pub fn entries<'a>(&self, bytes: &'a [u8]) -> Entries<'a> {
        Entries { style: *self, bytes, offset: 0, names: Names::Legal }
    }

    /// As [`Style::entries`], but a name that no file may have is an entry like the others: for
    /// readers that save what is there, and say what it is.
    #[inline]
    pub fn all_entries<'a>(&self, bytes: &'a [u8]) -> Entries<'a> {
        Entries { style: *self, bytes, offset: 0, names: Names::Any }
    }

    /// Finds a name in a leaf. A fault before the name is reported; one after it is not seen.
    pub fn find<'a>(&self, bytes: &'a [u8], name: &[u8]) -> Result<Option<Entry<'a>>, Fault> {
        let mut offset = 0;
        while offset < bytes.len() {
            let record = self.record(bytes, offset)?;
            if record.ino.0 != 0 && record.has_name(bytes, name) {
                check_name(name)?;
                let file_type = self.file_type(record.code);
                return Ok(Some(Entry {
                    offset,
                    ino: record.ino,
                    file_type,
                    name: record.name(bytes),
                }));
            }
            offset = record.end();
        }
        Ok(None)
    }

    /// As [`Style::find`], in a leaf to which the name may be added: if it is not there, also says
    /// whether there surely is room for it.
    ///
    /// # Errors
    /// As for [`Style::find`].
    pub fn seek<'a>(&self, bytes: &'a [u8], name: &[u8]) -> Result<Sought<'a>, Fault> {
        let (size, capacity) = (entry_size(name.len()), self.leaf_capacity());
        let (mut offset, mut has_room) = (0, false);
        while offset < bytes.len() {
            let record = self.record(bytes, offset)?;
            if record.ino.0 != 0 && record.has_name(bytes, name) {
                return Ok(self
                    .find(bytes, name)?
                    .map_or(Sought::Vacant { has_room }, Sought::There));
            }
            offset = record.end();
            has_room |= offset <= capacity && record.length - record.used() >= size;
        }
        Ok(Sought::Vacant { has_room })
    }

    /// Makes `bytes` an empty leaf: one unused entry over all of it, and the tail.
    pub fn initialize(&self, bytes: &mut [u8]) {
        self.pack(bytes, std::iter::empty());
    }

    /// Inserts an entry where there is room (an unused entry, or the slack after a used one);
    /// false if there is none. That the name is new is for the caller to know. Panics unless the
    /// name has 1..=255 bytes.
    pub fn insert(
        &self,
        bytes: &mut [u8],
        name: &[u8],
        ino: Ino,
        file_type: FileType,
    ) -> Result<bool, Fault> {
        assert!((1..=NAME_MAX).contains(&name.len()), "a name of {} bytes", name.len());
        let Some(slot) = self.slot(bytes, entry_size(name.len()))? else {
            return Ok(false);
        };
        let used = slot.used();
        if used > 0 {
            self.set_length(bytes, slot.offset, used);
        }
        self.write_entry(bytes, slot.offset + used, slot.length - used, (name, ino, file_type));
        Ok(true)
    }

    /// Whether `insert` of a name of this length would find room.
    pub fn has_room(&self, bytes: &[u8], name_length: usize) -> Result<bool, Fault> {
        Ok(self.slot(bytes, entry_size(name_length))?.is_some())
    }

    /// Removes a name (its space goes to the entry before it); false if it is not there. The name's
    /// bytes are wiped.
    pub fn remove(&self, bytes: &mut [u8], name: &[u8]) -> Result<bool, Fault> {
        let before_tail = bytes.get_mut(..self.leaf_capacity()).unwrap_or_default();
        self.remove_inline(before_tail, name)
    }

    /// As [`Style::remove`], in one part of a directory with inline data: records fill all of it.
    ///
    /// # Errors
    /// [`Fault::Field`] for a chain of records that is broken before the name.
    pub fn remove_inline(&self, part: &mut [u8], name: &[u8]) -> Result<bool, Fault> {
        let (mut offset, mut before) = (0, None::<Record>);
        while offset < part.len() {
            let record = self.record(part, offset)?;
            if record.ino.0 == 0 || !record.has_name(part, name) {
                (offset, before) = (record.end(), Some(record));
                continue;
            }
            part[offset..offset + HEADER + record.name_length].fill(0);
            match before {
                Some(before) => self.set_length(part, before.offset, before.length + record.length),
                None => self.set_length(part, offset, record.length),
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Points an existing name at another inode; false if it is not there. Works on ".." in the
    /// root of an index too.
    pub fn replace(
        &self,
        bytes: &mut [u8],
        name: &[u8],
        ino: Ino,
        file_type: FileType,
    ) -> Result<bool, Fault> {
        let Some(offset) = self.find(bytes, name)?.map(|entry| entry.offset) else {
            return Ok(false);
        };
        let code = self.code(file_type);
        if let Ok((entry, _)) = RawEntry::mut_from_prefix(&mut bytes[offset..]) {
            (entry.ino, entry.code) = (U32::new(ino.0), code);
        }
        Ok(true)
    }

    /// Makes `bytes` a leaf that holds exactly these entries, packed, in this order. Panics when
    /// they do not fit.
    pub fn pack<'n>(
        &self,
        bytes: &mut [u8],
        entries: impl Iterator<Item = (&'n [u8], Ino, FileType)>,
    ) {
        let capacity = self.leaf_capacity();
        let (mut last, mut end) = (0, 0);
        for entry in entries {
            let size = entry_size(entry.0.len());
            assert!(end + size <= capacity, "entries of more than {capacity} bytes in one block");
            // What was there before shows in the padding otherwise.
            bytes[end + size - 4..end + size].fill(0);
            self.write_entry(bytes, end, size, entry);
            (last, end) = (end, end + size);
        }
        bytes[end..].fill(0);
        self.set_length(bytes, last, capacity - last);
        if self.checksummed {
            bytes[capacity..].copy_from_slice(RawTail::new(0).as_bytes());
        }
    }

    /// The first block of a new directory: "." and ".." .
    pub fn initialize_first(&self, bytes: &mut [u8], ino: Ino, parent: Ino) {
        let entries: [(&[u8], Ino, FileType); 2] =
            [(b".", ino, FileType::Directory), (b"..", parent, FileType::Directory)];
        self.pack(bytes, entries.into_iter());
    }

    /// The block that a directory with inline data would have: "." and "..", then the entries of
    /// both parts of its data. `data` begins with the parent's number.
    ///
    /// # Errors
    /// [`Fault::Field`] if the entries do not fill each part exactly, or if there are too many.
    pub fn block_of_inline(&self, ino: Ino, data: &[u8]) -> Result<Vec<u8>, Fault> {
        let size = |reason| field("inline directory", "size", data.len() as u64, reason);
        let (first, second) =
            data.split_at_checked(MAP_SIZE).ok_or_else(|| size("less than an inode has"))?;
        let (parent, first) = first.split_first_chunk().ok_or_else(|| size("too small"))?;
        let mut bytes = vec![0; self.block_bytes()];
        self.initialize_first(&mut bytes, ino, Ino(u32::from_le_bytes(*parent)));
        let mut at = 2 * RECORD_MIN;
        for part in [first, second] {
            self.all_entries(part).try_for_each(|entry| entry.map(|_| ()))?;
            let end = at + part.len();
            // An unused record covers what is left.
            if end + RECORD_MIN > self.leaf_capacity() {
                return Err(size("more than a block has"));
            }
            bytes[at..end].copy_from_slice(part);
            at = end;
        }
        self.set_length(&mut bytes, RECORD_MIN, RECORD_MIN);
        self.set_length(&mut bytes, at, self.leaf_capacity() - at);
        Ok(bytes)
    }
}

impl Style {
    /// Checks the record at `offset`.
    #[inline]
    fn record(&self, bytes: &[u8], offset: usize) -> Result<Record, Fault> {
        let structure = "directory entry";
        let rest = bytes.get(offset..).unwrap_or_default();
        let Ok((entry, _)) = RawEntry::ref_from_prefix(rest) else {
            return Err(field(
                structure,
                "offset",
                offset as u64,
                "too close to the end of the block",
            ));
        };
        let (length, name_length) =
            (self.decode_length(entry.length), usize::from(entry.name_length));
        let reason = if !length.is_multiple_of(4) {
            "not a multiple of 4"
        } else if length < RECORD_MIN || length < HEADER + name_length {
            "too short for its name"
        } else if length > rest.len() {
            "beyond the end of the block"
        } else {
            return Ok(Record {
                offset,
                length,
                ino: Ino(entry.ino.get()),
                name_length,
                code: entry.code,
            });
        };
        Err(field(structure, "length", length as u64, reason))
    }

    /// As [`Style::record`], for writers: it must end before the tail.
    fn leaf_record(&self, bytes: &[u8], offset: usize) -> Result<Record, Fault> {
        self.record(bytes.get(..self.leaf_capacity()).unwrap_or_default(), offset)
    }

    /// The first record that has this many bytes to give.
    fn slot(&self, bytes: &[u8], size: usize) -> Result<Option<Record>, Fault> {
        let mut offset = 0;
        while offset < self.leaf_capacity() {
            let record = self.leaf_record(bytes, offset)?;
            // A checked length is a multiple of 4 and covers the name, so it covers the name
            // rounded up.
            if record.length - record.used() >= size {
                return Ok(Some(record));
            }
            offset = record.end();
        }
        Ok(None)
    }

    pub(super) fn write_entry(
        &self,
        bytes: &mut [u8],
        offset: usize,
        length: usize,
        (name, ino, file_type): (&[u8], Ino, FileType),
    ) {
        assert!((1..=NAME_MAX).contains(&name.len()), "a name of {} bytes", name.len());
        let entry = RawEntry {
            ino: U32::new(ino.0),
            length: self.encode_length(length),
            name_length: name.len() as u8,
            code: self.code(file_type),
        };
        let place = &mut bytes[offset..offset + HEADER + name.len()];
        place[..HEADER].copy_from_slice(entry.as_bytes());
        place[HEADER..].copy_from_slice(name);
    }

    fn set_length(&self, bytes: &mut [u8], offset: usize, length: usize) {
        let stored = self.encode_length(length);
        if let Ok((entry, _)) = RawEntry::mut_from_prefix(&mut bytes[offset..]) {
            entry.length = stored;
        }
    }

    fn code(&self, file_type: FileType) -> u8 {
        if self.typed { file_type.entry_code() } else { 0 }
    }

    #[inline]
    fn file_type(&self, code: u8) -> Option<FileType> {
        if self.typed { FileType::from_entry_code(code) } else { None }
    }
}
