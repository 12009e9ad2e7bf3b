//! The blocks of an xz file. Its index, at the end, says how long each of them is.
//!
//! ```text
//! header 12 | block | block | ... | index | footer 12
//! index     0 | count | for each block: unpadded size, uncompressed size | 0 to 3 zeros | CRC-32
//! footer    CRC-32 | size of the index / 4 - 1, 4 | flags 2 | "YZ"
//! ```
//! Sizes are numbers of seven bits a byte. A worker is given a block as a file of its own: the
//! header, the block, an index of one row, a footer; so the library checks all that it checks in a
//! whole file. What is not such a file (several streams, padding, no index where it should be) is
//! read by one thread.
use super::{Decoder, Next, PART_BYTES_MAX, Part, Split};
use extant_tree::magic;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

const HEADER_BYTES: usize = 12;
/// A longer index is not kept: some 100,000 blocks, 12 MiB of memory.
const INDEX_BYTES_MAX: u64 = 1 << 20;
/// Fewer blocks are not worth threads.
const BLOCKS_MIN: usize = 2;

/// Where a block is, and its sizes.
#[derive(Clone, Copy)]
struct BlockPlace {
    offset: u64,
    unpadded: u64,
    uncompressed: u64,
}

/// The blocks that are still to come.
pub(in crate::read) struct Blocks {
    file: File,
    header: [u8; HEADER_BYTES],
    places: VecDeque<BlockPlace>,
}

impl Blocks {
    /// The blocks of a file that begins at byte `start` of `file`; `None` where they cannot be
    /// read one by one.
    pub(in crate::read) fn of_file(file: &File, start: u64) -> Option<Blocks> {
        let end = file.metadata().ok()?.len();
        let header: [u8; HEADER_BYTES] =
            read_at(file, start, HEADER_BYTES as u64)?.try_into().ok()?;
        let footer = read_at(file, end.checked_sub(HEADER_BYTES as u64)?, HEADER_BYTES as u64)?;
        let flags = &header[6..8];
        if header[..6] != magic::XZ
            || crc32(flags).to_le_bytes() != header[8..]
            || crc32(&footer[4..10]).to_le_bytes() != footer[..4]
            || footer[8..10] != *flags
            || footer[10..] != magic::XZ_END
        {
            return None;
        }
        let backward = u32::from_le_bytes(footer[4..8].try_into().ok()?);
        let index_bytes = (u64::from(backward) + 1) * 4;
        if index_bytes > INDEX_BYTES_MAX {
            return None;
        }
        let index_start = end.checked_sub(HEADER_BYTES as u64 + index_bytes)?;
        let index = read_at(file, index_start, index_bytes)?;
        let places = places(&index, start.checked_add(HEADER_BYTES as u64)?, index_start)?;
        let file = file.try_clone().ok()?;
        (places.len() >= BLOCKS_MIN).then_some(Blocks { file, header, places })
    }
}

/// What an index says, if it is whole and the blocks fill the room before it.
fn places(index: &[u8], mut offset: u64, end: u64) -> Option<VecDeque<BlockPlace>> {
    let (content, checksum) = index.split_last_chunk::<4>()?;
    let (0, mut rows) = content.split_first()? else { return None };
    if crc32(content).to_le_bytes() != *checksum {
        return None;
    }
    let count = number(&mut rows)?;
    let mut places = VecDeque::new();
    for _ in 0..count {
        let (unpadded, uncompressed) = (number(&mut rows)?, number(&mut rows)?);
        if unpadded == 0 || unpadded > PART_BYTES_MAX || uncompressed > PART_BYTES_MAX {
            return None;
        }
        places.push_back(BlockPlace { offset, unpadded, uncompressed });
        offset = offset.checked_add(unpadded.next_multiple_of(4))?;
    }
    (offset == end && rows.len() < 4 && rows.iter().all(|byte| *byte == 0)).then_some(places)
}

/// Takes a number of seven bits a byte, the lowest first, at most nine bytes.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn append_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

impl BlockPlace {
    /// The block as a file.
    fn alone(&self, header: &[u8; HEADER_BYTES], file: &File) -> io::Result<Vec<u8>> {
        let length = self.unpadded.next_multiple_of(4);
        let mut bytes = Vec::with_capacity(length as usize + 4 * HEADER_BYTES);
        bytes.extend_from_slice(header);
        let block = read_at(file, self.offset, length);
        bytes.extend(block.ok_or(io::ErrorKind::UnexpectedEof)?);
        let index_start = bytes.len();
        bytes.extend_from_slice(&[0, 1]);
        append_number(self.unpadded, &mut bytes);
        append_number(self.uncompressed, &mut bytes);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let checksum = crc32(&bytes[index_start..]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        let backward = (bytes.len() - index_start) as u32 / 4 - 1;
        let tail = [&backward.to_le_bytes()[..], &header[6..8]].concat();
        bytes.extend_from_slice(&crc32(&tail).to_le_bytes());
        bytes.extend_from_slice(&tail);
        bytes.extend_from_slice(&magic::XZ_END);
        Ok(bytes)
    }
}

impl Split for Blocks {
    fn next(&mut self) -> io::Result<Next> {
        let Some(place) = self.places.pop_front() else { return Ok(Next::End) };
        let bytes = place.alone(&self.header, &self.file)?;
        Ok(Next::Part(Part { bytes, bytes_max: place.uncompressed as usize }))
    }

    fn decoder(&self) -> Decoder {
        |part| {
            let mut bytes = Vec::with_capacity(part.bytes_max);
            let reader = lzma_rust2::XzReader::new(&part.bytes[..], false);
            // One byte more would be an error, which the library reports by the index.
            reader.take(part.bytes_max as u64 + 1).read_to_end(&mut bytes)?;
            match bytes.len() == part.bytes_max {
                true => Ok(bytes),
                false => Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}

/// `length` bytes of a file; `None` if it has less, or cannot be read.
fn read_at(file: &File, offset: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
