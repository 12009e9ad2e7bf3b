//! The table in the first sector, and the chain of logical partitions.
use super::{Partition, sector, word_32};
use extant_block::BlockDevice;

/// Logical partitions that are followed.
const LOGICAL_MAX: u32 = 128;
/// Bytes of the sectors that an MBR counts in.
const SECTOR_BYTES: u64 = 512;
/// Types of entries: other partitions follow; there is a GPT.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
pub(super) const PROTECTIVE: u8 = 0xee;

/// An entry, of the first sector of a disk or of a logical partition.
struct Entry {
    kind: u8,
    start: u64,
    length: u64,
}

fn entry(sector: &[u8; 512], number: usize) -> Entry {
    let at = 446 + number * 16;
    let [start, length] = [at + 8, at + 12].map(|at| u64::from(word_32(sector, at)));
    Entry { kind: sector[at + 4], start, length }
}

fn partition(number: u32, start: u64, entry: &Entry) -> Partition {
    Partition {
        number,
        range: start * SECTOR_BYTES..(start + entry.length) * SECTOR_BYTES,
        name: String::new(),
        guid: String::new(),
        kind: format!("{:#04x}", entry.kind),
    }
}

/// Whether it says that there is a GPT.
pub(super) fn is_protective(first: &[u8; 512]) -> bool {
    (0..4).any(|number| entry(first, number).kind == PROTECTIVE)
}

/// The partitions; `None` for a boot sector that is no table.
pub(super) fn read(device: &dyn BlockDevice, first: &[u8; 512]) -> Option<Vec<Partition>> {
    if (0..4).any(|number| first[446 + number * 16] & 0x7f != 0) {
        return None;
    }
    let mut partitions = Vec::new();
    for number in 0..4 {
        let entry = entry(first, number);
        match entry.kind {
            0 => {}
            kind if EXTENDED.contains(&kind) => logical(device, entry.start, &mut partitions),
            _ => partitions.push(partition(number as u32 + 1, entry.start, &entry)),
        }
    }
    Some(partitions)
}

/// Logical partitions are a list: each begins with a sector that names it and the next one.
fn logical(device: &dyn BlockDevice, extended: u64, partitions: &mut Vec<Partition>) {
    let (mut here, mut visited) = (extended, Vec::new());
    let mut number = 5;
    while number < 5 + LOGICAL_MAX && !visited.contains(&here) {
        visited.push(here);
        let sector = sector(device, here * SECTOR_BYTES);
        let Some(sector) = sector.filter(|sector| sector[510..512] == [0x55, 0xaa]) else {
            return;
        };
        let first = entry(&sector, 0);
        if first.kind != 0 && !EXTENDED.contains(&first.kind) {
            partitions.push(partition(number, here + first.start, &first));
        }
        number += 1;
        let next = entry(&sector, 1);
        if !EXTENDED.contains(&next.kind) || next.start == 0 {
            return;
        }
        here = extended + next.start;
    }
}
