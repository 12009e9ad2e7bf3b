//! Compressed clusters, and those that were used last.
use super::header::{Compression, Header};
use super::tables::Compressed;
use crate::read::device::{Stored, read_exact};
use crate::read::error::Error;
use extant_block::ShortLock;
use flate2::{Decompress, FlushDecompress};
use std::io::{self, Read};
use std::sync::Arc;

/// Bytes of clusters at hand, and the least number of them.
const CACHE_BYTES: u64 = 4 << 20;
const CACHE_MIN: usize = 2;

/// An unpacked cluster, and where it begins in the file.
struct Unpacked {
    place: Compressed,
    bytes: Arc<Vec<u8>>,
}

/// Unpacks clusters.
pub(crate) struct Clusters {
    cluster_bytes: usize,
    compression: Compression,
    /// The one used last is at the end.
    at_hand: ShortLock<Vec<Unpacked>>,
    at_hand_max: usize,
}

impl Clusters {
    pub(crate) fn new(header: &Header) -> Clusters {
        let at_hand_max = (CACHE_BYTES >> header.cluster_bits) as usize;
        Clusters {
            cluster_bytes: header.cluster_bytes() as usize,
            compression: header.compression,
            at_hand: ShortLock::default(),
            at_hand_max: at_hand_max.max(CACHE_MIN),
        }
    }

    /// The bytes of a cluster, all of them.
    pub(crate) fn get(&self, file: &impl Stored, place: Compressed) -> io::Result<Arc<Vec<u8>>> {
        let mut at_hand = self.at_hand.lock();
        if let Some(number) = at_hand.iter().rposition(|cluster| cluster.place == place) {
            let cluster = at_hand.remove(number);
            let bytes = Arc::clone(&cluster.bytes);
            at_hand.push(cluster);
            return Ok(bytes);
        }
        drop(at_hand);
        // At most 2^(cluster bits - 8) sectors: twice a cluster.
        let mut packed = vec![0; place.length as usize];
        read_exact(file, place.offset, &mut packed)?;
        let bytes = match self.compression {
            Compression::Deflate => self.inflate(&packed),
            Compression::Zstandard => self.unpack_zstandard(&packed),
        };
        let what = || Error::damaged("a compressed cluster that cannot be unpacked", place.offset);
        let bytes = Arc::new(bytes.ok_or_else(what)?);
        let mut at_hand = self.at_hand.lock();
        if at_hand.len() >= self.at_hand_max {
            at_hand.remove(0);
        }
        at_hand.push(Unpacked { place, bytes: Arc::clone(&bytes) });
        Ok(bytes)
    }

    /// Forgets what is at hand: another cluster may be at its place.
    pub(crate) fn forget(&self) {
        self.at_hand.lock().clear();
    }

    /// Without a header, as QEMU has it; what follows the last byte is of the next cluster.
    fn inflate(&self, packed: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.cluster_bytes];
        let mut inflate = Decompress::new(false);
        inflate.decompress(packed, &mut bytes, FlushDecompress::Finish).ok()?;
        (inflate.total_out() == bytes.len() as u64).then_some(bytes)
    }

    fn unpack_zstandard(&self, packed: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.cluster_bytes];
        let mut reader = zstd::stream::read::Decoder::with_buffer(packed).ok()?.single_frame();
        // A frame that asks for more memory than a cluster has is none of QEMU's.
        reader.window_log_max(24).ok()?;
        reader.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }
}
