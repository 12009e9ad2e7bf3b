//! Debian packages: archives of `ar`, a member of which is a tar archive of the files.
//!
//! ```text
//! "!<arch>\n", then for each member 60 bytes (name 16, time 12, user 6, group 6, mode 8, size 10,
//! "`\n") and its content up to a multiple of two bytes
//! ```
use crate::error::{Corruption, ErrorKind};
use extant_tree::magic;
use std::io::{self, Read};

/// What the name of the member with the files begins with.
const FILES: &[u8] = b"data.tar";
const HEADER_BYTES: usize = 60;
/// More members before the files are not passed over: packages have two.
const MEMBERS_MAX: usize = 64;

/// The content of the member with the files: all the bytes that its header states, or an error.
///
/// An archive says where it ends and may lack its mark, so one that is cut off between two entries
/// looks whole. The size that a member's header states is the only judge of that.
pub(super) struct Files<R> {
    source: R,
    /// Bytes that are still to come.
    left: u64,
}

impl<R: Read> Read for Files<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.source.read(&mut buffer[..most])?;
        if count == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(count as u64);
        Ok(count)
    }
}

/// The archive of the files, compressed as it is in the package. `source` is positioned after the
/// mark. What follows the member is not read: the byte that fills up an odd one may be missing.
///
/// # Errors
/// What is no package, or one that was cut off before its files. Reading gives `UnexpectedEof`
/// where the package ends before they do.
pub(super) fn files<R: Read>(mut source: R) -> Result<Files<R>, ErrorKind> {
    for number in 0..MEMBERS_MAX {
        let mut header = [0; HEADER_BYTES];
        match source.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(ErrorKind::Truncated);
            }
            Err(error) => return Err(ErrorKind::Read(error)),
        }
        let name = header[..16].trim_ascii_end();
        let name = name.strip_suffix(b"/").unwrap_or(name);
        if number == 0 && name != magic::DEBIAN {
            return Err(ErrorKind::ForeignArchive("an ar archive and no Debian package"));
        }
        let size = std::str::from_utf8(header[48..58].trim_ascii_end()).ok();
        let size: Option<u64> = size.and_then(|size| size.parse().ok());
        let size = size.filter(|_| header.ends_with(b"`\n"));
        let size = size.ok_or(Corruption::Field("header of a member"))?;
        if name.starts_with(FILES) {
            return Ok(Files { source, left: size });
        }
        let padded = size + size % 2;
        let passed = io::copy(&mut (&mut source).take(padded), &mut io::sink());
        if passed.map_err(ErrorKind::Read)? < padded {
            return Err(ErrorKind::Truncated);
        }
    }
    Err(ErrorKind::ForeignArchive("a Debian package whose files are not found"))
}
