//! Another end for one partition, and another length for its disk: nothing else of the table
//! changes, neither numbers nor names, nor what other programs keep in it.
//!
//! ```text
//! GPT   the copy at the disk's end, durable | the entries and the header at its start, durable
//! MBR   the first sector
//! ```
//! A cut leaves one of both tables of a GPT whole, and its checksums say which.
use super::{Scheme, gpt, mbr, word_32, word_64};
use extant_block::BlockDevice;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Partitions begin and disks end at multiples of this where it can be, as fdisk and parted have
/// it.
pub const ALIGNMENT: u64 = 1 << 20;
const SECTOR: u64 = 512;
/// Where the entries of an MBR are, and how long each is.
const MBR_ENTRIES: usize = 446;
const MBR_ENTRY: usize = 16;
/// What a CHS address is that only the sector numbers count for.
const NO_ADDRESS: [u8; 3] = [0xfe, 0xff, 0xff];

/// The table of a disk, to be changed.
#[derive(Clone, Debug)]
pub struct Refit {
    first_sector: [u8; 512],
    gpt: Option<Gpt>,
}

/// What a GPT has at the start of the disk.
#[derive(Clone, Debug)]
struct Gpt {
    sector_bytes: u64,
    header: [u8; 512],
    entries: Vec<u8>,
}

fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.into())
}

/// What a table is written to.
pub trait Sectors {
    /// Writes bytes at a place.
    ///
    /// # Errors
    /// The host's.
    fn put(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Makes all that was written durable.
    ///
    /// # Errors
    /// The host's.
    fn keep(&self) -> io::Result<()>;
}

impl Sectors for File {
    fn put(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }
    fn keep(&self) -> io::Result<()> {
        self.sync_all()
    }
}

impl Sectors for Arc<dyn BlockDevice> {
    fn put(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        // tidy: writers because the table of a disk is changed where it is, as in a file
        self.write(at, bytes)
    }
    fn keep(&self) -> io::Result<()> {
        // tidy: writers because the table of a disk is changed where it is, as in a file
        self.flush()
    }
}

impl Refit {
    /// Reads the table of a disk.
    ///
    /// # Errors
    /// The host's; there is none, or it is damaged.
    pub fn read(disk: &dyn BlockDevice) -> io::Result<Refit> {
        let mut first_sector = [0; 512];
        disk.read(0, &mut first_sector)?;
        if first_sector[510..512] != [0x55, 0xaa] {
            return Err(refused("has no partition table"));
        }
        if !mbr::is_protective(&first_sector) {
            return Ok(Refit { first_sector, gpt: None });
        }
        let kinds =
            (0..4).filter_map(|number| first_sector.get(MBR_ENTRIES + number * MBR_ENTRY + 4));
        if kinds.filter(|kind| **kind != 0).any(|kind| *kind != mbr::PROTECTIVE) {
            return Err(refused(
                "has a hybrid MBR, which names partitions of the GPT a second time: nothing is \
                 changed",
            ));
        }
        for sector_bytes in gpt::SECTOR_BYTES {
            let mut header = [0; 512];
            disk.read(sector_bytes, &mut header)?;
            let Ok(place) = gpt::entries_of(&header, sector_bytes, 1) else { continue };
            let mut entries = vec![0; place.bytes as usize];
            disk.read(place.start, &mut entries)?;
            if crc32fast::hash(&entries) == word_32(&header, 88) {
                let gpt = Some(Gpt { sector_bytes, header, entries });
                return Ok(Refit { first_sector, gpt });
            }
        }
        Err(refused("has a damaged GPT: mend it first (sgdisk -e, or gdisk)"))
    }

    /// Of which kind it is.
    pub fn scheme(&self) -> Scheme {
        if self.gpt.is_some() { Scheme::Gpt } else { Scheme::Mbr }
    }

    /// Where the disk ends by its table: after the copy of a GPT. `None` where no table says it.
    pub fn end(&self) -> Option<u64> {
        let gpt = self.gpt.as_ref()?;
        word_64(&gpt.header, 32).checked_add(1)?.checked_mul(gpt.sector_bytes)
    }

    /// The least length that a disk has on which a partition ends at this byte and is the last.
    pub fn disk_bytes(&self, end: u64) -> u64 {
        let after = match &self.gpt {
            None => 0,
            Some(gpt) => (gpt.sectors() + 1) * gpt.sector_bytes,
        };
        end.saturating_add(after).saturating_add(ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
    }

    /// The largest byte at which a partition can end on a disk of this length, whatever other
    /// partitions are there.
    pub fn end_max(&self, disk_bytes: u64) -> u64 {
        match &self.gpt {
            None => disk_bytes.min(u64::from(u32::MAX) * SECTOR) / SECTOR * SECTOR,
            Some(gpt) => {
                let sectors = disk_bytes / gpt.sector_bytes;
                sectors.saturating_sub(gpt.sectors() + 1) * gpt.sector_bytes
            }
        }
    }

    /// Gives a partition another end, on a disk of this length.
    ///
    /// # Errors
    /// It is none of the table's own, or cannot end there.
    pub fn set_end(&mut self, number: u32, end: u64, disk_bytes: u64) -> io::Result<()> {
        if end > self.end_max(disk_bytes) {
            return Err(refused(format!("a partition cannot end at byte {end} of this disk")));
        }
        match &mut self.gpt {
            Some(gpt) => {
                let (size, sector) = (word_32(&gpt.header, 84) as usize, gpt.sector_bytes);
                let at = (number as usize).checked_sub(1).and_then(|at| at.checked_mul(size));
                let entry = at.and_then(|at| gpt.entries.get_mut(at..at.saturating_add(size)));
                let entry = entry.ok_or_else(|| refused(format!("has no partition {number}")))?;
                let first = word_64(entry, 32);
                let last = (end / sector).checked_sub(1).filter(|last| *last >= first);
                let last = last.filter(|_| end.is_multiple_of(sector));
                let last = last.ok_or_else(|| refused("a partition ends where it begins"))?;
                put(entry, 40, &last.to_le_bytes());
            }
            None => {
                if !(1..=4).contains(&number) {
                    return Err(refused(format!(
                        "partition {number} is a logical one, whose end is not moved here"
                    )));
                }
                let at = MBR_ENTRIES + (number as usize - 1) * MBR_ENTRY;
                let entry = self.first_sector.get_mut(at..at + MBR_ENTRY).unwrap_or_default();
                let first = u64::from(word_32(entry, 8));
                let sectors = (end / SECTOR).checked_sub(first).filter(|sectors| *sectors > 0);
                let sectors = sectors.and_then(|sectors| u32::try_from(sectors).ok());
                let sectors = sectors.ok_or_else(|| refused("a partition ends where it begins"))?;
                put(entry, 5, &NO_ADDRESS);
                put(entry, 12, &sectors.to_le_bytes());
            }
        }
        Ok(())
    }

    /// Writes it to a disk of this length, which is a file that is at least as long.
    ///
    /// # Errors
    /// The host's.
    pub fn write(&mut self, file: &impl Sectors, disk_bytes: u64) -> io::Result<()> {
        let Some(gpt) = &mut self.gpt else {
            file.put(&self.first_sector, 0)?;
            return file.keep();
        };
        let sector = gpt.sector_bytes;
        let last = (disk_bytes / sector).saturating_sub(1);
        let of_copy = last.saturating_sub(gpt.sectors());
        let start = word_64(&gpt.header, 72);
        put(&mut gpt.header, 48, &of_copy.saturating_sub(1).to_le_bytes());
        put(&mut gpt.header, 88, &crc32fast::hash(&gpt.entries).to_le_bytes());
        let copy = gpt.sealed((last, 1, of_copy));
        file.put(&gpt.entries, of_copy * sector)?;
        file.put(&copy, last * sector)?;
        file.keep()?;
        gpt.header = gpt.sealed((1, last, start));
        file.put(&gpt.entries, start * sector)?;
        file.put(&gpt.header, sector)?;
        // The entry that protects the disk from programs that know no GPT.
        let sectors = u32::try_from(disk_bytes / sector - 1).unwrap_or(u32::MAX);
        let entries = self.first_sector.get_mut(MBR_ENTRIES..MBR_ENTRIES + 4 * MBR_ENTRY);
        let entries = entries.unwrap_or_default().chunks_exact_mut(MBR_ENTRY);
        for entry in entries.filter(|entry| entry.get(4) == Some(&mbr::PROTECTIVE)) {
            if word_32(entry, 8) == 1 && word_32(entry, 12) != 0 {
                put(entry, 12, &sectors.to_le_bytes());
            }
        }
        file.put(&self.first_sector, 0)?;
        file.keep()
    }
}

impl Gpt {
    /// How many sectors its entries take.
    fn sectors(&self) -> u64 {
        (self.entries.len() as u64).div_ceil(self.sector_bytes)
    }

    /// The header in one of its two places: there, the other one, and where its entries are.
    fn sealed(&self, (here, other, entries): (u64, u64, u64)) -> [u8; 512] {
        let mut header = self.header;
        put(&mut header, 16, &[0; 4]);
        for (at, number) in [(24, here), (32, other), (72, entries)] {
            put(&mut header, at, &number.to_le_bytes());
        }
        let length = (word_32(&header, 12) as usize).min(header.len());
        let sum = crc32fast::hash(&header[..length]);
        put(&mut header, 16, &sum.to_le_bytes());
        header
    }
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + new.len()) {
        place.copy_from_slice(new);
    }
}
