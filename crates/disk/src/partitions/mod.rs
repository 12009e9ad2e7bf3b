//! The partitions of a disk: GPT, MBR, and the logical ones of an MBR.
//!
//! ```text
//! gpt   headers with their checksums: the one at the start, or the copy at the end
//! mbr   the first sector, and the chain of logical partitions
//! refit another end for one of them
//! ```
//! As Linux has it, a GPT counts where the MBR has an entry that protects it; one that is left from
//! an earlier use of the disk does not.
//!
//! The bytes are hostile: tables have a largest size, a chain is followed a bounded number of
//! steps, and a table whose checksum does not fit is not believed.
mod gpt;
mod mbr;
mod refit;

pub use refit::{ALIGNMENT, Refit, Sectors};

use extant_block::BlockDevice;
use std::ops::Range;

/// What is said of a disk by its table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionTable {
    /// Of which kind the table is.
    pub scheme: Scheme,
    /// Those that begin within the disk, by number.
    pub partitions: Vec<Partition>,
    /// A sentence without a subject about damage of the table; `None` if there is none.
    pub damage: Option<String>,
}

/// A kind of table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// Partitions have numbers, names and unique identifiers.
    Gpt,
    /// Partitions have numbers only.
    Mbr,
}

/// A partition, as its table has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Its number, as Linux counts: 1 to 4 for those of the MBR's own table, from 5 on for logical
    /// ones.
    pub number: u32,
    /// Its bytes on the disk. They may end past the end of a disk that is cut short.
    pub range: Range<u64>,
    /// Its name; empty where the table has none.
    pub name: String,
    /// Its unique identifier, as it is written: `01234567-89ab-cdef-0123-456789abcdef`; empty where
    /// the table has none.
    pub guid: String,
    /// Its type: an identifier, or `0x83`.
    pub kind: String,
}

impl PartitionTable {
    /// The partition of a number, or those of a name or an identifier: none, one or several.
    pub fn named(&self, word: &str) -> Vec<&Partition> {
        let number: Option<u32> = word.parse().ok();
        let numbered = self.partitions.iter().find(|one| Some(one.number) == number);
        let is_named = |one: &&Partition| {
            !word.is_empty() && (one.name == word || one.guid == word.to_ascii_lowercase())
        };
        match numbered {
            Some(partition) => vec![partition],
            None => self.partitions.iter().filter(is_named).collect(),
        }
    }
}

/// The table of a disk; `None` where there is none.
pub fn partitions(device: &dyn BlockDevice) -> Option<PartitionTable> {
    let first = sector(device, 0)?;
    if first[510..512] != [0x55, 0xaa] {
        return None;
    }
    let mut table = match mbr::is_protective(&first) {
        true => gpt::read(device),
        false => PartitionTable {
            scheme: Scheme::Mbr,
            partitions: mbr::read(device, &first)?,
            damage: None,
        },
    };
    let bytes = device.info().bytes;
    // One of no bytes is none, for Linux too.
    let is_within =
        |range: &Range<u64>| range.start > 0 && range.start < bytes && range.start < range.end;
    table.partitions.retain(|partition| is_within(&partition.range));
    table.partitions.sort_by_key(|partition| partition.number);
    Some(table)
}

/// Where what begins at a byte of a disk has to end: with its partition, or before the next one;
/// `None` where the disk has no table, or it begins with the disk.
pub fn end_at(disk: &dyn BlockDevice, start: u64) -> Option<u64> {
    let table = partitions(disk).filter(|_| start > 0)?;
    let mut end = disk.info().bytes;
    for range in table.partitions.iter().map(|one| &one.range) {
        end = match range.start {
            next if next > start => end.min(next),
            _ if range.end > start => end.min(range.end),
            _ => end,
        };
    }
    Some(end)
}

/// 512 bytes; `None` where they are not within the disk, or cannot be read.
fn sector(device: &dyn BlockDevice, start: u64) -> Option<[u8; 512]> {
    let mut bytes = [0; 512];
    device.read(start, &mut bytes).ok().map(|()| bytes)
}

fn word_32(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    word.map_or(0, |word| u32::from_le_bytes(*word))
}

fn word_64(bytes: &[u8], at: usize) -> u64 {
    u64::from(word_32(bytes, at)) | u64::from(word_32(bytes, at + 4)) << 32
}
