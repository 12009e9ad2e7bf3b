//! Copies from one open file to another (`copy_file_range(2)`).
//!
//! A copy is made of reads and writes, piece by piece, as Linux makes it on ext4: others that use
//! the files meanwhile may come between two pieces, and after a power cut any of the writes may be
//! missing. What is a hole in the source and after the end of the target stays a hole.
//!
//! *Locking*: one inode at a time.
use crate::api::filesystem::File;
use crate::error::{ErrorKind, Result};
use crate::inode::file;
use crate::inode::rights::RunRights;
use std::sync::Arc;

/// Bytes that are read and written at a time.
const PIECE_BYTES: u64 = 1 << 20;
/// Data that one call copies at most, in bytes: a caller that may be interrupted asks again.
const CALL_BYTES_MAX: u64 = 64 << 20;

/// What the next piece of a copy is.
enum Piece {
    /// This many bytes to be read and written.
    Data(u64),
    /// This many bytes that read as zeros, and that the target need not have.
    Hole(u64),
}

impl File {
    /// Copies bytes of another file, or of this one, into this file. Returns how many were copied:
    /// fewer than asked for at the end of the source, after 64 MiB of data, or when an error ended
    /// the call after its first piece; 0 at or after the end of the source.
    ///
    /// # Errors
    /// `InvalidArgument` if the two ranges are in one file and overlap, and for a file of another
    /// volume; those of [`File::read_at`] and [`File::write_at`], if nothing was copied.
    pub fn copy_range(
        &self,
        offset: u64,
        (source, source_offset): (&File, u64),
        length: u64,
        rights: RunRights,
    ) -> Result<u64> {
        if !Arc::ptr_eq(&self.core, &source.core) {
            return Err(ErrorKind::InvalidArgument("a file of another volume").into());
        }
        let overlaps = offset.abs_diff(source_offset) < length;
        if Arc::ptr_eq(&self.node, &source.node) && overlaps {
            return Err(ErrorKind::InvalidArgument("the two ranges overlap").into());
        }
        let there = source.metadata()?.size.saturating_sub(source_offset);
        let length = length.min(there).min(u64::MAX - offset);
        let mut copy = Copy { target: self, source, rights, buffer: Vec::new(), data_bytes: 0 };
        let mut done = 0;
        while done < length && copy.data_bytes < CALL_BYTES_MAX {
            let places = (offset + done, source_offset + done);
            match copy.piece(places, length - done) {
                Ok(0) => break,
                Ok(copied) => done += copied,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}

/// A copy under way.
struct Copy<'a> {
    target: &'a File,
    source: &'a File,
    rights: RunRights,
    buffer: Vec<u8>,
    /// How much was read and written.
    data_bytes: u64,
}

impl Copy<'_> {
    /// Copies some of what is left. Returns how many bytes; 0 at the end of the source.
    fn piece(&mut self, (to, from): (u64, u64), left: u64) -> Result<u64> {
        match self.next(to, from, left)? {
            Piece::Hole(bytes) => {
                let volume = &self.target.core.inodes.volume;
                let (node, end) = (&self.target.node, to + bytes);
                self.target.changing_map(|_| file::extend(volume, node, (to, end), self.rights))?;
                Ok(bytes)
            }
            Piece::Data(bytes) => {
                self.buffer.resize(bytes as usize, 0);
                let read = self.source.read_at(from, &mut self.buffer)?;
                let written = self.target.write_at_as(to, &self.buffer[..read], self.rights)?;
                self.data_bytes += written as u64;
                Ok(written as u64)
            }
        }
    }

    /// What comes next: a hole, if the target ends before it, or data up to one.
    fn next(&self, to: u64, from: u64, left: u64) -> Result<Piece> {
        let most = Piece::Data(left.min(PIECE_BYTES));
        if self.target.metadata()?.size > to {
            return Ok(most);
        }
        // What was cut off meanwhile is no hole.
        let left = left.min(self.source.metadata()?.size.saturating_sub(from));
        let data = self.source.seek_data(from)?;
        match data.map_or(left, |data| data - from) {
            0 => {
                let hole = self.source.seek_hole(from)?.map_or(left, |hole| hole - from);
                Ok(Piece::Data(hole.min(left).min(PIECE_BYTES)))
            }
            hole => Ok(Piece::Hole(hole.min(left))),
        }
    }
}
