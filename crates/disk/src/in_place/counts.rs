//! How often each cluster of the file is used: the counts, which clusters are free, and the table
//! of the blocks of counts.
//!
//! ```text
//! header -> refcount table -> refcount block -> a count of 1 to 64 bits for each cluster
//! ```
//! *Invariants*: a bit of `used` is set exactly where the count is not 0. A block that is new is
//! referred to by no table that is on the medium; nor is a table that is new by the header.
//! *Locking*: none; it belongs to the state of the image.
use super::medium::Medium;
use crate::read::error::Error;
use crate::read::qcow2::header::Header;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;

/// Bytes of a table, as QEMU has them.
const TABLE_BYTES_MAX: u64 = 8 << 20;
/// Bytes of blocks that are kept in memory although they are as on the medium.
const CLEAN_BYTES_MAX: u64 = 8 << 20;
const OFFSET: u64 = !511;

/// A block of counts.
pub(super) struct Block {
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) is_new: bool,
    /// Bytes that are to be written.
    pub(super) dirty: Option<Range<usize>>,
}

/// The counts of all clusters.
pub(super) struct Counts {
    cluster_bits: u32,
    order: u32,
    pub(super) table_at: u64,
    pub(super) table: Vec<u64>,
    /// Entries that are to be written.
    pub(super) dirty: BTreeSet<usize>,
    /// The table is at another place than the header on the medium says.
    pub(super) is_table_new: bool,
    pub(super) blocks: BTreeMap<u64, Block>,
    /// A bit for each cluster; what is past it is free.
    used: Vec<u64>,
    /// No cluster below is free.
    hint: u64,
    /// Clusters from here on have never been written: the file ends before.
    pub(super) fresh: u64,
    /// What is not used any more, once a table that does not refer to it is on the medium.
    pub(super) freed: Vec<u64>,
}

impl Counts {
    /// Reads all counts.
    pub(super) fn open(header: &Header, medium: &Medium) -> Result<Counts, Error> {
        if header.refcount_order > 6 {
            let what = format!("counts of 2^{} bits", header.refcount_order);
            return Err(Error::damaged(what, 96));
        }
        let at = header.refcount_offset;
        let bytes = header.refcount_clusters << header.cluster_bits;
        let file_bytes = medium.bytes();
        let fits = at.checked_add(bytes).is_some_and(|end| end <= file_bytes);
        if bytes == 0
            || bytes > TABLE_BYTES_MAX
            || !fits
            || !at.is_multiple_of(header.cluster_bytes())
        {
            let what = format!("a refcount table of {bytes} bytes at byte {at}");
            return Err(Error::damaged(what, 48));
        }
        let mut stored = vec![0; bytes as usize];
        medium.read(at, &mut stored)?;
        let words = stored.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word));
        let table: Vec<u64> = words.map(|word| word & OFFSET).collect();
        let mut sorted: Vec<u64> = table.iter().copied().filter(|at| *at != 0).collect();
        sorted.sort_unstable();
        let twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
        let outside = |at: &u64| {
            !at.is_multiple_of(header.cluster_bytes())
                || at.saturating_add(header.cluster_bytes()) > file_bytes
        };
        if let Some(at) = sorted.iter().find(|at| outside(at)) {
            return Err(Error::damaged(format!("a refcount block at byte {at}"), at_of(header)));
        }
        // The file has at most CLUSTERS_MAX clusters, and so many counts are walked.
        let counted_max = counted_max(header, file_bytes);
        let last = table.iter().rposition(|at| *at != 0).unwrap_or(0) as u64;
        if last << (header.cluster_bits + 3 - header.refcount_order) > counted_max {
            let what = "counts of clusters that are far past the end of the file";
            return Err(Error::damaged(what, at_of(header)));
        }
        if twice {
            return Err(Error::damaged("a refcount block that is used twice", at_of(header)));
        }
        let mut counts = Counts {
            cluster_bits: header.cluster_bits,
            order: header.refcount_order,
            table_at: at,
            table,
            dirty: BTreeSet::new(),
            is_table_new: false,
            blocks: BTreeMap::new(),
            used: Vec::new(),
            hint: 0,
            fresh: file_bytes.div_ceil(header.cluster_bytes()),
            freed: Vec::new(),
        };
        counts.note_used(medium, counted_max)?;
        Ok(counts)
    }

    /// Notes which clusters are used, block by block.
    fn note_used(&mut self, medium: &Medium, counted_max: u64) -> Result<(), Error> {
        let per_block = self.per_block();
        for number in 0..self.table.len() as u64 {
            if self.table[number as usize] == 0 {
                continue;
            }
            self.load(medium, number)?;
            for within in 0..per_block {
                let cluster = number * per_block + within;
                match self.stored(number, within) {
                    0 => {}
                    _ if cluster <= counted_max => self.note(cluster, Use::Used),
                    _ => {
                        let what = "a count of a cluster that is far past the end of the file";
                        return Err(Error::damaged(what, self.table[number as usize]));
                    }
                }
            }
            self.forget_clean();
        }
        Ok(())
    }

    /// How many clusters a block counts.
    pub(super) fn per_block(&self) -> u64 {
        1 << (self.cluster_bits + 3 - self.order)
    }

    fn load(&mut self, medium: &Medium, number: u64) -> io::Result<()> {
        if self.blocks.contains_key(&number) {
            return Ok(());
        }
        let at = self.table.get(number as usize).copied().unwrap_or(0);
        let mut bytes = vec![0; 1 << self.cluster_bits];
        medium.read(at, &mut bytes)?;
        self.blocks.insert(number, Block { at, bytes, is_new: false, dirty: None });
        Ok(())
    }

    /// Forgets blocks that are as on the medium, where they take much memory.
    pub(super) fn forget_clean(&mut self) {
        if (self.blocks.len() as u64) << self.cluster_bits > CLEAN_BYTES_MAX {
            self.blocks.retain(|_, block| block.is_new || block.dirty.is_some());
        }
    }

    /// A count of a block that is in memory; 0 where there is none.
    fn stored(&self, number: u64, within: u64) -> u64 {
        let Some(block) = self.blocks.get(&number) else { return 0 };
        match self.order {
            0..=2 => {
                let bit = within << self.order;
                let byte = block.bytes[(bit / 8) as usize] >> (bit % 8);
                u64::from(byte) & ((1 << (1 << self.order)) - 1)
            }
            _ => {
                let width = 1 << (self.order - 3);
                let start = within as usize * width;
                let bytes = &block.bytes[start..start + width];
                bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            }
        }
    }

    /// How often a cluster is used.
    pub(super) fn get(&mut self, medium: &Medium, cluster: u64) -> io::Result<u64> {
        let number = cluster / self.per_block();
        if self.table.get(number as usize).is_none_or(|at| *at == 0) {
            return Ok(0);
        }
        self.load(medium, number)?;
        Ok(self.stored(number, cluster % self.per_block()))
    }

    /// Whether a cluster has a count.
    pub(super) fn is_used(&self, cluster: u64) -> bool {
        self.used.get((cluster / 64) as usize).is_some_and(|word| word >> (cluster % 64) & 1 == 1)
    }

    fn note(&mut self, cluster: u64, used: Use) {
        let (word, bit) = ((cluster / 64) as usize, 1 << (cluster % 64));
        if self.used.len() <= word {
            self.used.resize(word + 1, 0);
        }
        match used {
            Use::Used => self.used[word] |= bit,
            Use::Free => {
                self.used[word] &= !bit;
                self.hint = self.hint.min(cluster);
            }
        }
    }

    /// Changes the count of a cluster whose block is there.
    fn set(&mut self, medium: &Medium, cluster: u64, count: u64) -> io::Result<()> {
        let (number, within) = (cluster / self.per_block(), cluster % self.per_block());
        self.load(medium, number)?;
        let order = self.order;
        let Some(block) = self.blocks.get_mut(&number) else { return Ok(()) };
        let range = match order {
            0..=2 => {
                let bit = within << order;
                let byte = &mut block.bytes[(bit / 8) as usize];
                let ones = ((1_u16 << (1 << order)) - 1) as u8;
                *byte = *byte & !(ones << (bit % 8)) | (count as u8 & ones) << (bit % 8);
                (bit / 8) as usize..(bit / 8) as usize + 1
            }
            _ => {
                let width = 1 << (order - 3);
                let start = within as usize * width;
                let stored = count.to_be_bytes();
                block.bytes[start..start + width].copy_from_slice(&stored[8 - width..]);
                start..start + width
            }
        };
        join(&mut block.dirty, range);
        self.fresh = self.fresh.max(cluster + 1);
        self.note(cluster, if count == 0 { Use::Free } else { Use::Used });
        Ok(())
    }

    /// Takes a cluster that is free, and gives its number.
    pub(super) fn take(&mut self, medium: &Medium) -> io::Result<u64> {
        Ok(self.take_run(medium, 1)?.start)
    }

    /// Takes clusters that are free, one after the other.
    pub(super) fn take_run(&mut self, medium: &Medium, length: u64) -> io::Result<Range<u64>> {
        // Each round but the last one adds a block or a table: they end.
        loop {
            let start = self.free_run(length);
            let end = start + length;
            if end > 1 << (55 - self.cluster_bits) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let mut blocks = start / self.per_block()..(end - 1) / self.per_block() + 1;
            if blocks.end > self.table.len() as u64 {
                self.lengthen_table(medium, blocks.end)?;
                continue;
            }
            if let Some(number) = blocks.find(|number| self.table[*number as usize] == 0) {
                // The first cluster of what it counts, or of the run, becomes the block itself.
                self.add_block(medium, number, start.max(number * self.per_block()))?;
                continue;
            }
            for cluster in start..end {
                self.set(medium, cluster, 1)?;
            }
            if length == 1 {
                self.hint = end;
            }
            return Ok(start..end);
        }
    }

    /// Where so many clusters are free.
    fn free_run(&self, length: u64) -> u64 {
        let end = self.used.len() as u64 * 64;
        let (mut start, mut at) = (self.hint, self.hint);
        while at < end && at - start < length {
            if at.is_multiple_of(64) && self.used[(at / 64) as usize] == u64::MAX {
                at += 64;
                start = at;
                continue;
            }
            at += 1;
            if self.is_used(at - 1) {
                start = at;
            }
        }
        start
    }

    /// Makes a free cluster that a missing block is to count into that block.
    fn add_block(&mut self, medium: &Medium, number: u64, cluster: u64) -> io::Result<()> {
        let at = cluster << self.cluster_bits;
        let block = Block { at, bytes: vec![0; 1 << self.cluster_bits], is_new: true, dirty: None };
        self.blocks.insert(number, block);
        self.table[number as usize] = at;
        self.dirty.insert(number as usize);
        self.set(medium, cluster, 1)
    }

    /// Puts a longer table after all that is used, with the blocks that count it.
    fn lengthen_table(&mut self, medium: &Medium, needed: u64) -> io::Result<()> {
        let (per_block, bits) = (self.per_block(), self.cluster_bits);
        let last = self.used.iter().rposition(|word| *word != 0);
        let after =
            |word: usize| (word as u64 + 1) * 64 - u64::from(self.used[word].leading_zeros());
        let start = last.map_or(0, after);
        let mut entries = needed.max(self.table.len() as u64) * 3 / 2;
        let (table, missing) = loop {
            let table = (entries * 8).div_ceil(1 << bits);
            let first = start / per_block;
            // As many blocks as would count the table and themselves.
            let mut count = 1;
            while (start + table + count).div_ceil(per_block) - first > count {
                count += 1;
            }
            let missing: Vec<u64> = (first..first + count)
                .filter(|number| self.table.get(*number as usize).is_none_or(|at| *at == 0))
                .collect();
            if first + count <= (table << bits) / 8 {
                break (table, missing);
            }
            entries = first + count + 1;
        };
        if table << bits > TABLE_BYTES_MAX {
            let words = "its refcount table cannot be longer: larger clusters are needed";
            return Err(io::Error::new(io::ErrorKind::StorageFull, words));
        }
        let before = self.table_at >> bits
            ..(self.table_at >> bits) + ((self.table.len() as u64 * 8) >> bits);
        self.table.resize(((table << bits) / 8) as usize, 0);
        for (place, number) in (start + table..).zip(&missing) {
            let bytes = vec![0; 1 << bits];
            let block = Block { at: place << bits, bytes, is_new: true, dirty: None };
            self.blocks.insert(*number, block);
            self.table[*number as usize] = place << bits;
        }
        for cluster in start..start + table + missing.len() as u64 {
            self.set(medium, cluster, 1)?;
        }
        (self.table_at, self.is_table_new) = (start << bits, true);
        self.dirty.clear();
        self.freed.extend(before);
        Ok(())
    }

    /// One use less of each of what was freed. Gives those that nothing uses any more.
    pub(super) fn release(&mut self, medium: &Medium) -> io::Result<Vec<u64>> {
        let mut free = Vec::new();
        while let Some(cluster) = self.freed.last().copied() {
            let count = self.get(medium, cluster)?;
            // An image whose counts are too low was refused.
            if count > 0 {
                self.set(medium, cluster, count - 1)?;
            }
            if count == 1 {
                free.push(cluster);
            }
            self.freed.pop();
        }
        Ok(free)
    }

    /// Whether anything is to be written.
    pub(super) fn is_dirty(&self) -> bool {
        let is_dirty = |block: &Block| block.is_new || block.dirty.is_some();
        self.is_table_new || !self.dirty.is_empty() || self.blocks.values().any(is_dirty)
    }
}

#[derive(Clone, Copy)]
enum Use {
    Used,
    Free,
}

/// The last cluster that may have a count.
fn counted_max(header: &Header, file_bytes: u64) -> u64 {
    const PAST_THE_END: u64 = 1 << 20;
    file_bytes.div_ceil(header.cluster_bytes()) + PAST_THE_END
}

fn at_of(header: &Header) -> u64 {
    header.refcount_offset
}

/// Adds bytes to those that are to be written.
pub(super) fn join(dirty: &mut Option<Range<usize>>, range: Range<usize>) {
    *dirty = Some(match dirty.take() {
        None => range,
        Some(before) => before.start.min(range.start)..before.end.max(range.end),
    });
}
