//! Pass 4: whether inodes count as many links as there are.
//!
//! *Invariants*: runs on one thread, over inodes in rising order.
//! *Locking*: none.
use super::codes::Code;
use super::problem::{Pass, Problem};
use super::state::{Facts, State};
use crate::error::Error;
use extant_format::Ino;
use std::sync::Arc;

/// Links beyond which a directory says 1: it has many.
const LINKS_MAX: u32 = 65_000;

/// Judges the links of all inodes, unless names may be missing that lie in what could not be read.
///
/// # Errors
/// When the device fails.
pub(crate) fn run(state: &Arc<State>) -> Result<(), Error> {
    state.meter.begin(Pass::Links, 0, &*state.clock);
    let stops = [Code::DirectoryChain, Code::RootMissing, Code::RootNotDirectory];
    if stops.into_iter().any(|code| state.problems.count(code) > 0) {
        return Ok(());
    }
    let values = state.sharers.values();
    for (ino, facts) in state.inodes.used() {
        if ino != Ino::ROOT && !state.volume.superblock().is_usable(ino) {
            continue;
        }
        if facts.links() == 0 || facts.is_reserved() {
            // On the list of orphans; or a file of the system: a quota, the list of orphans itself.
            continue;
        }
        if facts.is_attribute_inode() {
            judge_value(state, ino, facts, &values)?;
        } else {
            judge(state, ino, facts);
        }
    }
    Ok(())
}

fn judge(state: &State, ino: Ino, facts: Facts) {
    let counted = facts.counted();
    if counted == 0 {
        state.tell(Problem::new(Code::InodeUnattached).ino(ino));
        return;
    }
    let expected = if facts.is_directory() && counted > LINKS_MAX { 1 } else { counted };
    if u32::from(facts.links()) != expected {
        let problem = Problem::new(Code::LinkCount).ino(ino);
        state.tell(problem.found(facts.links()).expected(expected));
    }
}

/// Judges an inode that is the value of attributes: it keeps their number where others keep the
/// time of change (the high half) and the version (the low half).
fn judge_value(state: &State, ino: Ino, facts: Facts, values: &[Ino]) -> Result<(), Error> {
    let from = values.partition_point(|value| *value < ino);
    let counted = values.get(from..).unwrap_or_default().iter().take_while(|value| **value == ino);
    let counted = counted.count() as u64;
    if counted == 0 {
        state.tell(Problem::new(Code::InodeUnattached).ino(ino));
        return Ok(());
    }
    if facts.links() != 1 {
        let problem = Problem::new(Code::LinkCount).ino(ino);
        state.tell(problem.found(facts.links()).expected(1_u64));
    }
    let inode = match state.volume.inode(ino) {
        Ok(inode) => inode,
        Err(Error::Device(error)) => return Err(error.into()),
        Err(_) => return Ok(()),
    };
    let high = (inode.change_time.seconds & 0xffff_ffff).cast_unsigned();
    let stored = high << 32 | inode.version & 0xffff_ffff;
    if stored != counted {
        let problem = Problem::new(Code::ValueReferences).ino(ino);
        state.tell(problem.found(stored).expected(counted));
    }
    Ok(())
}
