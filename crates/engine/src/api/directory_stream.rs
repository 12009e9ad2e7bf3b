//! An open directory, listed buffer by buffer as getdents does.
//!
//! *Invariants*: a name that exists during the whole listing is returned exactly once, whatever
//! names are added and removed in the meantime.
//! *Locking*: the directory's inode is locked shared during a call, and unlocked between calls.
use crate::api::filesystem::Filesystem;
use crate::error::{ErrorKind, Result};
use crate::flush::Core;
use crate::inode::Node;
use crate::name::directory::{DirectoryEntry, Legality, Listing};
use crate::name::namespace::Follow;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A directory that is being listed.
pub struct DirectoryStream {
    core: Arc<Core>,
    node: Arc<Node>,
    listing: Listing,
}

/// Size of a record without its name, in bytes: `d_ino` and `d_off` take 8, `d_reclen` 2, `d_type`
/// 1, and the zero byte after the name 1.
const RECORD_BYTES: usize = 8 + 8 + 2 + 1 + 1;

/// Size of a getdents record of 64-bit Linux for a name of that length in bytes, rounded up to a
/// multiple of 8. (getdents and getdents64 differ only in the place of the type.)
pub fn record_bytes(name_length: usize) -> usize {
    (RECORD_BYTES + name_length).next_multiple_of(8)
}

impl Filesystem {
    /// Opens a directory to list it. Symlinks are followed.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`; `Corrupt`; what the device returns.
    pub fn open_dir(&self, path: impl AsRef<Path>) -> Result<DirectoryStream> {
        let path = path.as_ref();
        let node = self.at(path, |core| {
            let node = core.inodes.resolve(path.as_os_str().as_bytes(), Follow::Last)?;
            node.state.read().check_directory()?;
            Ok(node)
        })?;
        Ok(DirectoryStream { core: Arc::clone(&self.core), node, listing: Listing::new() })
    }
}

impl DirectoryStream {
    /// The next entries, including "." and "..": as many as fit into a buffer of `buffer_bytes` as
    /// records of getdents (see [`record_bytes`]). Empty at the end. The policy decides what is
    /// read ahead.
    ///
    /// # Errors
    /// `InvalidArgument` if the buffer is too small for the next entry; `NotFound` if the directory
    /// was removed; `Corrupt`; what the device returns. If entries were read before a failure, they
    /// are returned first, and the error with the next call.
    pub fn next_entries(&mut self, buffer_bytes: usize) -> Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        self.next_with(buffer_bytes, |entry| entries.push(entry))?;
        Ok(entries)
    }

    fn next_with(
        &mut self,
        buffer_bytes: usize,
        mut take: impl FnMut(DirectoryEntry),
    ) -> Result<()> {
        let state = self.node.state.read();
        state.check_directory()?;
        let (mut left, mut taken, mut is_full) = (buffer_bytes, 0u32, false);
        let outcome = self.listing.go_on(&self.core.inodes.volume, &state, &mut |entry| {
            // As getdents of a mount has it: no program could do anything with one.
            if entry.legality == Legality::Illegal {
                return ControlFlow::Continue(());
            }
            let bytes = record_bytes(entry.name.len());
            if bytes > left {
                is_full = true;
                return ControlFlow::Break(());
            }
            left -= bytes;
            taken += 1;
            take(DirectoryEntry {
                name: entry.name.to_vec(),
                ino: entry.ino,
                file_type: entry.file_type,
                stored: None,
            });
            ControlFlow::Continue(())
        });
        let costs = self.core.inodes.volume.store.policies.costs;
        let names_ns = costs.name_ns * u64::from(taken);
        self.core.inodes.volume.store.clock.charge(costs.call_ns + names_ns);
        drop(state);
        self.core.inodes.note_access(&self.node);
        match outcome {
            _ if taken > 0 => Ok(()),
            Ok(()) if is_full => {
                Err(ErrorKind::InvalidArgument("the buffer is too small for an entry").into())
            }
            outcome => outcome,
        }
    }
}
