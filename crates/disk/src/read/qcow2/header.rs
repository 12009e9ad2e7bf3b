//! The header: what the image is like, and what of it is not read.
//!
//! ```text
//!  0 magic "QFI\xfb"      4 version           8 backing file: offset  16 its length
//! 20 cluster bits        24 size of the disk 32 encryption            36 L1: entries  40 offset
//! 48 refcount table 8+4  60 snapshots 4+8    72 incompatible features 80 compatible   88 autoclear
//! 96 refcount order     100 header length   104 compression           (72 on: version 3)
//! ```
use crate::read::device::{Stored, big_32, big_64, read_exact};
use crate::read::error::Error;
use std::io;

const HEADER_BYTES_2: usize = 72;
const HEADER_BYTES_3: usize = 104;
/// Bits of clusters, as QEMU has them: 512 bytes to 2 MiB.
const CLUSTER_BITS: std::ops::RangeInclusive<u32> = 9..=21;
/// Bytes of an L1 table, as QEMU has them.
const L1_BYTES_MAX: u64 = 32 << 20;
/// Longer names of a backing file are not shown.
const NAME_BYTES_MAX: u32 = 1023;

/// Features that a reader has to know.
pub(crate) const DIRTY: u64 = 1;
const CORRUPT: u64 = 1 << 1;
const EXTERNAL_DATA: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
const SUBCLUSTERS: u64 = 1 << 4;

/// How clusters are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compression {
    Deflate,
    Zstandard,
}

/// Whether each L2 entry says more of 32 parts of its cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entries {
    Plain,
    WithSubclusters,
}

/// A header that was checked.
#[derive(Debug)]
pub(crate) struct Header {
    /// Size of the disk.
    pub(crate) bytes: u64,
    pub(crate) cluster_bits: u32,
    pub(crate) version: u32,
    pub(crate) l1_offset: u64,
    pub(crate) l1_entries: u64,
    pub(crate) compression: Compression,
    pub(crate) entries: Entries,
    /// Features that a reader has to know, and those that a writer who does not know them clears.
    pub(crate) features: u64,
    pub(crate) autoclear: u64,
    pub(crate) refcount_offset: u64,
    pub(crate) refcount_clusters: u64,
    /// A count has two to the power of it bits.
    pub(crate) refcount_order: u32,
    pub(crate) snapshots: u32,
    pub(crate) snapshots_offset: u64,
    pub(crate) backing: Option<Backing>,
    /// Bytes of the header itself.
    pub(crate) header_bytes: u32,
}

/// Where the name of a backing file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Backing {
    offset: u64,
    bytes: u32,
}

impl Backing {
    /// The name, as it is stored.
    pub(crate) fn name(self, file: &impl Stored) -> io::Result<Vec<u8>> {
        let mut name = vec![0; self.bytes.min(NAME_BYTES_MAX) as usize];
        read_exact(file, self.offset, &mut name)?;
        Ok(name)
    }
}

impl Header {
    pub(crate) fn read(file: &impl Stored) -> Result<Header, Error> {
        let mut bytes = [0; HEADER_BYTES_3 + 1];
        read_exact(file, 0, &mut bytes[..HEADER_BYTES_2])?;
        let version = big_32(&bytes, 4);
        let features = match version {
            2 => 0,
            3 => {
                read_exact(file, 0, &mut bytes[..HEADER_BYTES_3])?;
                big_64(&bytes, 72)
            }
            _ => return Err(Error::Unsupported(format!("is of version {version}, not 2 or 3"))),
        };
        check_features(features)?;
        if big_32(&bytes, 32) != 0 {
            return Err(Error::Unsupported("is encrypted, which is not read".into()));
        }
        let compression = compression(file, features, &mut bytes)?;
        let cluster_bits = big_32(&bytes, 20);
        if !CLUSTER_BITS.contains(&cluster_bits) {
            return Err(Error::damaged(format!("clusters of 2^{cluster_bits} bytes"), 20));
        }
        let header = Header {
            bytes: big_64(&bytes, 24),
            cluster_bits,
            version,
            l1_offset: big_64(&bytes, 40),
            l1_entries: big_32(&bytes, 36).into(),
            compression,
            entries: match features & SUBCLUSTERS {
                0 => Entries::Plain,
                _ => Entries::WithSubclusters,
            },
            features,
            autoclear: if version < 3 { 0 } else { big_64(&bytes, 88) },
            refcount_offset: big_64(&bytes, 48),
            refcount_clusters: big_32(&bytes, 56).into(),
            refcount_order: if version < 3 { 4 } else { big_32(&bytes, 96) },
            snapshots: big_32(&bytes, 60),
            snapshots_offset: big_64(&bytes, 64),
            backing: match big_64(&bytes, 8) {
                0 => None,
                offset => Some(Backing { offset, bytes: big_32(&bytes, 16) }),
            },
            header_bytes: if version < 3 { HEADER_BYTES_2 as u32 } else { big_32(&bytes, 100) },
        };
        header.check(file.stored_bytes()?)?;
        Ok(header)
    }

    fn check(&self, file_bytes: u64) -> Result<(), Error> {
        if self.bytes > i64::MAX as u64 {
            return Err(Error::damaged(format!("a disk of {} bytes", self.bytes), 24));
        }
        if self.entries == Entries::WithSubclusters && self.cluster_bits < 14 {
            return Err(Error::damaged("clusters that are too small for subclusters", 20));
        }
        let needed = self.bytes.div_ceil(self.bytes_of_table());
        if self.l1_entries < needed {
            let what = format!("an L1 table of {} entries, not {needed}", self.l1_entries);
            return Err(Error::damaged(what, 36));
        }
        let l1_bytes = self.l1_entries * 8;
        let end = self.l1_offset.checked_add(l1_bytes);
        if l1_bytes > L1_BYTES_MAX
            || !self.l1_offset.is_multiple_of(self.cluster_bytes())
            || end.is_none_or(|end| end > file_bytes)
        {
            let what = format!("an L1 table of {l1_bytes} bytes at byte {}", self.l1_offset);
            return Err(Error::damaged(what, 40));
        }
        Ok(())
    }

    /// That it has a backing file, which is not read.
    pub(crate) fn refuse_backing(&self, file: &impl Stored) -> Result<(), Error> {
        let Some(backing) = self.backing else { return Ok(()) };
        let name = match backing.name(file) {
            Ok(name) => extant_archive::printable(&name),
            Err(_) => "with a name that cannot be read".into(),
        };
        let sentence = format!("has a backing file, {name}, without which it is not whole");
        Err(Error::Unsupported(sentence))
    }

    pub(crate) fn cluster_bytes(&self) -> u64 {
        1 << self.cluster_bits
    }
    /// Bytes of an entry of an L2 table.
    pub(crate) fn entry_bytes(&self) -> u64 {
        match self.entries {
            Entries::Plain => 8,
            Entries::WithSubclusters => 16,
        }
    }
    /// Bytes of the disk that an L2 table tells of.
    pub(crate) fn bytes_of_table(&self) -> u64 {
        (self.cluster_bytes() / self.entry_bytes()) << self.cluster_bits
    }
}

fn check_features(features: u64) -> Result<(), Error> {
    if features & CORRUPT != 0 {
        return Err(Error::Unsupported("is marked as corrupt: qemu-img check says more".into()));
    }
    if features & EXTERNAL_DATA != 0 {
        return Err(Error::Unsupported("keeps its data in another file, which is not read".into()));
    }
    // A dirty image has wrong reference counts, which nothing is read by.
    let unknown = features & !(DIRTY | COMPRESSION | SUBCLUSTERS);
    match unknown {
        0 => Ok(()),
        _ => Err(Error::Unsupported(format!(
            "has feature {}, which is not known here",
            unknown.trailing_zeros()
        ))),
    }
}

fn compression(file: &impl Stored, features: u64, bytes: &mut [u8]) -> Result<Compression, Error> {
    if features & COMPRESSION == 0 {
        return Ok(Compression::Deflate);
    }
    if (big_32(bytes, 100) as usize) <= HEADER_BYTES_3 {
        return Err(Error::damaged("a header that is too short for its features", 100));
    }
    read_exact(file, 0, &mut bytes[..=HEADER_BYTES_3])?;
    match bytes[HEADER_BYTES_3] {
        0 => Ok(Compression::Deflate),
        1 => Ok(Compression::Zstandard),
        kind => Err(Error::Unsupported(format!("is compressed in way {kind}, which is not known"))),
    }
}
