//! The order of readdir: by hash in volumes with dir_index, as the kernel gives it, else as the names stand.
//!
//! An indexed directory is read leaf by leaf: leaves cover disjoint ranges of hashes that rise with the index. Only
//! leaves that a chain of equal hashes links are sorted together.
//!
//! *Invariants*: positions rise from entry to entry, whatever the disk says, so that whoever resumes comes to an end.
use super::hashed::{CONTINUED, Path};
use super::{Directory, Found, is_dot};
use crate::cache::Frame;
use crate::error::Result;
use crate::inode::NodeState;
use crate::volume::Volume;
use extant_format::hash::{Hasher, NameHash};
use extant_format::inode::FileType;
use extant_format::superblock::Feature;
use extant_format::{FileBlock, Ino};
use std::ops::ControlFlow;

/// A place in a listing: the next entry to give. Stays good while names come and go, and when leaves split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    /// Before ".".
    Start,
    /// Before "..", in a listing by hash.
    Parent,
    /// Before the name that is `skip` names behind the first one with this hash.
    Hash { hash: NameHash, skip: u32 },
    /// Before the entry at or behind this byte, in a listing of entries as they stand.
    Offset(u64),
}

/// An entry, and where to go on behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) ino: Ino,
    pub(crate) file_type: Option<FileType>,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for readers that stop and go on: a mount's getdents")
    )]
    pub(crate) next: Position,
}

/// What is called for each entry.
pub(crate) type Each<'a> = dyn FnMut(Listed<'_>) -> ControlFlow<()> + 'a;

/// Calls `each` for every entry from `position` on, until it breaks. A position of the other order starts again.
pub(crate) fn list_from(volume: &Volume, node: &NodeState, position: Position, each: &mut Each<'_>) -> Result<()> {
    let directory = Directory { volume, node };
    let blocks = directory.blocks()?;
    // What is broken off has been listed as far as it was wanted.
    let _broken_off = if volume.superblock.has(Feature::DIR_INDEX) && (directory.is_indexed() || blocks == 1) {
        by_hash(directory, position, each)?
    } else {
        as_they_stand(directory, blocks, position, each)?
    };
    Ok(())
}

fn as_they_stand(
    directory: Directory<'_>,
    blocks: u32,
    position: Position,
    each: &mut Each<'_>,
) -> Result<ControlFlow<()>> {
    let Position::Offset(from) = position else {
        return as_they_stand(directory, blocks, Position::Offset(0), each);
    };
    let block_size = u64::from(directory.volume.block_size());
    let first = u32::try_from(from / block_size).unwrap_or(u32::MAX);
    for block in first..blocks {
        let frame = directory.read(FileBlock(block))?;
        for entry in directory.volume.style.entries(&frame.bytes()) {
            let entry = entry.map_err(|fault| directory.corrupt(&frame, fault))?;
            let offset = u64::from(block) * block_size + entry.offset as u64;
            let Found { ino, file_type } = directory.found(&frame, &entry)?;
            let next = Position::Offset(offset + 1);
            if offset >= from
                && each(Listed {
                    name: entry.name,
                    ino,
                    file_type,
                    next,
                })
                .is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

const FIRST: Position = Position::Hash {
    hash: NameHash { major: 0, minor: 0 },
    skip: 0,
};

fn by_hash(directory: Directory<'_>, position: Position, each: &mut Each<'_>) -> Result<ControlFlow<()>> {
    let (hash, skip) = match position {
        Position::Hash { hash, skip } => (hash, skip),
        _ => {
            if dots(directory, position, each)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            (NameHash::default(), 0)
        }
    };
    let mut batch = Batch {
        from: hash,
        skip,
        names: Vec::new(),
        items: Vec::new(),
    };
    if directory.is_indexed() {
        return leaf_by_leaf(directory, &mut batch, each);
    }
    let whole = HashRange { low: 0, high: u32::MAX };
    let frame = directory.read(FileBlock(0))?;
    batch.add(directory, &frame, &directory.volume.hasher, whole)?;
    Ok(batch.give(each))
}

/// "." and "..", which stand in the first block in either form.
fn dots(directory: Directory<'_>, position: Position, each: &mut Each<'_>) -> Result<ControlFlow<()>> {
    let frame = directory.read(FileBlock(0))?;
    let names: [(&[u8], Position); 2] = [(b".", Position::Parent), (b"..", FIRST)];
    let skip = usize::from(position == Position::Parent);
    for (name, next) in names.into_iter().skip(skip) {
        if let Some((_, Found { ino, file_type })) = directory.find_in(&frame, name)?
            && each(Listed {
                name,
                ino,
                file_type,
                next,
            })
            .is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn leaf_by_leaf(directory: Directory<'_>, batch: &mut Batch, each: &mut Each<'_>) -> Result<ControlFlow<()>> {
    let mut path = Path::to_hash(directory, batch.from.major)?;
    let hasher = path.hasher;
    let mut low = path.leaf_hash(directory)?;
    loop {
        let next = path.next_hash(directory)?;
        let continued = next.is_some_and(|next| next & CONTINUED != 0);
        if let Some(next) = next
            && (next < low || (next == low && !continued))
        {
            let root = &path.root.frame;
            return Err(directory.field(root, "directory index", "hash", next, "not above the one before it"));
        }
        let leaf = path.leaf(directory)?;
        batch.add(directory, &leaf, &hasher, HashRange::between(low, next))?;
        if !continued && batch.give(each).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let Some(next) = next else {
            return Ok(ControlFlow::Continue(()));
        };
        low = next;
        path.advance(directory)?;
    }
}

/// The hashes that a leaf covers, both ends included.
#[derive(Clone, Copy)]
struct HashRange {
    low: u32,
    high: u32,
}

impl HashRange {
    /// From what the index has for the leaf and the next one.
    fn between(low: u32, next: Option<u32>) -> HashRange {
        let low = low & !CONTINUED;
        let high = match next {
            None => u32::MAX,
            Some(next) if next & CONTINUED != 0 => next & !CONTINUED,
            Some(next) => next.saturating_sub(2),
        };
        HashRange {
            low,
            high: high.max(low),
        }
    }
}

/// A name that was read.
struct Item {
    hash: NameHash,
    /// Of its bytes in `names`: rises in the order in which names stand, which decides between equal hashes.
    start: usize,
    length: u8,
    ino: Ino,
    file_type: Option<FileType>,
}

/// Names that are sorted together.
struct Batch {
    from: NameHash,
    skip: u32,
    names: Vec<u8>,
    items: Vec<Item>,
}

/// A chain of equal hashes that takes more memory than this is refused: it is no accident.
const BATCH_BYTES_MAX: usize = 64 << 20;

impl Batch {
    /// Adds a block's names. One whose hash lies outside the leaf's range, where no look-up finds it, is listed at the
    /// range's end: nothing that is there is hidden, and positions keep rising.
    fn add(&mut self, directory: Directory<'_>, frame: &Frame, hasher: &Hasher, range: HashRange) -> Result<()> {
        for entry in directory.volume.style.entries(&frame.bytes()) {
            let entry = entry.map_err(|fault| directory.corrupt(frame, fault))?;
            if is_dot(entry.name) {
                continue;
            }
            let Found { ino, file_type } = directory.found(frame, &entry)?;
            let hash = hasher.hash(entry.name);
            let hash = NameHash {
                major: hash.major.clamp(range.low, range.high),
                ..hash
            };
            let (start, length) = (self.names.len(), entry.name.len() as u8);
            self.names.extend_from_slice(entry.name);
            self.items.push(Item {
                hash,
                start,
                length,
                ino,
                file_type,
            });
        }
        if self.names.len() + self.items.len() * size_of::<Item>() > BATCH_BYTES_MAX {
            let count = self.items.len() as u32;
            return Err(directory.field(frame, "directory index", "chain of equal hashes", count, "too long"));
        }
        Ok(())
    }

    /// Gives the names in order, from the wanted position on, and forgets them.
    fn give(&mut self, each: &mut Each<'_>) -> ControlFlow<()> {
        self.items.sort_unstable_by_key(|item| (item.hash, item.start));
        let (mut last, mut equal) = (None, 0);
        for item in &self.items {
            equal = if last == Some(item.hash) { equal + 1 } else { 0 };
            last = Some(item.hash);
            if (item.hash, equal) < (self.from, self.skip) {
                continue;
            }
            let name = &self.names[item.start..item.start + usize::from(item.length)];
            let next = Position::Hash {
                hash: item.hash,
                skip: equal + 1,
            };
            each(Listed {
                name,
                ino: item.ino,
                file_type: item.file_type,
                next,
            })?;
        }
        self.names.clear();
        self.items.clear();
        ControlFlow::Continue(())
    }
}
