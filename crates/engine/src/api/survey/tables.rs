//! The inode tables: the used part of each, in reads of at most a megabyte.
use super::{
    Attributes, Case, Content, FileRun, Object, ObjectId, PackedTime, READ_BYTES_MAX, Reads, Survey,
};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::NodeState;
use crate::inode::mapping::{self, Piece};
use crate::inode::volume::Volume;
use crate::name::directory::{Naming, naming};
use crate::store::cache::BlockKind;
use extant_block::Holes;
use extant_format::directory::Form;
use extant_format::extent::{Node, State};
use extant_format::group::{GroupDescriptor, INODE_UNINIT};
use extant_format::indirect::{DIRECT, pointer};
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::{Feature, MappingKind};
use extant_format::{BlockNo, FileBlock, GroupNo, Ino, Run, bitmap};
use extant_tree::flags::SETTABLE;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// A directory whose blocks are still to be read.
pub(super) struct Directory {
    pub(super) object: ObjectId,
    /// Seed of the checksums of its blocks.
    pub(super) seed: u32,
    pub(super) form: Form,
    pub(super) naming: Naming,
}

/// Directories, and where their blocks are.
#[derive(Default)]
pub(super) struct Directories {
    pub(super) list: Vec<Directory>,
    pub(super) runs: Vec<DirectoryRun>,
    /// Directories, by their place in `list`, whose names are in these bytes of their inode.
    pub(super) inline: Vec<(u32, Vec<u8>)>,
    blocks: u64,
    holes: Holes,
}

/// Bytes of directories that are accepted from any device. If there are more, the device is asked
/// how much data it holds.
const DIRECTORY_BYTES: u64 = 64 << 20;

impl Directories {
    /// How many blocks all directories together may have: as many as the disk holds, because no
    /// block belongs to two.
    fn most(&self, volume: &Volume) -> Result<u64> {
        let most = volume.store.superblock.blocks_count;
        let few = DIRECTORY_BYTES / u64::from(volume.store.block_size());
        if self.blocks <= few {
            return Ok(most);
        }
        Ok(volume.store.held_blocks()?.saturating_add(few).min(most))
    }
}

/// Consecutive blocks of a directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DirectoryRun {
    pub(super) start: BlockNo,
    pub(super) length: u32,
    /// Index into the list of directories.
    pub(super) directory: u32,
    /// Its first block in the directory.
    pub(super) block: u32,
}

/// Reads objects, index, runs and short targets.
pub(super) fn read(survey: &mut Survey) -> Result<Directories> {
    let core = Arc::clone(&survey.core);
    let volume = &core.inodes.volume;
    let mut directories = Directories::default();
    let mut reads = Reads::new();
    let repeated = repeated_tables(volume);
    for group in (0..volume.space.group_count()).map(GroupNo) {
        let descriptor = volume.space.descriptor(group);
        let is_unused = descriptor.flags & INODE_UNINIT != 0 || repeated.contains(&group);
        let used =
            volume.store.superblock.inodes_per_group.saturating_sub(descriptor.unused_inodes);
        let used = if is_unused { Used::none() } else { Used::read(volume, &descriptor, used) };
        let before = survey.object_count();
        survey.index.begin_group()?;
        let mut table = Table {
            survey,
            directories: &mut directories,
            volume,
            group,
            first: descriptor.inode_table,
        };
        table.read(&used, &mut reads)?;
        survey.index.end_group(before);
    }
    survey.index.begin_group()?;
    Ok(directories)
}

/// Groups whose inode table overlaps that of an earlier group, and so would repeat its inodes under
/// other numbers.
fn repeated_tables(volume: &Volume) -> FxHashSet<GroupNo> {
    let groups = &volume.space;
    let start = |group| groups.descriptor(group).inode_table.0;
    let length = u64::from(volume.store.superblock.inode_table_blocks());
    let all = || (0..groups.group_count()).map(GroupNo);
    let rise = all()
        .zip(all().skip(1))
        .all(|(group, next)| start(group).saturating_add(length) <= start(next));
    if rise {
        // In order, as on every volume that did not grow.
        return FxHashSet::default();
    }
    let mut tables: Vec<(u64, GroupNo)> = all().map(|group| (start(group), group)).collect();
    tables.sort_unstable();
    let mut end = 0;
    let over_another = tables.into_iter().filter(|(start, _)| {
        let is_over = *start < end;
        end = if is_over { end } else { start.saturating_add(length) };
        is_over
    });
    over_another.map(|(_, group)| group).collect()
}

/// Which inodes of a group are in use.
struct Used {
    bitmap: Arc<Vec<u8>>,
    /// The index after the last inode in use.
    end: u32,
}

impl Used {
    fn none() -> Used {
        Used { bitmap: Arc::default(), end: 0 }
    }

    /// If the bitmap cannot be read, or is not what the descriptor says, no inode is skipped: each
    /// is judged by itself.
    fn read(volume: &Volume, descriptor: &GroupDescriptor, limit: u32) -> Used {
        let frame = volume.store.cache.read(descriptor.inode_bitmap, BlockKind::Plain).ok();
        let bitmap = frame.map(|frame| frame.bytes());
        let bitmap = bitmap
            .filter(|bitmap| descriptor.inode_bitmap_matches(bitmap, &volume.store.superblock));
        let mut used = Used { bitmap: bitmap.unwrap_or_default(), end: limit };
        if !used.bitmap.is_empty() {
            let bytes = used.bitmap.get(..limit.div_ceil(8) as usize).unwrap_or(&used.bitmap);
            let last = bytes.iter().rposition(|byte| *byte != 0);
            used.end = last.map_or(0, |last| (last as u32 + 1) * 8).min(limit);
        }
        used
    }

    /// The first inode in use from `from` on.
    fn next(&self, from: u32) -> Option<u32> {
        match self.bitmap.is_empty() {
            true => (from < self.end).then_some(from),
            false => bitmap::next_set(&self.bitmap, from, self.end),
        }
    }
}

/// The inode table of one group.
struct Table<'a> {
    survey: &'a mut Survey,
    directories: &'a mut Directories,
    volume: &'a Volume,
    group: GroupNo,
    first: BlockNo,
}

impl Table<'_> {
    fn read(&mut self, used: &Used, reads: &mut Reads) -> Result<()> {
        let size = u64::from(self.volume.store.superblock.inode_size);
        let table = self.first.0 * u64::from(self.volume.store.block_size());
        let at_once = (READ_BYTES_MAX as u64 / size) as u32;
        let mut next = used.next(0);
        while let Some(first) = next {
            // What the device knows to be zeros holds no inode in use.
            let data =
                reads.next_data(&*self.volume.store.device, table + u64::from(first) * size)?;
            let skipped = data.saturating_sub(table) / size;
            if skipped > first.into() {
                next = u32::try_from(skipped).ok().and_then(|at| used.next(at));
                continue;
            }
            let end = first.saturating_add(at_once).min(used.end);
            let range = table + u64::from(first) * size..table + u64::from(end) * size;
            match reads.read(&*self.volume.store.device, range) {
                Ok(bytes) => self.inodes(used, first..end, bytes, size as usize)?,
                Err(error) => self.unreadable(used, first..end, error)?,
            }
            next = used.next(end);
        }
        Ok(())
    }

    fn inodes(
        &mut self,
        used: &Used,
        range: std::ops::Range<u32>,
        bytes: &[u8],
        size: usize,
    ) -> Result<()> {
        let mut next = Some(range.start);
        while let Some(at) = next.filter(|at| *at < range.end) {
            let start = (at - range.start) as usize * size;
            let bytes = bytes.get(start..start + size).unwrap_or_default();
            let ino = self.ino(at);
            if self.volume.store.superblock.is_usable(ino) {
                match Inode::parse(bytes, ino, &self.volume.store.superblock) {
                    Ok(inode) if inode.links == 0 => {}
                    Ok(inode) => self.add(at, ino, inode)?,
                    Err(fault) => {
                        self.add_broken(at, ino, Error::corrupt(Place::Inode(ino), fault))
                    }
                }
            }
            next = used.next(at + 1);
        }
        Ok(())
    }

    /// Reads a part of a table inode by inode, after reading it at once failed.
    fn unreadable(&mut self, used: &Used, range: std::ops::Range<u32>, error: Error) -> Result<()> {
        let size = u64::from(self.volume.store.superblock.inode_size);
        let table = self.first.0 * u64::from(self.volume.store.block_size());
        let mut bytes = vec![0; size as usize];
        let mut next = Some(range.start);
        let mut first = Some(error);
        while let Some(at) = next.filter(|at| *at < range.end) {
            match self.volume.store.device.read(table + u64::from(at) * size, &mut bytes) {
                Ok(()) => self.inodes(used, at..at + 1, &bytes, size as usize)?,
                Err(error) => {
                    let error = first.take().unwrap_or_else(|| error.into());
                    self.add_broken(at, self.ino(at), error);
                }
            }
            next = used.next(at + 1);
        }
        Ok(())
    }

    fn ino(&self, at: u32) -> Ino {
        Ino(self
            .group
            .0
            .saturating_mul(self.volume.store.superblock.inodes_per_group)
            .saturating_add(at)
            .saturating_add(1))
    }

    fn add_broken(&mut self, at: u32, ino: Ino, error: Error) {
        let id = self.push(at, broken(ino));
        self.survey.add_fault(id, error);
    }

    fn push(&mut self, at: u32, object: Object) -> ObjectId {
        let id = self.survey.object_count();
        self.survey.index.insert(at);
        self.survey.objects.push(object);
        ObjectId(id)
    }

    fn add(&mut self, at: u32, ino: Ino, inode: Inode) -> Result<()> {
        let Some(file_type) = inode.file_type() else {
            let error = Error::field(
                Place::Inode(ino),
                "inode",
                "mode",
                inode.mode.into(),
                "not a file type",
            );
            self.add_broken(at, ino, error);
            return Ok(());
        };
        let times = [inode.access_time, inode.change_time, inode.modify_time].map(PackedTime::new);
        let in_tail = inode.tail.first_chunk::<4>().is_some_and(|magic| *magic != [0; 4]);
        let has_attributes = inode.attribute_block.0 != 0 || in_tail;
        for (feature, is_used) in [
            (Feature::PROJECT, inode.project != 0),
            (Feature::VERITY, inode.flags & flags::VERITY != 0),
            (Feature::ENCRYPT, inode.flags & flags::ENCRYPTED != 0),
        ] {
            if is_used {
                self.survey.uses.set(feature);
            }
        }
        let case = Case::of(&inode, &self.survey.core.inodes.volume.store.superblock);
        let id = self.push(
            at,
            Object {
                size: inode.size,
                times,
                content: Content::Nothing,
                ino,
                uid: inode.uid,
                gid: inode.gid,
                fault: 0,
                mode: inode.mode,
                attributes: if has_attributes { Attributes::Perhaps } else { Attributes::None },
                flags: inode.flags & SETTABLE,
                case,
            },
        );
        match self.content(id, inode, file_type) {
            Ok(content) => self.survey.objects[id.0 as usize].content = content,
            Err(error) => self.survey.add_fault(id, error),
        }
        Ok(())
    }

    fn content(&mut self, id: ObjectId, inode: Inode, file_type: FileType) -> Result<Content> {
        let ino = self.survey.ino(id);
        let superblock = &self.volume.store.superblock;
        let is_inline = inode.is_inline(superblock);
        match file_type {
            FileType::Regular | FileType::Symlink if inode.is_encrypted(superblock) => {
                Err(ErrorKind::OperationUnsupported("encrypted, and there is no key").into())
            }
            // What it has is found again when it is wanted; that it can be is known now.
            FileType::Regular | FileType::Symlink if is_inline => match inode.inline_data() {
                Ok(_) => Ok(Content::Inline),
                Err(fault) => Err(Error::corrupt(Place::Inode(ino), fault)),
            },
            FileType::Regular => self.file(ino, &inode),
            FileType::Directory => self.directory(id, inode).map(|()| Content::Nothing),
            FileType::Symlink if inode.is_fast_symlink(&self.volume.store.superblock) => {
                let target = inode.block.get(..inode.size as usize).unwrap_or_default();
                let start = self.survey.keep_text(target)?;
                Ok(Content::Target { start, length: target.len() as u32 })
            }
            FileType::CharacterDevice | FileType::BlockDevice => {
                Ok(Content::Device(inode.device()))
            }
            FileType::Symlink | FileType::Fifo | FileType::Socket => Ok(Content::Nothing),
        }
    }

    fn file(&mut self, ino: Ino, inode: &Inode) -> Result<Content> {
        let superblock = &self.volume.store.superblock;
        let kind = if inode.has_extents() { MappingKind::Extents } else { MappingKind::Indirect };
        if inode.size > superblock.max_file_size(kind) {
            return Err(Error::field(
                Place::Inode(ino),
                "inode",
                "size",
                inode.size,
                "more than its map can hold",
            ));
        }
        let blocks = inode.size.div_ceil(u64::from(superblock.block_size()));
        match kind {
            _ if blocks == 0 => Ok(Content::Nothing),
            MappingKind::Extents => self.extents(ino, inode),
            MappingKind::Indirect if blocks > u64::from(DIRECT) => {
                // If the file begins with a hole, its first data may still be near its map.
                let first =
                    (0..15).map(|index| pointer(&inode.block, index)).find(|block| *block != 0);
                Ok(first.map_or(Content::Nothing, |near| Content::Mapped {
                    near: BlockNo(near.into()),
                }))
            }
            MappingKind::Indirect => self.pointers(ino, inode, blocks as u32),
        }
    }

    fn extents(&mut self, ino: Ino, inode: &Inode) -> Result<Content> {
        let root = Node::parse(&inode.block, None, self.volume.store.superblock.blocks_count);
        let root = root.map_err(|fault| Error::corrupt(Place::Inode(ino), fault))?;
        if root.depth() > 0 {
            return Ok(Content::Mapped { near: root.index(0).child });
        }
        let extents = (0..root.len())
            .map(|at| root.extent(at))
            .filter(|extent| extent.state == State::Written);
        self.keep_runs(extents.map(|extent| FileRun {
            block: extent.file_block.0,
            length: extent.length,
            start: extent.start,
        }))
    }

    fn pointers(&mut self, ino: Ino, inode: &Inode, blocks: u32) -> Result<Content> {
        let mut runs: Vec<FileRun> = Vec::new();
        for block in 0..blocks {
            let start = BlockNo(pointer(&inode.block, block).into());
            if start.0 == 0 {
                continue;
            }
            if !self.volume.store.holds_block(start) {
                return Err(Error::field(
                    Place::Inode(ino),
                    "block map",
                    "pointer to block",
                    start.0,
                    "outside the volume",
                ));
            }
            match runs.last_mut() {
                Some(run)
                    if run.block + run.length == block
                        && run.start.0 + u64::from(run.length) == start.0 =>
                {
                    run.length += 1;
                }
                _ => runs.push(FileRun { block, length: 1, start }),
            }
        }
        self.keep_runs(runs.into_iter())
    }

    fn keep_runs(&mut self, mut runs: impl Iterator<Item = FileRun>) -> Result<Content> {
        let Some(run) = runs.next() else {
            return Ok(Content::Nothing);
        };
        let second = runs.next();
        if run.block == 0 && second.is_none() {
            return Ok(Content::Run { start: run.start, length: run.length });
        }
        let first = u32::try_from(self.survey.runs.len()).map_err(|_| super::too_much())?;
        self.survey.runs.extend([run].into_iter().chain(second).chain(runs));
        Ok(Content::Runs { first, count: self.survey.runs.len() as u32 - first })
    }

    /// Notes a run of a directory, without parts known to be zeros: these have no names, and no
    /// sound directory has such blocks.
    fn directory_run(&mut self, directory: u32, run: Run, block: u32, id: ObjectId) -> Result<()> {
        let ino = self.survey.ino(id);
        let block_size = u64::from(self.volume.store.block_size());
        let (mut at, end) = (run.start.0, run.start.0 + u64::from(run.length));
        while at < end {
            let bytes =
                self.directories.holes.next_stretch(&*self.volume.store.device, at * block_size)?;
            let data = (bytes.start / block_size).min(end)..bytes.end.div_ceil(block_size).min(end);
            if data.start > at {
                let reason = "one that holds zeros";
                let error = Error::field(
                    Place::InodeBlock(ino, BlockNo(at)),
                    "directory",
                    "block",
                    at,
                    reason,
                );
                self.survey.add_fault(id, error);
            }
            at = data.end;
            if data.is_empty() {
                continue;
            }
            let length = data.end - data.start;
            // No block belongs to two directories, so more blocks than the volume has are an error.
            self.directories.blocks += length;
            if self.directories.blocks > self.directories.most(self.volume)? {
                let reason = "more than the directories before it leave of the volume";
                let place = Place::InodeBlock(ino, BlockNo(data.start));
                return Err(Error::field(place, "directory", "block", data.start, reason));
            }
            self.directories.runs.push(DirectoryRun {
                start: BlockNo(data.start),
                length: length as u32,
                directory,
                block: block + (data.start - run.start.0) as u32,
            });
        }
        Ok(())
    }

    /// Notes where a directory's blocks are. Those before the first damage in its map count.
    fn directory(&mut self, id: ObjectId, inode: Inode) -> Result<()> {
        let ino = self.survey.ino(id);
        let (size, block_size) = (inode.size, u64::from(self.volume.store.block_size()));
        let wrong = |reason| Error::field(Place::Inode(ino), "directory", "size", size, reason);
        let form = match self.volume.store.superblock.has(Feature::DIR_INDEX) {
            true => Form::of(inode.flags),
            false => Form::Linear,
        };
        let state = NodeState::new(self.volume, ino, inode);
        let naming = naming(self.volume, &state).unwrap_or_else(|error| {
            self.survey.add_fault(id, error);
            Naming::WITHOUT_HASHES
        });
        let list = &mut self.directories.list;
        let directory = list.len() as u32;
        list.push(Directory { object: id, seed: state.seed, form, naming });
        if let Some(data) = state.inline_data(self.volume)? {
            self.directories.inline.push((directory, data));
            return Ok(());
        }
        let blocks = u32::try_from(size / block_size)
            .map_err(|_| wrong("larger than a directory can be"))?;
        let mut block = 0;
        while block < blocks {
            let piece = mapping::find(self.volume, &state, FileBlock(block), blocks - block)?;
            let Piece::Run(run, State::Written) = piece else {
                return Err(Error::field(
                    Place::Inode(ino),
                    "directory",
                    "block",
                    block.into(),
                    "a hole",
                ));
            };
            self.directory_run(directory, run, block, id)?;
            block += run.length;
        }
        match size.is_multiple_of(block_size) {
            true => Ok(()),
            false => Err(wrong("not a multiple of the block size")),
        }
    }
}

/// An inode of which nothing is known.
fn broken(ino: Ino) -> Object {
    Object {
        size: 0,
        times: [PackedTime(0); 3],
        content: Content::Nothing,
        ino,
        uid: 0,
        gid: 0,
        fault: 0,
        mode: 0,
        attributes: Attributes::None,
        flags: 0,
        case: Case::Counts,
    }
}
