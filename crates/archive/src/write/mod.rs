//! Writes an archive: pax, deterministic, extended headers only for what the old fields cannot say.
//!
//! ```text
//! header       an entry as blocks of an archive; the map of a file with holes
//! compressed   zstd and gzip, on all processors
//! ```
//! Access and change time are written only where they differ from the modify time: our reader, as
//! others, takes that for what is not said.
pub mod compressed;
mod header;

pub use header::{Headers, NewContent, NewEntry, append_map};

use crate::block::{BLOCK_BYTES, padding};
use extant_tree::Described;
use std::io::{self, Read, Write};
use std::ops::Range;

/// An archive is filled up to a multiple of this, as tar does it.
const RECORD_BYTES: u64 = 10 << 10;

/// Bytes of zeros that end an archive whose entries take `bytes`: two blocks, and what fills the
/// last record of 10 KiB.
pub fn ending(bytes: u64) -> u64 {
    let mark = 2 * BLOCK_BYTES as u64;
    let over = bytes.wrapping_add(mark) % RECORD_BYTES;
    mark + (RECORD_BYTES - over) % RECORD_BYTES
}

/// Writes an archive from its first entry to its last.
///
/// What writes many large files without copying them uses [`Headers`], [`append_map`], [`padding`]
/// and [`ending`] instead, of which this is made.
pub struct Writer<W: Write> {
    to: W,
    headers: Headers,
    made: Vec<u8>,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Begins an archive. Each entry is a few calls to `to`: one that is dear should be buffered.
    pub fn new(to: W) -> Writer<W> {
        Writer { to, headers: Headers::default(), made: Vec::new(), bytes: 0 }
    }

    /// Writes an entry. Of a file, `body` gives its bytes: all that are stored; of anything else
    /// nothing is read.
    ///
    /// A file with holes is written by [`Writer::append_sparse`].
    ///
    /// # Errors
    /// The output's; the body's; `InvalidInput` for a file with holes; `UnexpectedEof` when the
    /// body is shorter than the entry says. After an error the archive is not whole.
    pub fn append(&mut self, entry: &NewEntry<'_>, body: &mut impl Read) -> io::Result<()> {
        match entry.content {
            NewContent::Sparse { .. } => Err(io::ErrorKind::InvalidInput.into()),
            NewContent::File { size } => self.write_entry(entry, &[], size, body),
            _ => self.write_entry(entry, &[], 0, body),
        }
    }

    /// Writes a file with holes. `pieces` are what is not a hole: rising, none empty, none beyond
    /// `size`; `body` gives their bytes, end to end.
    ///
    /// # Errors
    /// As [`Writer::append`]; `InvalidInput` for other pieces.
    pub fn append_sparse(
        &mut self,
        path: &[u8],
        described: &Described,
        size: u64,
        pieces: &[Range<u64>],
        body: &mut impl Read,
    ) -> io::Result<()> {
        let mut end = 0;
        let rising = pieces.iter().all(|piece| {
            let follows = piece.start >= end && piece.start < piece.end && piece.end <= size;
            end = piece.end;
            follows
        });
        if !rising {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let data: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
        let mut map = Vec::new();
        append_map(pieces, size, &mut map);
        let content = NewContent::Sparse { size, stored: map.len() as u64 + data };
        self.write_entry(&NewEntry { path, described, content }, &map, data, body)
    }

    fn write_entry(
        &mut self,
        entry: &NewEntry<'_>,
        map: &[u8],
        data: u64,
        body: &mut impl Read,
    ) -> io::Result<()> {
        self.made.clear();
        self.headers.append(entry, &mut self.made);
        self.made.extend_from_slice(map);
        self.to.write_all(&self.made)?;
        if io::copy(&mut body.take(data), &mut self.to)? < data {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.bytes += self.made.len() as u64 + data;
        self.zeros(padding(data))
    }

    fn zeros(&mut self, count: u64) -> io::Result<()> {
        self.bytes += count;
        io::copy(&mut io::repeat(0).take(count), &mut self.to).map(drop)
    }

    /// Ends the archive, and gives back what it was written to.
    ///
    /// # Errors
    /// The output's.
    pub fn finish(mut self) -> io::Result<W> {
        self.zeros(ending(self.bytes))?;
        self.to.flush()?;
        Ok(self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_fills_whole_records() {
        for (bytes, zeros) in [(0, 10_240), (512, 9728), (9216, 1024), (9728, 10_752)] {
            assert_eq!(ending(bytes), zeros, "{bytes}");
        }
    }

    #[test]
    fn pieces_that_cannot_be_are_refused() {
        let mut writer = Writer::new(Vec::new());
        for pieces in [[0..0, 4..6], [0..8, 4..12], [0..1, 4..200]] {
            let described = Described::default();
            let refusal = writer.append_sparse(b"a", &described, 100, &pieces, &mut io::empty());
            assert_eq!(refusal.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
