//! `packed`: for an image that is made in one go: one block after the other, in the order of the
//! requests.
//!
//! Two cursors move up through the volume: one for directories, maps and attributes, one for file
//! data. If they start at the same block they are one cursor, and a file's map is just before its
//! data: this is what the name `packed` alone means, since it knows nothing of the volume. A caller
//! that knows how much metadata there will be gives each a region of its own ([`packed_from`]);
//! then everything that a walk of the tree reads is together at the front. A cursor that reaches
//! what the other has filled continues after it: no block is lost, and no region can overflow.
//!
//! Blocks that are freed before a cursor are found again when it wraps around.
use super::{Allocation, AllocationFacts, AllocationPlan, Delay, Purpose, Search};
use extant_format::{BlockNo, Run};
use std::sync::atomic::{AtomicU64, Ordering};

/// The policy with its cursors: the next block of each kind. They are only goals: if two threads
/// read the same one, the bitmap decides.
#[derive(Debug, Default)]
pub struct Packed {
    metadata: AtomicU64,
    /// `None` if data shares the cursor of the metadata.
    data: Option<AtomicU64>,
}

/// `packed`, with the metadata of files from `metadata_start` on and their data from `data_start`
/// on. If these are equal, both share one cursor.
pub fn packed_from(metadata_start: BlockNo, data_start: BlockNo) -> Packed {
    let data = (metadata_start != data_start).then(|| AtomicU64::new(data_start.0));
    Packed { metadata: AtomicU64::new(metadata_start.0), data }
}

/// `packed`, for data that was written before its blocks are allocated: directories, maps and
/// attributes from `start` on, data wherever [`Packed::aim_data`] says.
pub fn packed_around(start: BlockNo) -> Packed {
    Packed { metadata: AtomicU64::new(start.0), data: Some(AtomicU64::new(start.0)) }
}

impl Packed {
    /// The next block of data is this one, or the first free one after it. Without effect where
    /// data shares the cursor of the metadata.
    pub fn aim_data(&self, block: BlockNo) {
        if let Some(data) = &self.data {
            data.store(block.0, Ordering::Relaxed);
        }
    }

    /// Where the next block of data is looked for.
    pub fn next_data(&self) -> BlockNo {
        BlockNo(self.cursor(Purpose::Data).load(Ordering::Relaxed))
    }

    fn cursor(&self, purpose: Purpose) -> &AtomicU64 {
        match (&self.data, purpose) {
            (Some(data), Purpose::Data) => data,
            _ => &self.metadata,
        }
    }
}

impl Allocation for Packed {
    fn plan(&self, facts: &AllocationFacts) -> AllocationPlan {
        let goal = BlockNo(self.cursor(facts.purpose).load(Ordering::Relaxed));
        AllocationPlan { goal, length: facts.want.max(1), search: Search::Sequential }
    }
    fn given(&self, facts: &AllocationFacts, run: Run) {
        let end = run.start.0.saturating_add(run.length.into());
        self.cursor(facts.purpose).store(end, Ordering::Relaxed);
    }
    fn delayed(&self) -> Delay {
        Delay::AtWriteBack
    }
}
