//! Zstandard's frames (RFC 8878). A frame is found without being decompressed: each of its blocks
//! begins with its length, and becomes at most 128 KiB.
use super::{Decoder, Next, PART_BYTES_MAX, Part, Split};
use extant_tree::magic;
use std::io::{self, Cursor, Read};

const MAGIC: u32 = u32::from_le_bytes(magic::ZSTANDARD);
/// Frames whose content is not the stream's, with four bits of their own.
const SKIPPABLE: u32 = 0x184d_2a50;
const SKIPPABLE_MASK: u32 = 0xffff_fff0;
/// What a block becomes at most.
const BLOCK_BYTES_MAX: u64 = 128 << 10;

/// A stream of frames.
pub(in crate::read) struct Frames<R> {
    /// `None` once the rest is read by one thread.
    input: Option<R>,
    /// The frame under way, from its first byte.
    frame: Vec<u8>,
}

/// A header that was understood.
struct FrameHeader {
    content_bytes: Option<u64>,
    checksum_bytes: usize,
}

/// How far a frame was followed.
enum Followed {
    /// Whole, and the most bytes that it becomes.
    Whole(u64),
    /// It is too large, or no frame that is known here.
    NotAlone,
}

impl<R: Read> Frames<R> {
    pub(in crate::read) fn new(input: R) -> Frames<R> {
        Frames { input: Some(input), frame: Vec::new() }
    }

    /// Reads on until the frame has `length` bytes; `false` if the input ends before.
    fn read_to(&mut self, length: usize) -> io::Result<bool> {
        let missing = length.saturating_sub(self.frame.len()) as u64;
        if let Some(input) = &mut self.input {
            input.take(missing).read_to_end(&mut self.frame)?;
        }
        Ok(self.frame.len() >= length)
    }

    fn need(&mut self, length: usize) -> io::Result<()> {
        match self.read_to(length)? {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Little-endian, up to eight bytes of the frame.
    fn number(&self, at: usize, length: usize) -> u64 {
        let bytes = self.frame.get(at..at + length).unwrap_or_default();
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Reads the header of a frame; `None` for one of a dictionary or of bits that are reserved.
    fn header(&mut self) -> io::Result<Option<FrameHeader>> {
        self.need(5)?;
        let descriptor = self.frame.get(4).copied().unwrap_or(0);
        let is_single = descriptor & 0x20 != 0;
        let window_bytes = usize::from(!is_single);
        let content_length = match descriptor >> 6 {
            0 => usize::from(is_single),
            bits => 1 << bits,
        };
        if descriptor & 0x0b != 0 {
            return Ok(None);
        }
        let at = 5 + window_bytes;
        self.need(at + content_length)?;
        // The two-byte form counts from 256.
        let base = if content_length == 2 { 256 } else { 0 };
        let content_bytes =
            (content_length > 0).then(|| self.number(at, content_length).saturating_add(base));
        let checksum_bytes = if descriptor & 4 != 0 { 4 } else { 0 };
        Ok(Some(FrameHeader { content_bytes, checksum_bytes }))
    }

    /// Reads a frame to its end, if it is a small one.
    fn follow(&mut self) -> io::Result<Followed> {
        let Some(header) = self.header()? else { return Ok(Followed::NotAlone) };
        if header.content_bytes.is_some_and(|bytes| bytes > PART_BYTES_MAX) {
            return Ok(Followed::NotAlone);
        }
        let mut becomes = 0;
        loop {
            let at = self.frame.len();
            self.need(at + 3)?;
            let block = self.number(at, 3);
            let (is_last, kind, size) = (block & 1 != 0, block >> 1 & 3, block >> 3);
            becomes += BLOCK_BYTES_MAX;
            if kind == 3 || size > BLOCK_BYTES_MAX || becomes > PART_BYTES_MAX {
                return Ok(Followed::NotAlone);
            }
            // A block of one byte repeated is stored as that byte.
            let stored = if kind == 1 { 1 } else { size as usize };
            self.need(at + 3 + stored)?;
            if is_last {
                self.need(at + 3 + stored + header.checksum_bytes)?;
                return Ok(Followed::Whole(header.content_bytes.unwrap_or(becomes)));
            }
        }
    }

    fn skip(&mut self) -> io::Result<()> {
        self.need(8)?;
        let length = self.number(4, 4);
        let skipped = match &mut self.input {
            Some(input) => io::copy(&mut input.take(length), &mut io::sink())?,
            None => 0,
        };
        match skipped == length {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl<R: Read + Send + 'static> Split for Frames<R> {
    fn next(&mut self) -> io::Result<Next> {
        loop {
            self.frame.clear();
            let has_magic = self.read_to(4)?;
            if self.frame.is_empty() {
                return Ok(Next::End);
            }
            let magic = if has_magic { self.number(0, 4) as u32 } else { 0 };
            if magic & SKIPPABLE_MASK == SKIPPABLE {
                self.skip()?;
                continue;
            }
            if magic == MAGIC
                && let Followed::Whole(becomes) = self.follow()?
            {
                let bytes = std::mem::take(&mut self.frame);
                return Ok(Next::Part(Part { bytes, bytes_max: becomes as usize }));
            }
            let rest = Cursor::new(std::mem::take(&mut self.frame));
            return Ok(match self.input.take() {
                Some(input) => Next::Rest(Box::new(decoder(rest.chain(input))?)),
                None => Next::End,
            });
        }
    }

    fn decoder(&self) -> Decoder {
        |part| zstd::bulk::decompress(&part.bytes, part.bytes_max)
    }
}

/// One thread's decoder of frames, whatever their size.
fn decoder<R: Read>(input: R) -> io::Result<impl Read + use<R>> {
    let input = io::BufReader::with_capacity(256 << 10, input);
    zstd::stream::read::Decoder::with_buffer(input)
}

#[cfg(test)]
mod tests {
    use super::super::Parallel;
    use super::*;

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|n| (n / 300 * 7 % 251) as u8).collect()
    }

    fn frames(content: &[u8], piece: usize) -> Vec<u8> {
        let mut stream = Vec::new();
        for part in content.chunks(piece) {
            stream.extend_from_slice(b"\x5f\x2a\x4d\x18\x03\0\0\0abc");
            stream.extend(zstd::bulk::compress(part, 1).unwrap());
        }
        stream
    }

    fn read(stream: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        Parallel::new(Frames::new(Cursor::new(stream)), None).read_to_end(&mut content)?;
        Ok(content)
    }

    #[test]
    fn frames_become_what_they_were() {
        let content = bytes(5_000_000);
        for piece in [1000, 70_000, 1 << 20, 5_000_000] {
            assert!(read(frames(&content, piece)).unwrap() == content, "{piece}");
        }
        assert!(read(Vec::new()).unwrap().is_empty());
    }

    #[test]
    fn a_frame_without_a_size_is_bounded_by_its_blocks() {
        let content = bytes(1_000_000);
        // A stream does not know its size when it begins.
        let part = zstd::stream::encode_all(&content[..], 1).unwrap();
        let twice = [&part[..], &part[..]].concat();
        assert!(read(twice).unwrap() == [&content[..], &content[..]].concat());
    }

    #[test]
    fn a_large_frame_after_small_ones_is_read_as_a_stream() {
        let (small, large) = (bytes(1000), vec![5; PART_BYTES_MAX as usize + 1]);
        for large_part in [
            zstd::bulk::compress(&large, 1).unwrap(),
            zstd::stream::encode_all(&large[..], 1).unwrap(),
        ] {
            let stream = [frames(&small, 100), large_part, frames(&small, 500)].concat();
            assert!(read(stream).unwrap() == [&small[..], &large[..], &small[..]].concat());
        }
    }

    #[test]
    fn what_is_cut_or_damaged_is_an_error_after_the_frames_before_it() {
        let stream = frames(&bytes(300_000), 100_000);
        for cut in 1..stream.len() {
            // At the end of a frame nothing is missing.
            let whole = [11, stream.len()].contains(&cut);
            let mut reader = Parallel::new(Frames::new(Cursor::new(stream[..cut].to_vec())), None);
            let outcome = reader.read_to_end(&mut Vec::new());
            assert!(outcome.is_err() || whole || is_boundary(&stream, cut), "{cut}");
        }
        for at in (0..stream.len()).step_by(7) {
            let mut damaged = stream.clone();
            damaged[at] ^= 0x55;
            // No panic, no endless loop, bounded memory; most are errors.
            let _ = read(damaged);
        }
    }

    fn is_boundary(stream: &[u8], cut: usize) -> bool {
        stream[cut..].starts_with(b"\x5f\x2a\x4d\x18")
            || stream[cut..].starts_with(&MAGIC.to_le_bytes())
    }
}
