//! Directories by inode, read from a cookie on.
use super::{Inode, Inodes};
use crate::api::filesystem::Metadata;
use crate::error::{Error, ErrorKind, Result};
use crate::inode::Node;
use crate::inode::access::{self, EXECUTE, READ};
use crate::inode::caller::Reads;
use crate::name::directory::cookie::{Entry, list_after};
use crate::name::directory::{DirectoryEntry, entries};
use std::ops::ControlFlow;
use std::sync::Arc;

/// At most this many entries are collected before their metadata is read, with the directory
/// unlocked.
const COLLECTED_MAX: usize = 64;

/// The inode of an entry, with its metadata.
#[derive(Clone, Debug)]
pub struct Known {
    /// The inode.
    pub inode: Inode,
    /// What `stat` returns for it.
    pub metadata: Metadata,
}

/// Called for each entry, with its inode; `None` for "." and "..".
type VisitPlus<'a> = dyn FnMut(Entry<'_>, Option<Known>) -> ControlFlow<()> + 'a;

/// An entry that waits for its metadata.
struct Collected {
    name: Vec<u8>,
    next: u64,
    entry: Entry<'static>,
    /// Its inode; `None` for "." and "..".
    node: Option<Arc<Node>>,
}

impl Inodes<'_> {
    /// Calls `visit` for the entries of a directory after a cookie, "." and ".." included, until it
    /// breaks; the entry at which it breaks counts as visited. Names that no file may have are left
    /// out ([`Inodes::names`] has them). A listing starts with cookie 0, and
    /// each entry has the cookie to continue with ([`Entry::next`]).
    ///
    /// Cookies stay valid while the directory changes, between listings and after the volume was
    /// opened again: a name that is there all the time is visited exactly once. On volumes with
    /// dir_index a cookie is made of the hash of a name; only names whose hashes are equal in 63
    /// bits (with the legacy hash 31 bits and a checksum) may be visited twice, or left out, if one
    /// of them is removed meanwhile. On others it is a place in the directory, and entries do not
    /// move.
    ///
    /// `visit` is called with the directory locked: it must not call the file system.
    ///
    /// # Errors
    /// `InvalidArgument` for a number that is no cookie; `NotDirectory`, `NotFound`;
    /// `PermissionDenied`; `Corrupt` or what the device returns, after the entries before the
    /// damage were visited.
    pub fn read_dir(
        &self,
        directory: &Inode,
        cookie: u64,
        visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let node = self.node(directory)?;
        let result = self.list(node, cookie, READ, visit);
        self.core.balance_after_reading();
        result
    }

    /// As [`Inodes::read_dir`], with the inode and the metadata of each entry except "." and "..".
    /// Entries that are removed meanwhile are left out. No lock is held while `visit` is called.
    ///
    /// # Errors
    /// As for [`Inodes::read_dir`]; the caller must also have the right to search the directory.
    pub fn read_dir_plus(
        &self,
        directory: &Inode,
        cookie: u64,
        visit: &mut VisitPlus<'_>,
    ) -> Result<()> {
        let node = self.node(directory)?;
        let mut cookie = cookie;
        loop {
            let (collected, outcome) = self.collect(node, cookie);
            let is_last = collected.len() < COLLECTED_MAX;
            for one in collected {
                cookie = one.next;
                let known = one.node.as_ref().map(|node| self.known(node)).transpose()?;
                if known.as_ref().is_some_and(Option::is_none) {
                    continue; // removed since it was listed
                }
                let known = known.flatten();
                if visit(Entry { name: &one.name, ..one.entry }, known).is_break() {
                    self.core.balance_after_reading();
                    return Ok(());
                }
            }
            self.core.balance_after_reading();
            outcome?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// All names in a directory, without "." and "..", in the order of readdir. One that no file
    /// may have is among them as what it is written as: see [`DirectoryEntry::stored`].
    ///
    /// # Errors
    /// `NotDirectory`, `NotFound`; `PermissionDenied`; `Corrupt`; what the device returns.
    pub fn names(&self, directory: &Inode) -> Result<Vec<DirectoryEntry>> {
        let node = self.node(directory)?;
        self.look(|core| {
            let volume = &core.inodes.volume;
            let state = node.state.read();
            state.check_directory()?;
            access::check(volume, &state, self.caller, READ)?;
            let entries = entries(volume, &state)?;
            drop(state);
            core.inodes.note_access(node);
            Ok(entries)
        })
    }

    /// Whether a listing of this directory has left out a name that no file may have, which
    /// [`Inodes::names`] has. It is known of the first 64 such directories.
    ///
    /// # Errors
    /// The inode is one of another volume.
    pub fn has_illegal_names(&self, directory: &Inode) -> Result<bool> {
        let number = self.node(directory)?.ino;
        Ok(self.core.inodes.volume.listings.has_illegal(number))
    }

    fn list(
        &self,
        node: &Arc<Node>,
        cookie: u64,
        rights: u16,
        visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let volume = &self.core.inodes.volume;
        let state = node.state.read();
        state.check_directory()?;
        access::check(volume, &state, self.caller, rights)?;
        let (mut given, mut passed) = (0, false);
        let each = &mut |entry: Entry<'_>| {
            given += 1;
            visit(entry)
        };
        let result = list_after(volume, &state, cookie, (each, &mut passed));
        drop(state);
        if passed {
            volume.listings.note_illegal(node.ino);
        }
        let costs = &volume.store.policies.costs;
        volume.store.clock.charge(costs.call_ns + costs.name_ns * given);
        if self.caller.is_none_or(|caller| caller.reads == Reads::Noted) {
            self.core.inodes.note_access(node);
        }
        result
    }

    /// Some entries with their nodes, and the outcome of listing them.
    fn collect(&self, node: &Arc<Node>, cookie: u64) -> (Vec<Collected>, Result<()>) {
        let core = self.core;
        let (mut collected, mut failure) = (Vec::new(), None);
        let outcome = self.list(node, cookie, READ | EXECUTE, &mut |entry| {
            let child = match entry.name {
                b"." | b".." => None,
                _ => match core.inodes.nodes.get(&core.inodes.volume, entry.ino) {
                    Ok(child) => Some(child),
                    Err(error) => {
                        failure = Some(error);
                        return ControlFlow::Break(());
                    }
                },
            };
            let Entry { name, next, .. } = entry;
            let entry = Entry { name: b"", ..entry };
            collected.push(Collected { name: name.to_vec(), next, entry, node: child });
            match collected.len() {
                COLLECTED_MAX => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        (collected, failure.map_or(outcome, Err))
    }

    /// A node's inode and metadata; `None` if it was freed since it was found.
    fn known(&self, node: &Arc<Node>) -> Result<Option<Known>> {
        let inode = self.of(Arc::clone(node));
        let state = node.state.read();
        let block_size = self.core.inodes.volume.store.block_size();
        match state.check_alive().and_then(|()| Metadata::new(&state, block_size)) {
            Ok(metadata) => Ok(Some(Known { inode, metadata })),
            Err(Error { kind: ErrorKind::NotFound, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
