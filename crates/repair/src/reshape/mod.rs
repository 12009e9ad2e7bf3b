//! Another size for a volume: what it says of itself is changed in an overlay, what follows from
//! that is written as a check counts it, and the last check has to be clean.
//!
//! ```text
//! device | overlay | check: clean | grow, shrink | check -> bitmaps, counts | .. | clean | copies
//! ```
//!
//! Nothing is on the disk then: who calls [`resize`] writes the overlay by a log.
//!
//! ```text
//! grow       more groups, a longer last one
//! shrink     what is past the new end moves
//! minimum    how small that can be
//! names      numbers of inodes, where names have them
//! settle     bitmaps and counts as the check finds them, and nothing else
//! inodes     inodes of another size
//! width      descriptors of 32 or 64 bytes
//! copies     superblocks and descriptors in other groups
//! ```
pub(crate) mod copies;
mod grow;
mod inodes;
mod minimum;
mod names;
pub(crate) mod settle;
mod shrink;
mod width;

use crate::bitmaps::Marked;
use crate::draft::Draft;
use crate::error::Error;
use crate::options::Scope;
use crate::outcome::is_clean;
use crate::rounds::MEMORY_BYTES_MAX;
use extant_block::{BlockDevice, Overlay};
use extant_format::BlockNo;
use extant_format::layout::Width;
use extant_format::superblock::Superblock;
use extant_inspect::{CheckOptions, CheckReport, Listener, Problem, Severity, Usage, examine};
pub(crate) use inodes::with_inode_size;
use std::cmp::Ordering;
use std::fs::File;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

/// How a volume gets another size.
pub struct ResizeOptions {
    /// Threads of each check.
    pub threads: NonZeroU32,
    /// An empty file for the changes that do not fit into memory.
    pub spool: Option<File>,
    /// The time that is written into the superblock, in seconds since 1970.
    pub now_seconds: u64,
    /// Called now and then with how far a check is.
    pub progress: Option<Listener>,
}

/// A volume that has another size in memory.
pub struct Resized {
    /// The volume as it is to be, as long as it has to be: what was changed is in it, and nothing
    /// on the device.
    pub overlay: Arc<Overlay>,
    /// Its superblock before.
    pub before: Superblock,
    /// Its superblock as it is to be.
    pub after: Superblock,
    /// Blocks that the volume gets and that have to be zeros before the changes are written: they
    /// are not known to be holes.
    pub zeros: Vec<Range<u64>>,
    /// Contents that have to be copied before the changes are written, to blocks that are free:
    /// the overlay has them there already. Some of these blocks are among its changes.
    pub moves: Vec<Move>,
    /// Blocks of files that are at another place, `moves` and others.
    pub moved_blocks: u64,
}

/// Blocks that move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The first of them, before.
    pub from: BlockNo,
    /// The first of them, after.
    pub to: BlockNo,
    /// How many.
    pub blocks: u64,
}

/// Gives a volume the least size that it can have, in memory.
///
/// # Errors
/// As [`resize`].
pub fn minimize(
    device: Arc<dyn BlockDevice>,
    options: &mut dyn FnMut() -> ResizeOptions,
) -> Result<Resized, Error> {
    let how = CheckOptions { threads: options().threads, ..CheckOptions::default() };
    let superblock = extant_engine::read_superblock(&*device)?;
    let (report, usage) = examine(Arc::clone(&device), &how)?;
    let usage = clean(&report, usage)?;
    let cluster = u64::from(usage.cluster_blocks()).max(1);
    let least = minimum::least(&usage)?;
    drop(usage);
    let mut tried = |blocks: u64| match resize(Arc::clone(&device), blocks, options()) {
        Err(Error::NoRoom) => Ok(None),
        done => done.map(Some),
    };
    // The least that could do, then more and more until it does, then as little more as it takes.
    let (mut too_few, mut enough, mut more) = (least.saturating_sub(1), least, cluster);
    let mut best = loop {
        match tried(enough)? {
            Some(done) => break done,
            None if enough >= superblock.blocks_count => return Err(Error::NoRoom),
            None => too_few = enough,
        }
        enough = enough.saturating_add(more).min(superblock.blocks_count);
        more = more.saturating_mul(2);
    };
    while enough - too_few > cluster.max(enough / EXACTNESS) {
        let middle = too_few + (enough - too_few) / 2;
        let fits = superblock.blocks_within(middle);
        match if fits > too_few { tried(fits)? } else { None } {
            Some(done) => (enough, best) = (fits, done),
            None => too_few = middle,
        }
    }
    Ok(best)
}

/// The least size is found to one part in so many.
const EXACTNESS: u64 = 4000;

/// What is in use on a volume that is clean.
pub(crate) fn clean(report: &CheckReport, usage: Option<Usage>) -> Result<Usage, Error> {
    usage.filter(|_| is_clean(report)).ok_or_else(|| {
        let is_wrong = |it: &&Problem| it.rule().severity > Severity::Advice;
        let problem = report.problems.iter().find(is_wrong).or(report.problems.first());
        Error::Unclean(problem.map(ToString::to_string).unwrap_or_default())
    })
}

/// Gives the descriptors of a volume another width in memory: those of the feature 64bit, or of
/// volumes without it.
///
/// # Errors
/// The device fails; the volume is not clean, is in use elsewhere, or has no room for them.
pub fn widen(
    device: Arc<dyn BlockDevice>,
    width: Width,
    options: ResizeOptions,
) -> Result<Resized, Error> {
    let before = extant_engine::read_superblock(&*device)?;
    let refused = |error: extant_format::layout::LayoutError| Error::Refused(error.0);
    let after = before.with_width(width).map_err(refused)?;
    change(device, (before, after), options, Marked::Freed, width::change)
}

/// Gives a volume another size in memory: the largest of its geometry with at most `blocks` blocks.
///
/// # Errors
/// The device fails; the volume is not clean, is in use elsewhere, or cannot have that size; memory
/// for the changes does not suffice and there is no spool.
pub fn resize(
    device: Arc<dyn BlockDevice>,
    blocks: u64,
    options: ResizeOptions,
) -> Result<Resized, Error> {
    let before = extant_engine::read_superblock(&*device)?;
    let refused = |error: extant_format::layout::LayoutError| Error::Refused(error.0);
    let after = before.resized(before.blocks_within(blocks)).map_err(refused)?;
    let order = after.blocks_count.cmp(&before.blocks_count);
    change(device, (before, after), options, Marked::Freed, |draft, after| {
        Ok(match order {
            Ordering::Less => {
                let (moves, moved_blocks) = shrink::shrink(draft, after)?;
                Placed { moves, moved_blocks, ..Placed::default() }
            }
            Ordering::Equal => Placed::default(),
            Ordering::Greater => Placed { zeros: grow::grow(draft, after)?, ..Placed::default() },
        })
    })
}

/// What has another place, and what has to be zeros.
#[derive(Default)]
struct Placed {
    moves: Vec<Move>,
    moved_blocks: u64,
    zeros: Vec<Range<u64>>,
}

/// Checks a volume, changes it in memory to what `after` says, and checks it again.
fn change(
    device: Arc<dyn BlockDevice>,
    (before, after): (Superblock, Superblock),
    options: ResizeOptions,
    marked: Marked,
    work: impl FnOnce(&mut Draft, &Superblock) -> Result<Placed, Error>,
) -> Result<Resized, Error> {
    let block_size = before.block_size();
    let bytes = after.blocks_count.saturating_mul(block_size.into());
    let overlay = Overlay::new(device, block_size, MEMORY_BYTES_MAX).grown(bytes);
    let overlay = Arc::new(match options.spool {
        Some(spool) => overlay.with_spool(spool),
        None => overlay,
    });
    let how = CheckOptions {
        threads: options.threads,
        progress: options.progress,
        ..CheckOptions::default()
    };
    let now = u32::try_from(options.now_seconds).unwrap_or(u32::MAX);
    let mut resized =
        Resized { overlay, before, after, zeros: Vec::new(), moves: Vec::new(), moved_blocks: 0 };
    let is_same = |one: &Superblock, other: &Superblock| {
        let shape = |it: &Superblock| (it.blocks_count, it.descriptor_size, it.inode_size);
        shape(one) == shape(other)
    };
    if is_same(&resized.before, &resized.after) {
        return Ok(resized);
    }
    let over = Arc::clone(&resized.overlay) as Arc<dyn BlockDevice>;
    let (report, usage) = examine(over, &how)?;
    let usage = clean(&report, usage)?;
    let mut draft = Draft::new(&resized.overlay, usage, now, Scope::Safe);
    let placed = work(&mut draft, &resized.after)?;
    (resized.moves, resized.moved_blocks, resized.zeros) =
        (placed.moves, placed.moved_blocks, placed.zeros);
    drop(draft);
    let usage = settle::settle(&resized.overlay, (&how, now), marked)?;
    resized.after = extant_engine::read_superblock(&*resized.overlay)?;
    copies::write(&resized.overlay, &resized.after, &usage)?;
    Ok(resized)
}
