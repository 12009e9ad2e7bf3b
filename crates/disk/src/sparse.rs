//! The sparse format of Android: what fastboot and `simg2img` take. A header, and chunks: bytes, a
//! word that is repeated, or blocks that need not be written.
use crate::content::{Content, Piece, Run};
use extant_tree::magic;
use std::io::{self, Write};

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 4096;
/// Blocks of a chunk at most: readers take one into memory, and lengths have 32 bits.
const CHUNK_BLOCKS_MAX: u64 = 16_384;
const HEADER_BYTES: u16 = 28;
const CHUNK_HEADER_BYTES: u16 = 12;
const RAW: u16 = 0xcac1;
const FILL: u16 = 0xcac2;
const DO_NOT_CARE: u16 = 0xcac3;

/// Writes a disk.
///
/// # Errors
/// The host's; `FileTooLarge` for a disk of 2^32 blocks.
pub fn write(content: &Content<'_>, to: &mut impl Write) -> io::Result<()> {
    let runs = content.runs(BLOCK_BYTES)?;
    let chunks: Vec<Run> = runs.iter().flat_map(pieces).collect();
    let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
    let blocks = u32::try_from(content.bytes.div_ceil(BLOCK_BYTES)).map_err(too_large)?;
    let mut header = Vec::with_capacity(HEADER_BYTES.into());
    header.extend_from_slice(&magic::ANDROID_SPARSE);
    for half in [1, 0, HEADER_BYTES, CHUNK_HEADER_BYTES] {
        header.extend_from_slice(&half.to_le_bytes()); // version 1.0, and how long headers are
    }
    let count = u32::try_from(chunks.len()).map_err(too_large)?;
    for word in [BLOCK_BYTES as u32, blocks, count, 0] {
        header.extend_from_slice(&word.to_le_bytes()); // the last one: no checksum
    }
    to.write_all(&header)?;
    let mut buffer = vec![0; 1 << 20];
    for chunk in chunks {
        write_chunk(content, &chunk, &mut buffer, to)?;
    }
    to.flush()
}

/// A run in chunks.
fn pieces(run: &Run) -> impl Iterator<Item = Run> + use<> {
    let (blocks, piece) = (run.blocks.clone(), run.piece);
    let starts = blocks.clone().step_by(CHUNK_BLOCKS_MAX as usize);
    starts.map(move |start| Run { blocks: start..blocks.end.min(start + CHUNK_BLOCKS_MAX), piece })
}

fn write_chunk(
    content: &Content<'_>,
    chunk: &Run,
    buffer: &mut [u8],
    to: &mut impl Write,
) -> io::Result<()> {
    let blocks = chunk.blocks.end - chunk.blocks.start;
    let bytes = blocks * BLOCK_BYTES;
    let (kind, body) = match chunk.piece {
        Piece::Data => (RAW, bytes),
        Piece::Zeros => (FILL, 4),
        Piece::Free => (DO_NOT_CARE, 0),
    };
    let mut header = Vec::with_capacity(CHUNK_HEADER_BYTES.into());
    header.extend_from_slice(&kind.to_le_bytes());
    header.extend_from_slice(&[0; 2]);
    // Chunks are bounded, so both fit.
    header.extend_from_slice(&(blocks as u32).to_le_bytes());
    header.extend_from_slice(&(u64::from(CHUNK_HEADER_BYTES) + body).to_le_bytes()[..4]);
    to.write_all(&header)?;
    match chunk.piece {
        Piece::Free => Ok(()),
        Piece::Zeros => to.write_all(&[0; 4]),
        Piece::Data => {
            let (mut at, mut left) = (chunk.blocks.start * BLOCK_BYTES, bytes);
            while left > 0 {
                let count = left.min(buffer.len() as u64);
                let part = &mut buffer[..count as usize];
                content.read(part, at)?;
                to.write_all(part)?;
                (at, left) = (at + count, left - count);
            }
            Ok(())
        }
    }
}
