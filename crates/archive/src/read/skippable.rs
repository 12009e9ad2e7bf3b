//! Frames that are passed over: zstd and lz4 have the same. Which of the two a stream is that
//! begins with such frames, the first other frame says.
use super::lz4;
use super::members::Members;
use super::parallel::{Frames, Parallel};
use super::peek::Peek;
use std::io::{self, BufRead, Read};
use std::num::NonZero;

/// Whether these are the first bytes of a frame that is passed over.
pub(super) fn begins(first: &[u8]) -> bool {
    matches!(first, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// Passes over such a frame: its mark, its length in four bytes, and its content.
///
/// # Errors
/// Those of the input; `UnexpectedEof` within the frame.
pub(super) fn skip(input: &mut impl Read) -> io::Result<()> {
    let mut head = [0; 8];
    input.read_exact(&mut head)?;
    let [_, _, _, _, length @ ..] = head;
    let length = u64::from(u32::from_le_bytes(length));
    match io::copy(&mut input.take(length), &mut io::sink())? == length {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A stream that begins with such frames. Nothing is read before it is asked for bytes.
pub(super) struct AfterSkippable<R> {
    /// `None` once it is known what follows them.
    input: Option<Peek<R>>,
    threads: Option<NonZero<usize>>,
    content: Box<dyn Read + Send>,
}

impl<R: BufRead + Send + 'static> AfterSkippable<R> {
    pub(super) fn new(input: R, threads: Option<NonZero<usize>>) -> AfterSkippable<R> {
        AfterSkippable { input: Some(Peek::new(input)), threads, content: Box::new(io::empty()) }
    }
}

impl<R: BufRead + Send + 'static> Read for AfterSkippable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(mut input) = self.input.take() {
            while begins(input.peek()?) {
                skip(&mut input)?;
            }
            self.content = match lz4::begins(input.peek()?) {
                true => Box::new(Members::<lz4::Frame<_>>::new(input)),
                false => Box::new(Parallel::new(Frames::new(input), self.threads)),
            };
        }
        self.content.read(buffer)
    }
}
