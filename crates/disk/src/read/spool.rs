//! A compressed file, unpacked into a file without a name: an image is read here and there, and a
//! compressed stream only from front to back.
//!
//! Zeros become holes. Memory is bounded by the buffers of the decompressor; what a bomb unpacks to
//! is bounded by the room of the host's file system, zeros apart.
use crate::read::error::Error;
use extant_archive::Decompressed;
use std::fs::File;
use std::io::{self, BufRead};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A stretch of zeros of this many bytes, where it begins at a multiple of it, becomes a hole.
const HOLE_BYTES: u64 = 4096;

/// Hears how far the unpacking is, in bytes of the unpacked file.
pub trait Progress {
    /// More is done.
    fn advance(&self, bytes: u64);
}

impl Progress for () {
    fn advance(&self, _: u64) {}
}

/// A file without a name that goes when it is closed.
#[derive(Debug)]
pub struct Spooled {
    /// Open for reading and writing.
    pub file: File,
    /// Its length.
    pub bytes: u64,
}

/// Unpacks a file that is compressed by gzip, zstd or xz into a file in `folder`.
///
/// # Errors
/// [`Error::Spool`] where the folder has no room; damage with the byte of the unpacked file.
pub fn unpack(file: File, folder: &Path, progress: &dyn Progress) -> Result<Spooled, Error> {
    let spool = tempfile::tempfile_in(folder).map_err(Error::Spool)?;
    let mut input = Decompressed::open(file)?.ok_or(Error::NotUnpacked)?;
    let mut at = 0;
    loop {
        let piece = match input.fill_buf() {
            Ok([]) => break,
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failure(error, at)),
        };
        store(&spool, at, piece).map_err(Error::Spool)?;
        let count = piece.len();
        input.consume(count);
        at += count as u64;
        progress.advance(count as u64);
    }
    spool.set_len(at).map_err(Error::Spool)?;
    Ok(Spooled { file: spool, bytes: at })
}

/// What a decompressor says: of the content, or of the host.
fn failure(error: io::Error, at: u64) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Error::Unsupported(format!("is cut short: it ends after {at} unpacked bytes"))
        }
        _ if error.raw_os_error().is_some() => Error::Read(error),
        _ => Error::Unsupported(format!("is damaged after {at} unpacked bytes: {error}")),
    }
}

/// Writes a piece, without the blocks of zeros in it.
fn store(spool: &File, start: u64, piece: &[u8]) -> io::Result<()> {
    let mut run = 0..0;
    let mut at = 0;
    while at < piece.len() {
        let left = HOLE_BYTES - (start + at as u64) % HOLE_BYTES;
        let end = piece.len().min(at + left as usize);
        if piece[at..end].iter().any(|byte| *byte != 0) {
            if run.end != at {
                flush(spool, start, piece, &run)?;
                run.start = at;
            }
            run.end = end;
        }
        at = end;
    }
    flush(spool, start, piece, &run)
}

fn flush(spool: &File, start: u64, piece: &[u8], run: &std::ops::Range<usize>) -> io::Result<()> {
    match run.is_empty() {
        true => Ok(()),
        false => spool.write_all_at(&piece[run.clone()], start + run.start as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn zeros_become_holes_and_nothing_else_changes() {
        let mut bytes = vec![0_u8; 1 << 20];
        for at in [0, 5000, 8191, 8192, 300_000, (1 << 20) - 1] {
            bytes[at] = 7;
        }
        for step in [1 << 20, 4096, 1000, 77_777] {
            let spool = tempfile::tempfile().unwrap();
            let mut at = 0;
            for piece in bytes.chunks(step) {
                store(&spool, at, piece).unwrap();
                at += piece.len() as u64;
            }
            let mut read = Vec::new();
            (&spool).read_to_end(&mut read).unwrap();
            assert!(read == bytes, "in steps of {step}");
        }
    }
}
