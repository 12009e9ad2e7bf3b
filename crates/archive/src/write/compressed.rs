//! What is written is compressed, on all processors: in pieces, which follow each other. The same
//! bytes come out, however many processors there are.
//!
//! zstd: a frame for each piece, which readers can read in parallel. gzip: one member, as some boot
//! loaders read the first one alone; its pieces share no dictionary.
use flate2::{Compress, Compression as Level, Crc, FlushCompress, Status};
use std::io::{self, Read, Write};

/// Bytes of a piece.
const PIECE_BYTES: usize = 4 << 20;
/// Threads that compress.
const WORKERS_MAX: usize = 8;
/// The level of zstd's own command.
const ZSTANDARD_LEVEL: i32 = 3;

/// How bytes are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Frames of zstd, level 3, with checksums.
    Zstandard,
    /// One member of gzip, level 6, without name and time.
    Gzip,
}

impl Compression {
    /// What the name of a file that is compressed like this ends with.
    pub fn suffix(self) -> &'static str {
        match self {
            Compression::Zstandard => ".zst",
            Compression::Gzip => ".gz",
        }
    }
}

/// Which piece it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Last,
    Inner,
}

/// Compresses all that `from` gives. `advance` is called with the number of bytes that were read
/// since the last call.
///
/// # Errors
/// Those of `from` and `to`.
pub fn compress(
    from: &mut impl Read,
    to: &mut impl Write,
    compression: Compression,
    advance: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    let mut checksum = Crc::new();
    if compression == Compression::Gzip {
        // Deflate, no flags, no time, no hint about the level, an unknown system.
        to.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255])?;
    }
    let mut next = piece(from)?;
    let mut written = false;
    while !next.is_empty() || !written {
        let mut batch = Vec::new();
        while batch.len() < workers.min(WORKERS_MAX) && (!next.is_empty() || !written) {
            let following = piece(from)?;
            let order = if following.is_empty() { Order::Last } else { Order::Inner };
            batch.push((std::mem::replace(&mut next, following), order));
            written = true;
        }
        for piece in compress_all(&batch, compression) {
            let piece = piece?;
            to.write_all(&piece.bytes)?;
            checksum.combine(&piece.checksum);
        }
        advance(batch.iter().map(|(bytes, _)| bytes.len() as u64).sum());
    }
    if compression == Compression::Gzip {
        to.write_all(&checksum.sum().to_le_bytes())?;
        // The length counts to 2^32 and begins again; so does the checksum's own counter.
        to.write_all(&checksum.amount().to_le_bytes())?;
    }
    to.flush()
}

/// The next bytes; fewer than a piece at the end only.
fn piece(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PIECE_BYTES);
    from.take(PIECE_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A piece that was compressed.
struct Compressed {
    bytes: Vec<u8>,
    checksum: Crc,
}

/// Compresses each piece on a thread of its own.
fn compress_all(
    pieces: &[(Vec<u8>, Order)],
    compression: Compression,
) -> Vec<io::Result<Compressed>> {
    let work = |(bytes, order): &(Vec<u8>, Order)| match compression {
        Compression::Zstandard => frame(bytes),
        Compression::Gzip => deflated(bytes, *order),
    };
    if let [only] = pieces {
        return vec![work(only)];
    }
    // tidy: thread because pieces are compressed on the host's time, and no experiment does it
    std::thread::scope(|scope| {
        // tidy: thread because pieces are compressed on the host's time, and no experiment does it
        let threads: Vec<_> = pieces.iter().map(|piece| scope.spawn(move || work(piece))).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|result| result.unwrap_or_else(|_| Err(ended_early()))).collect()
    })
}

fn ended_early() -> io::Error {
    io::Error::other("a thread that compresses ended early")
}

fn frame(bytes: &[u8]) -> io::Result<Compressed> {
    let mut compressor = zstd::bulk::Compressor::new(ZSTANDARD_LEVEL)?;
    compressor.include_checksum(true)?;
    Ok(Compressed { bytes: compressor.compress(bytes)?, checksum: Crc::new() })
}

/// Blocks of deflate that end at a byte, so that others can follow.
fn deflated(bytes: &[u8], order: Order) -> io::Result<Compressed> {
    let mut checksum = Crc::new();
    checksum.update(bytes);
    let mut deflate = Compress::new(Level::new(6), false);
    let flush = match order {
        Order::Last => FlushCompress::Finish,
        Order::Inner => FlushCompress::Sync,
    };
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 1000 + 64);
    loop {
        let read = usize::try_from(deflate.total_in()).map_err(io::Error::other)?;
        let status = deflate.compress_vec(&bytes[read..], &mut out, flush)?;
        let all_read = deflate.total_in() == bytes.len() as u64;
        match (order, status) {
            (Order::Last, Status::StreamEnd) => break,
            // Room that is left over says that nothing waits inside.
            (Order::Inner, _) if all_read && out.len() < out.capacity() => break,
            _ => out.reserve(64 << 10),
        }
    }
    Ok(Compressed { bytes: out, checksum })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;

    fn samples() -> Vec<Vec<u8>> {
        let mut state = 7_u32;
        let mut noise = |length: usize| -> Vec<u8> {
            let step = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            (0..length).map(step).collect()
        };
        let mixed = [noise(3 << 20), vec![0; 6 << 20], noise(70_000)].concat();
        vec![Vec::new(), b"x".to_vec(), vec![0; PIECE_BYTES], noise(PIECE_BYTES + 1), mixed]
    }

    #[test]
    fn what_was_compressed_comes_back() {
        for sample in samples() {
            let mut gzip = Vec::new();
            let mut advanced = 0;
            let mut count = |bytes| advanced += bytes;
            compress(&mut &sample[..], &mut gzip, Compression::Gzip, &mut count).unwrap();
            assert_eq!(advanced, sample.len() as u64);
            // One member: this reader stops after it.
            let mut back = Vec::new();
            let mut reader = GzDecoder::new(&gzip[..]);
            reader.read_to_end(&mut back).unwrap();
            assert!(back == sample, "gzip of {} bytes", sample.len());
            let mut zstandard = Vec::new();
            let from = &mut &sample[..];
            compress(from, &mut zstandard, Compression::Zstandard, &mut |_| {}).unwrap();
            let back = zstd::stream::decode_all(&zstandard[..]).unwrap();
            assert!(back == sample, "zstd of {} bytes", sample.len());
        }
    }
}
