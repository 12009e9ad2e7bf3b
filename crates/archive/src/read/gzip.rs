//! Gzip as archives have it: members one after the other, and perhaps zeros after the last, with
//! which tapes and block devices fill up their blocks.
use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};

/// The members' bytes, end to end. Anything but another member or zeros after a member is an error.
pub(super) struct Gzip<R> {
    /// The present member; nothing after the last.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Gzip<R> {
    pub(super) fn new(input: R) -> Gzip<R> {
        let member = Some(GzDecoder::new(input));
        Gzip { member }
    }
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            // An error on the way leaves the member: it has ended, and the next call goes on here.
            let follows = Follows::of(member.get_mut())?;
            let ended = self.member.take();
            if follows == Follows::Member {
                self.member = ended.map(|ended| GzDecoder::new(ended.into_inner()));
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
    fn of(input: &mut impl BufRead) -> io::Result<Follows> {
        let mut padded = false;
        loop {
            let bytes = input.fill_buf()?;
            match bytes.iter().position(|byte| *byte != 0) {
                None if bytes.is_empty() => return Ok(Follows::Nothing),
                Some(0) if !padded => return Ok(Follows::Member),
                Some(_) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "invalid gzip header"));
                }
                None => {
                    padded = true;
                    let count = bytes.len();
                    input.consume(count);
                }
            }
        }
    }
}
