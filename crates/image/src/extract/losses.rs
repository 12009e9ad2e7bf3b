//! What could not be restored: counted by kind, the first few by name.
use crate::notice::{NAMED_MAX, Tally};
use std::collections::BTreeMap;

/// What of a file could not be restored. They are shown in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LossKind {
    /// A device that the host does not let us make: it is left out.
    Device,
    /// Its owner or group.
    Owner,
    /// Its permissions, or its set-user-ID and set-group-ID bits, which are only given together
    /// with the owner.
    Permissions,
    /// An extended attribute, access list or capability.
    Attribute,
    /// Its flags, as chattr sets them.
    Flags,
    /// Its times.
    Times,
}

impl LossKind {
    /// The word for it in JSON and after "N more of this kind".
    pub fn word(self) -> &'static str {
        match self {
            LossKind::Device => "device",
            LossKind::Owner => "owner",
            LossKind::Permissions => "permissions",
            LossKind::Attribute => "attribute",
            LossKind::Flags => "flags",
            LossKind::Times => "times",
        }
    }
}

/// All losses so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    kinds: BTreeMap<LossKind, Tally>,
}

impl Losses {
    /// Counts one more; `sentence` is asked for only while it will be kept.
    pub(super) fn add(&mut self, kind: LossKind, sentence: impl FnOnce() -> String) {
        let tally = self.kinds.entry(kind).or_default();
        tally.count += 1;
        if tally.named.len() < NAMED_MAX {
            tally.named.push(sentence());
        }
    }
    /// The kinds that occurred, in order.
    pub fn kinds(&self) -> impl Iterator<Item = (LossKind, &Tally)> {
        self.kinds.iter().map(|(kind, tally)| (*kind, tally))
    }
    /// Whether all was restored.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}
