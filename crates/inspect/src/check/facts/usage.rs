//! What each user, group and project has: pass 1 adds it up, pass 5 compares it with the quota
//! files.
//!
//! *Locking*: one short lock, held for an addition.
use extant_block::ShortLock;
use std::collections::BTreeMap;

/// What one user, group or project has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct QuotaSum {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
}

/// Sums by id.
pub(crate) type QuotaSums = BTreeMap<u32, QuotaSum>;

/// Sums of users, groups and projects.
#[derive(Default)]
pub(crate) struct Usage(ShortLock<[QuotaSums; 3]>);

impl Usage {
    /// Adds to the sums of a user, a group and a project.
    pub(crate) fn add(&self, ids: [u32; 3], added: QuotaSum) {
        let mut sums = self.0.lock();
        for (sums, id) in sums.iter_mut().zip(ids) {
            let sum = sums.entry(id).or_default();
            sum.bytes = sum.bytes.saturating_add(added.bytes);
            sum.inodes += added.inodes;
        }
    }

    /// All sums.
    pub(crate) fn sums(&self) -> [QuotaSums; 3] {
        self.0.lock().clone()
    }
}
