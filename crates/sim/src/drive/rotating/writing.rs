//! Writes: into the buffer and from there to the medium, or straight to it; flushes, and writes
//! that have to be on the medium.
use super::layout::{Arm, Transfer};
use super::spec::LookAhead;
use super::{Arriving, Filling, Flushing, Rotating, Waiting};
use crate::drive::{AnsweredBy, Parts};

impl Rotating {
    pub(super) fn submit_write(&mut self, waiting: Waiting) {
        if self.spec.cache.look_ahead == LookAhead::UntilCommand && self.segments.stream.is_some() {
            self.take_arm();
        }
        if self.spec.cache.write_back {
            let ready = waiting.arrival + self.spec.overhead.write_ns;
            let parts = Parts { overhead: self.spec.overhead.write_ns, ..Parts::default() };
            self.filling.push_back(Filling { waiting, next: waiting.first, ready, parts });
            self.fill_buffer();
        } else {
            self.forget(waiting.first, waiting.end);
            self.waiting.push(waiting);
        }
    }

    /// A write that the medium itself takes: the data are in the drive before the head is asked
    /// for.
    pub(super) fn write_through(&mut self, waiting: Waiting) {
        self.take_arm();
        let mut parts = Parts::default();
        let (begin, ready) = (self.now, waiting.arrival + self.spec.overhead.write_ns);
        let start = self.start_of(&waiting, ready, begin, &mut parts);
        let sectors = waiting.end - waiting.first;
        let bus_end = start.max(self.bus_free_at) + self.bus_ns(sectors);
        self.bus_free_at = bus_end;
        self.arm.at = start;
        // The arm moves while the data come; what is left of the transfer then is waited for.
        let arrival =
            self.layout.arrive(&self.arm, &self.layout.place(waiting.first), Transfer::Write);
        let moved = start + arrival.seek + arrival.settle;
        parts.bus = bus_end.saturating_sub(moved);
        let place = self.layout.place(waiting.first);
        parts.seek = arrival.seek;
        parts.settle = arrival.settle;
        self.arm = Arm { cylinder: place.cylinder, head: place.head, at: moved + parts.bus };
        self.layout.transfer(&mut self.arm, waiting.first, sectors, Transfer::Write, &mut parts);
        self.head = waiting.end;
        self.finish(&waiting, self.arm.at, parts, AnsweredBy::Medium);
    }

    /// Lets waiting writes into the buffer as far as there is room.
    pub(super) fn fill_buffer(&mut self) {
        while let Some(filling) = self.filling.front_mut() {
            let count = (filling.waiting.end - filling.next).min(self.buffer.room());
            if count == 0 {
                return;
            }
            let from = filling.ready.max(self.now);
            let start = from.max(self.bus_free_at);
            let first = filling.next;
            filling.next += count;
            let is_last = filling.next == filling.waiting.end;
            let bus = self.bus_ns(count);
            self.bus_free_at = start + bus;
            self.buffer.reserve(count);
            let Some(filling) = self.filling.front_mut() else {
                return;
            };
            filling.parts.queued += start - filling.ready;
            filling.parts.bus += bus;
            filling.ready = self.bus_free_at;
            let mut last_of = None;
            if is_last {
                last_of = self.filling.pop_front().map(|filling| (filling.waiting, filling.parts));
            }
            let at = self.bus_free_at;
            self.arriving.push_back(Arriving { at, first, end: first + count, last_of });
        }
    }

    pub(super) fn arrived(&mut self, arriving: Arriving) {
        self.forget(arriving.first, arriving.end);
        self.buffer.add(arriving.first, arriving.end);
        let Some((waiting, parts)) = arriving.last_of else {
            return;
        };
        self.head = waiting.end;
        if waiting.command.force_unit_access {
            let below = self.buffer.next_entry();
            self.flushing.push(Flushing { waiting, below, since: arriving.at, parts });
        } else {
            self.finish(&waiting, arriving.at, parts, AnsweredBy::Cache);
        }
    }

    pub(super) fn forget(&mut self, first: u64, end: u64) {
        if let Some(arm) = self.segments.forget(&self.layout, first, end, self.now) {
            self.rest(arm);
        }
    }

    /// Ends the flushes whose writes are all on the medium; the last piece's time is theirs.
    pub(super) fn end_flushes(&mut self, last: Parts) {
        let oldest = self.buffer.oldest().unwrap_or(u64::MAX);
        let (ended, left): (Vec<Flushing>, Vec<Flushing>) = std::mem::take(&mut self.flushing)
            .into_iter()
            .partition(|flushing| flushing.below <= oldest);
        self.flushing = left;
        for flushing in ended {
            let mut parts = flushing.parts;
            let whole = self.now - flushing.since;
            match whole.checked_sub(last.total()) {
                Some(queued) => {
                    parts.queued += queued;
                    parts.seek += last.seek;
                    parts.settle += last.settle;
                    parts.rotation += last.rotation;
                    parts.media += last.media;
                }
                // The piece was under way before the flush came.
                None => parts.queued += whole,
            }
            self.finish(&flushing.waiting, self.now, parts, AnsweredBy::Medium);
        }
    }

    pub(super) fn flush(&mut self, waiting: Waiting) {
        let ready = self.now + self.spec.overhead.read_hit_ns;
        let parts = Parts { overhead: self.spec.overhead.read_hit_ns, ..Parts::default() };
        let below = self.buffer.next_entry() + self.arriving.len() as u64;
        if self.buffer.oldest().is_none() && self.arriving.is_empty() {
            self.finish(&waiting, ready, parts, AnsweredBy::Cache);
        } else {
            // The controller's time is short against that of the medium, and passes meanwhile.
            let (since, parts) = (self.now, Parts::default());
            self.flushing.push(Flushing { waiting, below, since, parts });
        }
    }
}
