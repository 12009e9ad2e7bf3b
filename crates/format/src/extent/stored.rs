//! A node as it is stored: entries may hold anything.
use super::{ENTRY, Extent, HEADER, Index, MAGIC, RawEntry, RawHeader};
use zerocopy::FromBytes;

/// A node as it is stored. Entries may overlap, lead anywhere, or have no length.
#[derive(Clone, Copy, Debug)]
pub struct StoredNode<'a> {
    depth: u16,
    entries: &'a [RawEntry],
}

impl<'a> StoredNode<'a> {
    /// Reads the header: `None` without the magic number, with more entries than its maximum, and
    /// with a maximum that is not what fits. Up to two places at the end may be left free: other
    /// systems do so to keep a checksum there.
    pub fn read(bytes: &'a [u8]) -> Option<StoredNode<'a>> {
        let (header, rest) = RawHeader::ref_from_prefix(bytes).ok()?;
        let (entries, max) = (header.entries.get(), usize::from(header.max.get()));
        let fits = bytes.len().saturating_sub(HEADER) / ENTRY;
        let room = fits.saturating_sub(2).max(1)..=fits;
        if header.magic.get() != MAGIC || usize::from(entries) > max || !room.contains(&max) {
            return None;
        }
        let (entries, _) = <[RawEntry]>::ref_from_prefix_with_elems(rest, entries.into()).ok()?;
        Some(StoredNode { depth: header.depth.get(), entries })
    }

    /// The depth that the header says; 0 for a leaf.
    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// The file block of the first entry.
    pub fn first_file_block(&self) -> Option<u64> {
        self.entries.first().map(|entry| entry.file_block.get().into())
    }

    /// The entries as those of a leaf. A length may be 0.
    pub fn extents(&self) -> impl Iterator<Item = Extent> + use<'a> {
        self.entries.iter().map(RawEntry::extent)
    }

    /// The entries as those of an index node.
    pub fn indexes(&self) -> impl Iterator<Item = Index> + use<'a> {
        self.entries.iter().map(RawEntry::index)
    }
}
