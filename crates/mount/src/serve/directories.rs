//! Listings. A listing continues by the cookie of its last entry, so no directory is kept open.
use super::server::{Answer, Answering, Server, node_of};
use crate::protocol::wire;
use extant_engine::{Entry, Inode};
use extant_format::inode::FileType;
use std::ops::ControlFlow;
use zerocopy::IntoBytes;

/// The type of an entry as readdir(3) shows it, the upper bits of a mode; 0 where the volume keeps
/// none.
fn shown_type(file_type: Option<FileType>) -> u32 {
    file_type.map_or(0, |file_type| u32::from(file_type.mode_bits() >> 12))
}

/// Directories of which it is told that they have names that no file may have, and such names of
/// one, at most: there may be any number.
const ILLEGAL_TOLD_MAX: usize = 64;

/// Entries of an answer, up to a number of bytes.
struct Listing<'a> {
    bytes: &'a mut Vec<u8>,
    room: usize,
}

impl Listing<'_> {
    /// Adds an entry, and before it what is known of its inode. Breaks once one does not fit.
    fn add(&mut self, entry: &Entry<'_>, known: Option<&wire::Entry>) -> ControlFlow<()> {
        let header = wire::DirectoryEntry {
            ino: entry.ino.0.into(),
            next: entry.next,
            name_length: entry.name.len() as u32,
            file_type: shown_type(entry.file_type),
        };
        let known = known.map_or(&[][..], |known| known.as_bytes());
        let length = known.len() + size_of_val(&header) + entry.name.len();
        if self.bytes.len() + length.next_multiple_of(8) > self.room {
            return ControlFlow::Break(());
        }
        let end = self.bytes.len() + length.next_multiple_of(8);
        self.bytes.extend_from_slice(known);
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(entry.name);
        self.bytes.resize(end, 0);
        ControlFlow::Continue(())
    }
}

impl Server {
    pub(super) fn read_directory(
        &self,
        node: u64,
        arguments: &wire::Read,
        to: &mut Answering<'_>,
        space: &mut Vec<u8>,
    ) -> Answer<()> {
        let directory = self.inode(node)?;
        space.clear();
        let mut listing = Listing { bytes: space, room: arguments.size as usize };
        let listed = self
            .inodes()
            .read_dir(&directory, arguments.offset, &mut |entry| listing.add(&entry, None));
        self.tell_of_illegal(&directory);
        answer(listed, to, space)
    }

    pub(super) fn read_directory_plus(
        &self,
        node: u64,
        arguments: &wire::Read,
        to: &mut Answering<'_>,
        space: &mut Vec<u8>,
    ) -> Answer<()> {
        let directory = self.inode(node)?;
        space.clear();
        let mut listing = Listing { bytes: space, room: arguments.size as usize };
        // Without a node for "." and "..": the kernel does not count them.
        let none = wire::Entry::default();
        let listed =
            self.inodes().read_dir_plus(&directory, arguments.offset, &mut |entry, known| {
                match known {
                    None => listing.add(&entry, Some(&none)),
                    Some(known) => {
                        debug_assert_eq!(self.entry(&known.metadata).node, node_of(entry.ino));
                        listing.add(&entry, Some(&self.entry(&known.metadata)))
                    }
                }
            });
        self.tell_of_illegal(&directory);
        answer(listed, to, space)
    }

    /// Tells the observer of names that no file may have, once for a directory: they were left out.
    fn tell_of_illegal(&self, directory: &Inode) {
        let inodes = self.inodes();
        let Some(watch) = &self.watch else { return };
        if !inodes.has_illegal_names(directory).unwrap_or(false) {
            return;
        }
        let number = directory.number().0;
        {
            let mut told = self.illegal_told.lock();
            if told.len() >= ILLEGAL_TOLD_MAX || !told.insert(number) {
                return;
            }
        }
        let names = inodes.names(directory).unwrap_or_default();
        let illegal = names.iter().filter(|name| name.stored.is_some());
        illegal.take(ILLEGAL_TOLD_MAX).for_each(|name| watch.left_out(number, name));
    }
}

/// Answers with the entries; with the error only if there are none before it.
fn answer(listed: extant_engine::Result<()>, to: &mut Answering<'_>, space: &[u8]) -> Answer<()> {
    if space.is_empty() {
        listed?;
    }
    to.bytes = space.len() as u64;
    to.reply().bytes(space);
    Ok(())
}
