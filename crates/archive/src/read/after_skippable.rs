//! A stream that begins with frames that are passed over: whether it is one of zstd or of lz4, the
//! first other frame says.
use super::lz4;
use super::members::Members;
use super::parallel::{Frames, Parallel};
use super::peek::Peek;
use super::skippable;
use extant_tree::magic;
use std::io::{self, BufRead, Read};
use std::num::NonZero;

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
            while magic::is_skippable(input.peek()?) {
                skippable::skip(&mut input)?;
            }
            self.content = match lz4::begins(input.peek()?) {
                true => Box::new(Members::<lz4::Frame<_>>::new(input)),
                false => Box::new(Parallel::new(Frames::new(input), self.threads)),
            };
        }
        self.content.read(buffer)
    }
}
