//! An image in memory: its L1 table, the L2 tables that were used last and those that are to be
//! written, and where each byte of the disk is.
//!
//! *Invariants*: what is to be written is in memory until [`commit`](super::commit) has brought all
//! of it; a table that is new is referred to by nothing that is on the medium.
//! *Locking*: none; the device has one lock around it.
use super::counts::{Counts, join};
use super::entry::{COPIED, Cluster, part_bytes, parts};
use super::medium::Medium;
use super::survey::{self, Snapshots};
use crate::read::device::{big_64, read_exact};
use crate::read::error::Error;
use crate::read::qcow2::cluster::Clusters;
use crate::read::qcow2::header::{DIRTY, Header};
use crate::read::qcow2::read_backing;
use crate::read::qcow2::tables::{OFFSET, Place};
use extant_block::BlockDevice;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of L2 tables in memory that are as on the medium, and the least number of them.
const CLEAN_BYTES_MAX: u64 = 32 << 20;
const CLEAN_MIN: usize = 16;

/// An L2 table.
pub(super) struct Table {
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) is_new: bool,
    /// Bytes that are to be written.
    pub(super) dirty: Option<Range<usize>>,
}

/// An image.
pub(super) struct State {
    pub(super) medium: Medium,
    pub(super) header: Header,
    pub(super) l1: Vec<u64>,
    /// Entries of the L1 table that are to be written.
    pub(super) l1_dirty: BTreeSet<usize>,
    /// The L1 table is at another place than the header on the medium says.
    pub(super) is_l1_new: bool,
    /// The header is to say another size, and another place of the L1 table.
    pub(super) is_resized: bool,
    pub(super) tables: BTreeMap<usize, Table>,
    pub(super) counts: Counts,
    pub(super) unpacked: Clusters,
    pub(super) snapshots: Snapshots,
    pub(super) backing: Option<Arc<dyn BlockDevice>>,
}

impl State {
    /// Opens an image, and makes sure that it can be written.
    pub(super) fn open(
        below: Arc<dyn BlockDevice>,
        backing: Option<Arc<dyn BlockDevice>>,
    ) -> Result<State, Error> {
        let header = Header::read(&below)?;
        if header.backing.is_some() != backing.is_some() {
            header.refuse_backing(&below)?;
        }
        if header.features & DIRTY != 0 {
            let words = "was not closed by QEMU, and has counts that may be wrong";
            return Err(Error::Uncounted(words.into()));
        }
        let medium = Medium::new(below);
        survey::check_length(&header, medium.bytes())?;
        let mut stored = vec![0; (header.l1_entries * 8) as usize];
        read_exact(&medium.below, header.l1_offset, &mut stored)?;
        let words = stored.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word));
        let l1: Vec<u64> = words.map(|word| word & (OFFSET | COPIED)).collect();
        let mut counts = Counts::open(&header, &medium)?;
        let snapshots = survey::check(&header, &medium, &l1, &mut counts)?;
        Ok(State {
            unpacked: Clusters::new(&header),
            medium,
            header,
            l1,
            l1_dirty: BTreeSet::new(),
            is_l1_new: false,
            is_resized: false,
            tables: BTreeMap::new(),
            counts,
            snapshots,
            backing,
        })
    }

    /// The entry of the L1 table for a byte of the disk, and the number of the one in the L2 table.
    pub(super) fn numbers(&self, at: u64) -> (usize, usize) {
        let of_table = self.header.bytes_of_table();
        ((at / of_table) as usize, ((at % of_table) >> self.header.cluster_bits) as usize)
    }

    /// Whether the table for a byte is in memory, or there is none.
    pub(super) fn has_table(&self, at: u64) -> bool {
        let (table, _) = self.numbers(at);
        self.tables.contains_key(&table) || self.l1.get(table).is_none_or(|it| it & OFFSET == 0)
    }

    /// Brings the table for a byte into memory, if there is one.
    pub(super) fn load(&mut self, at: u64) -> io::Result<()> {
        if self.has_table(at) {
            return Ok(());
        }
        let (number, _) = self.numbers(at);
        let most = ((CLEAN_BYTES_MAX >> self.header.cluster_bits) as usize).max(CLEAN_MIN);
        if self.tables.len() >= most {
            self.tables.retain(|_, table| table.is_new || table.dirty.is_some());
        }
        let at = self.l1[number] & OFFSET;
        let mut bytes = vec![0; self.header.cluster_bytes() as usize];
        self.medium.read(at, &mut bytes)?;
        self.tables.insert(number, Table { at, bytes, is_new: false, dirty: None });
        Ok(())
    }

    /// The cluster at a byte of the disk, whose table is in memory.
    pub(super) fn cluster(&self, at: u64) -> io::Result<Cluster> {
        let (number, entry) = self.numbers(at);
        let Some(table) = self.tables.get(&number) else { return Ok(super::entry::NOTHING) };
        let bytes = self.header.entry_bytes() as usize;
        let word = big_64(&table.bytes, entry * bytes);
        let bits = if bytes > 8 { big_64(&table.bytes, entry * bytes + 8) } else { 0 };
        Cluster::parse(&self.header, self.medium.bytes(), [word, bits])
    }

    /// Changes the entry of the cluster at a byte, whose table is in memory and its own.
    pub(super) fn set_cluster(&mut self, at: u64, cluster: &Cluster) {
        let (number, entry) = self.numbers(at);
        let bytes = self.header.entry_bytes() as usize;
        let words = cluster.words(&self.header).map(u64::to_be_bytes);
        let Some(table) = self.tables.get_mut(&number) else { return };
        let start = entry * bytes;
        table.bytes[start..start + bytes].copy_from_slice(&words.as_flattened()[..bytes]);
        join(&mut table.dirty, start..start + bytes);
    }

    /// Where a byte is, and how many bytes from it on are at the same place. Its table is in
    /// memory.
    pub(super) fn find(&self, at: u64) -> io::Result<(Place, u64)> {
        let size = self.header.cluster_bytes();
        if self.l1.get(self.numbers(at).0).is_none_or(|entry| entry & OFFSET == 0) {
            let of_table = self.header.bytes_of_table();
            return Ok((Place::Backing, of_table - at % of_table));
        }
        let cluster = self.cluster(at)?;
        let inside = at % size;
        if let Some(place) = cluster.compressed {
            return Ok((Place::Compressed(place), size - inside));
        }
        let of_part = part_bytes(&self.header);
        let state = |part: u32| (cluster.there >> part & 1, cluster.zeros >> part & 1);
        let mut part = (inside / of_part) as u32;
        let found = state(part);
        while part < parts(&self.header) && state(part) == found {
            part += 1;
        }
        let left = u64::from(part) * of_part - inside;
        Ok(match found {
            (1, _) => (Place::File(cluster.at + inside), left),
            (_, 1) => (Place::Zeros, left),
            _ => (Place::Backing, left),
        })
    }

    /// Reads a stretch that is at one place.
    pub(super) fn read_place(
        &self,
        (place, at): (Place, u64),
        buffer: &mut [u8],
    ) -> io::Result<()> {
        match place {
            Place::Zeros => buffer.fill(0),
            Place::File(start) => self.medium.read(start, buffer)?,
            Place::Backing => read_backing(self.backing.as_ref(), at, buffer)?,
            Place::Compressed(place) => {
                let cluster = self.unpacked.get(&self.medium.below, place)?;
                let inside = (at % self.header.cluster_bytes()) as usize;
                buffer.copy_from_slice(&cluster[inside..inside + buffer.len()]);
            }
        }
        Ok(())
    }

    /// Reads, while nobody else has the state.
    pub(super) fn read(&mut self, mut at: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            self.load(at)?;
            let (place, left) = self.find(at)?;
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let (piece, rest) = std::mem::take(&mut buffer).split_at_mut(count);
            self.read_place((place, at), piece)?;
            (buffer, at) = (rest, at + count as u64);
        }
        Ok(())
    }

    /// Whether something is known to be zeros, and no byte of it is in a file.
    pub(super) fn is_nothing(&self, place: Place, at: u64) -> bool {
        place.is_nothing(at, self.backing.as_ref().map_or(0, |backing| backing.info().bytes))
    }
}
