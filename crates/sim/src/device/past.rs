//! What was on the medium before writes that a power cut may undo.
//!
//! ```text
//! submitted -> recorded with the old bytes -> sent, in one command or several
//!           -> on the medium: forgotten       power cut: what is not there gets its old bytes back
//! ```
//!
//! *Invariants*: records are in the order of submission, and are forgotten in that order, so that
//! undoing from the last one back finds each sector as it was before the first that was lost.
//!
//! *Locking*: none; the device's lock covers it.
use crate::drive::Unflushed;
use crate::queue::Command;
use crate::random::mix;
use extant_block::{MemoryDevice, Operation, Segment};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::io;

/// Below this many records it is not worth asking the drive which of them can be forgotten.
const RECORDS_MIN: usize = 1024;

/// Which sectors that are not on the medium a power cut loses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Survivors {
    /// All of them: what is there is what the drive's model says.
    #[default]
    AsModelled,
    /// Of what the drive was given and has not brought to the medium, each sector is lost or not,
    /// as the seed has it: drives keep no order that one could rely on.
    AnySector {
        /// Equal seeds give equal media.
        seed: u64,
    },
}

/// What a power cut did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PowerLoss {
    /// Requests that were under way, and ended with an error.
    pub requests: u64,
    /// Bytes of sectors that are as they were before a write. (Of phantom data nothing is known.)
    pub bytes: u64,
}

/// Bytes of the device.
struct Old {
    offset: u64,
    bytes: Vec<u8>,
}

/// A stretch of a request that the drive was given.
struct Sent {
    id: u64,
    offset: u64,
    end: u64,
}

/// A write, and what it replaced.
struct Record {
    sequence: u64,
    old: Vec<Old>,
    /// Bytes that the drive was not given yet.
    unsent: u64,
    sent: Vec<Sent>,
}

/// Stretches that are not on the medium, by command.
struct Missing(FxHashMap<u64, Vec<(u64, u64)>>);

impl Missing {
    fn new(unflushed: &[Unflushed]) -> Missing {
        let mut by_command: FxHashMap<u64, Vec<(u64, u64)>> = FxHashMap::default();
        for left in unflushed {
            let stretch = (left.offset, left.offset.saturating_add(left.bytes));
            by_command.entry(left.id).or_default().push(stretch);
        }
        Missing(by_command)
    }

    /// Whether any byte of the stretch, which came with that command, is not on the medium.
    fn any(&self, id: u64, offset: u64, end: u64) -> bool {
        let missing = self.0.get(&id).into_iter().flatten();
        missing.into_iter().any(|(from, to)| *from < end && offset < *to)
    }
}

/// The writes that may not be on the medium.
pub(super) struct Past {
    records: VecDeque<Record>,
    /// How many records there may be before the drive is asked about them.
    crowd: usize,
}

impl Past {
    pub(super) fn new() -> Past {
        Past { records: VecDeque::new(), crowd: RECORDS_MIN }
    }

    /// What a write of these segments will replace; nothing of phantom ones.
    ///
    /// # Errors
    /// Those of reading the contents.
    pub(super) fn before(
        contents: &MemoryDevice,
        offset: u64,
        segments: &[Segment],
    ) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let (mut at, mut old) = (offset, Vec::new());
        for segment in segments {
            let bytes = segment.bytes();
            if !segment.is_phantom() && bytes > 0 {
                let mut read = [Segment::Owned(vec![0; bytes])];
                contents.perform(Operation::Read, at, &mut read)?;
                let [Segment::Owned(read)] = read else { continue };
                old.push((at, read));
            }
            at += bytes as u64;
        }
        Ok(old)
    }

    /// A write of that many bytes was submitted; it replaces `old`.
    pub(super) fn record(&mut self, sequence: u64, bytes: u64, old: Vec<(u64, Vec<u8>)>) {
        if old.is_empty() {
            return;
        }
        let old = old.into_iter().map(|(offset, bytes)| Old { offset, bytes }).collect();
        self.records.push_back(Record { sequence, old, unsent: bytes, sent: Vec::new() });
    }

    /// The drive was given a command.
    pub(super) fn sent(&mut self, command: &Command) {
        if command.operation != Operation::Write {
            return;
        }
        for part in &command.parts {
            let found = self.records.binary_search_by_key(&part.sequence, |record| record.sequence);
            let Some(record) = found.ok().and_then(|index| self.records.get_mut(index)) else {
                continue;
            };
            record.unsent = record.unsent.saturating_sub(part.bytes);
            let (offset, end) = (part.offset, part.offset + part.bytes);
            record.sent.push(Sent { id: command.id, offset, end });
        }
    }

    /// Whether it is time to ask the drive what it has brought to the medium.
    pub(super) fn is_crowded(&self) -> bool {
        self.records.len() >= self.crowd
    }

    /// Forgets the writes that are on the medium with all those before them; the drive says what is
    /// not.
    pub(super) fn forget(&mut self, unflushed: &[Unflushed]) {
        let missing = Missing::new(unflushed);
        let is_there = |record: &Record| {
            let lacks = |sent: &Sent| missing.any(sent.id, sent.offset, sent.end);
            record.unsent == 0 && !record.sent.iter().any(lacks)
        };
        while self.records.front().is_some_and(is_there) {
            self.records.pop_front();
        }
        self.crowd = RECORDS_MIN.max(2 * self.records.len());
    }

    /// Gives every sector that did not reach the medium its old bytes back, and forgets all.
    /// Returns how many bytes that were.
    ///
    /// # Errors
    /// Those of writing the contents.
    pub(super) fn undo(
        &mut self,
        lost: &[Unflushed],
        survivors: Survivors,
        sector_bytes: u64,
        contents: &MemoryDevice,
    ) -> io::Result<u64> {
        let missing = Missing::new(lost);
        let mut undone = 0;
        // Sectors that hold what a later write brought to the medium.
        let mut written = FxHashSet::default();
        for record in std::mem::take(&mut self.records).into_iter().rev() {
            for old in &record.old {
                for (offset, bytes) in sectors(old, sector_bytes) {
                    let sector = offset / sector_bytes;
                    if written.contains(&sector) {
                        continue;
                    }
                    if record.reached(&missing, survivors, offset, sector) {
                        written.insert(sector);
                        continue;
                    }
                    let mut segment = [Segment::Owned(bytes.to_vec())];
                    contents.perform(Operation::Write, offset, &mut segment)?;
                    undone += bytes.len() as u64;
                }
            }
        }
        Ok(undone)
    }
}

impl Record {
    /// Whether the sector at that byte is on the medium as this write has it.
    fn reached(&self, missing: &Missing, survivors: Survivors, offset: u64, sector: u64) -> bool {
        let Some(sent) = self.sent.iter().find(|sent| sent.offset <= offset && offset < sent.end)
        else {
            return false;
        };
        let is_missing = missing.any(sent.id, offset, offset + 1);
        !is_missing
            || match survivors {
                Survivors::AsModelled => false,
                Survivors::AnySector { seed } => {
                    mix(seed ^ mix(self.sequence ^ mix(sector))).is_multiple_of(2)
                }
            }
    }
}

/// The bytes sector by sector; the first and the last may be part of one.
fn sectors(old: &Old, sector_bytes: u64) -> impl Iterator<Item = (u64, &[u8])> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let offset = old.offset + done as u64;
        let left = old.bytes.len() - done;
        let bytes = (sector_bytes - offset % sector_bytes).min(left as u64) as usize;
        let piece = &old.bytes[done..done + bytes];
        done += bytes;
        (bytes > 0).then_some((offset, piece))
    })
}
