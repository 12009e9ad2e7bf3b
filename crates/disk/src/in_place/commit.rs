//! What was changed in memory comes to the medium, in an order that leaves the image whole
//! wherever it is cut, whatever of the writes since the last flush the medium has kept.
//!
//! ```text
//! before the first change   bits of the header that others rely on (autoclear)        flush
//! 1  data, where nothing refers to it; new tables; counts of what is used more        flush
//! 2  where new blocks of counts are; where the table of them is         if any        flush
//! 3  entries of L2 and L1 tables; the size of the disk                  if any        flush
//! 4  counts of what is used less, in memory: they come with the next commit
//! ```
//! What a cut leaves is counts that are too high: clusters that nobody uses (`qemu-img check -r
//! leaks`). Nothing ever refers to a cluster whose count is too low, or whose bytes are not there.
use super::state::State;
use std::io::{self, IoSlice};
use std::ops::Range;

const SECTOR_BYTES: usize = 512;
/// Where the header has the size of the disk, its encryption, and the entries and place of L1.
const SIZE_AT: u64 = 24;
/// Where it has the place and the clusters of the refcount table.
const REFCOUNTS_AT: u64 = 48;
/// Where it has the bits that a writer who does not know them clears.
const AUTOCLEAR_AT: u64 = 88;

impl State {
    /// Before the first change: what the image says of itself that will not be true any more.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        if self.header.autoclear == 0 {
            return Ok(());
        }
        self.medium.write(AUTOCLEAR_AT, &[IoSlice::new(&[0; 8])])?;
        self.medium.flush()?;
        self.header.autoclear = 0;
        Ok(())
    }

    /// Whether anything is to be written.
    pub(super) fn is_dirty(&self) -> bool {
        !self.l1_dirty.is_empty()
            || self.is_resized
            || self.counts.is_dirty()
            || !self.counts.freed.is_empty()
            || self.tables.values().any(|table| table.is_new || table.dirty.is_some())
    }

    /// Makes all that was changed durable.
    ///
    /// # Errors
    /// The host's. What was not written is written by the next one.
    pub(super) fn commit(&mut self) -> io::Result<()> {
        self.write_new()?;
        self.medium.flush()?;
        self.counts.blocks.values_mut().for_each(|block| block.is_new = false);
        for table in self.tables.values_mut().filter(|table| table.is_new) {
            (table.is_new, table.dirty) = (false, None);
        }
        if std::mem::take(&mut self.is_l1_new) {
            self.l1_dirty.clear();
        }
        self.write_places_of_counts()?;
        if self.write_entries()? {
            self.medium.flush()?;
        }
        self.l1_dirty.clear();
        self.is_resized = false;
        self.tables.values_mut().for_each(|table| table.dirty = None);
        // Nothing on the medium refers to what was freed.
        let free = self.counts.release(&self.medium)?;
        if !free.is_empty() {
            self.unpacked.forget();
        }
        for run in free_runs(free) {
            let bits = self.header.cluster_bits;
            self.medium.give_back(run.start << bits, (run.end - run.start) << bits);
        }
        self.counts.forget_clean();
        Ok(())
    }

    /// Writes tables that nothing refers to yet, and counts.
    fn write_new(&mut self) -> io::Result<()> {
        for table in self.tables.values().filter(|table| table.is_new) {
            self.medium.write(table.at, &[IoSlice::new(&table.bytes)])?;
        }
        if self.counts.is_table_new {
            self.medium
                .write(self.counts.table_at, &[IoSlice::new(&stored(&self.counts.table))])?;
        }
        if self.is_l1_new {
            self.medium.write(self.header.l1_offset, &[IoSlice::new(&stored(&self.l1))])?;
        }
        for block in self.counts.blocks.values_mut() {
            let range = match (block.is_new, block.dirty.clone()) {
                (true, _) => 0..block.bytes.len(),
                (false, Some(dirty)) => sectors(dirty),
                (false, None) => continue,
            };
            let bytes = &block.bytes[range.clone()];
            self.medium.write(block.at + range.start as u64, &[IoSlice::new(bytes)])?;
            block.dirty = None;
        }
        Ok(())
    }

    /// Says where new blocks of counts and the table of them are.
    fn write_places_of_counts(&mut self) -> io::Result<()> {
        if self.counts.is_table_new {
            let clusters = (self.counts.table.len() as u64 * 8) >> self.header.cluster_bits;
            let place = self.counts.table_at.to_be_bytes();
            let clusters = (clusters as u32).to_be_bytes();
            let pieces = [IoSlice::new(&place), IoSlice::new(&clusters)];
            self.medium.write(REFCOUNTS_AT, &pieces)?;
        } else if !self.counts.dirty.is_empty() {
            for number in &self.counts.dirty {
                let entry = self.counts.table[*number].to_be_bytes();
                let at = self.counts.table_at + *number as u64 * 8;
                self.medium.write(at, &[IoSlice::new(&entry)])?;
            }
        } else {
            return Ok(());
        }
        self.medium.flush()?;
        self.counts.is_table_new = false;
        self.counts.dirty.clear();
        Ok(())
    }

    /// Writes what refers to clusters. Whether there was anything.
    fn write_entries(&mut self) -> io::Result<bool> {
        let mut is_any = false;
        for table in self.tables.values() {
            if let Some(dirty) = table.dirty.clone() {
                let range = sectors(dirty);
                let bytes = &table.bytes[range.clone()];
                self.medium.write(table.at + range.start as u64, &[IoSlice::new(bytes)])?;
                is_any = true;
            }
        }
        if self.is_resized {
            let mut fields = [0; 24];
            fields[..8].copy_from_slice(&self.header.bytes.to_be_bytes());
            fields[12..16].copy_from_slice(&(self.header.l1_entries as u32).to_be_bytes());
            fields[16..].copy_from_slice(&self.header.l1_offset.to_be_bytes());
            self.medium.write(SIZE_AT, &[IoSlice::new(&fields)])?;
            is_any = true;
        }
        for number in &self.l1_dirty {
            let entry = self.l1[*number].to_be_bytes();
            let at = self.header.l1_offset + *number as u64 * 8;
            self.medium.write(at, &[IoSlice::new(&entry)])?;
            is_any = true;
        }
        Ok(is_any)
    }
}

/// Words as they are stored.
fn stored(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The whole sectors that bytes are in.
fn sectors(range: Range<usize>) -> Range<usize> {
    range.start - range.start % SECTOR_BYTES..range.end.next_multiple_of(SECTOR_BYTES)
}

/// Numbers as runs.
fn free_runs(mut numbers: Vec<u64>) -> Vec<Range<u64>> {
    numbers.sort_unstable();
    let mut runs: Vec<Range<u64>> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some(run) if run.end == number => run.end += 1,
            _ => runs.push(number..number + 1),
        }
    }
    runs
}
