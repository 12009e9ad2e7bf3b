//! Answers to requests.
use super::wire::ReplyHeader;
use std::io::IoSlice;
use zerocopy::{Immutable, IntoBytes};

/// The number of an error, as Linux counts them: positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

#[allow(missing_docs)]
impl Errno {
    pub const NOT_PERMITTED: Errno = Errno(1);
    pub const NOT_FOUND: Errno = Errno(2);
    pub const INPUT_OUTPUT: Errno = Errno(5);
    pub const BAD_DESCRIPTOR: Errno = Errno(9);
    pub const BUSY: Errno = Errno(16);
    pub const ACCESS: Errno = Errno(13);
    pub const FAULT: Errno = Errno(14);
    pub const INVALID: Errno = Errno(22);
    pub const NOT_TERMINAL: Errno = Errno(25);
    pub const FILE_TOO_LARGE: Errno = Errno(27);
    pub const NO_SPACE: Errno = Errno(28);
    pub const RANGE: Errno = Errno(34);
    pub const NOT_IMPLEMENTED: Errno = Errno(38);
    pub const NO_DATA: Errno = Errno(61);
    pub const NOT_SUPPORTED: Errno = Errno(95);
    pub const READ_ONLY: Errno = Errno(30);
    pub const STALE: Errno = Errno(116);
    pub const NO_SUCH_POSITION: Errno = Errno(6);
    pub const OVERFLOW: Errno = Errno(75);
}

/// Takes answers to the kernel. What goes wrong there is the business of who reads requests.
pub trait Sink {
    /// Sends one message made of these parts.
    fn send(&self, parts: &[IoSlice<'_>]);
}

/// The duty to answer one request, once. If it is dropped without, the request fails with EIO.
pub struct Reply<'a> {
    sink: &'a dyn Sink,
    unique: u64,
    is_due: bool,
}

impl<'a> Reply<'a> {
    /// The answer to a request with this number.
    pub fn new(sink: &'a dyn Sink, unique: u64) -> Reply<'a> {
        Reply { sink, unique, is_due: true }
    }

    /// For requests that get no answer.
    pub fn none(mut self) {
        self.is_due = false;
    }

    /// It was done; there is nothing to tell.
    pub fn done(self) {
        self.parts(&[]);
    }

    /// It failed.
    pub fn error(mut self, error: Errno) {
        self.send(-error.0, &[]);
    }

    /// It was done, with this result.
    pub fn value<T: IntoBytes + Immutable>(self, value: &T) {
        self.parts(&[value.as_bytes()]);
    }

    /// It was done, with these bytes.
    pub fn bytes(self, bytes: &[u8]) {
        self.parts(&[bytes]);
    }

    /// It was done, with these bytes, one part after another: at most four.
    pub fn parts(mut self, parts: &[&[u8]]) {
        self.send(0, parts);
    }

    fn send(&mut self, error: i32, parts: &[&[u8]]) {
        self.is_due = false;
        let length = size_of::<ReplyHeader>() + parts.iter().map(|part| part.len()).sum::<usize>();
        let length = u32::try_from(length).expect("answers are shorter than requests allow");
        let header = ReplyHeader { length, error, unique: self.unique };
        let mut vectors = [IoSlice::new(&[]); 5];
        vectors[0] = IoSlice::new(header.as_bytes());
        for (vector, part) in vectors[1..].iter_mut().zip(parts) {
            *vector = IoSlice::new(part);
        }
        debug_assert!(parts.len() < vectors.len());
        self.sink.send(&vectors[..=parts.len()]);
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        if self.is_due {
            self.send(-Errno::INPUT_OUTPUT.0, &[]);
        }
    }
}
