//! A file trace, lived again by the engine on a simulated drive.
//!
//! The volume is as it was before the session: numbers of inodes that a record names are those of
//! that volume, or of what the session has made. Calls are made one after another, each as long
//! after the end of the one before as it came in the session: a closed loop. A call that failed in
//! the session is made too; one that ends otherwise than it did is counted.
use super::record::{Call, FileRecord, Name, SessionError};
use crate::setup::Setup;
use extant_block::{BlockDevice, Clock, MemoryDevice};
use extant_engine::{
    Access, DataKeeping, File, Filesystem, Inode, Inodes, MetadataChange, New, NewKind, Options,
    Rename, Rights, Size, cache_for_blocks,
};
use extant_format::Ino;
use extant_format::inode::FileType;
use extant_sim::clock::{Settings, VirtualClock};
use extant_sim::device::{
    DeviceSettings, Histogram, PowerCuts, SimDevice, Statistics, TraceKeeping,
};
use extant_sim::drive::file::DriveSpec;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Memory of the machine.
const MEMORY_BYTES: usize = 256 << 20;
/// Bytes of a read or write that are moved at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Names that one answer to a listing holds, about.
const NAMES_A_CALL: u32 = 128;
/// The node of the root.
const ROOT_NODE: u64 = 1;

/// The times of the calls of one kind.
#[derive(Clone, Debug, Default)]
pub struct CallTimes {
    /// How long they took in the session, in nanoseconds.
    pub session: Histogram,
    /// How long they took on the drive.
    pub replay: Histogram,
}

/// What a replay gave.
#[derive(Clone, Debug)]
pub struct SessionReport {
    /// By kind.
    pub calls: BTreeMap<String, CallTimes>,
    /// Calls that are not lived again: attributes, locks and the like.
    pub left_out: u64,
    /// Calls that ended otherwise than in the session.
    pub differ: u64,
    /// From the first call until all is on the drive, in nanoseconds.
    pub elapsed_ns: u64,
    /// What the drive did meanwhile.
    pub traffic: Traffic,
}

/// What a drive did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Traffic {
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Seeks.
    pub seeks: u64,
}

/// Lives records again, which are in the order in which they began, on a volume with these
/// contents.
///
/// # Errors
/// The volume cannot be opened, or written to its end; it does not fit on the drive.
pub fn replay(
    records: Vec<FileRecord>,
    contents: &MemoryDevice,
    drive: &DriveSpec,
    setup: Setup,
    seed: u64,
) -> Result<SessionReport, SessionError> {
    let clock = VirtualClock::new(Settings::default());
    let mut queue = setup.machine.queue();
    // As in a scenario: a command is at most as long as the drive says.
    queue.merge_bytes_max = drive.largest_command_bytes;
    let settings = DeviceSettings {
        name: "drive".to_owned(),
        queue,
        trace: TraceKeeping::None,
        power_cuts: PowerCuts::Excluded,
    };
    let build = drive.build(seed);
    let device = SimDevice::with_contents(Arc::clone(&clock), build, settings, contents.snapshot())
        .map_err(|error| SessionError::Run(error.to_string()))?;
    let options = Options {
        access: Access::ReadWrite,
        policies: setup.policies,
        cache_bytes: cache_for_blocks(MEMORY_BYTES),
        data: DataKeeping::Phantom,
    };
    let (inner, time) = (Arc::clone(&device), Arc::clone(&clock));
    let ran = clock.run("session", move || {
        let seam: Arc<dyn BlockDevice> = Arc::clone(&inner) as Arc<dyn BlockDevice>;
        let filesystem = Filesystem::open(seam, &options)?;
        time.settle();
        let (start, before) = (time.local_now(), inner.statistics());
        let mut life = Life::new(&filesystem, Some(&time));
        records.iter().try_for_each(|record| life.live(record))?;
        let Life { calls, left_out, differ, files, .. } = life;
        drop(files);
        filesystem.close()?;
        time.settle();
        let traffic = since(&inner.statistics(), &before);
        let elapsed_ns = time.local_now() - start;
        Ok(SessionReport { calls, left_out, differ, elapsed_ns, traffic })
    });
    ran.map_err(|error| SessionError::Run(error.to_string()))?
}

/// Lives records again on a file system, without their pauses, and writes all of it.
///
/// # Errors
/// It cannot be written to its end. A call that ends otherwise than in the session is no error.
pub(crate) fn relive(filesystem: &Filesystem, records: &[FileRecord]) -> Result<(), SessionError> {
    let mut life = Life::new(filesystem, None);
    records.iter().try_for_each(|record| life.live(record))?;
    drop(life);
    Ok(filesystem.sync()?)
}

/// What a drive did between two looks.
fn since(after: &Statistics, before: &Statistics) -> Traffic {
    Traffic {
        reads: after.reads - before.reads,
        writes: after.writes - before.writes,
        bytes_read: after.bytes_read - before.bytes_read,
        bytes_written: after.bytes_written - before.bytes_written,
        seeks: after.seeks - before.seeks,
    }
}

/// A session that is lived again.
struct Life<'a> {
    filesystem: &'a Filesystem,
    /// By which pauses are waited for and calls timed; `None`: neither.
    clock: Option<&'a VirtualClock>,
    /// What the session has made, by its numbers there.
    made: BTreeMap<u64, Inode>,
    /// Open files, by node, with how often each is open.
    files: BTreeMap<u64, Vec<File>>,
    /// When the call before ended in the session, and here.
    before: Option<(u64, u64)>,
    calls: BTreeMap<String, CallTimes>,
    left_out: u64,
    differ: u64,
    space: Vec<u8>,
}

impl<'a> Life<'a> {
    fn new(filesystem: &'a Filesystem, clock: Option<&'a VirtualClock>) -> Life<'a> {
        Life {
            filesystem,
            clock,
            made: BTreeMap::new(),
            files: BTreeMap::new(),
            before: None,
            calls: BTreeMap::new(),
            left_out: 0,
            differ: 0,
            space: vec![0; PIECE_BYTES as usize],
        }
    }

    fn live(&mut self, record: &FileRecord) -> Result<(), SessionError> {
        if let (Some((session, here)), Some(clock)) = (self.before, self.clock) {
            let pause = record.at_ns.saturating_sub(session);
            let due = here.saturating_add(pause);
            while pause > 0 && clock.now() < due {
                clock.park(Some(due));
            }
        }
        let began = self.now();
        match self.call(record) {
            None => self.left_out += 1,
            Some(result) => {
                let error = result.err().map_or(0, |error| error.errno());
                self.differ += u64::from(error != record.error);
                let took = self.now().saturating_sub(began);
                let times = self.calls.entry(record.call.kind().to_owned()).or_default();
                times.session.add(record.took_ns);
                times.replay.add(took);
            }
        }
        let ended = record.at_ns.saturating_add(record.took_ns);
        self.before = Some((ended, self.now()));
        Ok(())
    }

    fn now(&self) -> u64 {
        self.clock.map_or(0, VirtualClock::local_now)
    }

    fn inodes(&self) -> Inodes<'a> {
        self.filesystem.inodes()
    }

    /// The inode of a node: one that was made, or of the volume as it was.
    fn inode(&self, node: u64) -> extant_engine::Result<Inode> {
        if let Some(inode) = self.made.get(&node) {
            return Ok(inode.clone());
        }
        let ino = match node {
            ROOT_NODE => Ino::ROOT,
            node => Ino(u32::try_from(node).unwrap_or(0)),
        };
        self.inodes().by_number(ino)
    }

    /// Makes one call; `None` if it is of a kind that is left out.
    fn call(&mut self, record: &FileRecord) -> Option<extant_engine::Result<()>> {
        let node = record.node;
        Some(match &record.call {
            Call::Create { name, mode, made } => self.create(node, name, *mode, *made),
            Call::CreateNameless { mode, made } => self.create_nameless(node, *mode, *made),
            Call::MakeNode { name, mode, made } => {
                let kind = match FileType::from_mode((*mode & 0xffff) as u16) {
                    Some(FileType::Directory) => NewKind::Directory,
                    Some(FileType::Fifo) => NewKind::Fifo,
                    Some(FileType::Socket) => NewKind::Socket,
                    Some(FileType::Regular) => NewKind::File,
                    _ => return None,
                };
                self.make(node, name, kind, *mode, *made)
            }
            Call::MakeSymlink { name, target, made } => {
                self.make(node, name, NewKind::Symlink(&target.0), 0o777, *made)
            }
            Call::Open => self.open(node),
            Call::Close => {
                self.files.get_mut(&node).and_then(Vec::pop);
                Ok(())
            }
            Call::Read { offset, bytes } => self.read(node, *offset, *bytes),
            Call::Write { offset, bytes } => self.write(node, *offset, *bytes),
            Call::List { cookie } => self.list(node, *cookie),
            Call::Other { .. } => return None,
            call => self.plain(node, call),
        })
    }

    /// Calls that keep nothing.
    fn plain(&self, node: u64, call: &Call) -> extant_engine::Result<()> {
        let inodes = self.inodes();
        match call {
            Call::Lookup { name, .. } => inodes.lookup(&self.inode(node)?, &name.0).map(drop),
            Call::Link { from, name } => {
                inodes.link(&self.inode(*from)?, &self.inode(node)?, &name.0)
            }
            Call::Unlink { name } => inodes.unlink(&self.inode(node)?, &name.0),
            Call::RemoveDirectory { name } => inodes.remove_directory(&self.inode(node)?, &name.0),
            Call::Rename { name, to, to_name, flags } => {
                let how = match flags {
                    1 => Rename::KeepTarget,
                    2 => Rename::Exchange,
                    4 => Rename::Whiteout,
                    _ => Rename::Replace,
                };
                let (from, to) = (self.inode(node)?, self.inode(*to)?);
                inodes.rename((&from, &name.0), (&to, &to_name.0), how)
            }
            Call::SetSize { size } => {
                let change = MetadataChange { size: Some(*size), ..MetadataChange::default() };
                inodes.set_metadata(&self.inode(node)?, &change)
            }
            Call::Allocate { offset, bytes, mode } => {
                let size = if mode & 1 == 0 { Size::Grow } else { Size::Keep };
                self.file(node)?.allocate(*offset, *bytes, size)
            }
            Call::Sync | Call::SyncData => inodes.sync_inode(&self.inode(node)?),
            Call::SyncAll => inodes.sync(),
            Call::Stat => inodes.metadata(&self.inode(node)?).map(drop),
            Call::ReadLink => inodes.read_link(&self.inode(node)?).map(drop),
            _ => Ok(()),
        }
    }

    fn new_object(kind: NewKind<'_>, mode: u32) -> New<'_> {
        New { kind, permissions: (mode & 0o7777) as u16, ..New::default() }
    }

    fn keep(&mut self, made: Option<u64>, inode: Inode) {
        if let Some(node) = made {
            self.made.insert(node, inode);
        }
    }

    fn make(
        &mut self,
        node: u64,
        name: &Name,
        kind: NewKind<'_>,
        mode: u32,
        made: Option<u64>,
    ) -> extant_engine::Result<()> {
        let parent = self.inode(node)?;
        let inode = self.inodes().create(&parent, &name.0, &Life::new_object(kind, mode))?;
        self.keep(made, inode);
        Ok(())
    }

    fn create(
        &mut self,
        node: u64,
        name: &Name,
        mode: u32,
        made: Option<u64>,
    ) -> extant_engine::Result<()> {
        let parent = self.inode(node)?;
        let new = Life::new_object(NewKind::File, mode);
        let (inode, file) = self.inodes().create_open(&parent, &name.0, &new)?;
        self.hold(made, inode, file);
        Ok(())
    }

    fn create_nameless(
        &mut self,
        node: u64,
        mode: u32,
        made: Option<u64>,
    ) -> extant_engine::Result<()> {
        let directory = self.inode(node)?;
        let new = Life::new_object(NewKind::File, mode);
        let (inode, file) = self.inodes().create_nameless(&directory, &new)?;
        self.hold(made, inode, file);
        Ok(())
    }

    /// A file that was made is open.
    fn hold(&mut self, made: Option<u64>, inode: Inode, file: File) {
        if let Some(node) = made {
            // One that had the number before is gone.
            self.files.insert(node, vec![file]);
        }
        self.keep(made, inode);
    }

    fn open(&mut self, node: u64) -> extant_engine::Result<()> {
        let file = self.inodes().open(&self.inode(node)?, Rights::default())?;
        self.files.entry(node).or_default().push(file);
        Ok(())
    }

    /// An open file: one that the session has open, or one for this call.
    fn file(&self, node: u64) -> extant_engine::Result<File> {
        match self.files.get(&node).and_then(|files| files.last()) {
            Some(file) => self.inodes().open(&file.inode(), Rights::default()),
            None => self.inodes().open(&self.inode(node)?, Rights::default()),
        }
    }

    fn read(&mut self, node: u64, offset: u64, bytes: u64) -> extant_engine::Result<()> {
        let mut space = std::mem::take(&mut self.space);
        let done = self.in_pieces(node, offset, bytes, |file, at, length| {
            file.read_at(at, &mut space[..length])
        });
        self.space = space;
        done
    }

    fn write(&mut self, node: u64, offset: u64, bytes: u64) -> extant_engine::Result<()> {
        let space = std::mem::take(&mut self.space);
        let done = self
            .in_pieces(node, offset, bytes, |file, at, length| file.write_at(at, &space[..length]));
        self.space = space;
        done
    }

    /// Works on an open file piece by piece, through the handle that the session has, which knows
    /// what was read before.
    fn in_pieces(
        &self,
        node: u64,
        offset: u64,
        bytes: u64,
        mut work: impl FnMut(&File, u64, usize) -> extant_engine::Result<usize>,
    ) -> extant_engine::Result<()> {
        let opened;
        let file = match self.files.get(&node).and_then(|files| files.last()) {
            Some(file) => file,
            None => {
                opened = self.file(node)?;
                &opened
            }
        };
        let (mut at, end) = (offset, offset.saturating_add(bytes));
        while at < end {
            let length = (end - at).min(PIECE_BYTES);
            if work(file, at, length as usize)? == 0 {
                break;
            }
            at += length;
        }
        Ok(())
    }

    /// As much of a directory as one answer holds.
    fn list(&self, node: u64, cookie: u64) -> extant_engine::Result<()> {
        let mut left = NAMES_A_CALL;
        self.inodes().read_dir(&self.inode(node)?, cookie, &mut |_| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }
}
