//! Where each cluster is: the L1 table, in memory, and the L2 tables that were used last.
//!
//! ```text
//! L1 entry    bits 9-55 offset of an L2 table, 0: none
//! L2 entry    bit 62 compressed; else bits 9-55 offset of the cluster, bit 0 zeros (version 3)
//!  compressed bits 0-(x-1) offset in bytes, bits x-61 sectors of 512 after the first, where x is
//!             70 less the bits of a cluster
//!  more       64 bits after it, where there are subclusters: 0-31 there, 32-63 zeros
//! ```
use super::header::{Entries, Header};
use crate::read::device::{big_64, read_exact};
use crate::read::error::Error;
use extant_block::ShortLock;
use std::fs::File;
use std::io;
use std::sync::Arc;

pub(crate) const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
pub(crate) const COMPRESSED: u64 = 1 << 62;
pub(crate) const ZEROS: u64 = 1;
/// Bytes of L2 tables at hand, and the least number of them.
const CACHE_BYTES: u64 = 8 << 20;
const CACHE_MIN: usize = 4;
pub(crate) const SUBCLUSTERS: u64 = 32;

/// Where bytes of the disk are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Zeros,
    /// What the backing file has at the same byte; zeros past its end, and where there is none.
    Backing,
    /// At this byte of the file.
    File(u64),
    Compressed(Compressed),
}

impl Place {
    /// Whether zeros are at byte `at`, where a backing file has `shown` bytes.
    pub(crate) fn is_nothing(self, at: u64, shown: u64) -> bool {
        match self {
            Place::Zeros => true,
            Place::Backing => at >= shown,
            Place::File(_) | Place::Compressed(_) => false,
        }
    }
}

/// A compressed cluster of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Compressed {
    pub(crate) offset: u64,
    /// Bytes that it has at most.
    pub(crate) length: u64,
}

/// An L2 table as it is in the file.
struct Table {
    offset: u64,
    bytes: Vec<u8>,
}

/// The tables of an image.
pub(super) struct Tables {
    l1: Vec<u64>,
    file_bytes: u64,
    /// The one used last is at the end.
    at_hand: ShortLock<Vec<Arc<Table>>>,
    at_hand_max: usize,
}

impl Tables {
    pub(super) fn open(file: &File, header: &Header) -> Result<Tables, Error> {
        let file_bytes = file.metadata()?.len();
        // The header was checked: at most 32 MiB, all of it within the file.
        let mut bytes = vec![0; (header.l1_entries * 8) as usize];
        read_exact(file, header.l1_offset, &mut bytes)?;
        let l1: Vec<u64> = (0..header.l1_entries as usize)
            .map(|number| big_64(&bytes, number * 8) & OFFSET)
            .collect();
        let mut sorted: Vec<u64> = l1.iter().copied().filter(|offset| *offset != 0).collect();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let what = format!("an L2 table, at byte {}, that is used twice", twice[0]);
            return Err(Error::damaged(what, header.l1_offset));
        }
        let at_hand_max = (CACHE_BYTES >> header.cluster_bits) as usize;
        Ok(Tables {
            l1,
            file_bytes,
            at_hand: ShortLock::default(),
            at_hand_max: at_hand_max.max(CACHE_MIN),
        })
    }

    /// Where a byte of the disk is, and how many bytes from it on are at the same place.
    pub(super) fn find(&self, file: &File, header: &Header, at: u64) -> io::Result<(Place, u64)> {
        let of_table = header.bytes_of_table();
        let Some(offset) = self.table_of(header, at) else {
            return Ok((Place::Backing, of_table - at % of_table));
        };
        let table = self.table(file, header, offset)?;
        let found = self.place(header, &table, at)?;
        Ok(found)
    }

    /// The first byte at or after `from` that may be anything but zeros; `shown` bytes are there of
    /// a backing file.
    pub(super) fn next(
        &self,
        file: &File,
        header: &Header,
        (from, shown): (u64, u64),
    ) -> io::Result<Option<u64>> {
        let mut at = from;
        while at < header.bytes {
            let (place, left) = self.find(file, header, at)?;
            if !place.is_nothing(at, shown) {
                return Ok(Some(at));
            }
            at = at.saturating_add(left);
        }
        Ok(None)
    }

    fn table_of(&self, header: &Header, at: u64) -> Option<u64> {
        let number = usize::try_from(at / header.bytes_of_table()).ok()?;
        self.l1.get(number).copied().filter(|offset| *offset != 0)
    }

    fn table(&self, file: &File, header: &Header, offset: u64) -> io::Result<Arc<Table>> {
        let mut at_hand = self.at_hand.lock();
        if let Some(number) = at_hand.iter().rposition(|table| table.offset == offset) {
            let table = at_hand.remove(number);
            at_hand.push(Arc::clone(&table));
            return Ok(table);
        }
        drop(at_hand);
        if !offset.is_multiple_of(header.cluster_bytes()) {
            return Err(damaged(format!("an L2 table at byte {offset}"), header.l1_offset));
        }
        let mut bytes = vec![0; header.cluster_bytes() as usize];
        read_exact(file, offset, &mut bytes)?;
        let table = Arc::new(Table { offset, bytes });
        let mut at_hand = self.at_hand.lock();
        if at_hand.len() >= self.at_hand_max {
            at_hand.remove(0);
        }
        at_hand.push(Arc::clone(&table));
        Ok(table)
    }

    fn place(&self, header: &Header, table: &Table, at: u64) -> io::Result<(Place, u64)> {
        let cluster_bytes = header.cluster_bytes();
        let number = (at % header.bytes_of_table()) >> header.cluster_bits;
        let place = number * header.entry_bytes();
        let entry = big_64(&table.bytes, place as usize);
        let inside = at % cluster_bytes;
        let left = cluster_bytes - inside;
        let wrong = |what: String| damaged(what, table.offset + place);
        if entry & COMPRESSED != 0 {
            return Ok((
                Place::Compressed(compressed(header, entry, self.file_bytes).map_err(wrong)?),
                left,
            ));
        }
        let offset = entry & OFFSET;
        let (state, left) = match header.entries {
            Entries::Plain if entry & ZEROS != 0 && header.version >= 3 => (Place::Zeros, left),
            Entries::Plain if offset == 0 => (Place::Backing, left),
            Entries::Plain => (Place::File(offset + inside), left),
            Entries::WithSubclusters => {
                let bits = big_64(&table.bytes, place as usize + 8);
                let (is_there, left) = subcluster(cluster_bytes, inside, bits).map_err(wrong)?;
                match (is_there, offset) {
                    (Subcluster::Zeros, _) => (Place::Zeros, left),
                    (Subcluster::Nothing, _) => (Place::Backing, left),
                    (Subcluster::There, 0) => {
                        return Err(wrong("a subcluster of a cluster that is not there".into()));
                    }
                    (Subcluster::There, _) => (Place::File(offset + inside), left),
                }
            }
        };
        if let Place::File(start) = state {
            if !offset.is_multiple_of(cluster_bytes) {
                return Err(wrong(format!("a cluster at byte {offset}")));
            }
            // What is past the end of the disk need not be in the file.
            let end = start + left.min(header.bytes.saturating_sub(at));
            if end > self.file_bytes {
                return Err(wrong(format!("is cut short: a cluster at byte {offset}")));
            }
        }
        Ok((state, left))
    }
}

/// The compressed cluster of an entry of an L2 table, in a file of so many bytes.
pub(crate) fn compressed(
    header: &Header,
    entry: u64,
    file_bytes: u64,
) -> Result<Compressed, String> {
    let offset_bits = 70 - header.cluster_bits;
    let offset = entry & ((1 << offset_bits) - 1);
    let sectors = (entry & (COMPRESSED - 1)) >> offset_bits;
    let length = (sectors + 1) * 512 - offset % 512;
    match offset < file_bytes {
        true => Ok(Compressed { offset, length: length.min(file_bytes - offset) }),
        false => Err(format!("is cut short: a compressed cluster at byte {offset}")),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Subcluster {
    There,
    Zeros,
    Nothing,
}

/// What the bits say of the part that byte `inside` of a cluster is in, and how many bytes from it
/// on are alike.
fn subcluster(cluster_bytes: u64, inside: u64, bits: u64) -> Result<(Subcluster, u64), String> {
    let part_bytes = cluster_bytes / SUBCLUSTERS;
    let state = |part: u64| match (bits >> part & 1, bits >> (part + SUBCLUSTERS) & 1) {
        (1, 1) => Err(format!("subcluster {part} is there and zeros")),
        (1, _) => Ok(Subcluster::There),
        (_, 1) => Ok(Subcluster::Zeros),
        _ => Ok(Subcluster::Nothing),
    };
    let first = inside / part_bytes;
    let found = state(first)?;
    let mut part = first + 1;
    while part < SUBCLUSTERS && state(part)? == found {
        part += 1;
    }
    Ok((found, part * part_bytes - inside))
}

fn damaged(what: String, byte: u64) -> io::Error {
    Error::damaged(what, byte).into()
}
