//! Makes the index of a directory anew, from its names.
//!
//! ```text
//! | root | nodes, if the root has no room for all leaves | leaves, by hash |
//! ```
//!
//! *Invariants*: the directory has the same names after it, in the blocks that it had, with more
//! where these do not suffice; those that are not needed are given back.
use crate::directories::{self, Directory, Kept};
use crate::draft::{Draft, Result};
use extant_format::directory::{IndexPlace, Style, stored::is_dots};
use extant_format::hash::{Hasher, NameHash};
use extant_format::inode::flags;
use extant_format::superblock::Feature;
use extant_format::{FileBlock, Ino};
use std::collections::BTreeSet;
use std::ops::Range;

/// Set in a key: the leaf begins with a name that has the hash of the last one in the leaf before.
const CONTINUED: u32 = 1;

/// The part of a leaf that is left for names to come: one in so many bytes of its block.
const SLACK: usize = 5;

/// How many blocks each level has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    nodes: usize,
    leaves: usize,
}

/// Writes a directory without an index anew: without one if its names are less than a block, else
/// with one, its leaves filled as far as e2fsck fills them. Gives whether it did; one whose names
/// cannot be sorted stays as it is, and one that is too large for two levels.
///
/// # Errors
/// The device's.
pub(crate) fn build(draft: &mut Draft, ino: Ino) -> Result<bool> {
    if !draft.superblock.has(Feature::DIR_INDEX) {
        return Ok(false);
    }
    let Some(mut directory) = Directory::open(draft, ino)? else { return Ok(false) };
    // Names that are folded have another hash.
    if directory.inode.flags & (flags::INDEX | flags::CASEFOLDED) != 0 {
        return Ok(false);
    }
    let blocks = directory.blocks();
    if blocks.len() < 2 || blocks.iter().zip(0..).any(|((at, _), expected)| *at != expected) {
        return Ok(false);
    }
    let mut entries = directory.all_entries(draft)?;
    let mut met = BTreeSet::new();
    // What is there twice is there once; two files of one name get two names.
    entries.retain(|entry| met.insert((entry.name.clone(), entry.ino)));
    directories::apart(&mut entries);
    let style = directory.style;
    if size_of_all(&entries, style) < draft.block_size() {
        // One leaf, or two where the checksum takes the place of a name.
        let needed = if size_of_all(&entries, style) <= style.leaf_capacity() { 1 } else { 2 };
        directory.shorten(draft, needed)?;
        for at in directory.blocks() {
            entries = directory.pack(draft, at, entries)?;
        }
        return Ok(true);
    }
    let parent = entries.iter().find(|entry| entry.name == b"..").map(|entry| entry.ino);
    entries.retain(|entry| !is_dots(&entry.name));
    let hasher = Hasher::of(&draft.superblock);
    let mut keyed: Vec<(NameHash, Kept)> =
        entries.into_iter().map(|entry| (hasher.hash(&entry.name), entry)).collect();
    keyed.sort_by_key(|(hash, _)| *hash);
    let leaves = leaves(&keyed, style);
    let Some(shape) = shape(leaves.len(), style) else { return Ok(false) };
    let count = 1 + shape.nodes + shape.leaves;
    while directory.blocks().len() < count {
        if !directory.lengthen(draft)? {
            return Ok(false);
        }
    }
    directory.shorten(draft, count as u64)?;
    directory.inode.flags |= flags::INDEX;
    draft.write_inode(ino, &directory.inode)?;
    let plan = Plan { style, shape, keys: keys(&leaves, &keyed), leaves, keyed };
    for (at, block) in directory.blocks() {
        let mut bytes = vec![0; draft.block_size()];
        match usize::try_from(at).unwrap_or(usize::MAX) {
            0 => {
                let parent = parent.unwrap_or(Ino::ROOT);
                style.initialize_root(&mut bytes, ino, parent, hasher.version, FileBlock(1));
                style.set_index(&mut bytes, IndexPlace::Root, &plan.in_root());
                style.set_levels(&mut bytes, u8::from(shape.nodes > 0));
            }
            number => plan.fill(number, &mut bytes),
        }
        directory.seal_and_write(draft, at, block, &mut bytes)?;
    }
    Ok(true)
}

/// Bytes of a block that takes all entries.
fn size_of_all(entries: &[Kept], style: Style) -> usize {
    entries.iter().map(|entry| style.entry_size(entry.name.len())).sum()
}

/// All blocks of a directory as they are to be.
struct Plan {
    style: Style,
    shape: Shape,
    /// All names, by their hashes.
    keyed: Vec<(NameHash, Kept)>,
    /// The names of each leaf, and its key.
    leaves: Vec<Range<usize>>,
    keys: Vec<u32>,
}

impl Plan {
    /// What the root leads to: nodes, or leaves.
    fn in_root(&self) -> Vec<(u32, FileBlock)> {
        let step = match self.shape.nodes {
            0 => 1,
            _ => self.style.index_capacity(IndexPlace::Node),
        };
        let keys = self.keys.iter().step_by(step);
        keys.zip(1..).map(|(key, block)| (*key, FileBlock(block))).collect()
    }

    /// Fills a block after the root: a node, or a leaf.
    fn fill(&self, number: usize, bytes: &mut [u8]) {
        let first = self.shape.nodes + 1;
        if let Some(leaf) = number.checked_sub(first).and_then(|leaf| self.leaves.get(leaf)) {
            let names = self.keyed.get(leaf.clone()).unwrap_or_default().iter();
            let names = names.map(|(_, entry)| (&entry.name[..], entry.ino, entry.kind));
            self.style.pack(bytes, names);
            return;
        }
        let most = self.style.index_capacity(IndexPlace::Node);
        let below = self.keys.chunks(most).nth(number.saturating_sub(1)).unwrap_or_default();
        let block = u32::try_from(first + number.saturating_sub(1) * most).unwrap_or(u32::MAX);
        let entries = below.iter().zip(block..).map(|(key, block)| (*key, FileBlock(block)));
        self.style.initialize_node(bytes);
        self.style.set_index(bytes, IndexPlace::Node, &entries.collect::<Vec<_>>());
    }
}

/// What is above so many leaves; `None` where two levels have no room for them.
fn shape(leaves: usize, style: Style) -> Option<Shape> {
    let [root, node] = [IndexPlace::Root, IndexPlace::Node].map(|at| style.index_capacity(at));
    let nodes = if leaves <= root { 0 } else { leaves.div_ceil(node) };
    (nodes <= root).then_some(Shape { nodes, leaves })
}

/// The names of each leaf, in the order of their hashes: almost a fifth of each leaf is left for
/// names to come.
fn leaves(keyed: &[(NameHash, Kept)], style: Style) -> Vec<Range<usize>> {
    let enough = style.leaf_capacity().saturating_sub(style.block_size as usize / SLACK);
    let (mut leaves, mut start, mut used) = (Vec::new(), 0, 0);
    for (at, (_, entry)) in keyed.iter().enumerate() {
        let size = style.entry_size(entry.name.len());
        if used > 0 && (used > enough || used + size > style.leaf_capacity()) {
            leaves.push(start..at);
            (start, used) = (at, 0);
        }
        used += size;
    }
    leaves.push(start..keyed.len());
    leaves
}

/// The key of each leaf: the hash of its first name, and whether the leaf before has that hash too.
fn keys(leaves: &[Range<usize>], keyed: &[(NameHash, Kept)]) -> Vec<u32> {
    let hash = |at: usize| keyed.get(at).map(|(hash, _)| hash.major);
    let key = |leaf: &Range<usize>| {
        let first = hash(leaf.start).unwrap_or(0);
        let last = leaf.start.checked_sub(1).and_then(hash);
        if last == Some(first) { first | CONTINUED } else { first }
    };
    leaves.iter().map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_of_a_shape_leads_to_leaves() {
        for (block_size, checksummed) in
            [(1024, true), (1024, false), (2048, true), (4096, true), (4096, false)]
        {
            let style = Style { block_size, typed: true, checksummed };
            let [root, node] =
                [IndexPlace::Root, IndexPlace::Node].map(|at| style.index_capacity(at));
            for leaves in 2..20_000.min(root * node + 1) {
                let Some(shape) = shape(leaves, style) else {
                    panic!("{block_size} {checksummed}: {leaves} have no shape");
                };
                assert_eq!(shape.leaves, leaves);
                match shape.nodes {
                    0 => assert!(leaves <= root),
                    nodes => assert!(leaves > (nodes - 1) * node && leaves <= nodes * node),
                }
            }
            assert_eq!(shape(root * node + 1, style), None);
        }
    }
}
