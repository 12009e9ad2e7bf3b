//! Waiting commands by their place on the device and by age, for elevators that sort.
//!
//! *Invariants*: `by_place` and `commands` hold the same commands. `by_age` has the numbers of all
//! of them, rising, and not many more; its first is one of them. `metadata` counts those
//! of that urgency.
use super::Queued;
use extant_block::device::Urgency;
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, VecDeque};

/// Numbers of commands that no longer wait are dropped from `by_age` when it has more than twice as
/// many numbers as there are commands, plus this.
const GONE_MAX: usize = 64;

/// The commands that wait in one line of an elevator (a direction, a stream).
#[derive(Default)]
pub(super) struct Waiting {
    /// By number, with the time of arrival.
    commands: FxHashMap<u64, (Queued, u64)>,
    /// (offset, number).
    by_place: BTreeSet<(u64, u64)>,
    by_age: VecDeque<u64>,
    /// How many are of metadata.
    metadata: u64,
}

/// 1 for a command of metadata.
fn is_metadata(command: &Queued) -> u64 {
    u64::from(command.urgency == Urgency::Metadata)
}

impl Waiting {
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }
    /// How many wait.
    pub fn len(&self) -> u64 {
        self.commands.len() as u64
    }
    /// Adds a command. Its number is higher than all before.
    pub fn insert(&mut self, command: Queued, arrived: u64) {
        self.metadata += is_metadata(&command);
        self.commands.insert(command.sequence, (command, arrived));
        self.by_place.insert((command.offset, command.sequence));
        self.by_age.push_back(command.sequence);
    }
    pub fn remove(&mut self, sequence: u64) {
        let Some((command, _)) = self.commands.remove(&sequence) else {
            return;
        };
        self.metadata -= is_metadata(&command);
        self.by_place.remove(&(command.offset, sequence));
        let waiting = &self.commands;
        while self.by_age.front().is_some_and(|oldest| !waiting.contains_key(oldest)) {
            self.by_age.pop_front();
        }
        if self.by_age.len() > 2 * waiting.len() + GONE_MAX {
            self.by_age.retain(|sequence| waiting.contains_key(sequence));
        }
    }
    /// Notes that a command became larger. It keeps its age.
    pub fn grow(&mut self, after: &Queued) {
        let Some((command, _)) = self.commands.get_mut(&after.sequence) else {
            return;
        };
        if command.offset != after.offset {
            self.by_place.remove(&(command.offset, after.sequence));
            self.by_place.insert((after.offset, after.sequence));
        }
        self.metadata = self.metadata + is_metadata(after) - is_metadata(command);
        *command = *after;
    }
    /// The oldest command, and when it arrived.
    pub fn oldest(&self) -> Option<(Queued, u64)> {
        self.by_age.front().and_then(|oldest| self.commands.get(oldest)).copied()
    }
    /// The first command at or after this byte.
    pub fn at_or_behind(&self, offset: u64) -> Option<Queued> {
        self.command(self.by_place.range((offset, 0)..).next())
    }
    /// The last command before this byte.
    pub fn before(&self, offset: u64) -> Option<Queued> {
        self.command(self.by_place.range(..(offset, 0)).next_back())
    }
    /// The first command on the device.
    pub fn lowest(&self) -> Option<Queued> {
        self.command(self.by_place.first())
    }
    /// Whether one of them is of metadata that a thread waits for.
    pub fn has_metadata(&self) -> bool {
        self.metadata > 0
    }
    /// The commands of metadata alone, by place. Looks at all that wait.
    pub fn metadata(&self) -> impl DoubleEndedIterator<Item = Queued> {
        let all = self.by_place.iter().filter_map(|place| self.command(Some(place)));
        all.filter(|command| command.urgency == Urgency::Metadata)
    }
    fn command(&self, place: Option<&(u64, u64)>) -> Option<Queued> {
        let (command, _) = self.commands.get(&place?.1)?;
        Some(*command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_block::device::Operation;

    #[test]
    fn ages_of_what_is_gone_do_not_pile_up() {
        let mut waiting = Waiting::default();
        let command = |sequence| Queued {
            sequence,
            operation: Operation::Read,
            offset: sequence,
            bytes: 1,
            urgency: Urgency::Awaited,
            stream: 0,
        };
        for sequence in 0..10_000 {
            waiting.insert(command(sequence), 7 * sequence);
            // The first and every hundredth command stay.
            if sequence % 100 != 0 {
                waiting.remove(sequence);
            }
            assert_eq!(
                waiting.oldest().map(|(oldest, arrived)| (oldest.sequence, arrived)),
                Some((0, 0))
            );
            assert!(waiting.by_age.len() <= 2 * waiting.commands.len() + GONE_MAX + 1);
        }
        for stays in (0..10_000).step_by(100) {
            assert_eq!(waiting.oldest(), Some((command(stays), 7 * stays)));
            waiting.remove(stays);
        }
        assert!(waiting.is_empty() && waiting.by_age.is_empty() && waiting.by_place.is_empty());
    }
}
