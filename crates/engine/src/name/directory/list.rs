//! The order of readdir: by hash on volumes with dir_index, as in the kernel, otherwise the order
//! of the entries in their blocks.
//!
//! An indexed directory is read leaf by leaf: leaves cover disjoint ranges of hashes that rise with
//! the index. Only leaves linked by a chain of equal hashes are sorted together.
//!
//! *Invariants*: positions rise from entry to entry, whatever is on disk, so that a listing that is
//! resumed comes to an end.
use super::ahead::Ahead;
use super::hashed::{CONTINUED, Path};
use super::keyless::{Legality, Naming, OwnNames};
use super::{Directory, NameTarget, is_dot};
use crate::error::Result;
use crate::inode::NodeState;
use crate::inode::listings::Part;
use crate::inode::volume::Volume;
use crate::policy::preset::TableReadAhead;
use crate::store::cache::Frame;
use extant_format::hash::{Hasher, NameHash};
use extant_format::inode::FileType;
use extant_format::{FileBlock, Ino};
use std::ops::ControlFlow;

/// A place in a listing: the next entry to return. Stays valid while names are added and removed,
/// and when leaves split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    /// Before ".".
    Start,
    /// Before "..", in a listing by hash.
    Parent,
    /// Before the name that is `skip` names after the first one with this hash.
    Hash { hash: NameHash, skip: u32 },
    /// Before the entry at or after this byte, in a listing in the order of the blocks.
    Offset(u64),
}

/// An entry, and the position after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) ino: Ino,
    pub(crate) file_type: Option<FileType>,
    pub(crate) legality: Legality,
    pub(crate) next: Position,
}

/// What is called for each entry.
pub(crate) type Each<'a> = dyn FnMut(Listed<'_>) -> ControlFlow<()> + 'a;

/// Calls `each` for every entry from `position` on, until it breaks. A position of the other order
/// starts at the beginning.
pub(crate) fn list_from(
    volume: &Volume,
    node: &NodeState,
    position: Position,
    each: &mut Each<'_>,
) -> Result<()> {
    // A listing that `each` broke off is complete as far as the caller wanted.
    let _broken_off = Listing::at(position).list(Directory { volume, node }, each)?;
    Ok(())
}

/// A listing that can stop and continue.
pub(crate) struct Listing {
    /// The next entry to return.
    position: Position,
    ahead: Ahead,
    /// In a listing by hash: sorted names after `position`, and how often the volume had been
    /// changed when they were read. They are used again as long as that number is the same.
    kept: Option<(Batch, u64)>,
}

impl Listing {
    /// A listing from the beginning.
    pub(crate) fn new() -> Listing {
        Listing::at(Position::Start)
    }

    fn at(position: Position) -> Listing {
        Listing { position, ahead: Ahead::default(), kept: None }
    }

    /// Calls `each` for the next entries, until it breaks. The entry at which it breaks is not
    /// consumed: it comes first the next time.
    pub(crate) fn go_on(
        &mut self,
        volume: &Volume,
        node: &NodeState,
        each: &mut Each<'_>,
    ) -> Result<()> {
        let mut position = self.position;
        let outcome = self.list(Directory { volume, node }, &mut |entry| {
            let next = entry.next;
            each(entry)?;
            position = next;
            ControlFlow::Continue(())
        });
        self.position = position;
        outcome.map(|_| ())
    }

    /// Calls `each` for the next entries, and notes which inodes they lead to.
    fn list(&mut self, directory: Directory<'_>, each: &mut Each<'_>) -> Result<ControlFlow<()>> {
        let volume = directory.volume;
        if volume.store.policies.table_read_ahead != TableReadAhead::Learned {
            return self.list_entries(directory, each);
        }
        let part = if self.position == Position::Start { Part::First } else { Part::Next };
        let mut inodes = Vec::new();
        let flow = self.list_entries(directory, &mut |entry| {
            let ino = (!is_dot(entry.name)).then_some(entry.ino);
            let flow = each(entry);
            inodes.extend(ino.filter(|_| flow.is_continue()));
            flow
        });
        volume.listings.note(directory.node.ino, part, &inodes);
        flow
    }

    fn list_entries(
        &mut self,
        directory: Directory<'_>,
        each: &mut Each<'_>,
    ) -> Result<ControlFlow<()>> {
        let blocks = directory.blocks()?;
        if super::is_by_hash(directory.volume, directory.node)? {
            let changes = directory.node.inode.version;
            let kept = self.kept.take().filter(|(_, then)| *then == changes);
            let (batch, flow) = self.by_hash(directory, kept.map(|(batch, _)| batch), each)?;
            self.kept = batch.map(|batch| (batch, changes));
            return Ok(flow);
        }
        as_they_stand(directory, blocks, self.position, &mut self.ahead, each)
    }

    /// Returns the names that were kept, then those after them.
    fn by_hash(
        &mut self,
        directory: Directory<'_>,
        kept: Option<Batch>,
        each: &mut Each<'_>,
    ) -> Result<(Option<Batch>, ControlFlow<()>)> {
        let mut batch = match (kept, self.position) {
            (Some(mut batch), _) => {
                if batch.give(each).is_break() {
                    return Ok((Some(batch), ControlFlow::Break(())));
                }
                let Some(after) = batch.after else {
                    return Ok((Some(batch), ControlFlow::Continue(())));
                };
                let hash = NameHash { major: after, minor: 0 };
                Batch::starting_at(hash, 0)
            }
            (None, Position::Hash { hash, skip }) => Batch::starting_at(hash, skip),
            (None, position) => {
                self.ahead.by_hash(directory, 0, directory.blocks()?);
                if dots(directory, position, each)?.is_break() {
                    return Ok((None, ControlFlow::Break(())));
                }
                Batch::starting_at(NameHash::default(), 0)
            }
        };
        let flow = if directory.is_indexed() {
            leaf_by_leaf(directory, &mut self.ahead, &mut batch, each)?
        } else {
            let whole = HashRange { low: 0, high: u32::MAX };
            let frame = directory.read(FileBlock(0))?;
            let block = (FileBlock(0), &*frame);
            batch.add(directory, block, &directory.volume.store.hasher, whole)?;
            batch.sort(None);
            batch.give(each)
        };
        Ok((Some(batch), flow))
    }
}

fn as_they_stand(
    directory: Directory<'_>,
    blocks: u32,
    position: Position,
    ahead: &mut Ahead,
    each: &mut Each<'_>,
) -> Result<ControlFlow<()>> {
    let Position::Offset(from) = position else {
        return as_they_stand(directory, blocks, Position::Offset(0), ahead, each);
    };
    let block_size = u64::from(directory.volume.store.block_size());
    let first = u32::try_from(from / block_size).unwrap_or(u32::MAX);
    let naming = Naming::of(directory)?;
    for block in first..blocks {
        ahead.in_order(directory, block, blocks);
        let frame = directory.read(FileBlock(block))?;
        let mut own = OwnNames::of(FileBlock(block));
        let bytes = frame.bytes();
        for entry in directory.volume.store.style.all_entries(&bytes) {
            let entry = entry.map_err(|fault| directory.corrupt(&frame, fault))?;
            let legality = own.legality(entry.name);
            let (name, legality) = naming.shown(&bytes, &entry, legality);
            let offset = u64::from(block) * block_size + entry.offset as u64;
            let NameTarget { ino, file_type } = directory.found(&frame, &entry)?;
            let next = Position::Offset(offset + 1);
            let listed = Listed { name: &name, ino, file_type, legality, next };
            if offset >= from && each(listed).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

const FIRST: Position = Position::Hash { hash: NameHash { major: 0, minor: 0 }, skip: 0 };

/// "." and "..", which are in the first block of both forms.
fn dots(
    directory: Directory<'_>,
    position: Position,
    each: &mut Each<'_>,
) -> Result<ControlFlow<()>> {
    let frame = directory.read(FileBlock(0))?;
    let names: [(&[u8], Position); 2] = [(b".", Position::Parent), (b"..", FIRST)];
    let skip = usize::from(position == Position::Parent);
    for (name, next) in names.into_iter().skip(skip) {
        if let Some((_, NameTarget { ino, file_type })) = directory.find_in(&frame, name)?
            && each(Listed { name, ino, file_type, legality: Legality::Legal, next }).is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn leaf_by_leaf(
    directory: Directory<'_>,
    ahead: &mut Ahead,
    batch: &mut Batch,
    each: &mut Each<'_>,
) -> Result<ControlFlow<()>> {
    let blocks = directory.blocks()?;
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
            return Err(directory.field(
                root,
                "directory index",
                "hash",
                next,
                "not above the one before it",
            ));
        }
        let block = path.leaf_block(directory)?;
        ahead.by_hash(directory, block.0, blocks);
        let leaf = path.leaf(directory)?;
        batch.add(directory, (block, &*leaf), &hasher, HashRange::between(low, next))?;
        if !continued {
            batch.sort(next);
            if batch.give(each).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let Some(next) = next else {
            return Ok(ControlFlow::Continue(()));
        };
        low = next;
        path.advance(directory)?;
    }
}

/// The hashes that a leaf covers, including both ends.
#[derive(Clone, Copy)]
struct HashRange {
    low: u32,
    high: u32,
}

impl HashRange {
    /// From the index entries of the leaf and of the next one.
    fn between(low: u32, next: Option<u32>) -> HashRange {
        let low = low & !CONTINUED;
        let high = match next {
            None => u32::MAX,
            Some(next) if next & CONTINUED != 0 => next & !CONTINUED,
            Some(next) => next.saturating_sub(2),
        };
        HashRange { low, high: high.max(low) }
    }
}

/// A name that was read.
struct Item {
    hash: NameHash,
    /// How many names with the same hash come before it.
    equal: u32,
    /// Where its bytes start in `names`. Rises in the order of the names in their blocks, which
    /// decides between equal hashes.
    start: usize,
    length: u8,
    ino: Ino,
    file_type: Option<FileType>,
    legality: Legality,
}

/// Names that are sorted together.
struct Batch {
    from: NameHash,
    skip: u32,
    names: Vec<u8>,
    items: Vec<Item>,
    /// Once they are sorted: the next one to return.
    at: usize,
    /// The lowest hash of the names after them; `None` if there are none.
    after: Option<u32>,
}

/// Limit on the memory for names with equal hashes, in bytes. Such a chain does not occur by
/// chance, and a longer one is refused.
const BATCH_BYTES_MAX: usize = 64 << 20;

impl Batch {
    /// An empty batch for names from a position on.
    fn starting_at(from: NameHash, skip: u32) -> Batch {
        Batch { from, skip, names: Vec::new(), items: Vec::new(), at: 0, after: None }
    }

    /// Adds a block's names. A name whose hash is outside the leaf's range, which no look-up finds,
    /// is listed at the end of the range: so no name is hidden, and positions keep rising.
    fn add(
        &mut self,
        directory: Directory<'_>,
        (block, frame): (FileBlock, &Frame),
        hasher: &Hasher,
        range: HashRange,
    ) -> Result<()> {
        let mut own = OwnNames::of(block);
        let (naming, bytes) = (Naming::of(directory)?, frame.bytes());
        for entry in directory.volume.store.style.all_entries(&bytes) {
            let entry = entry.map_err(|fault| directory.corrupt(frame, fault))?;
            let legality = own.legality(entry.name);
            if is_dot(entry.name) && legality == Legality::Legal {
                continue;
            }
            let NameTarget { ino, file_type } = directory.found(frame, &entry)?;
            let hash = directory.hash_of(hasher, entry.name);
            let hash = NameHash { major: hash.major.clamp(range.low, range.high), ..hash };
            let (name, legality) = naming.shown(&bytes, &entry, legality);
            let (start, length) = (self.names.len(), name.len() as u8);
            self.names.extend_from_slice(&name);
            self.items.push(Item { hash, equal: 0, start, length, ino, file_type, legality });
        }
        if self.names.len() + self.items.len() * size_of::<Item>() > BATCH_BYTES_MAX {
            let count = self.items.len() as u32;
            return Err(directory.field(
                frame,
                "directory index",
                "chain of equal hashes",
                count,
                "too long",
            ));
        }
        Ok(())
    }

    /// Sorts the names once all are added, and moves to the wanted position.
    fn sort(&mut self, after: Option<u32>) {
        self.items.sort_unstable_by_key(|item| (item.hash, item.start));
        let mut before = None;
        for item in &mut self.items {
            item.equal = match before {
                Some((hash, equal)) if hash == item.hash => equal + 1,
                _ => 0,
            };
            before = Some((item.hash, item.equal));
        }
        let from = (self.from, self.skip);
        self.at = self.items.partition_point(|item| (item.hash, item.equal) < from);
        self.after = after;
    }

    /// Returns the names that were not returned yet, and drops the batch once all were. The one at
    /// which `each` breaks counts as not returned.
    fn give(&mut self, each: &mut Each<'_>) -> ControlFlow<()> {
        while let Some(item) = self.items.get(self.at) {
            each(Listed {
                name: &self.names[item.start..item.start + usize::from(item.length)],
                ino: item.ino,
                file_type: item.file_type,
                legality: item.legality,
                next: Position::Hash { hash: item.hash, skip: item.equal + 1 },
            })?;
            self.at += 1;
        }
        self.at = 0;
        self.names.clear();
        self.items.clear();
        ControlFlow::Continue(())
    }
}
