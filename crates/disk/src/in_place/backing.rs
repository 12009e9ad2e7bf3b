//! The images that one is based on: which file that is, by the header.
use crate::read;
use crate::read::device::{Stored, big_32, read_exact};
use crate::read::error::Error;
use crate::read::qcow2::header::Header;
use extant_block::{Access, BlockDevice, Clock, FileDevice};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FORMAT: u32 = 0xe279_2aca;
/// More extensions than a header has room for are not looked at.
const EXTENSIONS_MAX: usize = 64;

/// How many images may be based on each other.
pub(crate) const BACKINGS_MAX: u32 = 16;

/// A file that an image is based on, as its header says.
struct Backing {
    /// Its name: from the folder of the image on, or from the root.
    path: PathBuf,
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Raw,
    Qcow2,
}

/// The disk of the file that the image in a file at this place is based on, for reading; `None` for
/// one that is whole. At most `left` are based on each other.
///
/// It has to be in the folder of the image, or below: an image of a stranger could name any file of
/// the host, and show what it holds.
///
/// # Errors
/// The host's; what is damaged; a name that is no path, or elsewhere; a file of a form that is not
/// said: what it is would be guessed from bytes that a guest has written.
pub(crate) fn backing_at(
    clock: &Arc<dyn Clock>,
    file: &impl Stored,
    place: &Path,
    left: u32,
) -> Result<Option<Arc<dyn BlockDevice>>, Error> {
    let Some(backing) = named(file)? else { return Ok(None) };
    let shown = extant_archive::printable(backing.path.as_os_str().as_bytes());
    let unread = |why: String| Error::Unsupported(format!("has a backing file, {shown}, {why}"));
    let Some(left) = left.checked_sub(1) else {
        return Err(unread("after too many others".into()));
    };
    let place = place.canonicalize()?;
    let folder = place.parent().unwrap_or(Path::new("/"));
    let found = folder.join(&backing.path).canonicalize();
    let found = found.map_err(|error| unread(format!("that is not there: {error}")))?;
    if !found.starts_with(folder) {
        return Err(unread("that is not in its folder".into()));
    }
    let opened = FileDevice::open(Arc::clone(clock), &found, Access::ReadOnly, 0);
    let opened = opened.map_err(|error| unread(format!("that cannot be opened: {error}")))?;
    if backing.format == Format::Raw {
        return Ok(Some(Arc::new(opened)));
    }
    let file = opened.file().try_clone()?;
    let below = backing_at(clock, &file, &found, left)?;
    let name = found.display().to_string();
    // The lock of the file belongs to the copy, too.
    let disk = read::qcow2::Qcow2::open(file, below).map_err(|error| match error {
        Error::Read(error) => Error::Read(error),
        error => unread(format!("that {error}")),
    })?;
    Ok(Some(Arc::new(read::device::Disk::new(Arc::clone(clock), disk, name))))
}

/// What the header names.
fn named(file: &impl Stored) -> Result<Option<Backing>, Error> {
    let header = Header::read(file)?;
    let Some(backing) = header.backing else { return Ok(None) };
    let name = backing.name(file)?;
    let shown = extant_archive::printable(&name);
    if name.contains(&0) || name.is_empty() || is_protocol(&name) {
        let sentence = format!("has a backing file, {shown}, that is no path");
        return Err(Error::Unsupported(sentence));
    }
    let mut at = u64::from(header.header_bytes);
    for _ in 0..EXTENSIONS_MAX {
        let mut head = [0; 8];
        if at + 8 > header.cluster_bytes() {
            break;
        }
        read_exact(file, at, &mut head)?;
        let (kind, length) = (big_32(&head, 0), u64::from(big_32(&head, 4)));
        if kind == FORMAT && length <= 16 {
            let mut format = vec![0; length as usize];
            read_exact(file, at + 8, &mut format)?;
            let format = match &format[..] {
                b"raw" => Format::Raw,
                b"qcow2" => Format::Qcow2,
                _ => break,
            };
            return Ok(Some(Backing { path: OsString::from_vec(name).into(), format }));
        }
        if kind == 0 {
            break;
        }
        at = (at + 8 + length).next_multiple_of(8);
    }
    let sentence = format!("has a backing file, {shown}, and does not say that it is raw or qcow2");
    Err(Error::Unsupported(sentence))
}

/// Whether it begins as "nbd:" and "json:" do, which QEMU reads as a protocol.
fn is_protocol(name: &[u8]) -> bool {
    let end = name.iter().position(|byte| *byte == b':' || *byte == b'/');
    end.is_some_and(|end| name[end] == b':')
}
