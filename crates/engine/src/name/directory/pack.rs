//! A whole directory at once: first the plan, from lengths and hashes alone, then the blocks.
//!
//! ```text
//! all in one block:   | . .. names, as given |
//! with dir_index:     | root | nodes, if the root cannot hold all leaves | leaves, by hash, full |
//! else:               | . .. names, as given | names | names ...
//! ```
//!
//! The same plan tells how large a directory will be before there is a volume.
use super::hashed::CONTINUED;
use super::{Form, kind};
use crate::error::{ErrorKind, Result};
use crate::inode::NodeState;
use crate::inode::credits;
use crate::inode::mapping;
use crate::inode::operation::Operation;
use crate::policy::allocation::Purpose;
use crate::space::Reservation;
use extant_format::directory::{IndexPlace, NAME_MAX, Style};
use extant_format::extent::State;
use extant_format::hash::{Hasher, NameHash};
use extant_format::inode::{FileType, flags};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, FileBlock, Ino};

/// How a volume packs a directory that is made as a whole: the order of its names, and how many
/// blocks it takes.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    /// Block size and options of directory blocks.
    pub style: Style,
    /// The volume's hash of names, if it has dir_index.
    pub hasher: Option<Hasher>,
}

/// An entry of a directory that is made as a whole.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// 1 to 255 bytes.
    pub name: &'a [u8],
    /// The inode that it points to.
    pub ino: Ino,
    /// Type of that inode.
    pub file_type: FileType,
}

impl Packing {
    /// How a volume with this superblock does it.
    pub fn of(superblock: &Superblock) -> Packing {
        let style = Style {
            block_size: superblock.block_size(),
            typed: superblock.has(Feature::FILETYPE),
            checksummed: superblock.has(Feature::METADATA_CSUM),
        };
        let hasher = superblock.has(Feature::DIR_INDEX).then(|| Hasher::of(superblock));
        Packing { style, hasher }
    }

    /// The key by which a directory's names have to be sorted for `packed_blocks` and for the
    /// engine: the order in which readdir returns them. Without dir_index all keys are equal, so a
    /// stable sort keeps any order.
    pub fn hash_key(&self, name: &[u8]) -> NameHash {
        self.hasher.map(|hasher| hasher.hash(name)).unwrap_or_default()
    }

    /// Exactly how many blocks a directory takes, without its map, if it is made of names with
    /// these lengths in bytes and these keys. "." and ".." are not among them.
    ///
    /// # Errors
    /// `InvalidName`, `NameTooLong` for lengths outside 1..=255; `InvalidArgument` for keys that
    /// fall; `DirectoryFull` if it does not fit in two levels of index, or in 32 bits of size.
    pub fn packed_blocks(&self, names: impl IntoIterator<Item = (usize, NameHash)>) -> Result<u64> {
        let plan = self.plan(names)?;
        if !plan.is_sorted {
            return Err(ErrorKind::InvalidArgument(
                "names of a directory are not in the order of their hashes",
            )
            .into());
        }
        Ok(u64::from(plan.blocks()))
    }

    /// Lays out names in the order given.
    pub(super) fn plan(
        &self,
        names: impl IntoIterator<Item = (usize, NameHash)>,
    ) -> Result<PackingPlan> {
        let mut filling = Filling::new(self);
        for (length, hash) in names {
            match length {
                0 => return Err(ErrorKind::InvalidName.into()),
                1..=NAME_MAX => filling.add(self.style.entry_size(length), hash),
                _ => return Err(ErrorKind::NameTooLong.into()),
            }
        }
        filling.finish()
    }
}

/// Names that share a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Leaf {
    /// Its key in the index: the hash of its first name, and whether the leaf before it ends with
    /// the same hash.
    pub(super) hash: u32,
    /// How many names it has.
    pub(super) names: u32,
}

/// The layout of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PackingPlan {
    pub(super) shape: Shape,
    pub(super) leaves: Vec<Leaf>,
    /// Whether the names were given in the order of their hashes, as far as that matters.
    pub(super) is_sorted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// "." and ".." are at the start of the first leaf.
    Linear,
    /// A root, this many nodes, and the leaves.
    Indexed { nodes: u32 },
}

/// A plan being made. Names are counted and not kept: two words of memory per leaf.
struct Filling<'a> {
    packing: &'a Packing,
    leaves: Vec<Leaf>,
    /// Bytes used in the last leaf, and in all.
    filled: usize,
    total: usize,
    names: u32,
    last: NameHash,
    is_sorted: bool,
}

impl<'a> Filling<'a> {
    fn new(packing: &'a Packing) -> Filling<'a> {
        let mut filling = Filling {
            packing,
            leaves: vec![Leaf { hash: 0, names: 0 }],
            filled: 0,
            total: dots_size(packing.style),
            names: 0,
            last: NameHash::default(),
            is_sorted: true,
        };
        if packing.hasher.is_none() {
            filling.filled = filling.total;
        }
        filling
    }

    fn add(&mut self, size: usize, hash: NameHash) {
        if self.filled + size > self.packing.style.leaf_capacity() {
            let continued = if hash.major == self.last.major { CONTINUED } else { 0 };
            self.leaves.push(Leaf { hash: hash.major | continued, names: 0 });
            self.filled = 0;
        }
        if let Some(leaf) = self.leaves.last_mut() {
            leaf.names += 1;
        }
        self.filled += size;
        self.total += size;
        self.names += 1;
        self.is_sorted &= self.last <= hash;
        self.last = hash;
    }

    fn finish(self) -> Result<PackingPlan> {
        let Filling { packing, leaves, total, names, is_sorted, .. } = self;
        let plan = if total <= packing.style.leaf_capacity() {
            let leaves = vec![Leaf { hash: 0, names }];
            PackingPlan { shape: Shape::Linear, leaves, is_sorted: true }
        } else if packing.hasher.is_none() {
            PackingPlan { shape: Shape::Linear, leaves, is_sorted: true }
        } else {
            let nodes = nodes_for(packing.style, leaves.len())?;
            PackingPlan { shape: Shape::Indexed { nodes }, leaves, is_sorted }
        };
        let bytes = plan.blocks_wide() * u64::from(packing.style.block_size);
        if bytes > u64::from(u32::MAX) {
            return Err(ErrorKind::DirectoryFull.into());
        }
        Ok(plan)
    }
}

/// Size of "." and ".." in bytes.
fn dots_size(style: Style) -> usize {
    style.entry_size(1) + style.entry_size(2)
}

/// How many nodes are needed between the root and this many leaves: none if they fit in the root.
pub(super) fn nodes_for(style: Style, leaves: usize) -> Result<u32> {
    let root = style.index_capacity(IndexPlace::Root);
    if leaves <= root {
        return Ok(0);
    }
    let nodes = leaves.div_ceil(style.index_capacity(IndexPlace::Node));
    if nodes > root {
        return Err(ErrorKind::DirectoryFull.into());
    }
    Ok(nodes as u32)
}

impl PackingPlan {
    fn blocks_wide(&self) -> u64 {
        let index = match self.shape {
            Shape::Linear => 0,
            Shape::Indexed { nodes } => 1 + u64::from(nodes),
        };
        index + self.leaves.len() as u64
    }

    /// Blocks of the directory: fewer than 2^22, because its size has 32 bits.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks_wide() as u32
    }

    /// Index entries of at most `most` leaves from leaf `from` on, each with its block.
    fn index(&self, first_leaf: u32, from: usize, most: usize) -> Vec<(u32, FileBlock)> {
        let leaves = self.leaves.iter().enumerate().skip(from).take(most);
        leaves.map(|(at, leaf)| (leaf.hash, FileBlock(first_leaf + at as u32))).collect()
    }
}

/// Makes the whole content of a new, empty directory: blocks contiguous if the volume has room,
/// leaves packed full, the index built from below. The entries should be in the order of
/// [`Packing::hash_key`]; otherwise they are sorted. `parent` is for "..". Sets size and flags; the
/// caller stores the inode. The reservation may be too small: it grows by the directory's blocks
/// before anything changes, and by map blocks as they are needed.
pub(crate) fn pack(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    parent: Ino,
    entries: &mut dyn ExactSizeIterator<Item = NewEntry<'_>>,
) -> Result<()> {
    let packing = Packing::of(&operation.volume().store.superblock);
    // Nothing that was known of it counts any more.
    node.serial = operation.volume().names.serial();
    let mut entries: Vec<NewEntry<'_>> = entries.collect();
    let keys = |entry: &NewEntry<'_>| (entry.name.len(), packing.hash_key(entry.name));
    let mut plan = packing.plan(entries.iter().map(keys))?;
    if !plan.is_sorted {
        entries.sort_by_cached_key(|entry| packing.hash_key(entry.name));
        plan = packing.plan(entries.iter().map(keys))?;
    }
    let form = match plan.shape {
        Shape::Linear => Form::Linear,
        Shape::Indexed { .. } => Form::Indexed,
    };
    let (ino, total) = (node.ino, plan.blocks());
    let mut writer = Writer { packing, plan, ino, parent, entries: &entries };
    // All blocks of the directory are reserved at once, so that they are allocated in long runs.
    let units = operation.volume().space.units(total.into());
    reservation.grow(units.saturating_sub(reservation.remaining()))?;
    let mut next = 0;
    while next < total {
        let want = total - next;
        let block = FileBlock(next);
        operation.need(credits::RUN);
        let run = mapping::allocate(
            operation,
            reservation,
            node,
            block,
            want,
            Purpose::Directory,
            State::Written,
        )?;
        for offset in 0..run.length.clamp(1, want) {
            let block = FileBlock(next + offset);
            let number = BlockNo(run.start.0 + u64::from(offset));
            operation.need(1);
            operation.create(number, kind(node, block, form), |bytes| writer.fill(block.0, bytes));
        }
        next += run.length.clamp(1, want);
    }
    node.inode.size = u64::from(total) * u64::from(packing.style.block_size);
    node.inode.flags &= !flags::INDEX;
    if form == Form::Indexed {
        node.inode.flags |= flags::INDEX;
    }
    Ok(())
}

/// Fills blocks in rising order.
pub(super) struct Writer<'a> {
    pub(super) packing: Packing,
    pub(super) plan: PackingPlan,
    pub(super) ino: Ino,
    pub(super) parent: Ino,
    /// Entries that are not written yet.
    pub(super) entries: &'a [NewEntry<'a>],
}

impl Writer<'_> {
    pub(super) fn fill(&mut self, block: u32, bytes: &mut [u8]) {
        match self.plan.shape {
            Shape::Linear => self.fill_leaf(block as usize, bytes),
            Shape::Indexed { nodes } if block == 0 => self.fill_root(nodes, bytes),
            Shape::Indexed { nodes } if block <= nodes => self.fill_node(nodes, block, bytes),
            Shape::Indexed { nodes } => self.fill_leaf((block - 1 - nodes) as usize, bytes),
        }
    }

    fn fill_leaf(&mut self, at: usize, bytes: &mut [u8]) {
        let names = self.plan.leaves[at].names as usize;
        let (mine, rest) = self.entries.split_at(names);
        self.entries = rest;
        let mine = mine.iter().map(|entry| (entry.name, entry.ino, entry.file_type));
        let dots: [(&[u8], Ino, FileType); 2] =
            [(b".", self.ino, FileType::Directory), (b"..", self.parent, FileType::Directory)];
        let begins = self.plan.shape == Shape::Linear && at == 0;
        self.packing.style.pack(bytes, dots.into_iter().filter(|_| begins).chain(mine));
    }

    fn fill_root(&self, nodes: u32, bytes: &mut [u8]) {
        let style = self.packing.style;
        let hash = self.packing.hasher.map(|hasher| hasher.version);
        let hash = hash.unwrap_or(extant_format::superblock::HashVersion::HalfMd4);
        style.initialize_root(bytes, self.ino, self.parent, hash, FileBlock(1));
        let entries = if nodes == 0 {
            self.plan.index(1, 0, usize::MAX)
        } else {
            let capacity = style.index_capacity(IndexPlace::Node);
            let leaves = self.plan.leaves.iter().step_by(capacity);
            leaves.zip(1..).map(|(leaf, block)| (leaf.hash, FileBlock(block))).collect()
        };
        style.set_index(bytes, IndexPlace::Root, &entries);
        style.set_levels(bytes, u8::from(nodes > 0));
    }

    fn fill_node(&self, nodes: u32, block: u32, bytes: &mut [u8]) {
        let style = self.packing.style;
        let capacity = style.index_capacity(IndexPlace::Node);
        let entries = self.plan.index(1 + nodes, (block - 1) as usize * capacity, capacity);
        style.initialize_node(bytes);
        style.set_index(bytes, IndexPlace::Node, &entries);
    }
}
