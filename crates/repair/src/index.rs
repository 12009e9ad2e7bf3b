//! Makes the index of a directory anew, from its names.
//!
//! ```text
//! | root | nodes, if the root has no room for all leaves | leaves, by hash |
//! ```
//!
//! *Invariants*: the directory has the same names after it, in the blocks that it had; more blocks
//! are taken where these do not suffice, and none is given back: leaves share what there is.
use crate::directories::{Directory, Kept};
use crate::draft::{Draft, Result};
use extant_format::directory::{IndexPlace, Style, stored::is_dots};
use extant_format::hash::{Hasher, NameHash};
use extant_format::inode::flags;
use extant_format::superblock::Feature;
use extant_format::{FileBlock, Ino};
use std::collections::BinaryHeap;
use std::ops::Range;

/// Set in a key: the leaf begins with a name that has the hash of the last one in the leaf before.
const CONTINUED: u32 = 1;

/// How many blocks each level has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    nodes: usize,
    leaves: usize,
}

/// Gives a directory that has lost its index another one. Gives whether it has one now; one that
/// needs none stays as it is, and one that is too large for two levels.
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
    let mut entries = directory.all_entries(draft)?;
    let parent = entries.iter().find(|entry| entry.name == b"..").map(|entry| entry.ino);
    entries.retain(|entry| !is_dots(&entry.name));
    let hasher = Hasher::of(&draft.superblock);
    let mut keyed: Vec<(NameHash, Kept)> =
        entries.into_iter().map(|entry| (hasher.hash(&entry.name), entry)).collect();
    keyed.sort_by_key(|(hash, _)| *hash);
    let style = directory.style;
    let filled = full_leaves(&keyed, style);
    let blocks = directory.blocks();
    if blocks.len() < 2 || blocks.iter().zip(0..).any(|((at, _), expected)| *at != expected) {
        return Ok(false);
    }
    let mut count = blocks.len();
    let shape = loop {
        let fitting = shape(count, style);
        let Some(next) = fitting.or_else(|| shape(count + 1, style)) else { return Ok(false) };
        if next.leaves > keyed.len() {
            // Blocks without names: an index has no key for them.
            return Ok(false);
        }
        if let Some(shape) = fitting.filter(|shape| shape.leaves >= filled.len()) {
            break shape;
        }
        if !directory.lengthen(draft)? {
            return Ok(false);
        }
        count += 1;
    };
    let leaves = shared_out(filled, shape.leaves, &keyed, style);
    if leaves.len() != shape.leaves {
        return Ok(false);
    }
    directory.inode.flags |= flags::INDEX;
    draft.write_inode(ino, &directory.inode)?;
    let plan = Plan { style, shape, keys: keys(&leaves, &keyed), leaves, keyed };
    for (at, block) in directory.blocks() {
        let mut bytes = vec![0; draft.block_size()];
        match usize::try_from(at).unwrap_or(usize::MAX) {
            0 => {
                style.initialize_root(
                    &mut bytes,
                    ino,
                    parent.unwrap_or(Ino::ROOT),
                    hasher.version,
                    FileBlock(1),
                );
                style.set_index(&mut bytes, IndexPlace::Root, &plan.in_root());
                style.set_levels(&mut bytes, u8::from(shape.nodes > 0));
            }
            number => plan.fill(number, &mut bytes),
        }
        directory.seal_and_write(draft, at, block, &mut bytes)?;
    }
    Ok(true)
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

/// What so many blocks are for; `None` where two levels have no room for them, or where a node
/// would lead to no leaf: then one block more is right.
fn shape(blocks: usize, style: Style) -> Option<Shape> {
    let [root, node] = [IndexPlace::Root, IndexPlace::Node].map(|at| style.index_capacity(at));
    let below = blocks.checked_sub(1)?;
    let nodes = match below <= root {
        true => 0,
        false => below.div_ceil(node + 1),
    };
    let leaves = below - nodes;
    let is_filled = nodes == 0 || leaves > (nodes - 1) * node && leaves <= nodes * node;
    (nodes <= root && is_filled).then_some(Shape { nodes, leaves })
}

/// The fewest leaves that have room for all names, in the order of their hashes.
fn full_leaves(keyed: &[(NameHash, Kept)], style: Style) -> Vec<Range<usize>> {
    let (mut leaves, mut start, mut used) = (Vec::new(), 0, 0);
    for (at, (_, entry)) in keyed.iter().enumerate() {
        let size = style.entry_size(entry.name.len());
        if used + size > style.leaf_capacity() {
            leaves.push(start..at);
            (start, used) = (at, 0);
        }
        used += size;
    }
    leaves.push(start..keyed.len());
    leaves
}

/// The names of so many leaves: the fullest are halved until there are as many.
fn shared_out(
    leaves: Vec<Range<usize>>,
    count: usize,
    keyed: &[(NameHash, Kept)],
    style: Style,
) -> Vec<Range<usize>> {
    let bytes_of = |leaf: &Range<usize>| {
        let names = keyed.get(leaf.clone()).unwrap_or_default().iter();
        names.map(|(_, entry)| style.entry_size(entry.name.len())).sum::<usize>()
    };
    let row = |leaf: Range<usize>| (leaf.len() > 1, bytes_of(&leaf), leaf.start, leaf.end);
    let mut heap: BinaryHeap<_> = leaves.into_iter().map(row).collect();
    while heap.len() < count {
        let Some((true, bytes, start, end)) = heap.pop() else { break };
        let (mut middle, mut before) = (start, 0);
        while middle + 1 < end && (middle == start || before < bytes / 2) {
            before += keyed.get(middle).map_or(0, |(_, it)| style.entry_size(it.name.len()));
            middle += 1;
        }
        heap.push(row(start..middle));
        heap.push(row(middle..end));
    }
    let mut leaves: Vec<Range<usize>> =
        heap.into_iter().map(|(.., start, end)| start..end).collect();
    leaves.sort_by_key(|leaf| leaf.start);
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
            let mut before = true;
            for blocks in 2..20_000.min(root * (node + 1)) {
                let Some(Shape { nodes, leaves }) = shape(blocks, style) else {
                    assert!(before, "{block_size} {checksummed}: {blocks} has no shape, too");
                    before = false;
                    continue;
                };
                before = true;
                assert_eq!(1 + nodes + leaves, blocks);
                match nodes {
                    0 => assert!(leaves <= root),
                    _ => assert_eq!(leaves.div_ceil(node), nodes, "{block_size}: {blocks}"),
                }
            }
            assert_eq!(shape(root * (node + 1) + 2, style), None);
        }
    }
}
