//! The bytes of an archive: a file in which bodies stay where they are, or a stream whose bodies go
//! to a spool.
use super::stream::{Keep, SpooledStream};
use crate::entry::Body;
use crate::error::ErrorKind;
use crate::zeros::Zeros;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;

/// Read around a header in one call: the header of a small file after it often comes along. Larger
/// costs more in copying than it saves in calls.
const WINDOW_BYTES: usize = 1536;
/// Bytes by which a vector grows whose length the archive claims.
const GROWTH_BYTES: u64 = 64 << 10;

/// Where an archive comes from, and how far it was read.
pub(super) struct Input {
    origin: Origin,
    position: u64,
}

enum Origin {
    File(Window),
    Stream(SpooledStream),
}

/// A plain archive in a regular file.
struct Window {
    file: File,
    at: u64,
    length: u64,
    bytes: Box<[u8; WINDOW_BYTES]>,
    start: u64,
    filled: usize,
}

impl Window {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ErrorKind> {
        let mut done = 0;
        while done < buffer.len() {
            let inside =
                self.at.checked_sub(self.start).filter(|inside| *inside < self.filled as u64);
            let count = match inside {
                Some(inside) => {
                    let bytes = &self.bytes[inside as usize..self.filled];
                    let count = bytes.len().min(buffer.len() - done);
                    buffer[done..done + count].copy_from_slice(&bytes[..count]);
                    count
                }
                None if buffer.len() - done >= WINDOW_BYTES => {
                    pread(&self.file, &mut buffer[done..], self.at).map_err(ErrorKind::Read)?
                }
                None => {
                    self.filled = 0;
                    self.filled = pread(&self.file, self.bytes.as_mut_slice(), self.at)
                        .map_err(ErrorKind::Read)?;
                    self.start = self.at;
                    if self.filled == 0 {
                        break;
                    }
                    continue;
                }
            };
            if count == 0 {
                break;
            }
            done += count;
            self.at += count as u64;
        }
        Ok(done)
    }

    fn pass(&mut self, length: u64) -> Result<u64, ErrorKind> {
        let start = self.at;
        let end = start.checked_add(length).filter(|end| *end <= self.length);
        self.at = end.ok_or(ErrorKind::Truncated)?;
        Ok(start)
    }
}

/// At most a buffer from byte `at`, in one call that no signal interrupts.
fn pread(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    loop {
        match rustix::io::pread(file, &mut *buffer, at) {
            Err(Errno::INTR) => {}
            result => return result.map_err(io::Error::from),
        }
    }
}

impl Input {
    /// A plain archive that begins at byte `at` of a file of that length.
    pub(super) fn file(file: File, at: u64, length: u64) -> Input {
        let bytes = Box::new([0; WINDOW_BYTES]);
        let window = Window { file, at, length, bytes, start: 0, filled: 0 };
        Input { origin: Origin::File(window), position: 0 }
    }
    /// An archive that comes only once.
    pub(super) fn stream(stream: SpooledStream) -> Input {
        Input { origin: Origin::Stream(stream), position: 0 }
    }
    /// Bytes of the archive, decompressed, that were read or passed over.
    pub(super) fn position(&self) -> u64 {
        self.position
    }
    /// Fills the buffer as far as the archive goes; how far.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ErrorKind> {
        let length = match &mut self.origin {
            Origin::File(window) => window.read(buffer),
            Origin::Stream(stream) => stream.read(buffer),
        }?;
        self.position = self.position.saturating_add(length as u64);
        Ok(length)
    }
    /// Fills the buffer, or the archive ended too early.
    pub(super) fn read_all(&mut self, buffer: &mut [u8]) -> Result<(), ErrorKind> {
        match self.read(buffer)? == buffer.len() {
            true => Ok(()),
            false => Err(ErrorKind::Truncated),
        }
    }
    /// That many bytes, as a vector that grows with what really comes.
    pub(super) fn take(&mut self, length: u64) -> Result<Vec<u8>, ErrorKind> {
        let mut bytes = Vec::new();
        let mut left = length;
        while left > 0 {
            let piece = left.min(GROWTH_BYTES);
            let start = bytes.len();
            bytes.resize(start + piece as usize, 0);
            self.read_all(&mut bytes[start..])?;
            left -= piece;
        }
        Ok(bytes)
    }
    /// Passes over that many bytes. Where they are: in the file, or in the spool if they are kept.
    pub(super) fn pass(&mut self, length: u64, keep: Keep) -> Result<u64, ErrorKind> {
        let start = match &mut self.origin {
            Origin::Stream(stream) => stream.pass(length, keep),
            Origin::File(window) => window.pass(length),
        }?;
        self.position = self.position.saturating_add(length);
        Ok(start)
    }
    /// Passes over the body of a file of `size` bytes, of which these pieces are stored, all of it
    /// if `None`; where it is. Blocks of zeros are left out where it is copied.
    pub(super) fn keep(
        &mut self,
        size: u64,
        pieces: Option<Vec<Range<u64>>>,
        keep: Keep,
        zeros: Option<Zeros>,
    ) -> Result<Body, ErrorKind> {
        let mut body = Body { size, pieces, ..Body::default() };
        let stored = body.stored_bytes();
        match (&mut self.origin, zeros) {
            (Origin::Stream(stream), Some(zeros))
                if keep != Keep::Nothing && zeros.concern(size) =>
            {
                let whole = 0..size;
                let pieces = body.pieces.as_deref().unwrap_or(std::slice::from_ref(&whole));
                let (offset, pieces) = stream.sift(pieces, keep, &zeros)?;
                self.position = self.position.saturating_add(stored);
                body.offset = offset;
                let is_whole = matches!(&pieces[..], [only] if *only == whole);
                body.pieces = (!is_whole).then_some(pieces);
            }
            _ => body.offset = self.pass(stored, keep)?,
        }
        if let Origin::Stream(stream) = &self.origin {
            body.keeper = stream.keeper(keep);
        }
        Ok(body)
    }
    /// Whether bodies stay where they are.
    pub(super) fn is_file(&self) -> bool {
        matches!(self.origin, Origin::File(_))
    }
    /// Makes what was kept so far readable in the spool.
    pub(super) fn flush(&mut self) -> Result<(), ErrorKind> {
        match &mut self.origin {
            Origin::File(_) => Ok(()),
            Origin::Stream(stream) => stream.flush(),
        }
    }
    /// A stream has to be read to its end once the archive has ended: how long it is matters.
    pub(super) fn read_to_end_after(&mut self) {
        if let Origin::Stream(stream) = &mut self.origin {
            stream.read_to_end_after();
        }
    }
    /// The archive has ended.
    pub(super) fn finish(&mut self) -> Result<(), ErrorKind> {
        match &mut self.origin {
            Origin::File(_) => Ok(()),
            Origin::Stream(stream) => stream.finish(),
        }
    }
}
