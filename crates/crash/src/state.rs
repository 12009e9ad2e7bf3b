//! What a cut leaves on the medium, and how two such states are told apart without making them.
use extant_block::{BlockDevice, MemoryDevice};
use extant_sim::crash_log::drawn_sectors;
use extant_sim::{CrashLog, Cut};
use rustc_hash::{FxHashMap, FxHasher};
use std::fmt;
use std::hash::Hasher;

/// Bytes that a disk writes whole. The superblock's two sectors are taken as one: its checksum is
/// in the second, and ext4 has no other copy that is as new, so that every ext4 relies on it.
const SECTOR_BYTES: u32 = 512;

/// What a cut does to writes that were not flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// All of them are on the medium.
    Prefix,
    /// None of them is.
    Durable,
    /// Each is there, missing or torn at sectors, by a seed.
    Subset(u64),
}

/// A cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// After how many events of the log.
    pub moment: usize,
    /// What it does to what was not flushed.
    pub manner: Manner,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.manner {
            Manner::Prefix => write!(f, "moment {} prefix", self.moment),
            Manner::Durable => write!(f, "moment {} durable", self.moment),
            Manner::Subset(seed) => write!(f, "moment {} subset {seed}", self.moment),
        }
    }
}

/// What differs from the medium at the beginning.
pub struct Image<'a> {
    /// By number, the sectors that were written.
    sectors: FxHashMap<u64, &'a [u8]>,
}

impl<'a> Image<'a> {
    /// What a cut leaves.
    pub fn new(cut: &'a Cut, manner: Manner) -> Image<'a> {
        let mut sectors = FxHashMap::default();
        let drawn = match manner {
            Manner::Subset(seed) => Some(drawn_sectors(seed)),
            _ => None,
        };
        let survives = |write: usize, sector: u64| match (&drawn, manner) {
            (Some(drawn), _) => drawn(write, if sector == 3 { 2 } else { sector }),
            (None, manner) => manner == Manner::Prefix,
        };
        cut.each_survivor(SECTOR_BYTES, survives, |at, bytes| {
            sectors.insert(at / u64::from(SECTOR_BYTES), bytes);
        });
        Image { sectors }
    }

    /// A number that is equal for equal media, of those that begin with `base`.
    ///
    /// # Errors
    /// The base is smaller than the device.
    pub fn hash(&self, base: &MemoryDevice) -> Result<u64, String> {
        let mut sum = 0_u64;
        let mut before = [0; SECTOR_BYTES as usize];
        for (sector, bytes) in &self.sectors {
            let before = &mut before[..bytes.len()];
            base.read(sector * u64::from(SECTOR_BYTES), before)
                .map_err(|error| error.to_string())?;
            if before != *bytes {
                let mut hasher = FxHasher::default();
                hasher.write_u64(*sector);
                hasher.write(bytes);
                // The order of the map has no say.
                sum = sum.wrapping_add(hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15));
            }
        }
        Ok(sum)
    }

    /// The medium.
    ///
    /// # Errors
    /// The base is smaller than the device.
    pub fn medium(&self, base: &MemoryDevice) -> Result<MemoryDevice, String> {
        let medium = base.snapshot();
        for (sector, bytes) in &self.sectors {
            // tidy: writers because this makes the disk after a cut
            medium
                .write(sector * u64::from(SECTOR_BYTES), bytes)
                .map_err(|error| error.to_string())?;
        }
        Ok(medium)
    }
}

/// How many writes of a log may or may not be on the medium at a moment.
pub fn loose<D: BlockDevice>(log: &CrashLog<D>, moment: usize) -> usize {
    log.cut(moment).loose()
}
