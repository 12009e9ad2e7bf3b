//! An input of which the next bytes can be seen before they are read, wherever its buffer ends.
use std::io::{self, BufRead, Read};

/// As many as show what begins there.
const PEEK_BYTES: usize = 4;

/// The bytes of an input.
///
/// *Invariants*: `seen` is in front of what `input` gives next.
pub(super) struct Peek<R> {
    seen: Vec<u8>,
    input: R,
}

impl<R: BufRead> Peek<R> {
    pub(super) fn new(input: R) -> Peek<R> {
        Peek { seen: Vec::new(), input }
    }

    /// The next four bytes; fewer where the input ends.
    ///
    /// # Errors
    /// Those of the input.
    pub(super) fn peek(&mut self) -> io::Result<&[u8]> {
        let missing = PEEK_BYTES.saturating_sub(self.seen.len()) as u64;
        (&mut self.input).take(missing).read_to_end(&mut self.seen)?;
        Ok(&self.seen)
    }
}

impl<R: BufRead> BufRead for Peek<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self.seen.is_empty() {
            true => self.input.fill_buf(),
            false => Ok(&self.seen),
        }
    }
    fn consume(&mut self, count: usize) {
        let of_seen = count.min(self.seen.len());
        self.seen.drain(..of_seen);
        self.input.consume(count - of_seen);
    }
}

impl<R: BufRead> Read for Peek<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.seen.is_empty() {
            return self.input.read(buffer);
        }
        let count = self.seen.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.seen[..count]);
        self.consume(count);
        Ok(count)
    }
}
