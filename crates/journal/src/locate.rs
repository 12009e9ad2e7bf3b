//! Where the journal of a volume is: its superblock, its inode, the map of that.
//!
//! Descriptors are read without their checksums: one that a cut has torn is whole in the log.
use crate::error::Error;
use crate::external;
use crate::volume::{read_unsealed, read_volume};
use extant_block::BlockDevice;
use extant_format::extent::{ExtentState, Node};
use extant_format::group::GroupDescriptor;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::journal::{JournalSuperblock, SUPERBLOCK_BYTES};
use extant_format::superblock::{
    Feature, JOURNAL_BACKUP_BLOCKS, SUPERBLOCK_OFFSET, Superblock, SuperblockError,
};
use extant_format::{BlockNo, Ino, Run, indirect};
use rustc_hash::FxHashSet;
use std::ops::Range;
use std::sync::Arc;

/// Blocks of the longest journal: mke2fs makes none longer.
const BLOCKS_MAX: u32 = 10_240_000;

/// Which map of the journal is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapSource {
    /// That of its inode.
    Inode,
    /// The copy in the superblock: when the inode is lost.
    Backup,
}

/// What a journal holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing.
    Empty,
    /// Transactions that have to be replayed.
    Waiting,
    /// Transactions, of a volume that says that it needs no recovery. They are not replayed: Linux
    /// empties such a log when it mounts, e2fsck asks.
    Stale,
}

/// The journal of a volume, found and checked.
pub struct Journal {
    pub(crate) device: Arc<dyn BlockDevice>,
    volume: Superblock,
    /// The volume's superblock does not fit its checksum: replay has to bring a whole one.
    is_unsealed: bool,
    superblock: JournalSuperblock,
    /// The blocks of the journal, in its order: which of them first, and where they are; past the
    /// end of the volume where it is on a device behind it.
    runs: Vec<(u32, Run)>,
    /// Every block of the journal and of its map on the volume: disjoint, rising.
    taken: Vec<Range<u64>>,
}

impl Journal {
    /// Finds the journal of the volume on a device; `None` when it has none.
    ///
    /// A superblock whose checksum fits only with another `needs_recovery` or error flag was torn
    /// when recovery stored it: it is taken for one that needs recovery. One that needs recovery
    /// and whose checksum does not fit at all may have been torn when a copy of it was written to
    /// its place: the journal is found by it, and the volume is good if that copy is still in the
    /// log ([`Recovery::find`](crate::Recovery::find)).
    ///
    /// # Errors
    /// A volume or a journal that cannot be, a journal on another device, or a device that fails.
    pub fn find(device: Arc<dyn BlockDevice>, map: MapSource) -> Result<Option<Journal>, Error> {
        let (volume, is_unsealed) = match read_volume(&*device) {
            Ok(volume) => (volume, false),
            Err(Error::Volume(error)) if !matches!(error, SuperblockError::NotExt) => {
                (read_unsealed(&*device)?.ok_or(Error::Volume(error))?, true)
            }
            Err(error) => return Err(error),
        };
        if !volume.has(Feature::HAS_JOURNAL) {
            return Ok(None);
        }
        if volume.journal_inode == 0 {
            check_place(&*device, &volume)?;
            let (superblock, runs) = behind(&*device, &volume)?;
            // None of them is on the volume, where copies belong.
            let taken = Vec::new();
            return Ok(Some(Journal { device, volume, is_unsealed, superblock, runs, taken }));
        }
        let ino = Ino(volume.journal_inode);
        let inode = match map {
            MapSource::Inode => read_inode(&*device, &volume, ino)?,
            MapSource::Backup => backup_inode(&volume, ino)?,
        };
        let size = u64::from(volume.block_size());
        let blocks = u32::try_from(inode.size / size).unwrap_or(u32::MAX);
        if blocks == 0 {
            return Err(Error::Map { block: 0, reason: "past the end of its inode" });
        }
        // The first block says how many there are.
        let first = map_blocks(&*device, &volume, &inode, 1)?;
        let mut bytes = [0; SUPERBLOCK_BYTES];
        let at = first.runs.first().map_or(0, |(_, run)| run.start.0);
        device.read(at * size, &mut bytes)?;
        let superblock = JournalSuperblock::parse(&bytes)?;
        check_superblock(&superblock, &volume, blocks)?;
        let mapped = map_blocks(&*device, &volume, &inode, superblock.blocks)?;
        let taken = disjoint(&mapped)?;
        let runs = mapped.runs;
        Ok(Some(Journal { device, volume, is_unsealed, superblock, runs, taken }))
    }

    /// The volume's superblock, as it was before replay.
    pub fn volume(&self) -> &Superblock {
        &self.volume
    }

    /// The journal's superblock.
    pub fn superblock(&self) -> &JournalSuperblock {
        &self.superblock
    }

    /// What it holds.
    pub fn state(&self) -> State {
        if self.superblock.is_empty() {
            State::Empty
        } else if self.volume.has(Feature::NEEDS_RECOVERY) {
            State::Waiting
        } else {
            State::Stale
        }
    }

    /// Where consecutive blocks of the journal are, as many of `blocks` as follow each other on the
    /// volume.
    ///
    /// # Panics
    /// When the range is empty, or begins past the journal's end.
    pub fn place(&self, blocks: Range<u32>) -> Run {
        let at = self.runs.partition_point(|(first, _)| *first <= blocks.start);
        let (first, run) = self.runs[at.checked_sub(1).expect("runs begin with block 0")];
        let offset = blocks.start - first;
        assert!(offset < run.length && !blocks.is_empty(), "{blocks:?} of the journal");
        let length = (run.length - offset).min(blocks.end - blocks.start);
        Run { start: BlockNo(run.start.0 + u64::from(offset)), length }
    }

    /// The end of the volume as its superblock says.
    pub(crate) fn volume_end(&self) -> u64 {
        self.volume.blocks_count
    }

    /// The end of the volume as a copy of its superblock says, in a log that is replayed: it grew
    /// while it was mounted, and what follows may belong to what it got. `None` if the block is no
    /// such copy, or says nothing of a longer volume that the device could hold.
    pub(crate) fn end_in_copy(&self, target: BlockNo, bytes: &[u8]) -> Option<u64> {
        let block_size = u64::from(self.volume.block_size());
        if target != BlockNo(SUPERBLOCK_OFFSET / block_size) {
            return None;
        }
        let offset = usize::try_from(SUPERBLOCK_OFFSET % block_size).ok()?;
        let superblock = Superblock::parse(bytes.get(offset..)?.first_chunk()?).ok()?;
        let is_its = superblock.uuid == self.volume.uuid
            && superblock.block_size() == self.volume.block_size();
        let room = self.device.own_bytes().checked_div(block_size)?;
        Some(superblock.blocks_count).filter(|end| is_its && *end <= room)
    }

    /// Why no copy may be written to a block of a volume with this end; `None` where one may.
    pub(crate) fn refusal(&self, target: BlockNo, end: u64) -> Option<&'static str> {
        let inside = u64::from(self.volume.first_data_block)..end;
        if !inside.contains(&target.0) {
            return Some("outside the volume");
        }
        let next = self.taken.partition_point(|taken| taken.end <= target.0);
        let is_taken = self.taken.get(next).is_some_and(|taken| taken.contains(&target.0));
        is_taken.then_some("in the journal itself")
    }

    /// Fails if the volume's superblock does not fit its checksum, and none of these blocks of the
    /// volume, which replay writes, holds another one.
    pub(crate) fn check_sealed(
        &self,
        mut targets: impl Iterator<Item = BlockNo>,
    ) -> Result<(), Error> {
        let block = BlockNo(SUPERBLOCK_OFFSET / u64::from(self.volume.block_size()));
        match self.is_unsealed && !targets.any(|target| target == block) {
            true => read_volume(&*self.device).map(drop),
            false => Ok(()),
        }
    }

    /// First byte of a block of the journal on the device.
    pub(crate) fn offset(&self, block: u32) -> u64 {
        self.place(block..block + 1).start.0 * u64::from(self.volume.block_size())
    }
}

/// Fails if the journal of a volume that has one is neither in an inode of it, by its superblock,
/// nor on a device behind it ([`join`](crate::join)).
///
/// # Errors
/// `External`, `Missing`, or `Two` where the superblock names an inode and a device.
pub fn check_place(device: &dyn BlockDevice, volume: &Superblock) -> Result<(), Error> {
    let uuid = volume.journal_uuid();
    let is_external = volume.journal_device() != 0 || uuid != [0; 16];
    match (volume.has(Feature::HAS_JOURNAL), volume.journal_inode, is_external) {
        (false, _, _) | (true, 1.., false) => Ok(()),
        (true, 1.., true) => Err(Error::Two),
        (true, 0, true) if device.capabilities().annex.is_some() => Ok(()),
        (true, 0, true) => Err(Error::External(uuid)),
        (true, 0, false) => Err(Error::Missing),
    }
}

/// The journal that is on the device behind a volume: its superblock, and where its blocks are.
fn behind(
    device: &dyn BlockDevice,
    volume: &Superblock,
) -> Result<(JournalSuperblock, Vec<(u32, Run)>), Error> {
    let found = external::runs(device, volume)?.ok_or(Error::External(volume.journal_uuid()))?;
    let mut runs = Vec::new();
    let mut blocks = 0_u32;
    for run in found {
        runs.push((blocks, run));
        blocks = blocks.saturating_add(run.length);
    }
    let mut bytes = [0; SUPERBLOCK_BYTES];
    let at = runs.first().map_or(0, |(_, run)| run.start.0);
    device.read(at * u64::from(volume.block_size()), &mut bytes)?;
    let superblock = JournalSuperblock::parse(&bytes)?;
    check_superblock(&superblock, volume, blocks)?;
    Ok((superblock, runs))
}

fn read_inode(device: &dyn BlockDevice, volume: &Superblock, ino: Ino) -> Result<Inode, Error> {
    let wrong = |reason: &str| Error::Inode { ino, reason: reason.to_owned() };
    let (group, _) = volume.group_of_inode(ino).ok_or_else(|| wrong("is none of the volume"))?;
    let size = u64::from(volume.block_size());
    let (block, offset) = volume.descriptor_place(group);
    let mut bytes = vec![0; volume.descriptor_size.into()];
    device.read(block.0 * size + offset as u64, &mut bytes)?;
    let descriptor = GroupDescriptor::decode(&bytes, volume);
    let (block, offset) =
        volume.inode_place(ino, &descriptor).ok_or_else(|| wrong("is none of the volume"))?;
    if block.0 >= volume.blocks_count {
        return Err(wrong("is in a table outside the volume"));
    }
    let mut bytes = vec![0; volume.inode_size.into()];
    device.read(block.0 * size + offset as u64, &mut bytes)?;
    let inode = Inode::parse(&bytes, ino, volume)
        .map_err(|fault| Error::Inode { ino, reason: format!("is damaged: {fault}") })?;
    if inode.file_type() != Some(FileType::Regular) {
        return Err(wrong("is no regular file"));
    }
    if inode.links == 0 {
        return Err(wrong("is not in use"));
    }
    if inode.flags & flags::INLINE_DATA != 0 {
        return Err(wrong("has its data in itself"));
    }
    Ok(inode)
}

/// An inode with the map and the size that the superblock keeps.
fn backup_inode(volume: &Superblock, ino: Ino) -> Result<Inode, Error> {
    if volume.journal_backup_type != JOURNAL_BACKUP_BLOCKS {
        return Err(Error::Inode { ino, reason: "has no copy in the superblock".to_owned() });
    }
    let mut inode = Inode::new(FileType::Regular.mode_bits(), volume);
    let [map @ .., high, low] = &volume.journal_backup;
    inode.size = u64::from(*high) << 32 | u64::from(*low);
    for (to, word) in inode.block.chunks_exact_mut(4).zip(map) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    let is_tree = Node::parse_header(&inode.block).is_ok();
    inode.flags = if is_tree { flags::EXTENTS } else { 0 };
    Ok(inode)
}

fn check_superblock(
    superblock: &JournalSuperblock,
    volume: &Superblock,
    blocks: u32,
) -> Result<(), Error> {
    let wrong = |field, value: u32, reason| {
        let structure = "journal superblock";
        let fault = extant_format::Fault::Field { structure, field, value: value.into(), reason };
        Err(Error::Log(fault))
    };
    if superblock.block_size != volume.block_size() {
        return wrong("block size", superblock.block_size, "not that of the volume");
    }
    if superblock.blocks > blocks {
        return wrong("number of blocks", superblock.blocks, "more than its inode or device has");
    }
    if superblock.blocks > BLOCKS_MAX {
        return wrong("number of blocks", superblock.blocks, "more than any journal has");
    }
    Ok(())
}

/// What a map led to.
#[derive(Default)]
struct Mapped {
    runs: Vec<(u32, Run)>,
    map_blocks: Vec<BlockNo>,
}

/// Maps the first `blocks` blocks of the journal.
fn map_blocks(
    device: &dyn BlockDevice,
    volume: &Superblock,
    inode: &Inode,
    blocks: u32,
) -> Result<Mapped, Error> {
    let mut walk =
        Walk { device, volume, blocks, mapped: Mapped::default(), seen: FxHashSet::default() };
    if inode.has_extents() {
        let root = Node::parse(&inode.block, None, volume.blocks_count)?;
        walk.extents(&root)?;
    } else {
        walk.pointers(&inode.block[..4 * indirect::DIRECT as usize], 0)?;
        for (root, height) in indirect::TREES.into_iter().zip(1..) {
            let block = BlockNo(indirect::pointer(&inode.block, root).into());
            walk.indirect(block, height)?;
        }
    }
    match walk.next() {
        next if next < blocks => Err(Error::Map { block: next.into(), reason: "a hole" }),
        _ => Ok(walk.mapped),
    }
}

struct Walk<'a> {
    device: &'a dyn BlockDevice,
    volume: &'a Superblock,
    /// Blocks that are wanted.
    blocks: u32,
    mapped: Mapped,
    seen: FxHashSet<BlockNo>,
}

impl Walk<'_> {
    /// The first block that is not mapped yet.
    fn next(&self) -> u32 {
        self.mapped.runs.last().map_or(0, |(first, run)| first + run.length)
    }

    fn is_done(&self) -> bool {
        self.next() >= self.blocks
    }

    /// Adds a run that has to continue the file.
    fn add(&mut self, file_block: u64, start: BlockNo, length: u32) -> Result<(), Error> {
        let next = self.next();
        let wrong = |reason| Err(Error::Map { block: next.into(), reason });
        if file_block != u64::from(next) {
            return wrong("a hole");
        }
        let length = length.min(self.blocks - next);
        let end = start.0.saturating_add(length.into());
        if start.0 < self.volume.first_data_block.into() || end > self.volume.blocks_count {
            return wrong("outside the volume");
        }
        match self.mapped.runs.last_mut() {
            Some((_, run)) if run.start.0 + u64::from(run.length) == start.0 => {
                run.length += length;
            }
            _ => self.mapped.runs.push((next, Run { start, length })),
        }
        Ok(())
    }

    /// Reads a block of the map, each at most once.
    fn read(&mut self, block: BlockNo) -> Result<Vec<u8>, Error> {
        let next = u64::from(self.next());
        let inside = u64::from(self.volume.first_data_block)..self.volume.blocks_count;
        if !inside.contains(&block.0) {
            return Err(Error::Map { block: next, reason: "under a map outside the volume" });
        }
        if !self.seen.insert(block) {
            return Err(Error::Map { block: next, reason: "under a map that contains itself" });
        }
        self.mapped.map_blocks.push(block);
        let mut bytes = vec![0; self.volume.block_size() as usize];
        self.device.read(block.0 * u64::from(self.volume.block_size()), &mut bytes)?;
        Ok(bytes)
    }

    fn extents(&mut self, node: &Node<'_>) -> Result<(), Error> {
        for at in 0..node.len() {
            if self.is_done() {
                break;
            }
            if node.depth() == 0 {
                let extent = node.extent(at);
                if extent.state == ExtentState::Unwritten {
                    let block = extent.file_block.0.into();
                    return Err(Error::Map { block, reason: "not written yet" });
                }
                self.add(extent.file_block.0.into(), extent.start, extent.length)?;
            } else {
                // The depth falls with each level, so that this ends.
                let bytes = self.read(node.index(at).child)?;
                let depth = node.depth() - 1;
                self.extents(&Node::parse(&bytes, Some(depth), self.volume.blocks_count)?)?;
            }
        }
        Ok(())
    }

    /// The pointers of one block of the map, or of the inode: data from `file_block` on.
    fn pointers(&mut self, bytes: &[u8], file_block: u64) -> Result<(), Error> {
        for (pointer, file_block) in indirect::pointers(bytes).zip(file_block..) {
            if self.is_done() {
                break;
            }
            if pointer == 0 {
                return Err(Error::Map { block: file_block, reason: "a hole" });
            }
            self.add(file_block, BlockNo(pointer.into()), 1)?;
        }
        Ok(())
    }

    fn indirect(&mut self, block: BlockNo, height: u32) -> Result<(), Error> {
        if self.is_done() {
            return Ok(());
        }
        if block.0 == 0 {
            return Err(Error::Map { block: self.next().into(), reason: "a hole" });
        }
        let bytes = self.read(block)?;
        if height == 1 {
            return self.pointers(&bytes, self.next().into());
        }
        indirect::pointers(&bytes)
            .try_for_each(|pointer| self.indirect(BlockNo(pointer.into()), height - 1))
    }
}

/// The blocks that a journal takes, sorted; an error when one is there twice.
fn disjoint(mapped: &Mapped) -> Result<Vec<Range<u64>>, Error> {
    let runs = mapped
        .runs
        .iter()
        .map(|(first, run)| (run.start.0..run.start.0 + u64::from(run.length), u64::from(*first)));
    let maps = mapped.map_blocks.iter().map(|block| (block.0..block.0 + 1, 0));
    let mut taken: Vec<(Range<u64>, u64)> = runs.chain(maps).collect();
    taken.sort_unstable_by_key(|(range, _)| range.start);
    for pair in taken.windows(2) {
        if pair[0].0.end > pair[1].0.start {
            return Err(Error::Map { block: pair[1].1, reason: "twice in the journal" });
        }
    }
    Ok(taken.into_iter().map(|(range, _)| range).collect())
}
