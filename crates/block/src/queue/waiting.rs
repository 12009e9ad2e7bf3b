//! Waiting commands by place on the device and by age: what the sorting elevators are made of.
//!
//! *Invariants*: both maps hold the same commands.
use super::Queued;
use std::collections::{BTreeMap, BTreeSet};

/// Commands that wait in one line of an elevator (a direction, a stream).
#[derive(Default)]
pub(super) struct Waiting {
    /// (offset, number).
    by_place: BTreeSet<(u64, u64)>,
    /// By number, with the time of arrival.
    by_age: BTreeMap<u64, (Queued, u64)>,
}

impl Waiting {
    pub fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }
    pub fn insert(&mut self, command: Queued, arrived: u64) {
        self.by_place.insert((command.offset, command.sequence));
        self.by_age.insert(command.sequence, (command, arrived));
    }
    /// Takes one out, and says when it arrived.
    pub fn remove(&mut self, sequence: u64) -> Option<(Queued, u64)> {
        let (command, arrived) = self.by_age.remove(&sequence)?;
        self.by_place.remove(&(command.offset, sequence));
        Some((command, arrived))
    }
    /// A command became larger. It keeps its age.
    pub fn grow(&mut self, after: &Queued) {
        if let Some((_, arrived)) = self.remove(after.sequence) {
            self.insert(*after, arrived);
        }
    }
    /// The oldest, and when it arrived.
    pub fn oldest(&self) -> Option<(Queued, u64)> {
        self.by_age.first_key_value().map(|(_, waiting)| *waiting)
    }
    /// The first at or behind this byte.
    pub fn at_or_behind(&self, offset: u64) -> Option<Queued> {
        self.command(self.by_place.range((offset, 0)..).next())
    }
    /// The last before this byte.
    pub fn before(&self, offset: u64) -> Option<Queued> {
        self.command(self.by_place.range(..(offset, 0)).next_back())
    }
    /// The first on the device.
    pub fn lowest(&self) -> Option<Queued> {
        self.command(self.by_place.first())
    }
    /// The one that starts least far from this byte.
    pub fn nearest(&self, offset: u64) -> Option<Queued> {
        let (behind, before) = (self.at_or_behind(offset), self.before(offset));
        [behind, before]
            .into_iter()
            .flatten()
            .min_by_key(|command| command.offset.abs_diff(offset))
    }
    fn command(&self, place: Option<&(u64, u64)>) -> Option<Queued> {
        place
            .and_then(|(_, sequence)| self.by_age.get(sequence))
            .map(|(command, _)| *command)
    }
}
