//! Compressed streams that are members one after the other: gzip, bzip2, lz4. After the last there
//! may be zeros, with which tapes and block devices fill up their blocks.
//!
//! *Invariants*: a stream ends where a member ends, and nowhere else: what is cut off within one is
//! `UnexpectedEof`.
use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};

/// A member that is being decompressed. Reading gives no bytes after its end, and leaves what
/// follows it in the input.
pub(super) trait Member: Read {
    /// Where the bytes come from.
    type Input: BufRead;
    /// What a stream is that goes on in another way after a member.
    const INVALID: &'static str;

    /// The member that begins at the next byte.
    fn begin(input: Self::Input) -> Self;
    fn input(&mut self) -> &mut Self::Input;
    fn into_input(self) -> Self::Input;
}

impl<R: BufRead> Member for GzDecoder<R> {
    type Input = R;
    const INVALID: &'static str = "invalid gzip header";

    fn begin(input: R) -> GzDecoder<R> {
        GzDecoder::new(input)
    }
    fn input(&mut self) -> &mut R {
        self.get_mut()
    }
    fn into_input(self) -> R {
        self.into_inner()
    }
}

/// A stream of bzip2, with errors of the kind that the others have.
pub(super) struct Bzip2Member<R>(BzDecoder<R>);

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
    type Input = R;
    const INVALID: &'static str = "invalid bzip2 header";

    fn begin(input: R) -> Bzip2Member<R> {
        Bzip2Member(BzDecoder::new(input))
    }
    fn input(&mut self) -> &mut R {
        self.0.get_mut()
    }
    fn into_input(self) -> R {
        self.0.into_inner()
    }
}

/// The members' bytes, end to end. Anything but another member or zeros after a member is an error.
pub(super) struct Members<M> {
    /// The present member; nothing after the last.
    member: Option<M>,
}

/// Gzip as archives have it.
pub(super) type Gzip<R> = Members<GzDecoder<R>>;
/// Bzip2, as `pbzip2` writes it too.
pub(super) type Bzip2<R> = Members<Bzip2Member<R>>;

impl<M: Member> Members<M> {
    pub(super) fn new(input: M::Input) -> Members<M> {
        Members { member: Some(M::begin(input)) }
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
            let follows = Follows::of(member.input(), M::INVALID)?;
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
    fn of(input: &mut impl BufRead, invalid: &'static str) -> io::Result<Follows> {
        let mut padded = false;
        loop {
            let bytes = input.fill_buf()?;
            match bytes.iter().position(|byte| *byte != 0) {
                None if bytes.is_empty() => return Ok(Follows::Nothing),
                Some(0) if !padded => return Ok(Follows::Member),
                Some(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, invalid)),
                None => {
                    padded = true;
                    let count = bytes.len();
                    input.consume(count);
                }
            }
        }
    }
}
