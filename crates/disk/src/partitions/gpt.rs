//! A GPT: the header in the second sector, or its copy in the last one.
//!
//! ```text
//! header   "EFI PART" | revision | 12 length | 16 CRC-32 | 24 this sector | 32 the other header's
//!          40 first and last sector of use | 56 disk | 72 first sector of the entries
//!          80 how many | 84 bytes of each | 88 CRC-32 of them all
//! entry    0 type | 16 identifier | 32 first sector | 40 last sector | 48 flags | 56 name, UTF-16
//! ```
use super::{Partition, PartitionTable, Scheme, word_32, word_64};
use extant_block::BlockDevice;

/// Sectors that disks have.
pub(super) const SECTOR_BYTES: [u64; 2] = [512, 4096];
/// Bytes of all entries together; a usual table has 16 KiB.
const ENTRIES_BYTES_MAX: u64 = 4 << 20;
const HEADER_BYTES: u32 = 92;
const ENTRY_BYTES: u32 = 128;

/// The table of a disk that has one by its MBR.
pub(super) fn read(device: &dyn BlockDevice) -> PartitionTable {
    let table = |partitions, damage| PartitionTable { scheme: Scheme::Gpt, partitions, damage };
    let mut why = None;
    for sector_bytes in SECTOR_BYTES {
        match read_at(device, sector_bytes, 1) {
            Ok(partitions) => return table(partitions, None),
            Err(Fault::NoHeader) => {}
            Err(Fault::Damaged(reason)) => why = why.or(Some(reason)),
        }
    }
    let why = why.unwrap_or("its header is missing");
    for sector_bytes in SECTOR_BYTES {
        let Some(last) = (device.info().bytes / sector_bytes).checked_sub(1) else { continue };
        if let Ok(partitions) = read_at(device, sector_bytes, last) {
            let damage = format!("has a damaged GPT ({why}), and was read by the copy at its end");
            return table(partitions, Some(damage));
        }
    }
    let damage = format!("has a damaged GPT ({why}), and no copy of it at its end");
    table(Vec::new(), Some(damage))
}

/// Why there is no table.
pub(super) enum Fault {
    NoHeader,
    Damaged(&'static str),
}

/// The partitions by the header in a sector.
fn read_at(
    device: &dyn BlockDevice,
    sector_bytes: u64,
    sector: u64,
) -> Result<Vec<Partition>, Fault> {
    let header = super::sector(device, sector * sector_bytes).ok_or(Fault::NoHeader)?;
    let place = entries_of(&header, sector_bytes, sector)?;
    let mut entries = vec![0; place.bytes as usize];
    device
        .read(place.start, &mut entries)
        .map_err(|_| Fault::Damaged("its entries are outside of the disk"))?;
    if crc32fast::hash(&entries) != word_32(&header, 88) {
        return Err(Fault::Damaged("the checksum of its entries is wrong"));
    }
    let entries = entries.chunks_exact(place.entry_bytes).zip(1..);
    Ok(entries.filter_map(|(entry, number)| partition(entry, number, sector_bytes)).collect())
}

/// Where the entries of a table are.
pub(super) struct Entries {
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) entry_bytes: usize,
}

/// Where the header in a sector says that its entries are.
pub(super) fn entries_of(
    header: &[u8; 512],
    sector_bytes: u64,
    sector: u64,
) -> Result<Entries, Fault> {
    if !header.starts_with(b"EFI PART") {
        return Err(Fault::NoHeader);
    }
    let length = word_32(header, 12);
    if length < HEADER_BYTES || length as usize > header.len() {
        return Err(Fault::Damaged("its header has an impossible length"));
    }
    let mut checked = *header;
    checked[16..20].fill(0);
    if crc32fast::hash(&checked[..length as usize]) != word_32(header, 16) {
        return Err(Fault::Damaged("the checksum of its header is wrong"));
    }
    if word_64(header, 24) != sector {
        return Err(Fault::Damaged("its header belongs to another sector"));
    }
    let (count, entry_bytes) = (word_32(header, 80), word_32(header, 84));
    let bytes = u64::from(count) * u64::from(entry_bytes);
    if entry_bytes < ENTRY_BYTES || bytes > ENTRIES_BYTES_MAX {
        return Err(Fault::Damaged("its entries have an impossible size"));
    }
    let start = word_64(header, 72).checked_mul(sector_bytes);
    let start = start.ok_or(Fault::Damaged("its entries are outside of the disk"))?;
    Ok(Entries { start, bytes, entry_bytes: entry_bytes as usize })
}

/// What an entry says; `None` if it is not used, or is no place on a disk.
fn partition(entry: &[u8], number: u32, sector_bytes: u64) -> Option<Partition> {
    if entry[..16].iter().all(|byte| *byte == 0) {
        return None;
    }
    let start = word_64(entry, 32).checked_mul(sector_bytes)?;
    let end = word_64(entry, 40).checked_add(1)?.checked_mul(sector_bytes)?;
    let units = entry[56..128].chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    (start < end).then(|| Partition {
        number,
        range: start..end,
        name: String::from_utf16_lossy(&units),
        guid: guid(&entry[16..32]),
        kind: guid(&entry[..16]),
    })
}

/// As it is written: the first three fields are little-endian.
fn guid(bytes: &[u8]) -> String {
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut text = String::with_capacity(36);
    for (number, at) in order.into_iter().enumerate() {
        if matches!(number, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{:02x}", bytes[at]);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_identifier_is_written_as_others_write_it() {
        // The type of a partition with a Linux file system.
        let bytes = [
            0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47,
            0x7d, 0xe4,
        ];
        assert_eq!(super::guid(&bytes), "0fc63daf-8483-4772-8e79-3d69d8477de4");
    }
}
