//! Which call answers which request.
//!
//! The number of a node is the number of its inode, but for the root, which the kernel calls 1 and
//! the volume 2. So there is no table of what the kernel knows, and memory does not grow with it.
//! A number that was freed and used again tells itself by its generation: every new inode is made
//! by a request, whose answer has it, and the kernel then gives up what it had by that number.
//!
//! The kernel has judged whether a process may do what it asks for, or only one user has access:
//! calls of the engine are made with all privileges.
//!
//! *Invariants*: each handle counts its inode as open, so that it lives without names until it is
//! closed.
//! *Locking*: none of its own is held while the engine is called; the engine has its own locks.
use super::handles::{Handles, OpenFile};
use super::identities::Identities;
use super::length::Room;
use super::notices::Notices;
use super::removed::Removed;
use super::reserve::{Keepers, Reserve};
use super::seeks::Seeks;
use super::unseen::Unseen;
use super::watch::{Outcome, Watch};
use super::writers::Writers;
use crate::protocol::{Errno, Operation, Reply, Request};
use crate::transport::Transport;
use extant_block::{Clock, ShortLock};
use extant_engine::{Caller, Error, ErrorKind, Filesystem, Inode, Inodes, Privileges, Reads};
use extant_format::Ino;
use extant_format::inode::FileType;
use rustc_hash::FxHashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The kernel's number for the root.
pub(super) const KERNEL_ROOT: u64 = 1;
/// The root's inode.
const ROOT: u64 = 2;

/// How a volume is shown.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Users and groups.
    pub identities: Identities,
    /// Extended attributes.
    pub xattrs: Xattrs,
    /// What FITRIM does.
    pub trimming: Trimming,
    /// Permissions that nobody is shown.
    pub masks: Masks,
    /// Which reads change times.
    pub reads: Reads,
    /// Who may take the blocks that the volume reserves.
    pub reserve: Reserve,
    /// How long the volume can become.
    pub room: Room,
}

/// Permissions that are not shown, and so not given, whatever the volume keeps. A change of the
/// mode leaves them there as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Masks {
    /// Of directories (`dmask`), within 0o777.
    pub directories: u16,
    /// Of all others but symlinks (`fmask`), within 0o777.
    pub files: u16,
}

impl Masks {
    /// What is not shown of an inode of this type.
    pub(super) fn of(&self, file_type: FileType) -> u16 {
        match file_type {
            FileType::Directory => self.directories,
            FileType::Symlink => 0,
            _ => self.files,
        }
    }
}

/// What becomes of a wish to give free space back to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trimming {
    /// The volume does it, or says why it cannot.
    #[default]
    Done,
    /// The image is only read: nothing is given back, which is no error, as on a device that is
    /// write-protected.
    Nothing,
    /// It is an error: the journal was not replayed, so that nothing says what is free.
    Refused,
}

/// Whether programs see extended attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Xattrs {
    /// They see and change them.
    #[default]
    Shown,
    /// They see none, and can set none. The kernel asks no more for a file's capabilities, which it
    /// does twice for each file that is made and written.
    Hidden,
}

/// Answers requests by calls of one file system.
pub struct Server {
    pub(super) filesystem: Filesystem,
    pub(super) settings: Settings,
    pub(super) files: Handles<OpenFile>,
    pub(super) writers: Writers,
    pub(super) notices: Arc<Notices>,
    pub(super) seeks: Seeks,
    pub(super) removed: Removed,
    pub(super) unseen: Arc<Unseen>,
    /// All privileges: see above.
    caller: Caller,
    /// The same for those who have to leave the blocks that are reserved.
    bounded: Caller,
    keepers: Keepers,
    clock: Arc<dyn Clock>,
    pub(super) watch: Option<Arc<dyn Watch>>,
    /// Directories whose illegal names were told.
    pub(super) illegal_told: ShortLock<FxHashSet<u32>>,
    /// The volume is being made longer.
    pub(super) is_growing: AtomicBool,
}

/// Why a request fails.
pub(super) enum Failure {
    /// For this reason of the request's own.
    Plain(Errno),
    /// As the engine says.
    Engine(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}
impl From<Errno> for Failure {
    fn from(error: Errno) -> Failure {
        Failure::Plain(error)
    }
}

/// What a part of the server answers, or why it does not.
pub(super) type Answer<T> = Result<T, Failure>;

/// The answer to a request while it is made, with what an observer is told of it.
pub(super) struct Answering<'a> {
    reply: Option<Reply<'a>>,
    /// The node that the answer names.
    pub(super) node: Option<u64>,
    /// Bytes read or written.
    pub(super) bytes: u64,
}

impl<'a> Answering<'a> {
    /// The answer, to be given now. What it says is to be there before this is called: an answer
    /// that is dropped says EIO.
    pub(super) fn reply(&mut self) -> Reply<'a> {
        self.reply.take().expect("a request is answered once")
    }
}

impl Server {
    /// Serves a file system, which is told by `watch` what happens.
    pub fn new(
        filesystem: Filesystem,
        settings: Settings,
        clock: Arc<dyn Clock>,
        watch: Option<Arc<dyn Watch>>,
    ) -> Server {
        let caller = Caller { reads: settings.reads, ..Caller::root() };
        let privileges = Privileges::ALL.without(Privileges::RESERVED_BLOCKS);
        let bounded = Caller { privileges, ..caller.clone() };
        let volume = filesystem.superblock();
        let keepers = Keepers::new(settings.reserve, volume, &settings.identities);
        Server {
            filesystem,
            settings,
            files: Handles::new(),
            writers: Writers::default(),
            notices: Arc::default(),
            seeks: Seeks::new(&clock),
            removed: Removed::default(),
            unseen: Arc::default(),
            caller,
            bounded,
            keepers,
            clock,
            watch,
            illegal_told: ShortLock::default(),
            is_growing: AtomicBool::new(false),
        }
    }

    /// Starts the threads that are the server's own. To be called before there is a mount.
    ///
    /// # Errors
    /// Those of the host: it gives no thread.
    pub fn prepare(&self) -> io::Result<()> {
        self.seeks.start(&self.clock, &self.notices, &self.unseen)
    }

    /// The way to the kernel, for what it is told without asking.
    pub fn connect(&self, transport: Arc<dyn Transport>) {
        self.notices.connect(transport);
    }

    /// Whether a file is open for writing, so that the kernel may have something to send.
    pub fn is_written(&self) -> bool {
        self.writers.has_any()
    }

    /// Closes what is open and then the volume: everything is on the device afterwards. Further
    /// requests that change something fail. A second call does nothing.
    ///
    /// # Errors
    /// What the device returns.
    pub fn close(&self) -> Result<(), Error> {
        self.seeks.end();
        self.files.close_all();
        self.filesystem.clone().close()
    }

    /// The calls of the engine, with all privileges.
    pub(super) fn inodes(&self) -> Inodes<'_> {
        self.filesystem.inodes_for(&self.caller)
    }

    /// The same for what takes room: as much as the process that asks may take.
    pub(super) fn inodes_for(&self, request: &Request<'_>) -> Inodes<'_> {
        self.filesystem.inodes_for(match self.keepers.have(request) {
            true => &self.caller,
            false => &self.bounded,
        })
    }

    /// The inode of a node.
    pub(super) fn inode(&self, node: u64) -> Answer<Inode> {
        Ok(self.inodes().by_number(number(node)?)?)
    }

    /// The open file with a handle.
    pub(super) fn file(&self, handle: u64) -> Answer<Arc<OpenFile>> {
        self.files.get(handle).ok_or(Errno::BAD_DESCRIPTOR.into())
    }

    /// The errno for a failure; what the volume is to blame for is told.
    pub(super) fn judge(&self, failure: &Failure) -> Errno {
        let error = match failure {
            Failure::Plain(errno) => return *errno,
            Failure::Engine(error) => error,
        };
        if let ErrorKind::Corrupt(_) | ErrorKind::Device(_) | ErrorKind::Journal(_) = error.kind {
            self.tell(failure);
        }
        Errno(error.errno())
    }

    /// Tells the observer of a failure of which no program may know.
    pub(super) fn tell(&self, failure: &Failure) {
        if let (Failure::Engine(error), Some(watch)) = (failure, &self.watch) {
            watch.failed(error);
        }
    }

    fn dispatch(
        &self,
        request: &Request<'_>,
        to: &mut Answering<'_>,
        space: &mut Vec<u8>,
    ) -> Answer<()> {
        let node = request.node;
        match &request.operation {
            Operation::Lookup { name } => self.lookup(node, name, to)?,
            Operation::Forget { .. } => {
                self.forget(node);
                to.reply().none();
            }
            Operation::BatchForget { forgets } => {
                forgets.for_each(|forget| self.forget(forget.node));
                to.reply().none();
            }
            Operation::GetAttributes { handle } => self.get_attributes(node, *handle, to)?,
            Operation::SetAttributes(arguments) => self.set_attributes(request, arguments, to)?,
            Operation::ReadLink => {
                let target = self.inodes().read_link(&self.inode(node)?)?;
                to.reply().bytes(&target);
            }
            Operation::SymbolicLink { .. }
            | Operation::MakeNode { .. }
            | Operation::MakeDirectory { .. } => self.make(request, to)?,
            Operation::Create { arguments, name } => self.create(request, arguments, name, to)?,
            Operation::TemporaryFile { arguments } => {
                self.create_nameless(request, arguments, to)?;
            }
            Operation::Unlink { name } => self.unlink(node, name, to)?,
            Operation::RemoveDirectory { name } => self.remove_directory(node, name, to)?,
            Operation::Rename { name, to: directory, to_name, flags } => {
                self.rename(request, name, (*directory, to_name), *flags)?;
                to.reply().done();
            }
            Operation::Link { node: linked, name } => self.link(request, *linked, name, to)?,
            Operation::StatFs => to.reply().value(&self.stat_fs()),
            Operation::SyncFileSystem => {
                self.inodes().sync()?;
                to.reply().done();
            }
            Operation::SyncDirectory { .. } => {
                self.inodes().sync_inode(&self.inode(node)?)?;
                to.reply().done();
            }
            Operation::ReadDirectory(arguments) => {
                self.read_directory(node, arguments, to, space)?;
            }
            Operation::ReadDirectoryPlus(arguments) => {
                self.read_directory_plus(node, arguments, to, space)?;
            }
            Operation::SetXattr { .. }
            | Operation::GetXattr { .. }
            | Operation::ListXattr { .. }
            | Operation::RemoveXattr { .. } => self.dispatch_xattr(request, to)?,
            Operation::Destroy => {
                self.close()?;
                to.reply().done();
            }
            _ => self.dispatch_open(request, to, space)?,
        }
        Ok(())
    }

    /// As `dispatch`, for extended attributes.
    fn dispatch_xattr(&self, request: &Request<'_>, to: &mut Answering<'_>) -> Answer<()> {
        if self.settings.xattrs == Xattrs::Hidden {
            return Err(Errno::NOT_IMPLEMENTED.into());
        }
        let node = request.node;
        match &request.operation {
            Operation::SetXattr { name, value, flags } => {
                self.set_xattr(request, name, value, *flags)?;
                to.reply().done();
            }
            Operation::GetXattr { name, size } => self.get_xattr(node, name, *size, to)?,
            Operation::ListXattr { size } => self.list_xattr(request, *size, to)?,
            Operation::RemoveXattr { name } => {
                self.remove_xattr(node, name)?;
                to.reply().done();
            }
            _ => return Err(Errno::NOT_IMPLEMENTED.into()),
        }
        Ok(())
    }

    /// As `dispatch`, for requests about open files.
    fn dispatch_open(
        &self,
        request: &Request<'_>,
        to: &mut Answering<'_>,
        space: &mut Vec<u8>,
    ) -> Answer<()> {
        match &request.operation {
            Operation::Open(arguments) => self.open(request, arguments, to)?,
            Operation::Read(arguments) => self.read(arguments, to, space)?,
            Operation::Write { arguments, data } => self.write(arguments, data, request.gid, to)?,
            Operation::Release { handle } => {
                self.release(*handle);
                to.reply().done();
            }
            Operation::Sync { handle, data_only } => {
                self.sync(request.node, *handle, *data_only)?;
                to.reply().done();
            }
            Operation::Allocate(arguments) => {
                self.allocate(request, arguments)?;
                to.reply().done();
            }
            Operation::Seek(arguments) => self.seek(request, arguments, to)?,
            Operation::CopyRange(arguments, form) => {
                self.copy_range(request, arguments, *form, to)?
            }
            Operation::Ioctl { arguments, input } => {
                self.ioctl(request, arguments, input, to)?;
            }
            Operation::Access { mask } => {
                self.access(request.node, *mask)?;
                to.reply().done();
            }
            // Not implemented, after which the kernel does without: closing writes nothing that
            // an fsync would not; directories are listed by node; and an interrupt changes nothing,
            // since no request waits for another program.
            _ => return Err(Errno::NOT_IMPLEMENTED.into()),
        }
        Ok(())
    }
}

impl super::Serve for Server {
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>, space: &mut Vec<u8>) {
        let began = if self.watch.is_some() { self.clock.now() } else { 0 };
        let mut to = Answering { reply: Some(reply), node: None, bytes: 0 };
        let mut error = 0;
        if let Err(failure) = self.dispatch(request, &mut to, space) {
            let errno = self.judge(&failure);
            error = errno.0;
            if let Some(reply) = to.reply.take() {
                reply.error(errno);
            }
        }
        if let Some(watch) = &self.watch {
            let (node, bytes, ended) = (to.node, to.bytes, self.clock.now());
            watch.answered(request, &Outcome { error, node, bytes, began, ended });
        }
    }
}

/// The inode's number for one of the kernel.
fn number(node: u64) -> Answer<Ino> {
    match node {
        KERNEL_ROOT => Ok(Ino(ROOT as u32)),
        ROOT => Err(Errno::STALE.into()),
        node => u32::try_from(node).map(Ino).map_err(|_| Errno::STALE.into()),
    }
}

/// The kernel's number for an inode.
pub(super) fn node_of(ino: Ino) -> u64 {
    match u64::from(ino.0) {
        ROOT => KERNEL_ROOT,
        number => number,
    }
}
