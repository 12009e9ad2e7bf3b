//! Whether a volume has room for its journal, in mke2fs's judgement: a volume of fewer than 2048
//! blocks gets none, whatever is asked for, and one whose size is asked for takes half at most.
use super::decide::Decision;
use super::words::Refusal;
use extant_engine::mkfs::{self, JournalWish};
use extant_format::journal::default_blocks;
use extant_format::layout::Layout;
use extant_format::superblock::Feature;

/// Takes the journal from a decision whose volume is too small for one, and with it the orphan
/// file, which needs a journal. What -O says of a journal stays, for the warning.
///
/// # Errors
/// A journal whose size is asked for and is more than half of the blocks.
pub(super) fn fit(decision: &mut Decision) -> Result<(), Refusal> {
    let options = &mut decision.options;
    let is_elsewhere = matches!(options.journal, JournalWish::External(_));
    if is_elsewhere || options.wishes.features.has(Feature::JOURNAL_DEV) {
        return Ok(());
    }
    // What the volume is without a journal; mistakes in other options are named when it is planned.
    let mut without = options.clone();
    without.journal = JournalWish::None;
    without.wishes.features.clear(Feature::ORPHAN_FILE);
    let Ok((layout, _)) = mkfs::plan(&without) else { return Ok(()) };
    if default_blocks(layout.superblock.blocks_count) == 0 {
        options.journal = JournalWish::None;
        options.fast_commit_blocks = 0;
        options.wishes.features.clear(Feature::ORPHAN_FILE);
        return Ok(());
    }
    let fast_commits = match options.wishes.features.has(Feature::FAST_COMMIT) {
        false => 0,
        true if options.fast_commit_blocks > 0 => options.fast_commit_blocks,
        true => default_blocks(layout.superblock.blocks_count) / 64,
    };
    match options.journal {
        JournalWish::Blocks(blocks)
            if u64::from(blocks) + u64::from(fast_commits) > room(&layout) / 2 =>
        {
            Err(Refusal::Line("Total journal size too big for filesystem.".to_owned()))
        }
        _ => Ok(()),
    }
}

/// The blocks of which a journal may have half: those that are free, and with flex_bg those of
/// bitmaps and inode tables too, which mke2fs has not placed yet when it looks.
fn room(layout: &Layout) -> u64 {
    let superblock = &layout.superblock;
    let groups = layout.descriptors.len() as u64;
    let tables = groups * (2 + u64::from(superblock.inode_table_blocks()));
    match superblock.has(Feature::FLEX_BG) {
        true => superblock.free_blocks + tables,
        false => superblock.free_blocks,
    }
}
