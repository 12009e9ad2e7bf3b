//! `packed`: for an image that is made in one go: one block behind the other, in the order in which
//! they are asked for.
//!
//! Two cursors go up through the volume: one for directories, maps and attributes, one for file
//! data. Where they start at the same block they are one cursor, and a file's map lies just before
//! its data: that is what the name `packed` alone gives, for it knows nothing of the volume. Who
//! knows how much metadata there will be gives the two a region each ([`packed_from`]): then all
//! that a walk of the tree reads lies together at the front. A cursor that runs into what the other
//! has filled goes on behind it: no block is lost, and no region can overflow.
//!
//! Blocks that are freed behind a cursor are found again when it comes round.
use super::{Allocation, AllocationFacts, Delay, Plan, Purpose, Search};
use extant_format::{BlockNo, Run};
use std::sync::atomic::{AtomicU64, Ordering};

/// The policy, with its cursors: the next block of each kind. They are goals only; two threads that
/// read the same one are told apart by the bitmap.
#[derive(Debug, Default)]
pub struct Packed {
    metadata: AtomicU64,
    /// `None`: data goes with the metadata.
    data: Option<AtomicU64>,
}

/// `packed`, with metadata of files from `metadata_start` on and their data from `data_start` on;
/// one cursor for both when these are equal.
pub fn packed_from(metadata_start: BlockNo, data_start: BlockNo) -> Packed {
    let data = (metadata_start != data_start).then(|| AtomicU64::new(data_start.0));
    Packed { metadata: AtomicU64::new(metadata_start.0), data }
}

impl Packed {
    fn cursor(&self, purpose: Purpose) -> &AtomicU64 {
        match (&self.data, purpose) {
            (Some(data), Purpose::Data) => data,
            _ => &self.metadata,
        }
    }
}

impl Allocation for Packed {
    fn plan(&self, facts: &AllocationFacts) -> Plan {
        let goal = BlockNo(self.cursor(facts.purpose).load(Ordering::Relaxed));
        Plan { goal, length: facts.want.max(1), search: Search::Sequential }
    }
    fn given(&self, facts: &AllocationFacts, run: Run) {
        let end = run.start.0.saturating_add(run.length.into());
        self.cursor(facts.purpose).store(end, Ordering::Relaxed);
    }
    fn delayed(&self) -> Delay {
        Delay::AtWriteBack
    }
}
