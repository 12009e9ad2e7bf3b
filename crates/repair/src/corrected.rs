//! Bytes that a checksum gives back. Where one byte of an inode, of a node of extents, of a block
//! of names or of attributes is not what was written, one change of one byte makes its crc32c
//! right, and it is made before anything else is mended: what else is wrong follows from it, and
//! where nothing else is, the wrong byte would be sealed.
//!
//! By chance a crc32c is made right so in one of 65,000 inodes that were damaged otherwise, and in
//! one of 4,000 blocks of 4 KiB. A block also has to read well after it. Checksums of 16 bits prove
//! too little.
use crate::directories;
use crate::draft::{Draft, Result};
use crate::inodes::is_of_map;
use crate::map::{self, FileMap};
use extant_format::attribute::{self, StoredBlock};
use extant_format::checksum::changes;
use extant_format::directory::Form;
use extant_format::directory::stored::{ChainEnd, EntryShape, leaf_checksums};
use extant_format::extent::{self, StoredNode};
use extant_format::inode::{FileType, Inode};
use extant_format::{BlockNo, Fault, FileBlock, Ino};
use extant_inspect::{CheckReport, Code, Pass, Problem};
use std::collections::BTreeSet;
use std::ops::Range;

/// Where an inode has its generation, which its checksum has twice, and the size of its extra
/// fields, which says how long the checksum is.
const GENERATION: Range<usize> = 0x64..0x68;
const EXTRA_SIZE: Range<usize> = 0x80..0x82;
/// The least size of the extra fields with all 32 bits of a checksum.
const EXTRA_WITH_CHECKSUM: u16 = 4;
/// Where a node of extents has how many entries it may have, which says where its checksum is.
const MAXIMUM: Range<usize> = 4..6;
/// Bytes of the header of a node, of an entry, and of the end of a block of a directory.
const HEADER: usize = 12;
const ENTRY: usize = 12;
const TAIL: usize = 12;

/// What was looked at in a repair: nothing is twice.
#[derive(Default)]
pub(crate) struct Corrected(BTreeSet<Thing>);

/// What has a checksum, inodes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Inode(Ino),
    /// A node of the extents of a file.
    Node(Ino, BlockNo),
    /// A block of a directory.
    Names(Ino, u64),
    Attributes(BlockNo),
}

/// Gives bytes back what their checksums say that they were. Gives the problems that led to them.
///
/// # Errors
/// The device's.
pub(crate) fn mend(
    draft: &Draft,
    report: &CheckReport,
    corrected: &mut Corrected,
) -> Result<Vec<Problem>> {
    let mut mended = Vec::new();
    if !draft.has_checksums() {
        return Ok(mended);
    }
    // Checksums of what a file has begin with what is in its inode.
    let mut things: Vec<_> =
        report.problems.iter().filter_map(|problem| Some((thing(problem)?, problem))).collect();
    things.sort_by_key(|(thing, _)| *thing);
    let mut directory = None;
    for (thing, problem) in things {
        if corrected.0.insert(thing) && correct(draft, thing, &mut directory)? {
            mended.push(problem.clone());
        }
    }
    Ok(mended)
}

/// The directory that was read last: its blocks follow each other.
type Read = Option<(Ino, Inode, FileMap)>;

/// What a problem speaks against, if that has a checksum of its own.
fn thing(problem: &Problem) -> Option<Thing> {
    let ino = problem.ino?;
    match problem.code {
        Code::InodeChecksum | Code::InodeChecksumUnread => Some(Thing::Inode(ino)),
        Code::AttributeBlockChecksum | Code::AttributeBlockMagic | Code::AttributeBlockCount => {
            problem.block.map(Thing::Attributes)
        }
        code if is_of_map(code) => Some(Thing::Node(ino, problem.block?)),
        _ if problem.rule().pass == Pass::Directories => {
            Some(Thing::Names(ino, problem.file_block?))
        }
        _ => None,
    }
}

fn correct(draft: &Draft, thing: Thing, directory: &mut Read) -> Result<bool> {
    match thing {
        Thing::Inode(ino) => of_inode(draft, ino),
        Thing::Node(ino, block) => of_node(draft, ino, block),
        Thing::Names(ino, file_block) => of_names(draft, ino, file_block, directory),
        Thing::Attributes(block) => of_attributes(draft, block),
    }
}

fn of_inode(draft: &Draft, ino: Ino) -> Result<bool> {
    let Some(bytes) = draft.inode_bytes(ino)? else { return Ok(false) };
    let sums = |bytes: &[u8]| {
        let extra = bytes.get(EXTRA_SIZE)?.first_chunk().copied().map(u16::from_le_bytes)?;
        let verified = Inode::verify_checksum(bytes, ino, &draft.superblock);
        sums(verified).filter(|_| extra >= EXTRA_WITH_CHECKSUM)
    };
    let tried = GENERATION.chain(EXTRA_SIZE);
    let Some(mut right) = right(&bytes, bytes.len(), tried, sums) else { return Ok(false) };
    draft.write_inode_bytes(ino, &mut right)?;
    Ok(true)
}

fn of_node(draft: &Draft, ino: Ino, block: BlockNo) -> Result<bool> {
    let Some(inode) = draft.inode(ino)?.filter(Inode::has_extents) else { return Ok(false) };
    let Some(bytes) = of_one(draft, block)? else { return Ok(false) };
    let seed = draft.seed(ino, &inode);
    let sums = |bytes: &[u8]| sums(extent::verify(bytes, seed));
    let covered = HEADER + bytes.len().saturating_sub(HEADER) / ENTRY * ENTRY;
    let right = right(&bytes, covered, MAXIMUM, sums);
    let Some(right) = right.filter(|bytes| StoredNode::read(bytes).is_some()) else {
        return Ok(false);
    };
    draft.write(block, &right)?;
    Ok(true)
}

fn of_names(draft: &Draft, ino: Ino, file_block: u64, directory: &mut Read) -> Result<bool> {
    if directory.as_ref().is_none_or(|(of, ..)| *of != ino) {
        let Some(inode) = draft.inode(ino)? else { return Ok(false) };
        let is_mapped = map::is_mapped(&inode, &draft.superblock);
        if !is_mapped || inode.file_type() != Some(FileType::Directory) {
            return Ok(false);
        }
        let map = map::read(draft, &inode)?;
        *directory = Some((ino, inode, map));
    }
    let Some((_, inode, map)) = directory else { return Ok(false) };
    let run = map.runs.iter().find(|run| {
        (run.file_block..run.file_block.saturating_add(run.length)).contains(&file_block)
    });
    let block = run.map(|run| BlockNo(run.start.saturating_add(file_block - run.file_block)));
    let Some((block, bytes)) = block.and_then(|at| Some((at, of_one(draft, at).ok()??))) else {
        return Ok(false);
    };
    let seed = draft.seed(ino, inode);
    let sums = |bytes: &[u8]| Some(leaf_checksums(bytes, seed));
    let entries = EntryShape { block_size: bytes.len(), hash_bytes: 0 };
    let is_whole = |bytes: &Vec<u8>| entries.walk(bytes, 0, &mut |_| {}) == ChainEnd::Tail;
    let right = match sums(&bytes) {
        // All before its end is what was written.
        Some((stored, computed)) if stored == computed => {
            let mut sealed = bytes.clone();
            directories::style(draft).seal(&mut sealed, FileBlock(0), Form::Linear, seed);
            Some(sealed).filter(|sealed| *sealed != bytes)
        }
        _ => right(&bytes, bytes.len().saturating_sub(TAIL), 0..0, sums),
    };
    let Some(right) = right.filter(is_whole) else { return Ok(false) };
    draft.write(block, &right)?;
    Ok(true)
}

fn of_attributes(draft: &Draft, block: BlockNo) -> Result<bool> {
    let Some(bytes) = of_one(draft, block)? else { return Ok(false) };
    let sums = |bytes: &[u8]| {
        let stored = StoredBlock::new(bytes);
        Some((stored.checksum(), stored.computed_checksum(block, &draft.superblock)))
    };
    let is_header = |bytes: &Vec<u8>| {
        let block = StoredBlock::new(bytes);
        block.magic() == attribute::MAGIC && block.blocks() == 1
    };
    let Some(right) = right(&bytes, bytes.len(), 0..0, sums).filter(is_header) else {
        return Ok(false);
    };
    draft.write(block, &right)?;
    Ok(true)
}

/// The bytes of a block that one file can have, and only one has.
fn of_one(draft: &Draft, block: BlockNo) -> Result<Option<Vec<u8>>> {
    match draft.may_hold(block) && !draft.usage.is_double(block) {
        true => draft.read(block),
        false => Ok(None),
    }
}

/// The checksum that is stored, and the one that it should be.
fn sums(verified: std::result::Result<(), Fault>) -> Option<(u32, u32)> {
    match verified {
        Ok(()) => Some((0, 0)),
        Err(Fault::Checksum { stored, computed, .. }) => Some((stored, computed)),
        Err(_) => None,
    }
}

/// The bytes with the one byte changed that makes their checksum right, if there is just one. Those
/// of the first `covered` are found by what the checksum differs by, those that count otherwise
/// are `tried`.
fn right(
    bytes: &[u8],
    covered: usize,
    tried: impl Iterator<Item = usize>,
    sums: impl Fn(&[u8]) -> Option<(u32, u32)>,
) -> Option<Vec<u8>> {
    let now = sums(bytes);
    let difference = now.map(|(stored, computed)| stored ^ computed);
    // It may be a byte of the checksum itself that is wrong: nothing else is then.
    let is_own = |of: u32| of.to_le_bytes().iter().filter(|byte| **byte != 0).count() <= 1;
    if difference.is_some_and(is_own) {
        return None;
    }
    let found = difference.into_iter().flat_map(|of| changes(of, covered));
    let found = found.filter_map(|(at, change)| Some((at, u8::try_from(change).ok()?)));
    let tried = tried.flat_map(|at| (1..=u8::MAX).map(move |change| (at, change)));
    let mut right = None;
    for (at, change) in found.chain(tried) {
        let mut changed = bytes.to_vec();
        *changed.get_mut(at)? ^= change;
        if sums(&changed).is_none_or(|(stored, computed)| stored != computed) {
            continue;
        }
        if right.as_ref().is_some_and(|known| *known != changed) {
            return None;
        }
        right = Some(changed);
    }
    right
}
