//! What an entry of an L2 table says of its cluster, taken apart and put together.
//!
//! ```text
//! without subclusters   a cluster is one part:    there | zeros | neither
//! with subclusters      32 parts, two bits each:  there | zeros | neither
//! neither               what the backing file has, or zeros
//! ```
use crate::read::error::Error;
use crate::read::qcow2::header::{Entries, Header};
use crate::read::qcow2::tables::{COMPRESSED, Compressed, OFFSET, SUBCLUSTERS, ZEROS, compressed};
use std::io;
use std::ops::Range;

/// Nobody else uses the cluster: its count is 1.
pub(super) const COPIED: u64 = 1 << 63;

/// A cluster of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cluster {
    /// Where it is in the file; 0 for nowhere, and for a compressed one.
    pub(super) at: u64,
    /// Nobody else uses it.
    pub(super) is_own: bool,
    /// A bit for each part whose bytes are in the file.
    pub(super) there: u32,
    /// A bit for each part that is zeros.
    pub(super) zeros: u32,
    pub(super) compressed: Option<Compressed>,
}

/// Nothing is there.
pub(super) const NOTHING: Cluster =
    Cluster { at: 0, is_own: false, there: 0, zeros: 0, compressed: None };

/// How many parts a cluster has.
pub(super) fn parts(header: &Header) -> u32 {
    match header.entries {
        Entries::Plain => 1,
        Entries::WithSubclusters => SUBCLUSTERS as u32,
    }
}

/// Bytes of a part.
pub(super) fn part_bytes(header: &Header) -> u64 {
    header.cluster_bytes() / u64::from(parts(header))
}

/// A bit for each part from one to another.
pub(super) fn mask(parts: Range<u32>) -> u32 {
    let below = |part: u32| (1_u64 << part.min(32)) - 1;
    (below(parts.end) & !below(parts.start)) as u32
}

impl Cluster {
    /// What both words of an entry say; the second is 0 without subclusters.
    pub(super) fn parse(header: &Header, file_bytes: u64, words: [u64; 2]) -> io::Result<Cluster> {
        let [word, bits] = words;
        let wrong = |what: String| io::Error::from(Error::damaged(what, word & OFFSET));
        if word & COMPRESSED != 0 {
            let place = compressed(header, word, file_bytes).map_err(wrong)?;
            return Ok(Cluster { compressed: Some(place), ..NOTHING });
        }
        let at = word & OFFSET;
        if !at.is_multiple_of(header.cluster_bytes()) {
            return Err(wrong(format!("a cluster at byte {at}")));
        }
        let (there, zeros) = match header.entries {
            Entries::Plain if word & ZEROS != 0 && header.version >= 3 => (0, 1),
            Entries::Plain => (u32::from(at != 0), 0),
            Entries::WithSubclusters => (bits as u32, (bits >> SUBCLUSTERS) as u32),
        };
        if there & zeros != 0 {
            return Err(wrong("a subcluster that is there and zeros".into()));
        }
        if there != 0 && at == 0 {
            return Err(wrong("a subcluster of a cluster that is not there".into()));
        }
        Ok(Cluster { at, is_own: word & COPIED != 0 && at != 0, there, zeros, compressed: None })
    }

    /// Both words of the entry. Compressed clusters are never written.
    pub(super) fn words(&self, header: &Header) -> [u64; 2] {
        let own = if self.is_own { COPIED } else { 0 };
        match header.entries {
            Entries::Plain if self.zeros != 0 => [self.at | own | ZEROS, 0],
            Entries::Plain => [self.at | own, 0],
            Entries::WithSubclusters => {
                let bits = u64::from(self.zeros) << SUBCLUSTERS | u64::from(self.there);
                [self.at | own, bits]
            }
        }
    }

    /// Whether all parts of a mask are in the file.
    pub(super) fn has(&self, mask: u32) -> bool {
        self.compressed.is_none() && self.there & mask == mask
    }
}

/// The clusters of the file that a compressed cluster takes bytes of.
pub(super) fn clusters_of(header: &Header, place: Compressed) -> Range<u64> {
    let start = place.offset & !511;
    // The last one may be cut by the end of the file.
    let end = place.offset.saturating_add(place.length);
    start >> header.cluster_bits..end.div_ceil(header.cluster_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_a_bit_for_each_part() {
        assert_eq!(mask(0..32), u32::MAX);
        assert_eq!(mask(3..5), 0b11000);
        assert_eq!(mask(7..7), 0);
    }
}
