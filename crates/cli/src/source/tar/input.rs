//! The bytes of an archive: a file in which bodies stay where they are, or a stream whose bodies go
//! to a spool.
use crate::source::stream::{Keep, Stream, StreamError};
use rustix::io::Errno;
use std::fs::File;

/// Read around a header in one call: the header of a small file behind it often comes along. Larger
/// costs more in copying than it saves in calls.
const WINDOW_BYTES: usize = 1536;

/// Where an archive comes from.
pub(super) enum Input {
    File(Window),
    Stream(Stream),
}

/// A plain archive in a regular file.
pub(super) struct Window {
    file: File,
    at: u64,
    length: u64,
    bytes: Box<[u8; WINDOW_BYTES]>,
    start: u64,
    filled: usize,
}

impl Window {
    /// Begins at byte `at` of a file of that length.
    pub(super) fn new(file: File, at: u64, length: u64) -> Window {
        Window { file, at, length, bytes: Box::new([0; WINDOW_BYTES]), start: 0, filled: 0 }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
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
                    pread(&self.file, &mut buffer[done..], self.at)?
                }
                None => {
                    self.filled = 0;
                    self.filled = pread(&self.file, self.bytes.as_mut_slice(), self.at)?;
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
}

fn pread(file: &File, buffer: &mut [u8], at: u64) -> Result<usize, StreamError> {
    loop {
        match rustix::io::pread(file, &mut *buffer, at) {
            Err(Errno::INTR) => {}
            result => return result.map_err(|error| StreamError::Read(error.into())),
        }
    }
}

impl Input {
    /// Fills the buffer as far as the archive goes; how far.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        match self {
            Input::File(window) => window.read(buffer),
            Input::Stream(stream) => stream.read(buffer),
        }
    }
    /// Fills the buffer, or the archive ended too early.
    pub(super) fn read_all(&mut self, buffer: &mut [u8]) -> Result<(), StreamError> {
        match self.read(buffer)? == buffer.len() {
            true => Ok(()),
            false => Err(StreamError::End),
        }
    }
    /// So many bytes as a vector that grows with what really comes.
    pub(super) fn take(&mut self, length: u64) -> Result<Vec<u8>, StreamError> {
        const PIECE: u64 = 64 << 10;
        let mut bytes = Vec::new();
        let mut left = length;
        while left > 0 {
            let piece = left.min(PIECE) as usize;
            let start = bytes.len();
            bytes.resize(start + piece, 0);
            self.read_all(&mut bytes[start..])?;
            left -= piece as u64;
        }
        Ok(bytes)
    }
    /// Passes over so many bytes. Where they are: in the file, or in the spool if they are to be
    /// kept.
    pub(super) fn pass(&mut self, length: u64, keep: Keep) -> Result<u64, StreamError> {
        match self {
            Input::Stream(stream) => stream.pass(length, keep),
            Input::File(window) => {
                let start = window.at;
                let end = start
                    .checked_add(length)
                    .filter(|end| *end <= window.length)
                    .ok_or(StreamError::End)?;
                window.at = end;
                Ok(start)
            }
        }
    }
    /// The archive has ended.
    pub(super) fn finish(&mut self) -> Result<(), StreamError> {
        match self {
            Input::File(_) => Ok(()),
            Input::Stream(stream) => stream.finish(),
        }
    }
}
