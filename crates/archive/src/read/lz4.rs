//! One frame of lz4, of the present form, of the old one (`lz4 -l`), or one that is passed over.
//!
//! The library takes the end of its input between two blocks for the end of the frame; here it is
//! one only in the old form, which has no mark for its end. There it is the end of the input too,
//! or the mark of another frame in place of a block's size, which the library does not know.
use super::members::Member;
use super::peek::Peek;
use super::skippable;
use extant_tree::magic;
use lz4_flex::block::decompress_into;
use lz4_flex::frame::FrameDecoder;
use std::io::{self, BufRead, Read};

/// What a block of the old form becomes at most, and has at most.
const OLD_BLOCK_BYTES: usize = 8 << 20;
const OLD_PACKED_BYTES_MAX: u32 = (OLD_BLOCK_BYTES + OLD_BLOCK_BYTES / 255 + 16) as u32;

/// Whether these are the first bytes of a frame that holds something.
pub(super) fn begins(first: &[u8]) -> bool {
    first.starts_with(&magic::LZ4) || first.starts_with(&magic::LZ4_OLD)
}

/// A frame that is being decompressed.
pub(super) struct Frame<R: BufRead> {
    /// Has the input, whatever the form.
    decoder: FrameDecoder<Watched<Peek<R>>>,
    form: Form,
    /// A block of the old form, and how much of it was given.
    block: Vec<u8>,
    given: usize,
}

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Nothing was read of it yet.
    Unknown,
    Present,
    Old,
    /// Nothing comes any more: it ended, or was passed over.
    Ended,
}

/// An input that knows whether more was asked of it than there was.
struct Watched<R> {
    input: R,
    has_ended: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.has_ended |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

impl<R: BufRead> Frame<R> {
    /// Learns the form, and passes over what comes before the first block.
    fn recognise(&mut self) -> io::Result<Form> {
        let input = self.input();
        let first = input.peek()?;
        if magic::is_skippable(first) {
            skippable::skip(input)?;
            return Ok(Form::Ended);
        }
        if first.starts_with(&magic::LZ4_OLD) {
            input.consume(magic::LZ4_OLD.len());
            return Ok(Form::Old);
        }
        Ok(Form::Present)
    }

    fn read_present(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::Interrupted => error,
            _ if error.raw_os_error().is_some() => error,
            _ => invalid(),
        });
        let count = read?;
        if count == 0 && !buffer.is_empty() && self.decoder.get_ref().has_ended {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(count)
    }

    fn read_old(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while self.given == self.block.len() {
            if !self.next_old_block()? {
                self.form = Form::Ended;
                return Ok(0);
            }
        }
        let left = self.block.get(self.given..).unwrap_or_default();
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.given += count;
        Ok(count)
    }

    /// The next block of the old form; `false` where there is none.
    fn next_old_block(&mut self) -> io::Result<bool> {
        (self.block, self.given) = (Vec::new(), 0);
        let input = self.input();
        let size = match *input.peek()? {
            // Zeros after a stream are none of it.
            [] | [0, 0, 0, 0] => return Ok(false),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        if size > OLD_PACKED_BYTES_MAX {
            return Ok(false);
        }
        input.consume(4);
        let mut packed = Vec::new();
        input.take(size.into()).read_to_end(&mut packed)?;
        if packed.len() < size as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.block = vec![0; OLD_BLOCK_BYTES];
        let length = decompress_into(&packed, &mut self.block).map_err(|_| invalid())?;
        self.block.truncate(length);
        Ok(true)
    }
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "invalid lz4 data")
}

impl<R: BufRead> Read for Frame<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.form == Form::Unknown {
            self.form = self.recognise()?;
        }
        match self.form {
            Form::Present => self.read_present(buffer),
            Form::Old => self.read_old(buffer),
            Form::Ended | Form::Unknown => Ok(0),
        }
    }
}

impl<R: BufRead> Member for Frame<R> {
    type Source = R;

    /// `lz4` refuses what is none.
    fn begins(_: &[u8]) -> bool {
        true
    }
    fn garbage() -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, "invalid lz4 header")
    }
    fn begin(input: Peek<R>) -> Frame<R> {
        let decoder = FrameDecoder::new(Watched { input, has_ended: false });
        Frame { decoder, form: Form::Unknown, block: Vec::new(), given: 0 }
    }
    fn input(&mut self) -> &mut Peek<R> {
        &mut self.decoder.get_mut().input
    }
    fn into_input(self) -> Peek<R> {
        self.decoder.into_inner().input
    }
}
