//! Pass 2 after a repair, where blocks of directories differ from what the check before read:
//! what their entries were counted for is withdrawn, and they are judged anew.
//!
//! *Invariants*: what entries of all other blocks point to is what it was; counts and the tree are
//! those of a whole pass where the answer says so, and of no use else.
//! *Locking*: none here; one thread runs.
use super::piece::Piece;
use super::tree::Tree;
use super::twice::{self, Notes};
use super::{DirectoryPass, Memory, note_names, place};
use crate::check::facts::{DirectoryBlock, Facts};
use crate::check::problem::Problem;
use crate::check::reader::Reader;
use crate::check::rule::Pass;
use crate::error::Error;
use extant_block::ShortLock;
use extant_format::Ino;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// A block of a directory that was written since: its number in the tree, and its bytes before.
pub(crate) type Rewritten<'a> = (usize, &'a [u8]);

/// Judges the blocks of a tree that were written. Gives whether counts, tree and problems are now
/// those of a whole pass: not so if which directory is in which has changed or is in doubt, a hash
/// index has changed, or anything was or is wrong with entries of other blocks, or of these now.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(
    facts: &Arc<Facts>,
    tree: &Arc<Tree>,
    rewritten: &[Rewritten<'_>],
    earlier: &[Problem],
) -> Result<bool, Error> {
    let blocks =
        rewritten.iter().filter_map(|(at, before)| Some((*at, tree.blocks.get(*at)?, *before)));
    let blocks: Vec<(usize, &DirectoryBlock, &[u8])> = blocks.collect();
    let is_followed = |problem: &Problem| {
        let is_of = |block: &DirectoryBlock| {
            problem.ino == Some(block.ino) && problem.file_block == Some(block.file_block.into())
        };
        problem.rule().pass != Pass::Directories || blocks.iter().any(|(_, block, _)| is_of(block))
    };
    let is_indexed = |block: &DirectoryBlock| facts.inodes.get(block.ino).is_indexed();
    if blocks.iter().any(|(_, block, _)| is_indexed(block))
        || !tree.linked_twice().is_empty()
        || !earlier.iter().all(is_followed)
    {
        return Ok(false);
    }
    let directories: FxHashSet<Ino> = blocks.iter().map(|(_, block, _)| block.ino).collect();
    let own = tree.blocks.iter().filter(|block| directories.contains(&block.ino));
    let own: Vec<DirectoryBlock> = own.copied().collect();
    facts.begin(Pass::Directories, (own.len() * facts.volume.block_size()) as u64);
    let pass = DirectoryPass {
        facts: Arc::clone(facts),
        tree: Arc::clone(tree),
        batches: Vec::new(),
        index: ShortLock::default(),
        notes: Notes::of(facts, &own),
    };
    let (mut memory, mut reader) = (Memory::default(), Reader::default());
    let (mut were_in, mut are_in) = (Vec::new(), Vec::new());
    for (at, block, before) in blocks {
        let number = tree.place_of_block(at);
        let piece = Piece::new(facts, tree, block.ino, block.file_block, number);
        piece.each_target(before, &mut |ino, is_below| {
            facts.inodes.uncount_link(ino);
            were_in.extend(is_below.then_some((number, ino)));
        });
        reader.read(facts, "directory", std::slice::from_ref(block), place)?;
        memory.judge(&pass, block, number, reader.item(0));
        piece.each_target(reader.item(0), &mut |ino, is_below| {
            are_in.extend(is_below.then_some((number, ino)));
        });
    }
    if facts.problems.any_of(Pass::Directories) || were_in != are_in {
        return Ok(false);
    }
    were_in.iter().for_each(|(_, ino)| tree.remove_entry(*ino));
    judge_names(&pass, &own)?;
    Ok(true)
}

/// Judges the names that are in two of these blocks.
fn judge_names(pass: &DirectoryPass, own: &[DirectoryBlock]) -> Result<(), Error> {
    let (mut names, mut reader) = (Vec::new(), Reader::default());
    for block in own.iter().filter(|block| pass.notes.wants(block.ino)) {
        reader.read(&pass.facts, "directory", std::slice::from_ref(block), place)?;
        note_names(&pass.facts, block, reader.item(0), &mut names);
    }
    pass.notes.append(&mut names);
    twice::judge(&pass.facts, &pass.tree, &pass.notes)
}
