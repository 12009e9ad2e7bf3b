//! Pass 1b: which files have the blocks that were claimed more than once.
//!
//! All maps are walked once more, in the order of inodes and by one thread, so that what is found
//! does not depend on which claim came first. The claimant of this pass, [`Searching`], claims and
//! reports nothing: it collects the owners of double blocks.
use super::inodes::{self, InodeTables};
use crate::check::codes::Code;
use crate::check::facts::Facts;
use crate::check::maps::{Owner, Searching};
use crate::check::problem::Problem;
use crate::check::rule::Pass;
use crate::error::Error;
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino};
use std::collections::BTreeMap;

/// Runs the pass.
///
/// # Errors
/// When the device fails.
pub(crate) fn run(facts: &Facts, tables: &InodeTables) -> Result<(), Error> {
    if facts.volume.superblock().has(Feature::SHARED_BLOCKS) {
        // Files share blocks on purpose.
        return Ok(());
    }
    let bytes = facts.volume.superblock().inode_size;
    let inodes: u64 = facts.groups.iter().map(|group| u64::from(group.inodes_used)).sum();
    facts.begin(Pass::Duplicates, inodes * u64::from(bytes));
    let searching = Searching::new(facts);
    inodes::walk_again(&searching, tables)?;
    for sharer in facts.attributes.sorted().into_iter().chain(facts.attributes.translators()) {
        searching.add_if_double(sharer.block, sharer.ino);
    }
    report(facts, &searching.owners());
    Ok(())
}

/// What is reported of one inode.
#[derive(Default)]
struct Shared {
    count: u64,
    /// The first block, and another inode that has it.
    first: Option<(BlockNo, Option<Ino>)>,
}

/// One problem for each inode and for each kind of owner that it shares blocks with: metadata,
/// itself, another inode. `owners` are sorted by block.
fn report(facts: &Facts, owners: &[Owner]) {
    let mut shared: BTreeMap<(Ino, Code), Shared> = BTreeMap::new();
    for owners in owners.chunk_by(|a, b| a.0 == b.0) {
        let Some(block) = owners.first().map(|owner| owner.0) else {
            continue;
        };
        // Of a cluster the first block stands for all.
        let is_metadata = facts.metadata.overlaps(block, facts.volume.cluster_blocks().into());
        for (index, (_, ino)) in owners.iter().enumerate() {
            let other = owners.iter().map(|owner| owner.1).find(|other| other != ino);
            let again = index > 0 && owners.get(index - 1).is_some_and(|before| before.1 == *ino);
            let code = match other {
                _ if is_metadata => Code::BlocksOfMetadata,
                _ if again => Code::BlocksTwiceInFile,
                Some(_) => Code::BlocksOfOther,
                None => continue,
            };
            let shared = shared.entry((*ino, code)).or_default();
            shared.count += 1;
            shared.first.get_or_insert((block, other));
        }
    }
    for ((ino, code), shared) in shared {
        let Some((block, other)) = shared.first else { continue };
        let problem = Problem::new(code).ino(ino).block(block).found(shared.count);
        facts.report(match other {
            Some(other) if code == Code::BlocksOfOther => problem.other(other),
            _ => problem,
        });
    }
}
