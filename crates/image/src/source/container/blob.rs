//! The bytes of one blob: a file of its own, or a member of an archive.
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Where the bytes of a blob are. Copies are the same one.
#[derive(Clone, Debug)]
pub(super) struct Blob {
    file: Arc<File>,
    /// Its first stored byte in the file.
    start: u64,
    size: u64,
    /// What is stored of a member with holes, end to end, as [`extant_archive::Body::pieces`].
    pieces: Option<Arc<[Range<u64>]>>,
}

impl Blob {
    /// A whole file.
    pub(super) fn file(file: File, size: u64) -> Blob {
        Blob { file: Arc::new(file), start: 0, size, pieces: None }
    }

    /// A member of an archive.
    pub(super) fn member(file: File, body: &extant_archive::Body) -> Blob {
        let pieces = body.pieces.as_deref().map(Arc::from);
        Blob { file: Arc::new(file), start: body.offset, size: body.size, pieces }
    }

    /// Bytes of the blob.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Reads it from its first byte to its last. A file that became shorter meanwhile is an error.
    pub(super) fn reader(&self) -> BlobReader {
        BlobReader { blob: self.clone(), at: 0 }
    }

    /// The first byte of a piece at or after `at`, where that is stored, and how many bytes follow.
    fn stored(&self, at: u64) -> Stored {
        let Some(pieces) = &self.pieces else {
            return Stored::Bytes { offset: self.start + at, length: self.size - at };
        };
        let mut offset = self.start;
        for piece in pieces.iter() {
            if at < piece.start {
                return Stored::Hole { length: piece.start - at };
            }
            if at < piece.end {
                let inside = at - piece.start;
                return Stored::Bytes { offset: offset + inside, length: piece.end - at };
            }
            offset += piece.end - piece.start;
        }
        Stored::Hole { length: self.size - at }
    }
}

/// What is at a place of a blob.
enum Stored {
    Bytes { offset: u64, length: u64 },
    Hole { length: u64 },
}

/// The bytes of a blob, one after the other.
pub(super) struct BlobReader {
    blob: Blob,
    at: u64,
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.blob.size || buffer.is_empty() {
            return Ok(0);
        }
        let clamp = |length: u64, buffer: &[u8]| {
            usize::try_from(length).unwrap_or(usize::MAX).min(buffer.len())
        };
        let count = match self.blob.stored(self.at) {
            Stored::Hole { length } => {
                let count = clamp(length, buffer);
                buffer[..count].fill(0);
                count
            }
            Stored::Bytes { offset, length } => {
                let count = clamp(length, buffer);
                self.blob.file.read_at(&mut buffer[..count], offset)?
            }
        };
        if count == 0 {
            return Err(io::Error::other("became shorter while it was read"));
        }
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_archive::Body;
    use std::io::Write;

    #[test]
    fn holes_are_zeros_and_what_is_missing_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"..abcdef").unwrap();
        let body = Body { size: 12, offset: 2, pieces: Some(vec![1..4, 6..9]), ..Body::default() };
        let blob = Blob::member(file.try_clone().unwrap(), &body);
        let mut bytes = Vec::new();
        blob.reader().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"\0abc\0\0def\0\0\0");
        let short = Blob::member(file, &Body { size: 7, offset: 2, ..Body::default() });
        assert!(short.reader().read_to_end(&mut Vec::new()).is_err());
    }
}
