//! Who gets the arm: the waiting command, or the run of the write buffer, that it reaches first,
//! with ageing.
use super::cache::Destage;
use super::layout::{Arm, Transfer};
use super::{Rotating, Waiting};
use crate::drive::{AnsweredBy, Parts};
use extant_block::Operation;

/// A waiting command's claim grows by a nanosecond for this many that it has waited: after a second
/// it outweighs the longest way.
const AGEING: u64 = 24;

/// From when the arm can go to a sector, and how long that takes.
pub(super) struct Way {
    pub start: u64,
    pub time: u64,
}

impl Rotating {
    /// Gives the arm to the one that has the best claim.
    pub(super) fn choose(&mut self) {
        let pressed = self.is_pressed();
        if self.waiting.is_empty() && !self.buffer.is_dirty() {
            return;
        }
        if let Some(arm) = self.segments.run(&self.layout, self.now) {
            self.rest(arm);
        }
        if self.segments.stream.is_some() {
            let wanted = !self.waiting.is_empty() || pressed;
            if !wanted || self.held_until() > self.now {
                return;
            }
        }
        let writes_first =
            self.spec.cache.destage == Destage::BeforeReads && self.buffer.is_dirty();
        let command = if writes_first { None } else { self.best_command() };
        let run = match pressed || command.is_none() {
            true => self.best_run(),
            false => None,
        };
        match (command, run) {
            (Some((_, claim)), Some((run, other))) if other < claim => self.write_piece(run),
            (Some((index, _)), _) => {
                let waiting = self.waiting.swap_remove(index);
                self.serve(waiting);
            }
            (None, Some((run, _))) => self.write_piece(run),
            (None, None) => {}
        }
    }

    pub(super) fn here(&self) -> Arm {
        let arm = self.segments.stream.map_or(self.arm, |stream| stream.arm);
        Arm { at: arm.at.max(self.now), ..arm }
    }

    pub(super) fn age(&self, arrival: u64) -> u64 {
        (self.now - arrival.min(self.now)) / AGEING
    }

    pub(super) fn best_command(&self) -> Option<(usize, i128)> {
        if let [only] = self.waiting.as_slice() {
            // Nothing to compare it with, unless the buffer is pressed; its oldest claim wins then.
            let claim = if self.is_pressed() { self.claim(only) } else { 0 };
            return Some((0, claim));
        }
        let claims =
            self.waiting.iter().enumerate().map(|(index, waiting)| (index, self.claim(waiting)));
        claims.min_by_key(|(index, claim)| {
            (*claim, self.waiting[*index].arrival, self.waiting[*index].command.id)
        })
    }

    pub(super) fn claim(&self, waiting: &Waiting) -> i128 {
        let Way { start, time } = self.way(waiting);
        let mut time = time;
        if waiting.command.operation == Operation::Write {
            // A head that is there before the data waits for the next turn.
            let late = self.first_data_at(waiting, start).saturating_sub(start + time);
            time += late.next_multiple_of(self.spec.revolution_ns);
        }
        i128::from(time) - i128::from(self.age(waiting.arrival))
    }

    /// How far that command's first sector is from the arm.
    pub(super) fn way(&self, waiting: &Waiting) -> Way {
        let transfer = match waiting.command.operation {
            Operation::Write => Transfer::Write,
            _ => Transfer::Read,
        };
        let ready = waiting.arrival + self.overhead(waiting, AnsweredBy::Medium);
        let mut arm = self.here();
        let start = arm.at;
        let late = ready.saturating_sub(arm.at);
        arm.at += late;
        let time = late + self.layout.positioning_ns(&arm, waiting.first, transfer);
        Way { start, time }
    }

    /// Controller time of the command.
    pub(super) fn overhead(&self, waiting: &Waiting, by: AnsweredBy) -> u64 {
        let overhead = &self.spec.overhead;
        let times = match (waiting.command.operation, by) {
            (Operation::Write, AnsweredBy::Medium) => overhead.write_miss,
            (Operation::Write, AnsweredBy::Cache) => overhead.write_hit,
            (_, AnsweredBy::Medium) => overhead.read_miss,
            (_, AnsweredBy::Cache) => overhead.read_hit,
        };
        times.time(waiting.before)
    }

    /// The run of the write buffer that the arm reaches first, and its claim. While a flush waits,
    /// of those that it covers: what comes later must not keep it waiting.
    pub(super) fn best_run(&mut self) -> Option<(u64, i128)> {
        let mut found = std::mem::take(&mut self.scratch);
        let flushes = self.flushing.iter().map(|flushing| flushing.waiting.arrival);
        let filling = self.filling.front().map(|filling| filling.waiting.arrival);
        let age = filling.into_iter().chain(flushes).min().map_or(0, |arrival| self.age(arrival));
        let below = self.flushing.iter().map(|flushing| flushing.below).min().unwrap_or(u64::MAX);
        let arm = self.here();
        let next = self.passing.map(|passing| passing.end);
        self.buffer.candidates(self.layout.sector_under(&arm), next, below, &mut found);
        let way = |first: &u64| (*first, self.layout.positioning_ns(&arm, *first, Transfer::Write));
        let best = found.iter().map(way).min_by_key(|(first, way)| (*way, *first));
        self.scratch = found;
        best.map(|(first, way)| (first, i128::from(way) - i128::from(age)))
    }

    /// The stream has left the arm there.
    pub(super) fn rest(&mut self, arm: Arm) {
        let at = arm.at.max(self.arm.at);
        self.arm = Arm { at, ..arm };
    }

    /// Takes the arm away from the stream.
    pub(super) fn take_arm(&mut self) {
        let in_sector = self.spec.cache.look_ahead.ends_in_sector;
        if let Some(arm) = self.segments.stop(&self.layout, self.now, in_sector) {
            self.rest(arm);
        }
        self.arm.at = self.arm.at.max(self.now);
    }

    pub(super) fn write_piece(&mut self, run: u64) {
        self.take_arm();
        let room = u64::from(self.spec.cache.write_segments) * self.spec.cache.segment_sectors;
        let Some(piece) = self.buffer.take(run, room / 4) else {
            return;
        };
        let mut parts = Parts::default();
        let (first, sectors) = (piece.first, piece.end - piece.first);
        self.pass(first, sectors, None, &mut parts);
        self.piece = Some((piece, parts));
    }

    pub(super) fn serve(&mut self, waiting: Waiting) {
        match waiting.command.operation {
            Operation::Write => self.write_through(waiting),
            _ if waiting.missed_at != Some(self.now) && self.answer_read(&waiting) => {}
            _ => self.read_medium(waiting),
        }
    }

    /// When a command that the controller is ready for at `ready` starts, now that it has the arm;
    /// accounts for the time before.
    pub(super) fn start_of(
        &self,
        waiting: &Waiting,
        ready: u64,
        now: u64,
        parts: &mut Parts,
    ) -> u64 {
        let start = ready.max(now).max(self.arm.at);
        parts.overhead = ready - waiting.arrival;
        parts.queued = start - ready;
        start
    }
}
