//! A compressed file of any content as the bytes that it holds, decompressed by the same threads as
//! archives are.
use super::ahead::Ahead;
use super::compression::{Compression, MAGIC_BYTES, compression, decompressed};
use super::parallel::{Blocks, Parallel};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

/// Compressed bytes at hand.
const BUFFER_BYTES: usize = 256 << 10;

/// The bytes that a file compressed by gzip, zstd, xz, bzip2 or lz4 holds, from front to
/// back. The end is reported only when all checksums fit.
pub struct Decompressed(Ahead);

impl Decompressed {
    /// Begins to read a file; `None` if it is not compressed in one of these ways, by its first
    /// bytes.
    ///
    /// # Errors
    /// Those of the host; the decompressor or its thread cannot be made. Reading gives
    /// `InvalidData` or `UnexpectedEof` for what is damaged or cut off.
    pub fn open(mut file: File) -> io::Result<Option<Decompressed>> {
        let mut magic = [0; MAGIC_BYTES];
        file.seek(SeekFrom::Start(0))?;
        let length = file.by_ref().take(MAGIC_BYTES as u64).read(&mut magic)?;
        file.seek(SeekFrom::Start(0))?;
        let compression = compression(&magic[..length]);
        if compression == Compression::Xz
            && let Some(blocks) = Blocks::of_file(&file, 0)
        {
            return Ok(Some(Decompressed(Ahead::new(Parallel::new(blocks, None))?)));
        }
        let input = BufReader::with_capacity(BUFFER_BYTES, file);
        match compression {
            Compression::None | Compression::Foreign(_) => Ok(None),
            known => Ok(Some(Decompressed(Ahead::new(decompressed(known, input, None))?))),
        }
    }
}

impl BufRead for Decompressed {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }
    fn consume(&mut self, count: usize) {
        self.0.consume(count);
    }
}

impl Read for Decompressed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
