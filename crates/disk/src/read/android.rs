//! Android's sparse form: a header, and chunks one after the other, each with blocks as they are,
//! blocks of one word, or blocks that nothing is said of, which read as zeros.
//!
//! ```text
//! file    magic ed26ff3a | major 1, minor | 28, 12 bytes of headers | block size | blocks | chunks
//! chunk   cac1 raw, cac2 fill, cac3 nothing, cac4 checksum | blocks | bytes with the header
//! ```
//! All numbers are little-endian. Checksums are not compared: no tool writes them by default.
//!
//! *Invariants*: chunks follow each other without a gap, and together have as many blocks as the
//! header says; a raw chunk is within the file.
use crate::read::device::{Content, read_exact};
use crate::read::error::Error;
use std::fs::File;
use std::io;
use std::ops::Range;

/// Chunks that are kept, of 32 bytes each.
const CHUNKS_MAX: u64 = 4 << 20;
const HEADER_BYTES: u64 = 28;
const CHUNK_HEADER_BYTES: u64 = 12;
const BLOCK_BYTES_MAX: u32 = 64 << 20;

/// Blocks of one kind.
struct Chunk {
    /// Byte of the disk behind the last.
    end: u64,
    fill: Fill,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// They begin at this byte of the file.
    File(u64),
    /// This word again and again.
    Word([u8; 4]),
}

const ZEROS: Fill = Fill::Word([0; 4]);

/// A sparse image.
pub(crate) struct Sparse {
    file: File,
    chunks: Vec<Chunk>,
}

fn word_16(bytes: &[u8], at: usize) -> u16 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>());
    word.map_or(0, |word| u16::from_le_bytes(*word))
}

fn word_32(bytes: &[u8], at: usize) -> u32 {
    u32::from(word_16(bytes, at)) | u32::from(word_16(bytes, at + 2)) << 16
}

impl Sparse {
    pub(crate) fn open(file: File) -> Result<Sparse, Error> {
        let length = file.metadata()?.len();
        let mut header = [0; HEADER_BYTES as usize];
        read_exact(&file, 0, &mut header)?;
        let version = word_16(&header, 4);
        if version != 1 {
            return Err(Error::Unsupported(format!("is of version {version} of that form, not 1")));
        }
        let (header_bytes, chunk_bytes) = (word_16(&header, 8).into(), word_16(&header, 10).into());
        let block_bytes = word_32(&header, 12);
        if header_bytes < HEADER_BYTES || chunk_bytes < CHUNK_HEADER_BYTES {
            return Err(Error::damaged("its headers are too short", 8));
        }
        if block_bytes == 0 || !block_bytes.is_multiple_of(4) || block_bytes > BLOCK_BYTES_MAX {
            return Err(Error::damaged(format!("blocks of {block_bytes} bytes"), 12));
        }
        let (blocks, count) = (u64::from(word_32(&header, 16)), u64::from(word_32(&header, 20)));
        if count > CHUNKS_MAX.min(length / CHUNK_HEADER_BYTES) {
            return Err(Error::damaged(format!("{count} chunks, more than can be"), 20));
        }
        let mut image = Sparse { file, chunks: Vec::new() };
        let (mut at, mut found) = (header_bytes, 0_u64);
        for _ in 0..count {
            let (next, taken) = image.chunk(at, chunk_bytes, length, u64::from(block_bytes))?;
            (at, found) = (next, found + taken);
            if found > blocks {
                return Err(Error::damaged(
                    format!("a chunk behind the last of {blocks} blocks"),
                    at,
                ));
            }
        }
        match found == blocks {
            true => Ok(image),
            false => {
                Err(Error::damaged(format!("its chunks hold {found} blocks, not {blocks}"), at))
            }
        }
    }

    /// Adds the chunk at byte `at`: where the next one is, and how many blocks it has.
    fn chunk(
        &mut self,
        at: u64,
        header_bytes: u64,
        length: u64,
        block_bytes: u64,
    ) -> Result<(u64, u64), Error> {
        let mut header = [0; CHUNK_HEADER_BYTES as usize];
        read_exact(&self.file, at, &mut header)?;
        let (kind, blocks) = (word_16(&header, 0), u64::from(word_32(&header, 4)));
        let whole = u64::from(word_32(&header, 8));
        let body = at + header_bytes;
        let bytes = blocks * block_bytes;
        let (fill, body_bytes) = match kind {
            0xcac1 => (Fill::File(body), bytes),
            0xcac2 => {
                let mut word = [0; 4];
                read_exact(&self.file, body, &mut word)?;
                (Fill::Word(word), 4)
            }
            0xcac3 => (ZEROS, 0),
            0xcac4 => (ZEROS, 4),
            _ => return Err(Error::damaged(format!("a chunk of type {kind:#06x}"), at)),
        };
        if whole != header_bytes + body_bytes {
            return Err(Error::damaged(
                format!("a chunk of {whole} bytes with {blocks} blocks"),
                at,
            ));
        }
        let end = body + body_bytes;
        if end > length {
            return Err(Error::damaged("is cut short: a chunk reaches past its end", at));
        }
        if kind == 0xcac4 {
            return Ok((end, 0));
        }
        let start = self.bytes();
        match self.chunks.last_mut() {
            Some(last) if fill != Fill::File(body) && last.fill == fill => last.end += bytes,
            _ if bytes == 0 => {}
            _ => self.chunks.push(Chunk { end: start + bytes, fill }),
        }
        Ok((end, blocks))
    }

    /// The number of the chunk that holds a byte.
    fn find(&self, offset: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.end <= offset)
    }

    fn start(&self, number: usize) -> u64 {
        number.checked_sub(1).and_then(|before| self.chunks.get(before)).map_or(0, |it| it.end)
    }
}

impl Content for Sparse {
    fn bytes(&self) -> u64 {
        self.chunks.last().map_or(0, |chunk| chunk.end)
    }

    fn read(&self, offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        let (mut at, mut number) = (offset, self.find(offset));
        while !buffer.is_empty() {
            let Some(chunk) = self.chunks.get(number) else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let count = usize::try_from(chunk.end - at).unwrap_or(usize::MAX).min(buffer.len());
            let (piece, rest) = std::mem::take(&mut buffer).split_at_mut(count);
            let inside = at - self.start(number);
            match chunk.fill {
                Fill::File(start) => read_exact(&self.file, start + inside, piece)?,
                Fill::Word(word) => {
                    for (index, byte) in piece.iter_mut().enumerate() {
                        *byte = word[(inside as usize + index) % 4];
                    }
                }
            }
            (buffer, at, number) = (rest, at + count as u64, number + 1);
        }
        Ok(())
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let mut number = self.find(offset);
        while let Some(chunk) = self.chunks.get(number) {
            if chunk.fill != ZEROS {
                return Ok(Some(self.start(number).max(offset)..chunk.end));
            }
            number += 1;
        }
        Ok(None)
    }
}
