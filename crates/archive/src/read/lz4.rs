//! One frame of lz4. The library takes the end of its input between two blocks for the end of the
//! frame; here it is one only in the old form of frames, which have no other.
use super::members::Member;
use lz4_flex::frame::FrameDecoder;
use std::io::{self, BufRead, Read};

/// What a frame of the present form begins with, and one of the old form (`lz4 -l`).
pub(super) const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
pub(super) const OLD_MAGIC: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];

/// A frame that is being decompressed.
pub(super) struct Frame<R: BufRead> {
    decoder: FrameDecoder<Watched<R>>,
}

/// How a frame ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Nothing was read of it yet.
    Unknown,
    /// With a mark.
    Present,
    /// With the input.
    Old,
}

/// An input that knows whether more was asked of it than there was.
struct Watched<R> {
    input: R,
    form: Form,
    has_ended: bool,
}

impl<R: BufRead> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.form == Form::Unknown {
            // A boundary of the buffer within the mark makes an old frame one of the present form,
            // which is refused where it ends: never is one taken that was cut off.
            let is_old = self.input.fill_buf()?.starts_with(&OLD_MAGIC);
            self.form = if is_old { Form::Old } else { Form::Present };
        }
        let count = self.input.read(buffer)?;
        self.has_ended |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

impl<R: BufRead> Read for Frame<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::Interrupted => error,
            _ if error.raw_os_error().is_some() => error,
            _ => io::Error::new(io::ErrorKind::InvalidData, "invalid lz4 data"),
        });
        let count = read?;
        let watched = self.decoder.get_ref();
        if count == 0 && !buffer.is_empty() && watched.has_ended && watched.form != Form::Old {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(count)
    }
}

impl<R: BufRead> Member for Frame<R> {
    type Input = R;
    const INVALID: &'static str = "invalid lz4 header";

    fn begin(input: R) -> Frame<R> {
        let watched = Watched { input, form: Form::Unknown, has_ended: false };
        Frame { decoder: FrameDecoder::new(watched) }
    }
    fn input(&mut self) -> &mut R {
        &mut self.decoder.get_mut().input
    }
    fn into_input(self) -> R {
        self.decoder.into_inner().input
    }
}
