//! Open files.
//!
//! The kernel has judged whether a program may open a file, but does not know which files are
//! immutable or append-only: opening them is refused here. What comes from its cache was written
//! by a program that was allowed to, perhaps before the file became immutable, so it is not judged
//! again.
use super::handles::OpenFile;
use super::seeks::{self, Search};
use super::server::{Answer, Answering, Failure, Server, node_of};
use crate::protocol::numbers::{of, opened};
use crate::protocol::request::{CopyAnswer, DataOnly};
use crate::protocol::{Errno, Request, wire};
use extant_engine::{File, Inode, MetadataChange, RangeChange, Rights, RunRights, Size};
use extant_format::inode::flags;

/// Bits of open(2), as on x86 and ARM.
const ACCESS_MODE: u32 = 3;
const TRUNCATE: u32 = 0o1000;
const APPEND: u32 = 0o2000;

/// Modes of fallocate(2).
mod mode {
    pub(super) const KEEP_SIZE: u32 = 1;
    pub(super) const PUNCH_HOLE: u32 = 2;
    pub(super) const COLLAPSE: u32 = 8;
    pub(super) const ZERO: u32 = 16;
    pub(super) const INSERT: u32 = 32;
}

/// Free blocks from which on a file that found no room is tried again.
const ROOM_BLOCKS: u64 = 64;

/// Whether the kernel keeps what is written to an open file before it sends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Caching {
    /// It may.
    Kept,
    /// Each write is a request, and the file cannot be mapped for writing.
    Direct,
}

/// How a file is to be used that is opened with these flags.
pub(super) fn rights_of(open_flags: u32) -> Rights {
    match open_flags & ACCESS_MODE {
        0 => Rights::READ,
        1 => Rights::WRITE,
        _ => Rights::READ | Rights::WRITE,
    }
}

impl Server {
    pub(super) fn open(
        &self,
        request: &Request<'_>,
        arguments: &wire::Open,
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        let inode = self.inode(request.node)?;
        let file = self.inodes_for(request).open(&inode, rights_of(arguments.flags))?;
        let caching = self.check_open(&inode, arguments)?;
        self.truncate_opened(&inode, arguments, request.gid)?;
        to.reply().value(&self.opened(file, arguments.flags, caching));
        Ok(())
    }

    /// Keeps a file that was opened with these flags, and answers with its number.
    pub(super) fn opened(&self, file: File, open_flags: u32, caching: Caching) -> wire::OpenReply {
        let writes = open_flags & ACCESS_MODE != 0;
        if writes {
            self.writers.add(file.inode().number().0);
        }
        let flags = match caching {
            // What the kernel has of the file stays valid: nothing but it changes the volume.
            Caching::Kept => opened::KEEP_CACHE | opened::NO_FLUSH | opened::PARALLEL_DIRECT_WRITES,
            Caching::Direct => opened::DIRECT_IO | opened::KEEP_CACHE | opened::NO_FLUSH,
        };
        wire::OpenReply { handle: self.files.open(OpenFile { file, writes }), flags, backing: 0 }
    }

    pub(super) fn release(&self, handle: u64) {
        let Some(open) = self.files.close(handle) else { return };
        let number = open.file.inode().number();
        if open.writes {
            self.writers.remove(number.0);
        }
        if self.unseen.has(number.0) {
            self.seeks.give_up(node_of(number), number.0);
        }
    }

    /// Fails if a file that is append-only would be opened for more. Such a file is written without
    /// the kernel's cache, and cannot be mapped for writing: each write is judged here, whatever
    /// became of the flags that it was opened with.
    pub(super) fn check_open(&self, inode: &Inode, open: &wire::Open) -> Answer<Caching> {
        let writes = open.flags & ACCESS_MODE != 0;
        if !writes && open.flags & TRUNCATE == 0 {
            return Ok(Caching::Kept);
        }
        if self.inodes().flags(inode)? & flags::APPEND == 0 {
            return Ok(Caching::Kept);
        }
        match open.flags & APPEND == 0 || open.flags & TRUNCATE != 0 {
            true => Err(Errno::NOT_PERMITTED.into()),
            false => Ok(Caching::Direct),
        }
    }

    /// Empties the file if it was opened with truncation.
    pub(super) fn truncate_opened(&self, inode: &Inode, open: &wire::Open, gid: u32) -> Answer<()> {
        if open.flags & TRUNCATE == 0 {
            return Ok(());
        }
        let run_rights = Some(match open.open_flags & of::OPEN_KILL_PRIVILEGES {
            0 => RunRights::CapabilityEnds,
            _ => self.ending_rights(inode, gid)?,
        });
        let change = MetadataChange { size: Some(0), run_rights, ..MetadataChange::default() };
        Ok(self.inodes().set_metadata(inode, &change)?)
    }

    /// Which rights end with a change by a process of this group without privileges. Its other
    /// groups are not known here.
    pub(super) fn ending_rights(&self, inode: &Inode, gid: u32) -> Answer<RunRights> {
        let group = self.inodes().metadata(inode)?.gid;
        Ok(match self.settings.identities.groups.outside(group) == gid {
            true => RunRights::End,
            false => RunRights::EndForStranger,
        })
    }

    pub(super) fn read(
        &self,
        arguments: &wire::Read,
        to: &mut Answering<'_>,
        space: &mut Vec<u8>,
    ) -> Answer<()> {
        let open = self.file(arguments.handle)?;
        let file = &open.file;
        let size = (arguments.size as usize).min(super::READ_MAX);
        if space.len() < size {
            space.resize(size, 0);
        }
        let length = file.read_at(arguments.offset, &mut space[..size])?;
        to.bytes = length as u64;
        to.reply().bytes(&space[..length]);
        Ok(())
    }

    pub(super) fn write(
        &self,
        arguments: &wire::Write,
        data: &[u8],
        gid: u32,
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        let open = self.file(arguments.handle)?;
        let file = &open.file;
        let rights = match arguments.write_flags & of::WRITE_KILL_PRIVILEGES {
            0 => RunRights::CapabilityEnds,
            _ => self.ending_rights(&file.inode(), gid)?,
        };
        let length = match arguments.write_flags & of::WRITE_CACHE {
            0 => file.write_at_as(arguments.offset, data, rights)?,
            _ => self.write_back(file, arguments.offset, data)?,
        };
        to.bytes = length as u64;
        to.reply().value(&wire::WriteReply { size: length as u32, unused: 0 });
        Ok(())
    }

    /// Writes all of what the kernel kept: of a part it would take the rest for written.
    fn write_back(&self, file: &File, offset: u64, data: &[u8]) -> Answer<usize> {
        let ino = file.inode().number();
        let mut done = 0;
        while done < data.len() {
            let written = file.write_back(offset + done as u64, &data[done..]);
            let failure = match written {
                Ok(0) => Failure::Plain(Errno::FILE_TOO_LARGE),
                Ok(length) => {
                    done += length;
                    continue;
                }
                Err(error) => Failure::Engine(error),
            };
            self.writers.note(ino.0, Some(self.judge(&failure)));
            // Programs that do not look at what close(2) returns would not know.
            self.tell(&failure);
            self.notices.forget_attributes(node_of(ino));
            return Err(failure);
        }
        if self.writers.failure(ino.0).is_some() {
            self.writers.note(ino.0, None);
        }
        Ok(done)
    }

    /// Fails if the kernel asks before it takes bytes for a file of which it could not send the
    /// last ones. A full volume may have room again.
    pub(super) fn check_taking(&self, handle: u64) -> Answer<()> {
        let Some(open) = self.files.get(handle) else { return Ok(()) };
        let ino = open.file.inode().number();
        let failure = if open.writes { self.writers.failure(ino.0) } else { None };
        match failure {
            Some(Errno::NO_SPACE) if self.room_of(&open.file) >= ROOM_BLOCKS => {
                self.writers.note(ino.0, None);
                Ok(())
            }
            Some(errno) => Err(errno.into()),
            None => Ok(()),
        }
    }

    /// Free blocks that may be taken through an open file.
    fn room_of(&self, file: &File) -> u64 {
        let room = self.filesystem.statfs();
        match file.takes_reserved() {
            true => room.free_blocks,
            false => room.free_blocks.saturating_sub(room.reserved_blocks),
        }
    }

    /// What becomes of a file's rights with a change whose request does not say: root keeps
    /// set-user-ID and set-group-ID, and ends a capability.
    fn rights_of_writer(&self, request: &Request<'_>, inode: &Inode) -> Answer<RunRights> {
        match request.uid {
            0 => Ok(RunRights::CapabilityEnds),
            _ => self.ending_rights(inode, request.gid),
        }
    }

    pub(super) fn sync(&self, node: u64, handle: u64, data_only: DataOnly) -> Answer<()> {
        let open = self.file(handle)?;
        let file = &open.file;
        match data_only {
            DataOnly::Yes => file.sync_data()?,
            DataOnly::No => file.sync()?,
        }
        // The kernel has not noticed that there are blocks now.
        self.notices.forget_attributes(node);
        Ok(())
    }

    /// `uid` is the user that asks: root keeps the rights that a file is run with.
    pub(super) fn allocate(&self, request: &Request<'_>, arguments: &wire::Allocate) -> Answer<()> {
        let open = self.file(arguments.handle)?;
        let file = &open.file;
        let size = match arguments.mode & mode::KEEP_SIZE {
            0 => Size::Grow,
            _ => Size::Keep,
        };
        let change = match arguments.mode & !mode::KEEP_SIZE {
            0 => RangeChange::Allocate(size),
            mode::PUNCH_HOLE => RangeChange::PunchHole,
            mode::ZERO => RangeChange::Zero(size),
            mode::COLLAPSE => RangeChange::Collapse,
            mode::INSERT => RangeChange::Insert,
            _ => return Err(Errno::NOT_SUPPORTED.into()),
        };
        let (offset, length) = (arguments.offset, arguments.length);
        let rights = self.rights_of_writer(request, &file.inode())?;
        Ok(file.change_range(offset, length, change, rights)?)
    }

    pub(super) fn seek(
        &self,
        request: &Request<'_>,
        arguments: &wire::Seek,
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        let open = self.file(arguments.handle)?;
        if !self.writers.has(open.file.inode().number().0) {
            let place = seeks::find(&open.file, arguments)?;
            to.reply().value(&place);
            return Ok(());
        }
        let (unique, node, arguments) = (request.unique, request.node, *arguments);
        let search = Search { unique, node, open, arguments };
        self.seeks.add(search).map_err(|_| Errno::INPUT_OUTPUT)?;
        to.reply().none();
        Ok(())
    }

    pub(super) fn copy_range(
        &self,
        request: &Request<'_>,
        arguments: &wire::CopyRange,
        form: CopyAnswer,
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        let (from, into) = (self.file(arguments.from_handle)?, self.file(arguments.to_handle)?);
        // At most a piece at a time, so that no thread is held for long.
        let length = arguments.length.min(super::COPY_MAX);
        let rights = self.rights_of_writer(request, &into.file.inode())?;
        let source = (&from.file, arguments.from_offset);
        let copied = into.file.copy_range(arguments.to_offset, source, length, rights)?;
        to.bytes = copied;
        match form {
            CopyAnswer::Short => {
                to.reply().value(&wire::WriteReply { size: copied as u32, unused: 0 });
            }
            CopyAnswer::Long => to.reply().value(&wire::CopyRangeReply { copied }),
        }
        Ok(())
    }
}
