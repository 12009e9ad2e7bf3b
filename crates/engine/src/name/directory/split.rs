//! How an indexed directory grows: the first block becomes an index, leaves split, nodes split, a
//! level is added.
//!
//! Each step leaves a consistent directory, so that an error in a later one loses nothing. New
//! blocks are written before anything points to them.
use super::hashed::{CONTINUED, Path, SplitNeed, Step};
use super::{Directory, Form, NewEntry, append, is_dot, kind};
use crate::error::{ErrorKind, Result};
use crate::inode::operation::Operation;
use crate::inode::{self, NodeState};
use crate::space::Reservation;
use crate::store::cache::Frame;
use extant_format::directory::{Entry, IndexPlace, IndexView, NAME_MAX, Style};
use extant_format::inode::{FileType, flags};
use extant_format::{Fault, FileBlock, Ino};
use std::sync::Arc;

/// How many blocks inserting a name may add to an indexed directory.
pub(super) fn need(directory: Directory<'_>, name: &[u8]) -> Result<u32> {
    let (_, path) = Path::to_name(directory, name)?;
    let leaf = path.leaf(directory)?;
    need_on(directory, &path, &leaf, name)
}

/// The same for a name whose way is known: the path to its leaf, and the leaf.
pub(super) fn need_on(
    directory: Directory<'_>,
    path: &Path,
    leaf: &Frame,
    name: &[u8],
) -> Result<u32> {
    if has_room(directory, leaf, name)? {
        return Ok(0);
    }
    match path.split_need(directory)? {
        SplitNeed::Leaf => Ok(1),
        SplitNeed::LeafAndNode => Ok(2),
        SplitNeed::LeafAndTwoNodes => Ok(3),
        SplitNeed::Impossible => Err(ErrorKind::DirectoryFull.into()),
    }
}

/// Inserts a name into an indexed directory. One split makes room for any name; the second attempt
/// uses it.
pub(super) fn insert(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    entry: &NewEntry<'_>,
) -> Result<()> {
    let volume = operation.volume();
    for _ in 0..3 {
        let directory = Directory { volume, node };
        let (_, path) = Path::to_name(directory, entry.name)?;
        let leaf = path.leaf(directory)?;
        if has_room(directory, &leaf, entry.name)? {
            return directory.insert_into(operation, &leaf, entry);
        }
        split_leaf(operation, reservation, node, path, &leaf)?;
    }
    Err(ErrorKind::DirectoryFull.into())
}

fn has_room(directory: Directory<'_>, leaf: &Frame, name: &[u8]) -> Result<bool> {
    let room = directory.volume.store.style.has_room(&leaf.bytes(), name.len());
    room.map_err(|fault| directory.corrupt(leaf, fault))
}

/// Turns a directory of one block into an indexed one: its names move to a leaf, and an index root
/// replaces them.
pub(super) fn convert(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
) -> Result<()> {
    let (volume, style) = (operation.volume(), operation.volume().store.style);
    let directory = Directory { volume, node };
    let first = directory.read(FileBlock(0))?;
    let Some((_, parent)) = directory.find_in(&first, b"..")? else {
        return Err(directory.field(&first, "directory", "block", 0, "without an entry \"..\""));
    };
    let bytes = first.bytes();
    let names = names(directory, &first, &bytes)?;
    let (leaf, _) = append(operation, reservation, node, Form::Indexed, |bytes| {
        style.pack(bytes, names.iter().map(Name::as_entry));
    })?;
    node.inode.flags |= flags::INDEX;
    let (ino, hash) = (node.ino, volume.store.hasher.version);
    // The block is rewritten last: until then it still has all names on disk.
    operation.rewrite(&first, kind(node, FileBlock(0), Form::Indexed), |bytes| {
        style.initialize_root(bytes, ino, parent.ino, hash, leaf);
    });
    Ok(())
}

/// A name of a block that is being split.
struct Name<'a> {
    name: &'a [u8],
    ino: Ino,
    file_type: FileType,
    hash: u32,
}

impl Name<'_> {
    fn as_entry(&self) -> (&[u8], Ino, FileType) {
        (self.name, self.ino, self.file_type)
    }
}

/// The names of a block except "." and "..", in their order in the block. They are known to fit
/// into a leaf.
fn names<'b>(directory: Directory<'_>, frame: &Frame, bytes: &'b [u8]) -> Result<Vec<Name<'b>>> {
    let style = directory.volume.store.style;
    let (mut names, mut size) = (Vec::new(), 0);
    for entry in style.entries(bytes) {
        let entry = entry.map_err(|fault| directory.corrupt(frame, fault))?;
        if is_dot(entry.name) {
            continue;
        }
        let ino = directory.found(frame, &entry)?.ino;
        size += style.entry_size(entry.name.len());
        names.push(Name {
            name: entry.name,
            ino,
            file_type: file_type(directory, &entry),
            hash: 0,
        });
    }
    if size > style.leaf_capacity() {
        return Err(directory.field(
            frame,
            "directory block",
            "size of names",
            size as u32,
            "more than fit before its tail",
        ));
    }
    Ok(names)
}

/// The type of an entry that moves. Entries from before the volume had filetype have none: the
/// inode does.
fn file_type(directory: Directory<'_>, entry: &Entry<'_>) -> FileType {
    let volume = directory.volume;
    if !volume.store.style.typed {
        return FileType::Regular; // not stored
    }
    let of_inode = || inode::load(volume, entry.ino).ok().and_then(|inode| inode.file_type());
    entry.file_type.or_else(of_inode).unwrap_or(FileType::Regular)
}

/// Where a leaf is split: names from `at` on move to a new leaf, whose key in the index is `hash`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cut {
    pub(super) at: usize,
    pub(super) hash: u32,
}

/// Splits names, given as (hash, size) in the order of their hashes, near the middle by size, and
/// between different hashes if that leaves room for the longest name on both sides. `None` for
/// fewer than two names.
pub(super) fn choose_cut(
    style: Style,
    names: impl Iterator<Item = (u32, usize)> + Clone,
) -> Option<Cut> {
    let total: usize = names.clone().map(|(_, size)| size).sum();
    let largest = style.leaf_capacity() - style.entry_size(NAME_MAX);
    let (mut before, mut last) = (0, None);
    let mut best: Option<(bool, usize, Cut)> = None;
    for (at, (hash, size)) in names.enumerate() {
        if let Some(last) = last {
            let continued = last == hash;
            let half = before.max(total - before);
            let bad = continued || half > largest;
            let hash = if continued { hash | CONTINUED } else { hash };
            if best.is_none_or(|(best_bad, best_half, _)| (bad, half) < (best_bad, best_half)) {
                best = Some((bad, half, Cut { at, hash }));
            }
        }
        before += size;
        last = Some(hash);
    }
    best.map(|(_, _, cut)| cut)
}

fn split_leaf(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    mut path: Path,
    leaf: &Arc<Frame>,
) -> Result<()> {
    let (volume, style) = (operation.volume(), operation.volume().store.style);
    let directory = Directory { volume, node };
    let bytes = leaf.bytes();
    let mut names = names(directory, leaf, &bytes)?;
    for name in &mut names {
        name.hash = path.hasher.hash(name.name).major;
    }
    names.sort_by_key(|name| name.hash);
    let sizes = names.iter().map(|name| (name.hash, style.entry_size(name.name.len())));
    let Some(cut) = choose_cut(style, sizes) else {
        // A full leaf with at most one name is damaged.
        return Err(directory.field(
            leaf,
            "directory block",
            "number of names",
            names.len() as u32,
            "too few to fill it",
        ));
    };
    make_room(operation, reservation, node, &mut path)?;
    let (left, right) = names.split_at(cut.at);
    let (block, _) = append(operation, reservation, node, Form::Indexed, |bytes| {
        style.pack(bytes, right.iter().map(Name::as_entry));
    })?;
    let directory = Directory { volume, node };
    let parent = path.parent();
    insert_entry(directory, operation, parent, parent.at + 1, cut.hash, block)?;
    operation.modify(leaf, |bytes| style.pack(bytes, left.iter().map(Name::as_entry)));
    Ok(())
}

/// Makes room for an entry in the index block above the leaf.
fn make_room(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    path: &mut Path,
) -> Result<()> {
    match path.split_need(Directory { volume: operation.volume(), node })? {
        SplitNeed::Leaf => Ok(()),
        SplitNeed::Impossible => Err(ErrorKind::DirectoryFull.into()),
        SplitNeed::LeafAndNode => match &mut path.node {
            Some(below) => {
                let above = path.middle.as_mut().unwrap_or(&mut path.root);
                split_node(operation, reservation, node, below, above)
            }
            None => {
                path.node = Some(add_level(operation, reservation, node, &mut path.root, 1)?);
                Ok(())
            }
        },
        SplitNeed::LeafAndTwoNodes => {
            match &mut path.middle {
                Some(middle) => {
                    split_node(operation, reservation, node, middle, &mut path.root)?;
                }
                None => {
                    let middle = add_level(operation, reservation, node, &mut path.root, 2)?;
                    path.middle = Some(middle);
                }
            }
            let (Some(below), Some(middle)) = (&mut path.node, &mut path.middle) else {
                return Ok(());
            };
            split_node(operation, reservation, node, below, middle)
        }
    }
}

/// Appends a node with these entries to the directory.
fn append_node(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    entries: &[(u32, FileBlock)],
) -> Result<Step> {
    let style = operation.volume().store.style;
    let (block, frame) = append(operation, reservation, node, Form::Indexed, |bytes| {
        style.initialize_node(bytes);
        style.set_index(bytes, IndexPlace::Node, entries);
    })?;
    Ok(Step { frame, block, place: IndexPlace::Node, at: 0 })
}

fn all(view: IndexView<'_>) -> Vec<(u32, FileBlock)> {
    (0..view.len()).map(|at| view.get(at)).collect()
}

/// Moves the root's entries to a new node, which has room for more: the index has `levels` below
/// the root then.
fn add_level(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    root: &mut Step,
    levels: u8,
) -> Result<Step> {
    let (volume, style) = (operation.volume(), operation.volume().store.style);
    let entries = root.view(Directory { volume, node }, all)?;
    let mut below = append_node(operation, reservation, node, &entries)?;
    operation.modify(&root.frame, |bytes| {
        style.set_index(bytes, IndexPlace::Root, &[(0, below.block)]);
        style.set_levels(bytes, levels);
    });
    below.at = std::mem::take(&mut root.at);
    Ok(below)
}

/// Moves the second half of a node's entries to a new node, whose entry is put into the index block
/// above it, which has room.
fn split_node(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    below: &mut Step,
    above: &mut Step,
) -> Result<()> {
    let (volume, style) = (operation.volume(), operation.volume().store.style);
    let entries = below.view(Directory { volume, node }, all)?;
    let (left, right) = entries.split_at(entries.len() / 2);
    let (Some(&(hash, _)), false) = (right.first(), left.is_empty()) else {
        return Ok(());
    };
    let mut right_half = append_node(operation, reservation, node, right)?;
    let directory = Directory { volume, node };
    insert_entry(directory, operation, above, above.at + 1, hash, right_half.block)?;
    operation.modify(&below.frame, |bytes| style.set_index(bytes, IndexPlace::Node, left));
    if below.at >= left.len() {
        right_half.at = below.at - left.len();
        *below = right_half;
        above.at += 1;
    }
    Ok(())
}

/// Inserts an entry into an index block with room. Checks again what was found before, because a
/// block that two inodes share may have changed.
fn insert_entry(
    directory: Directory<'_>,
    operation: &Operation<'_>,
    step: &Step,
    at: usize,
    hash: u32,
    child: FileBlock,
) -> Result<()> {
    let style = directory.volume.store.style;
    let inserted = operation.modify(&step.frame, |bytes| -> std::result::Result<bool, Fault> {
        let view = match step.place {
            IndexPlace::Root => style.root(bytes)?.1,
            IndexPlace::Node => style.node(bytes)?,
        };
        let fits = (1..=view.len()).contains(&at) && view.len() < style.index_capacity(step.place);
        if fits {
            style.insert_index(bytes, step.place, at, hash, child);
        }
        Ok(fits)
    });
    directory.expect_done(&step.frame, inserted)
}
