//! Compressed streams that are members one after the other: gzip, bzip2, lz4. After the last there
//! may be zeros, with which tapes and block devices fill up their blocks.
//!
//! *Invariants*: a stream ends where a member ends, and nowhere else: what is cut off within one is
//! `UnexpectedEof`.
use super::peek::Peek;
use bzip2::bufread::BzDecoder;
use extant_tree::magic;
use flate2::bufread::GzDecoder;
use std::fmt;
use std::io::{self, BufRead, Read};

/// A member that is being decompressed. Reading gives no bytes after its end, and leaves what
/// follows it in the input.
pub(super) trait Member: Read {
    /// Where the bytes come from.
    type Source: BufRead;

    /// Whether a member, or the first bytes of one, follows after the end of another.
    fn begins(first: &[u8]) -> bool;
    /// What a stream is that goes on in another way after a member.
    fn garbage() -> io::Error;
    /// The member that begins at the next byte.
    fn begin(input: Peek<Self::Source>) -> Self;
    fn input(&mut self) -> &mut Peek<Self::Source>;
    fn into_input(self) -> Peek<Self::Source>;
}

/// What follows the last member of a stream, and is none. Its own tool says so, and ignores it:
/// an archive that was whole before it is, too.
#[derive(Debug)]
pub(super) struct TrailingBytes(&'static str);

impl fmt::Display for TrailingBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for TrailingBytes {}

impl TrailingBytes {
    /// Whether that is why a stream could not be read on.
    pub(super) fn are_why(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<TrailingBytes>())
    }

    fn error(message: &'static str) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, TrailingBytes(message))
    }
}

impl<R: BufRead> Member for GzDecoder<Peek<R>> {
    type Source = R;

    fn begins(first: &[u8]) -> bool {
        first.starts_with(&magic::GZIP) || first == &magic::GZIP[..1]
    }
    fn garbage() -> io::Error {
        TrailingBytes::error("invalid gzip header")
    }
    fn begin(input: Peek<R>) -> GzDecoder<Peek<R>> {
        GzDecoder::new(input)
    }
    fn input(&mut self) -> &mut Peek<R> {
        self.get_mut()
    }
    fn into_input(self) -> Peek<R> {
        self.into_inner()
    }
}

/// A stream of bzip2, with errors of the kind that the others have.
pub(super) struct Bzip2Member<R>(BzDecoder<Peek<R>>);

impl<R: BufRead> Read for Bzip2Member<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => {
                io::Error::new(io::ErrorKind::InvalidData, "invalid bzip2 data")
            }
            _ => error,
        })
    }
}

impl<R: BufRead> Member for Bzip2Member<R> {
    type Source = R;

    fn begins(first: &[u8]) -> bool {
        matches!(
            first,
            [b'B'] | [b'B', b'Z'] | [b'B', b'Z', b'h'] | [b'B', b'Z', b'h', b'1'..=b'9']
        )
    }
    fn garbage() -> io::Error {
        TrailingBytes::error("invalid bzip2 header")
    }
    fn begin(input: Peek<R>) -> Bzip2Member<R> {
        Bzip2Member(BzDecoder::new(input))
    }
    fn input(&mut self) -> &mut Peek<R> {
        self.0.get_mut()
    }
    fn into_input(self) -> Peek<R> {
        self.0.into_inner()
    }
}

/// The members' bytes, end to end. Anything but another member or zeros after a member is an error.
pub(super) struct Members<M> {
    /// The present member; nothing after the last.
    member: Option<M>,
}

/// Gzip as archives have it.
pub(super) type Gzip<R> = Members<GzDecoder<Peek<R>>>;
/// Bzip2, as `pbzip2` writes it too.
pub(super) type Bzip2<R> = Members<Bzip2Member<R>>;

impl<M: Member> Members<M> {
    pub(super) fn new(input: M::Source) -> Members<M> {
        Members { member: Some(M::begin(Peek::new(input))) }
    }
}

impl<M: Member> Read for Members<M> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            // An error on the way leaves the member: it has ended, and the next call goes on here.
            let follows = Follows::of::<M>(member.input())?;
            let ended = self.member.take();
            if follows == Follows::Member {
                self.member = ended.map(|ended| M::begin(ended.into_input()));
            }
        }
        Ok(0)
    }
}

/// What follows a member.
#[derive(PartialEq, Eq)]
enum Follows {
    Member,
    /// The end; zeros were passed over.
    Nothing,
}

impl Follows {
    fn of<M: Member>(input: &mut Peek<M::Source>) -> io::Result<Follows> {
        let mut padded = false;
        loop {
            let bytes = input.fill_buf()?;
            let count = bytes.len();
            match bytes.iter().position(|byte| *byte != 0) {
                None if count == 0 => return Ok(Follows::Nothing),
                Some(0) if !padded && M::begins(input.peek()?) => return Ok(Follows::Member),
                Some(_) => return Err(M::garbage()),
                None => {
                    padded = true;
                    input.consume(count);
                }
            }
        }
    }
}
