//! QEMU's images, versions 2 and 3, from the published description of the format.
//!
//! ```text
//! header    what the image is like, and what of it is not read
//! tables    where each cluster is
//! cluster   compressed clusters
//! ```
//! ```text
//! byte of the disk -> L1 table -> L2 table -> cluster of the file
//!                     (in memory)  (some)     plain, compressed, zeros, or not there: zeros
//! ```
//! Read are: the present state (not snapshots), all cluster sizes, subclusters, clusters compressed
//! by deflate and zstd, and the backing file that an image names. Refused by name are an external
//! data file, encryption, and whatever the header says has to be known.
//!
//! *Invariants*: no L2 table has two places in the L1 table, so a walk over all of them ends after
//! as many steps as the file has room for.
//! *Locking*: tables and clusters at hand are each under a short lock, not held while the file is
//! read.
pub(crate) mod cluster;
pub(crate) mod header;
pub(crate) mod tables;

use crate::read::device::{Content, read_exact};
use crate::read::error::Error;
use cluster::Clusters;
use extant_block::BlockDevice;
use header::Header;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use tables::{Place, Tables};

/// An image.
pub(crate) struct Qcow2 {
    file: File,
    header: Header,
    tables: Tables,
    clusters: Clusters,
    backing: Option<Arc<dyn BlockDevice>>,
}

/// Fills a buffer from byte `at` of a backing file on: zeros past its end, and without one.
pub(crate) fn read_backing(
    backing: Option<&Arc<dyn BlockDevice>>,
    at: u64,
    buffer: &mut [u8],
) -> io::Result<()> {
    let shown = backing.map_or(0, |backing| backing.info().bytes);
    let there = shown.saturating_sub(at).min(buffer.len() as u64) as usize;
    buffer[there..].fill(0);
    match backing {
        Some(backing) if there > 0 => backing.read(at, &mut buffer[..there]),
        _ => Ok(()),
    }
}

impl Qcow2 {
    pub(crate) fn open(file: File, backing: Option<Arc<dyn BlockDevice>>) -> Result<Qcow2, Error> {
        let header = Header::read(&file)?;
        if backing.is_none() {
            header.refuse_backing(&file)?;
        }
        let tables = Tables::open(&file, &header)?;
        let clusters = Clusters::new(&header);
        Ok(Qcow2 { file, header, tables, clusters, backing })
    }
}

impl Content for Qcow2 {
    fn bytes(&self) -> u64 {
        self.header.bytes
    }

    fn read(&self, offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        let mut at = offset;
        while !buffer.is_empty() {
            let (place, left) = self.tables.find(&self.file, &self.header, at)?;
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let (piece, rest) = std::mem::take(&mut buffer).split_at_mut(count);
            match place {
                Place::Zeros => piece.fill(0),
                Place::Backing => read_backing(self.backing.as_ref(), at, piece)?,
                Place::File(start) => read_exact(&self.file, start, piece)?,
                Place::Compressed(compressed) => {
                    let cluster = self.clusters.get(&self.file, compressed)?;
                    let inside = (at % self.header.cluster_bytes()) as usize;
                    piece.copy_from_slice(&cluster[inside..inside + count]);
                }
            }
            (buffer, at) = (rest, at + count as u64);
        }
        Ok(())
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let shown = self.backing.as_ref().map_or(0, |backing| backing.info().bytes);
        let from = (offset, shown);
        let Some(start) = self.tables.next(&self.file, &self.header, from)? else {
            return Ok(None);
        };
        // The stretch may go on; a caller asks again.
        let (_, left) = self.tables.find(&self.file, &self.header, start)?;
        let mut end = start + left;
        // A few clusters at a time, so that a walk is not one call for each.
        const CLUSTERS: usize = 256;
        for _ in 0..CLUSTERS {
            if end >= self.header.bytes {
                break;
            }
            let (place, left) = self.tables.find(&self.file, &self.header, end)?;
            if place.is_nothing(end, shown) {
                break;
            }
            end += left;
        }
        Ok(Some(start..end.min(self.header.bytes)))
    }
}
