//! Files beside an image that say what becomes of it: a redo log, an undo file.
//!
//! *Invariants*: such a file ends in the digest of all before, is durable before anybody acts on
//! it, and is believed only if it is a regular file of this user or of root. What blocks hold is
//! told by a crc32 of the polynomial of IEEE, never by crc32c: of bytes that end in their own
//! crc32c, as superblocks and blocks of directories do, that is the same whatever they are.
use crate::error::{Error, Result};
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of the digest at the end.
pub(crate) const DIGEST_BYTES: usize = 32;

/// Removes a file, durably.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let removed = std::fs::remove_file(path).and_then(|()| sync_folder(path));
    removed.map_err(|error| Error::host(path, error))
}

/// Makes names in the folder of a file durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Opens such a file; `None` where there is none. `what` it is to be is said of any other.
///
/// # Errors
/// The host's; `InvalidInput` for what is no regular file, and for the file of somebody who is
/// neither root nor this user: in a folder of many users anybody could put one.
pub(crate) fn open(path: &Path, what: &str) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    // Opening a fifo would wait for its other end.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let file = match options.read(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let metadata = file.metadata()?;
    let is_ours = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid());
    if !metadata.is_file() || !is_ours {
        let why = format!("is no {what} of this user or of root");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(Some(file))
}

/// Whether a file may be one that was begun here: it begins with the magic, or is empty. A name
/// that only we give, as `.NAME.extant-redo`, may also be that of a file whose bytes a power cut
/// has lost: as far as it goes it begins with zeros. Any other file is somebody else's, such as the
/// image of a disk, and is not replaced.
///
/// # Errors
/// As [`open`].
pub(crate) fn may_be_begun(path: &Path, what: &str, magic: [u8; 8]) -> io::Result<bool> {
    let Some(file) = open(path, what)? else { return Ok(true) };
    let mut head = Vec::new();
    file.take(magic.len() as u64).read_to_end(&mut head)?;
    let is_cut = magic.starts_with(&head) || head.iter().all(|byte| *byte == 0);
    Ok(head.is_empty() || head == magic || is_cut && is_our_name(path))
}

/// Whether a name is one that only we give.
pub(crate) fn is_our_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    // The byte where a volume begins may follow, and `-new`.
    let stem = name.strip_suffix(b"-new").unwrap_or(name);
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
    let length = stem.iter().rposition(|byte| !is_part(byte)).map_or(0, |at| at + 1);
    let stem = stem.get(..length).unwrap_or_default();
    name.starts_with(b".")
        && [&b".extant-redo"[..], b".extant-undo"].iter().any(|end| stem.ends_with(end))
}

/// The little-endian number at a byte; 0 where there is none.
pub(crate) fn number_at(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// A file under way, and the digest of what is in it.
pub(crate) struct Digesting {
    file: BufWriter<File>,
    sha: Sha256,
}

impl Digesting {
    /// A new file, which nobody else reads: it has bytes of the image.
    ///
    /// # Errors
    /// The host's; there is a file of that name.
    pub fn create(path: &Path) -> io::Result<Digesting> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Digesting { file: BufWriter::with_capacity(1 << 20, file), sha: Sha256::new() })
    }

    pub fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sha.update(bytes);
        self.file.write_all(bytes)
    }

    /// Ends it with its digest and makes its bytes durable; its name is not.
    pub fn finish(self) -> io::Result<()> {
        let Digesting { mut file, sha } = self;
        file.write_all(&sha.finalize())?;
        file.flush()?;
        file.get_ref().sync_all()
    }
}
