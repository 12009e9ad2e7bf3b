//! Extended attributes: in inodes, in blocks that several inodes share, and values in inodes of
//! their own.
//!
//! *Invariants*: a block is read once, after all inodes were seen, in the order of the disk,
//! whoever shares it. Only on volumes with values in inodes of their own, and for encrypted inodes,
//! it is read with the inode too: what it holds decides how many blocks the inode counts.
//! *Locking*: one short lock around each list, held for a push.
use super::attribute_list::{self, ENCRYPTION, Entry, Fault, SYSTEM, Value};
use super::codes::Code;
use super::problem::Problem;
use super::reader::Reader;
use super::state::State;
use super::words::{u16_at, u32_at};
use crate::error::Error;
use extant_block::ShortLock;
use extant_format::checksum::crc32c;
use extant_format::inode::{Inode, flags};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino};
use std::sync::Arc;

const MAGIC: u32 = 0xea02_0000;
/// Bytes of an inode of ext2, and of the first part of any.
const BASE: usize = 128;
/// Bytes of a block's header.
const HEADER: usize = 32;
/// The feature of values in inodes of their own.
const EA_INODE: Feature = Feature::Incompat(0x400);
/// The flag of an encrypted inode.
const ENCRYPTED: u32 = 0x800;

/// Which inodes have which attribute block, and which inodes are values.
#[derive(Default)]
pub(crate) struct Sharers {
    blocks: ShortLock<Vec<Sharer>>,
    values: ShortLock<Vec<Ino>>,
}

/// An inode with an attribute block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Sharer {
    /// The block. First, so that sorted means by place.
    pub(crate) block: BlockNo,
    /// Who has it.
    pub(crate) ino: Ino,
}

impl Sharers {
    /// All of them, by place.
    pub(crate) fn sorted(&self) -> Vec<Sharer> {
        let mut sharers = self.blocks.lock().clone();
        sharers.sort_unstable();
        sharers
    }

    /// The inodes that are values, rising; as often as they are one.
    pub(crate) fn values(&self) -> Vec<Ino> {
        let mut values = self.values.lock().clone();
        values.sort_unstable();
        values
    }
}

/// What the judge of an inode has to know of its attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Held {
    /// Blocks that count as the file's: its attribute block, and what the inodes of large values
    /// take.
    pub(crate) blocks: u64,
    /// Inodes that hold large values, one for each value.
    pub(crate) value_inodes: u64,
    /// It has the attribute in which data of the inode goes on (`system.data`).
    pub(crate) has_inline_data: bool,
    /// Bytes of that attribute.
    pub(crate) inline_bytes: u64,
    /// It has an encryption context.
    pub(crate) has_encryption: bool,
}

/// Judges the attributes in an inode in use, and remembers its attribute block. Pass 1 calls it for
/// each inode, on any thread. Claims no block: [`finish`] does.
pub(crate) fn judge(state: &State, ino: Ino, inode: &Inode, raw: &[u8]) -> Held {
    let mut held = Held::default();
    if let Some(region) = tail(raw) {
        Judge::new(state, ino, None).list(region, 0, &mut held);
    }
    if inode.attribute_block.0 != 0 {
        remember(state, ino, inode, &mut held);
    }
    held
}

/// The bytes of an inode that attributes may take, from their first entry on; `None` when there are
/// none.
fn tail(raw: &[u8]) -> Option<&[u8]> {
    let room = raw.len().checked_sub(BASE).filter(|room| *room > 0)?;
    let extra = usize::from(u16_at(raw, BASE));
    if extra == 0 {
        return None;
    }
    if !(4..=room).contains(&extra) || !extra.is_multiple_of(4) {
        // Told with the inode.
        return None;
    }
    let tail = raw.get(BASE + extra..)?;
    (u32_at(tail, 0) == MAGIC).then(|| tail.get(4..))?
}

/// Checks where an inode's attribute block lies, and remembers it.
fn remember(state: &State, ino: Ino, inode: &Inode, held: &mut Held) {
    let block = inode.attribute_block;
    let superblock = state.volume.superblock();
    let is_possible = superblock.has(Feature::EXT_ATTR)
        && block.0 >= u64::from(superblock.first_data_block).max(1)
        && state.volume.holds(block);
    let is_named = inode.flags & flags::EA_INODE == 0 && !state.is_of_system(ino);
    if !is_possible && !is_named {
        // What has no name is not looked at so closely.
        return;
    }
    if !is_possible {
        state.tell(Problem::new(Code::AttributeBlockOutside).ino(ino).block(block));
        return;
    }
    held.blocks += u64::from(state.volume.cluster_blocks());
    state.sharers.blocks.lock().push(Sharer { block, ino });
    if superblock.has(EA_INODE) || inode.flags & ENCRYPTED != 0 {
        let Ok(bytes) = state.volume.block("attributes", block) else {
            return;
        };
        let silent = Judge { told: Told::Nothing, ..Judge::new(state, ino, Some(block)) };
        silent.list(&bytes, HEADER, held);
    }
}

/// Whether problems are told: a block that is read with an inode is judged later.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Everything,
    Nothing,
}

/// Judges one list.
struct Judge<'a> {
    state: &'a State,
    ino: Ino,
    block: Option<BlockNo>,
    told: Told,
}

impl Judge<'_> {
    fn new(state: &State, ino: Ino, block: Option<BlockNo>) -> Judge<'_> {
        Judge { state, ino, block, told: Told::Everything }
    }

    fn tell(&self, code: Code, detail: impl FnOnce(Problem) -> Problem) {
        if self.told == Told::Nothing {
            return;
        }
        let problem = Problem::new(code).ino(self.ino);
        let problem = match self.block {
            Some(block) => problem.block(block),
            None => problem,
        };
        self.state.tell(detail(problem));
    }

    /// Judges the list from byte `start` of `region` on, and adds to what is held.
    fn list(&self, region: &[u8], start: usize, held: &mut Held) {
        let walked = attribute_list::walk(region, start, &mut |entry| {
            self.entry(&entry, region.len(), held)
        });
        match walked {
            Ok(()) => {}
            Err(Fault::Overlap) => self.tell(Code::AttributesOverlap, |problem| problem),
            Err(Fault::ValueTooLong(bytes)) => {
                self.tell(Code::AttributeValueSize, |problem| problem.found(bytes));
            }
        }
    }

    /// Judges one entry of a list of that length.
    fn entry(&self, entry: &Entry<'_>, length: usize, held: &mut Held) {
        held.has_encryption |= (entry.prefix, entry.name) == ENCRYPTION;
        match entry.value {
            Value::Here(value) => {
                let is_data = entry.prefix == SYSTEM && entry.name == b"data";
                if is_data
                    && self.block.is_none()
                    && entry.offset.saturating_add(value.len()) <= length
                {
                    held.has_inline_data = true;
                    held.inline_bytes = value.len() as u64;
                }
                // The kernel stores no hash in inodes.
                let is_unset = self.block.is_none() && entry.hash == 0;
                if !is_unset && !attribute_list::is_hash(entry, value) {
                    self.wrong_hash(entry);
                }
            }
            Value::Elsewhere { ino, bytes } => {
                let volume = &self.state.volume;
                let cluster_blocks = u64::from(volume.cluster_blocks());
                let cluster_bytes = cluster_blocks * u64::from(volume.superblock().block_size());
                held.blocks += u64::from(bytes).div_ceil(cluster_bytes) * cluster_blocks;
                held.value_inodes += 1;
                self.value_inode(entry, Ino(ino));
            }
        }
    }

    fn wrong_hash(&self, entry: &Entry<'_>) {
        self.tell(Code::AttributeHash, |problem| problem.name(entry.name).found(entry.hash));
    }

    /// Judges the inode that is a value.
    fn value_inode(&self, entry: &Entry<'_>, ino: Ino) {
        if self.told == Told::Nothing {
            return;
        }
        let superblock = self.state.volume.superblock();
        let value =
            (superblock.has(EA_INODE) && ino.0 >= superblock.first_inode && ino != self.ino)
                .then(|| self.state.volume.inode(ino).ok())
                .flatten();
        let is_value = |value: &Inode| value.flags & flags::EA_INODE != 0 && value.links > 0;
        let Some(value) = value.filter(is_value) else {
            self.tell(Code::AttributeValueInode, |problem| problem.other(ino));
            return;
        };
        self.state.sharers.values.lock().push(ino);
        // The inode keeps the hash of its content in place of the access time.
        let hash = (value.access_time.seconds & 0xffff_ffff) as u32;
        if !attribute_list::is_hash_of_inode(entry, hash) {
            self.wrong_hash(entry);
        }
    }
}

/// Reads, judges and claims all attribute blocks that were remembered. Pass 1 calls it when all
/// inodes were seen, before it asks whether any block was claimed twice.
///
/// # Errors
/// When the device fails.
pub(crate) fn finish(state: &Arc<State>) -> Result<(), Error> {
    let sharers = state.sharers.sorted();
    let groups: Vec<&[Sharer]> = sharers.chunk_by(|a, b| a.block == b.block).collect();
    let place: fn(&&[Sharer]) -> BlockNo =
        |group| group.first().map_or(BlockNo(0), |sharer| sharer.block);
    let mut reader = Reader::default();
    for range in Reader::batches(state, &groups, place) {
        let batch = groups.get(range).unwrap_or_default();
        reader.read(state, "attributes", batch, place)?;
        for (at, group) in batch.iter().enumerate() {
            if let Some(first) = group.first() {
                state.claims.claim_run(first.block, 1);
                judge_block(state, *first, group.len() as u64, reader.item(at));
            }
        }
    }
    Ok(())
}

/// Judges a block that so many inodes have, of which this is the first.
fn judge_block(state: &State, sharer: Sharer, sharers: u64, bytes: &[u8]) {
    let judge = Judge::new(state, sharer.ino, Some(sharer.block));
    let (magic, references, blocks) = (u32_at(bytes, 0), u32_at(bytes, 4), u32_at(bytes, 8));
    let is_header = magic == MAGIC && blocks == 1;
    if u64::from(references) != sharers {
        // A count in what is no header cannot be set right: e2fsck ends there.
        let code =
            if is_header { Code::AttributeReferences } else { Code::AttributeReferencesLost };
        judge.tell(code, |problem| problem.found(references).expected(sharers));
    }
    if magic != MAGIC {
        judge.tell(Code::AttributeBlockMagic, |problem| problem.found(magic));
        return;
    }
    if blocks != 1 {
        judge.tell(Code::AttributeBlockCount, |problem| problem.found(blocks).expected(1_u64));
    }
    let superblock = state.volume.superblock();
    let (stored, computed) =
        (u32_at(bytes, 16), checksum(superblock.checksum_seed, sharer.block, bytes));
    if superblock.has(Feature::METADATA_CSUM) && stored != computed {
        judge
            .tell(Code::AttributeBlockChecksum, |problem| problem.found(stored).expected(computed));
    }
    judge.list(bytes, HEADER, &mut Held::default());
}

/// Over the block's number and the block, with zero for the checksum.
fn checksum(seed: u32, block: BlockNo, bytes: &[u8]) -> u32 {
    let sum = crc32c(seed, &block.0.to_le_bytes());
    let sum = crc32c(crc32c(sum, bytes.get(..16).unwrap_or_default()), &[0; 4]);
    crc32c(sum, bytes.get(20..).unwrap_or_default())
}
