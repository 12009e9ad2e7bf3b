//! The partitions of a disk image: where its volumes begin. MBR with logical partitions, and GPT.
//!
//! The bytes are hostile: as many entries are read as a table usually has, and a chain of logical
//! partitions is followed a bounded number of steps.
use extant_block::BlockDevice;

/// A partition, as its table has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Its number, as Linux counts: 1 to 4 for those of the MBR's own table, from 5 on for logical
    /// ones.
    pub number: u32,
    /// The byte at which it begins.
    pub start: u64,
}

/// Entries of a GPT that are read; the usual number.
const GPT_ENTRIES_MAX: u64 = 128;
/// Logical partitions that are followed.
const LOGICAL_MAX: u32 = 64;
/// Bytes of the sectors that an MBR counts in.
const SECTOR: u64 = 512;
/// Types of entries of an MBR: other partitions follow; there is a GPT.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
const PROTECTIVE: u8 = 0xee;

/// The partitions that begin within a device, in the order of their table; none where there is no
/// table.
pub fn of(device: &dyn BlockDevice) -> Vec<Partition> {
    let Some(first) = sector(device, 0).filter(|first| first[510..512] == [0x55, 0xaa]) else {
        return Vec::new();
    };
    let mut partitions = [512, 4096]
        .into_iter()
        .find_map(|sector_bytes| gpt(device, sector_bytes))
        .unwrap_or_else(|| mbr(device, &first));
    partitions.retain(|partition| partition.start > 0 && partition.start < device.info().bytes);
    partitions
}

fn sector(device: &dyn BlockDevice, start: u64) -> Option<[u8; 512]> {
    let mut bytes = [0; 512];
    let end = start.checked_add(SECTOR)?;
    (end <= device.info().bytes && device.read(start, &mut bytes).is_ok()).then_some(bytes)
}

fn word_32(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    word.map_or(0, |word| u64::from(u32::from_le_bytes(*word)))
}

fn word_64(bytes: &[u8], at: usize) -> u64 {
    word_32(bytes, at) | word_32(bytes, at + 4) << 32
}

fn gpt(device: &dyn BlockDevice, sector_bytes: u64) -> Option<Vec<Partition>> {
    let header = sector(device, sector_bytes)?;
    if !header.starts_with(b"EFI PART") {
        return None;
    }
    let table = word_64(&header, 72).checked_mul(sector_bytes)?;
    let count = word_32(&header, 80).min(GPT_ENTRIES_MAX);
    let entry_bytes = word_32(&header, 84);
    if !(128..=4096).contains(&entry_bytes) {
        return None;
    }
    let mut partitions = Vec::new();
    for entry in 0..count {
        let mut bytes = [0; 128];
        let start = table.checked_add(entry * entry_bytes)?;
        if start.checked_add(128)? > device.info().bytes || device.read(start, &mut bytes).is_err()
        {
            break;
        }
        let is_used = bytes[..16].iter().any(|byte| *byte != 0);
        let first = word_64(&bytes, 32).checked_mul(sector_bytes);
        if let Some(start) = first.filter(|_| is_used) {
            let number = u32::try_from(entry + 1).unwrap_or(u32::MAX);
            partitions.push(Partition { number, start });
        }
    }
    Some(partitions)
}

/// Type and first sector of an entry of an MBR, or of the first sector of a logical partition.
fn entry(sector: &[u8; 512], number: usize) -> (u8, u64) {
    let at = 446 + number * 16;
    (sector[at + 4], word_32(sector, at + 8))
}

fn mbr(device: &dyn BlockDevice, first: &[u8; 512]) -> Vec<Partition> {
    let mut partitions = Vec::new();
    for number in 0..4 {
        let (kind, start) = entry(first, number);
        match kind {
            0 | PROTECTIVE => {}
            _ if EXTENDED.contains(&kind) => logical(device, start, &mut partitions),
            _ => partitions.push(Partition { number: number as u32 + 1, start: start * SECTOR }),
        }
    }
    partitions.sort_by_key(|partition| partition.number);
    partitions
}

/// Logical partitions are a list: each begins with a sector that names it and the next one.
fn logical(device: &dyn BlockDevice, extended: u64, partitions: &mut Vec<Partition>) {
    let mut here = extended;
    for number in 5..5 + LOGICAL_MAX {
        let Some(sector) =
            sector(device, here * SECTOR).filter(|sector| sector[510..512] == [0x55, 0xaa])
        else {
            return;
        };
        let (kind, start) = entry(&sector, 0);
        if kind != 0 {
            partitions.push(Partition { number, start: (here + start) * SECTOR });
        }
        match entry(&sector, 1) {
            (kind, next) if EXTENDED.contains(&kind) && next > 0 => here = extended + next,
            _ => return,
        }
    }
}
