//! Bytes of the disk that get another value: which cluster of the file they go to, and what goes
//! there with them.
//!
//! ```text
//! nobody else has the cluster        into it; parts that were zeros are filled up around
//! others have it, it is compressed,  into a free one, with what else the cluster holds; the entry
//! or there is none                   follows with the next commit
//! ```
use super::entry::{COPIED, Cluster, NOTHING, clusters_of, mask, part_bytes, parts};
use super::state::{State, Table};
use super::survey::Snapshots;
use crate::read::qcow2::tables::{OFFSET, Place};
use std::io::{self, IoSlice};
use std::ops::Range;

/// Bytes of tables that are to be written are at most so many, and the least number of them.
const DIRTY_BYTES_MAX: u64 = 16 << 20;
const DIRTY_MIN: usize = 8;
/// As QEMU has it.
const L1_BYTES_MAX: u64 = 32 << 20;
const SECTOR_BYTES: u64 = 512;

/// A cluster of the file that was free.
struct Taken {
    at: u64,
    /// It has never been written, and is a hole.
    is_fresh: bool,
}

impl State {
    /// Takes a free cluster; the file reaches to its end.
    fn take(&mut self) -> io::Result<Taken> {
        let fresh = self.counts.fresh;
        let cluster = self.counts.take(&self.medium)?;
        let at = cluster << self.header.cluster_bits;
        if let Err(error) = self.medium.lengthen(at + self.header.cluster_bytes()) {
            self.counts.freed.push(cluster);
            return Err(error);
        }
        Ok(Taken { at, is_fresh: cluster >= fresh })
    }

    fn free(&mut self, at: u64) {
        self.counts.freed.push(at >> self.header.cluster_bits);
    }

    /// Makes sure that the table for a byte is there, in memory, and no snapshot's.
    fn own_table(&mut self, at: u64) -> io::Result<()> {
        self.load(at)?;
        let (number, _) = self.numbers(at);
        let entry = self.l1[number];
        if entry & COPIED != 0 && entry & OFFSET != 0 {
            return Ok(());
        }
        let taken = self.take()?;
        let bytes = match self.tables.remove(&number) {
            Some(table) => table.bytes,
            None => vec![0; self.header.cluster_bytes() as usize],
        };
        self.tables.insert(number, Table { at: taken.at, bytes, is_new: true, dirty: None });
        self.l1[number] = taken.at | COPIED;
        self.l1_dirty.insert(number);
        if entry & OFFSET != 0 {
            self.free(entry & OFFSET);
        }
        Ok(())
    }

    /// Writes bytes that are within one cluster.
    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.begin()?;
        self.own_table(at)?;
        let before = self.cluster(at)?;
        let (start, of_part) = (at - at % self.header.cluster_bytes(), part_bytes(&self.header));
        let inside = at - start;
        let touched =
            (inside / of_part) as u32..((inside + bytes.len() as u64).div_ceil(of_part)) as u32;
        let in_place = before.is_own && before.compressed.is_none();
        if in_place && before.has(mask(touched.clone())) {
            return self.medium.write(before.at + inside, &[IoSlice::new(bytes)]);
        }
        let all = 0..parts(&self.header);
        let kept = match before.compressed {
            Some(_) => all,
            None if in_place || before.there == 0 => touched.clone(),
            None => {
                before.there.trailing_zeros().min(touched.start)
                    ..(32 - before.there.leading_zeros()).max(touched.end)
            }
        };
        let target = match in_place {
            true => Taken { at: before.at, is_fresh: false },
            false => self.take()?,
        };
        let filled = self.fill(start, (&target, kept.clone()), (inside, bytes));
        if let (Err(_), false) = (&filled, in_place) {
            self.free(target.at);
        }
        filled?;
        let there = match before.compressed {
            Some(_) => mask(kept),
            None => before.there | mask(touched.clone()),
        };
        let zeros = before.zeros & !mask(touched) & !there;
        let after = Cluster { at: target.at, is_own: true, there, zeros, compressed: None };
        self.set_cluster(at, &after);
        if !in_place {
            self.free_cluster(&before);
        }
        self.bound()
    }

    /// Writes bytes to their cluster, with what else the parts hold that go there with them.
    fn fill(
        &mut self,
        start: u64,
        (target, kept): (&Taken, Range<u32>),
        (inside, bytes): (u64, &[u8]),
    ) -> io::Result<()> {
        let of_part = part_bytes(&self.header);
        let from = u64::from(kept.start) * of_part;
        let to = u64::from(kept.end) * of_part;
        if target.is_fresh && self.is_empty(start + from..start + to)? {
            return self.medium.write(target.at + inside, &[IoSlice::new(bytes)]);
        }
        let mut whole = vec![0; (to - from) as usize];
        if bytes.len() < whole.len() {
            self.read(start + from, &mut whole)?;
        }
        let place = (inside - from) as usize;
        whole[place..place + bytes.len()].copy_from_slice(bytes);
        self.medium.write(target.at + from, &[IoSlice::new(&whole)])
    }

    /// Whether a stretch of one cluster is known to be zeros.
    fn is_empty(&self, range: Range<u64>) -> io::Result<bool> {
        let mut at = range.start;
        while at < range.end {
            let (place, left) = self.find(at)?;
            if !self.is_nothing(place, at) {
                return Ok(false);
            }
            at = at.saturating_add(left);
        }
        Ok(true)
    }

    fn free_cluster(&mut self, cluster: &Cluster) {
        if let Some(place) = cluster.compressed {
            self.counts.freed.extend(clusters_of(&self.header, place));
        } else if cluster.at != 0 {
            self.free(cluster.at);
        }
    }

    /// Gives back the clusters that are wholly in a stretch of the disk: it reads as zeros then.
    pub(super) fn discard(&mut self, range: Range<u64>) -> io::Result<()> {
        let size = self.header.cluster_bytes();
        let disk = self.header.bytes;
        // The last cluster may be larger than what the disk has of it.
        let end = if range.end == disk { disk.next_multiple_of(size) } else { range.end };
        let mut at = range.start.next_multiple_of(size);
        let end = end - end % size;
        if self.backing.is_some() && self.header.version < 3 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.begin()?;
        while at < end {
            self.load(at)?;
            if let (Place::Backing, left) = self.find(at)?
                && self.is_nothing(Place::Backing, at)
                && left > size
            {
                at = at.saturating_add(left);
                continue;
            }
            let before = self.cluster(at)?;
            let after = match self.backing.is_some() {
                true => Cluster { zeros: mask(0..parts(&self.header)), ..NOTHING },
                false => NOTHING,
            };
            if before != after {
                self.own_table(at)?;
                self.set_cluster(at, &after);
                self.free_cluster(&before);
                self.bound()?;
            }
            at += size;
        }
        Ok(())
    }

    /// Makes the disk larger.
    pub(super) fn grow(&mut self, bytes: u64) -> io::Result<()> {
        let refused = |words: &str| Err(io::Error::new(io::ErrorKind::Unsupported, words));
        let before = self.header.bytes;
        let bytes = bytes.next_multiple_of(SECTOR_BYTES);
        if bytes <= before {
            return Ok(());
        }
        if self.header.snapshots > 0 && self.snapshots == Snapshots::Silent {
            return refused("its snapshots do not say how large their disk is");
        }
        let entries = bytes.div_ceil(self.header.bytes_of_table());
        if bytes > i64::MAX as u64 || entries.saturating_mul(8) > L1_BYTES_MAX {
            return refused("its clusters are too small for a disk of that size");
        }
        self.begin()?;
        self.blank(before..bytes)?;
        if entries > self.header.l1_entries {
            let size = self.header.cluster_bytes();
            let run = self.counts.take_run(&self.medium, (entries * 8).div_ceil(size))?;
            let at = run.start << self.header.cluster_bits;
            self.medium.lengthen(run.end << self.header.cluster_bits)?;
            let old = self.header.l1_offset >> self.header.cluster_bits;
            let old_clusters = (self.header.l1_entries * 8).div_ceil(size);
            self.counts.freed.extend(old..old + old_clusters);
            self.l1.resize(entries as usize, 0);
            (self.header.l1_offset, self.header.l1_entries) = (at, entries);
            self.is_l1_new = true;
        }
        self.header.bytes = bytes;
        self.is_resized = true;
        self.commit()
    }

    /// Makes sure that what a larger disk gets is zeros: the last cluster may hold anything past
    /// the end, and so may a backing file.
    fn blank(&mut self, added: Range<u64>) -> io::Result<()> {
        let size = self.header.cluster_bytes();
        let rest = added.start.next_multiple_of(size).min(added.end) - added.start;
        if rest > 0 {
            self.load(added.start)?;
            let (place, _) = self.find(added.start)?;
            if !self.is_nothing(place, added.start) {
                self.put(added.start, &vec![0; rest as usize])?;
            }
        }
        let mut at = added.start.next_multiple_of(size);
        let told = self.header.bytes_of_table().saturating_mul(self.l1.len() as u64);
        while at < added.end.min(told) {
            self.load(at)?;
            let (place, left) = self.find(at)?;
            if !matches!(place, Place::Zeros | Place::Backing) {
                let words = "it has something past the end of its disk";
                return Err(io::Error::new(io::ErrorKind::Unsupported, words));
            }
            at = at.saturating_add(left);
        }
        let shown = self.backing.as_ref().map_or(0, |backing| backing.info().bytes);
        if shown > added.start {
            let words = "its backing file is larger than its disk";
            return Err(io::Error::new(io::ErrorKind::Unsupported, words));
        }
        Ok(())
    }

    /// Brings what is to be written to the medium where that is much.
    fn bound(&mut self) -> io::Result<()> {
        let most = ((DIRTY_BYTES_MAX >> self.header.cluster_bits) as usize).max(DIRTY_MIN);
        let is_dirty = |table: &Table| table.is_new || table.dirty.is_some();
        if self.tables.len() > most && self.tables.values().filter(|it| is_dirty(it)).count() > most
        {
            self.commit()?;
        }
        Ok(())
    }
}
