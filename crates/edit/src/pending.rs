//! Names of an undo file: the one that it has, and the one that it has until its change is decided.
use crate::beside;
use crate::error::{Error, Result};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How an undo file begins.
pub(crate) const MAGIC: [u8; 8] = *b"EXTUNDO2";
/// How the name of a redo log beside its image ends.
const LOG_SUFFIX: &[u8] = b"extant-redo";

/// The name of the undo file that goes with a redo log, for the volume at a byte of its image:
/// `.NAME.extant-undo` with `.NAME.extant-redo`, `LOG.undo` with any other. The byte follows where
/// it is not the first one: volumes of one disk are undone each for itself.
pub fn path_of(log: &Path, offset: u64) -> PathBuf {
    let name = log.file_name().unwrap_or_default().as_bytes();
    let mut name = match name.strip_suffix(LOG_SUFFIX) {
        Some(stem) => [stem, b"extant-undo"].concat(),
        None => [name, b".undo"].concat(),
    };
    if offset != 0 {
        name.extend(format!("-{offset}").into_bytes());
    }
    log.with_file_name(OsString::from_vec(name))
}

/// The name of an undo file while its change is not decided.
pub(crate) fn pending_of(log: &Path, offset: u64) -> PathBuf {
    let mut name = path_of(log, offset).into_os_string();
    name.push("-new");
    name.into()
}

/// Removes the undo file of a change that was not decided.
///
/// # Errors
/// There is a file of that name that is none; the host's.
pub(crate) fn forget_pending(log: &Path, offset: u64) -> Result<()> {
    let pending = pending_of(log, offset);
    if std::fs::symlink_metadata(&pending).is_err() {
        return Ok(());
    }
    let is_ours = beside::may_be_begun(&pending, "undo file", MAGIC);
    if !is_ours.map_err(|error| Error::host(&pending, error))? {
        return Err(Error::host_said(&pending, "is no undo file, and is not removed")
            .hint("name another place: --log FILE"));
    }
    beside::remove(&pending)
}

/// Gives the undo file of a change that is decided its name; a change that has none makes that of
/// an earlier one useless, which finds out who wants to use it.
pub(crate) fn keep_pending(log: &Path, offset: u64) -> io::Result<()> {
    match std::fs::rename(pending_of(log, offset), path_of(log, offset)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed.and_then(|()| beside::sync_folder(log)),
    }
}
