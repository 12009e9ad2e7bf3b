//! Pass 4: whether inodes count as many links as there are.
//!
//! *Invariants*: runs on one thread, over inodes in rising order.
//! *Locking*: none.
use crate::check::codes::Code;
use crate::check::facts::{Facts, InodeFacts};
use crate::check::problem::Problem;
use crate::check::rule::Pass;
use crate::error::Error;
use extant_format::Ino;
use extant_format::inode::LINKS_MAX;

/// Judges the links of all inodes, unless names may be missing that are in what could not be read.
///
/// # Errors
/// When the device fails.
pub(crate) fn run(facts: &Facts) -> Result<(), Error> {
    facts.begin(Pass::Links, 0);
    let stops = [Code::DirectoryChain, Code::RootMissing, Code::RootNotDirectory];
    if stops.into_iter().any(|code| facts.problems.count(code) > 0) {
        return Ok(());
    }
    let values = facts.attributes.values();
    for (ino, known) in facts.inodes.used() {
        if ino != Ino::ROOT && !facts.volume.superblock().is_usable(ino) {
            continue;
        }
        if known.links() == 0 || known.is_reserved() {
            // On the list of orphans; or a file of the system: a quota, the list of orphans itself.
            continue;
        }
        if known.is_attribute_inode() {
            judge_value(facts, ino, known, &values)?;
        } else {
            judge(facts, ino, known);
        }
    }
    Ok(())
}

fn judge(facts: &Facts, ino: Ino, known: InodeFacts) {
    let counted = known.counted();
    if counted == 0 {
        facts.report(Problem::new(Code::InodeUnattached).ino(ino));
        return;
    }
    let expected = if known.is_directory() && counted > LINKS_MAX.into() { 1 } else { counted };
    if u32::from(known.links()) != expected {
        let problem = Problem::new(Code::LinkCount).ino(ino);
        facts.report(problem.found(known.links()).expected(expected));
    }
}

/// Judges an inode that is the value of attributes: it keeps their number where others keep the
/// time of change (the high half) and the version (the low half).
fn judge_value(facts: &Facts, ino: Ino, known: InodeFacts, values: &[Ino]) -> Result<(), Error> {
    let from = values.partition_point(|value| *value < ino);
    let counted = values.get(from..).unwrap_or_default().iter().take_while(|value| **value == ino);
    let counted = counted.count() as u64;
    if counted == 0 {
        facts.report(Problem::new(Code::InodeUnattached).ino(ino));
        return Ok(());
    }
    if known.links() != 1 {
        let problem = Problem::new(Code::LinkCount).ino(ino);
        facts.report(problem.found(known.links()).expected(1_u64));
    }
    let inode = match facts.volume.inode(ino) {
        Ok(inode) => inode,
        Err(Error::Device(error)) => return Err(error.into()),
        Err(_) => return Ok(()),
    };
    let high = u64::from(inode.change_time.seconds as u32);
    let stored = high << 32 | u64::from(inode.version as u32);
    if stored != counted {
        let problem = Problem::new(Code::ValueReferences).ino(ino);
        facts.report(problem.found(stored).expected(counted));
    }
    Ok(())
}
