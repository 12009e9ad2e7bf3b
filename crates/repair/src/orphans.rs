//! Writes the file of orphans anew, as one that names none: those that it named were freed before,
//! as far as it could be read, and others are found by their count of links.
//!
//! The number of the file may be what is damaged: a file of which no block is one of orphans is
//! left as it is, and the feature goes.
use crate::draft::{Draft, Result};
use crate::map;
use extant_format::BlockNo;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::orphan_file::{initialize, orphans};
use extant_format::superblock::Feature;
use extant_inspect::{Code, Problem};

/// Mends the file of orphans. Gives whether it did; a file that cannot be one goes, with the
/// feature.
///
/// # Errors
/// The device's.
pub(crate) fn mend(draft: &mut Draft, problem: &Problem) -> Result<bool> {
    let Some(ino) = problem.ino.filter(|_| problem.code == Code::OrphanFile) else {
        return Ok(false);
    };
    draft.superblock.features.clear(Feature::ORPHAN_PRESENT);
    let inode = draft.inode(ino)?.filter(|inode| {
        inode.file_type() == Some(FileType::Regular)
            && inode.links > 0
            && inode.flags & flags::INLINE_DATA == 0
    });
    let block_size = draft.block_size();
    let mut blocks: Vec<BlockNo> = Vec::new();
    if let Some(inode) = &inode {
        for run in map::read(draft, inode)?.runs {
            // Of a file with a hole it is not known what is missing.
            if run.file_block != blocks.len() as u64 {
                break;
            }
            blocks.extend((0..run.length).map(|at| BlockNo(run.start.saturating_add(at))));
        }
    }
    let size = (blocks.len() as u64).saturating_mul(block_size as u64);
    let is_whole =
        |inode: &Inode| size > 0 && inode.size.div_ceil(block_size as u64) == blocks.len() as u64;
    let is_sound = |inode: &Inode, block: BlockNo| {
        let bytes = draft.read(block).ok().flatten().unwrap_or_default();
        orphans(&bytes, block, draft.seed(ino, inode), &draft.superblock).is_some()
    };
    let of_orphans =
        inode.filter(|inode| is_whole(inode) && blocks.iter().any(|block| is_sound(inode, *block)));
    match of_orphans {
        Some(mut inode) => {
            let seed = draft.seed(ino, &inode);
            for block in blocks {
                let mut bytes = vec![0; block_size];
                initialize(&mut bytes, block, seed, &draft.superblock);
                draft.write(block, &bytes)?;
            }
            inode.size = size;
            draft.write_inode(ino, &inode)?;
        }
        None => {
            draft.superblock.features.clear(Feature::ORPHAN_FILE);
            draft.superblock.orphan_file_inode = 0;
            // Whatever else it may be is found by itself.
        }
    }
    draft.write_superblock()?;
    Ok(true)
}
