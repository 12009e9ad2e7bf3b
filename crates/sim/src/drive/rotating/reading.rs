//! Reads: out of the cache, from the stream that is reading on, or from the medium.
use super::layout::{Arm, Transfer};
use super::spec::LookAhead;
use super::{Rotating, Waiting};
use crate::drive::{AnsweredBy, Parts};

impl Rotating {
    pub(super) fn submit_read(&mut self, waiting: Waiting) {
        if self.spec.cache.look_ahead == LookAhead::UntilCommand {
            let own = self.segments.serving(&self.layout, waiting.first);
            if self.segments.stream.is_some_and(|stream| Some(stream.segment) != own) {
                self.take_arm();
            }
        }
        if !self.answer_read(&waiting) {
            let missed_at = Some(self.now);
            self.waiting.push(Waiting { missed_at, ..waiting });
        }
    }

    /// Answers a read without the arm, or with the stream that is under way. `false`: it needs the
    /// arm.
    pub(super) fn answer_read(&mut self, waiting: &Waiting) -> bool {
        let ready = waiting.arrival + self.spec.overhead.read_hit_ns;
        let from = ready.max(self.now);
        let mut parts =
            Parts { overhead: ready - waiting.arrival, queued: from - ready, ..Parts::default() };
        if self.buffer.holds(waiting.first, waiting.end) {
            self.send(waiting, from, parts, AnsweredBy::Cache);
            return true;
        }
        if let Some(arm) = self.segments.run(&self.layout, self.now) {
            self.rest(arm);
        }
        let Some(segment) = self.segments.serving(&self.layout, waiting.first) else {
            return false;
        };
        if waiting.end <= self.segments.get(segment).end {
            self.segments.touch(segment);
            self.after_hit(segment, waiting);
            self.send(waiting, from, parts, AnsweredBy::Cache);
            return true;
        }
        let streams = self.segments.stream.is_some_and(|stream| stream.segment == segment);
        if !streams || self.piece.is_some() || self.arm.at > self.now {
            return false;
        }
        self.segments.touch(segment);
        let Some(arm) = self.segments.reaches(&self.layout, waiting.end) else {
            return false;
        };
        let limit = self.limit_from(waiting);
        self.segments.advance_stream(waiting.end, arm, limit);
        let there = arm.at.max(from);
        parts.media = there - from;
        // No other command gets the arm before that.
        self.arm.at = self.arm.at.max(arm.at);
        self.behind_medium(waiting, there, parts);
        true
    }

    pub(super) fn limit_from(&self, waiting: &Waiting) -> u64 {
        match self.spec.cache.look_ahead {
            LookAhead::Off => waiting.end,
            _ => (waiting.end.saturating_add(self.spec.cache.segment_sectors))
                .min(self.layout.sectors),
        }
    }

    /// A read was answered from a segment: its stream goes further, or starts again when the arm
    /// has nothing to do.
    pub(super) fn after_hit(&mut self, segment: usize, waiting: &Waiting) {
        let limit = self.limit_from(waiting);
        match self.segments.stream {
            Some(stream) if stream.segment == segment => {
                self.segments.advance_stream(stream.next, stream.arm, limit)
            }
            Some(_) => {}
            None => self.read_on(segment, waiting.end),
        }
    }

    pub(super) fn read_on(&mut self, segment: usize, from: u64) {
        let idle = self.piece.is_none() && self.waiting.is_empty();
        if self.spec.cache.look_ahead != LookAhead::Off && idle {
            let arm = Arm { at: self.arm.at.max(self.now), ..self.arm };
            let grace_end = arm.at + self.spec.cache.grace_ns;
            self.segments.read_on(segment, from, arm, grace_end, self.layout.sectors);
        }
    }

    pub(super) fn read_medium(&mut self, waiting: Waiting) {
        self.take_arm();
        let mut parts = Parts::default();
        let ready = waiting.arrival + self.spec.overhead.read_miss_ns;
        self.arm.at = self.start_of(&waiting, ready, self.now, &mut parts);
        // What a segment holds of the beginning need not be read again.
        let held = self.segments.find(waiting.first);
        let first =
            held.map_or(waiting.first, |segment| self.segments.get(segment).end.min(waiting.end));
        self.layout.transfer(&mut self.arm, first, waiting.end - first, Transfer::Read, &mut parts);
        if let Some(segment) = held.or_else(|| self.segments.take(waiting.first)) {
            self.segments.touch(segment);
            self.segments.fill(segment, waiting.end);
            if self.spec.cache.look_ahead != LookAhead::Off {
                let grace_end = self.arm.at + self.spec.cache.grace_ns;
                self.segments.read_on(
                    segment,
                    waiting.end,
                    self.arm,
                    grace_end,
                    self.layout.sectors,
                );
            }
        }
        self.behind_medium(&waiting, self.arm.at, parts);
    }

    /// The transfer to the host of what the head has read by `read`. An interface that is slower
    /// than the medium begins with the first sector, for it never has to wait for the next one; a
    /// faster one begins when all is there, or a segment is full.
    pub(super) fn behind_medium(&mut self, waiting: &Waiting, read: u64, mut parts: Parts) {
        let sectors = waiting.end - waiting.first;
        let (bus, all_but_first) = (self.bus_ns(sectors), parts.media - parts.media / sectors);
        let hidden = match bus > parts.media {
            true => all_but_first,
            false => {
                all_but_first.min(bus - self.bus_ns(sectors.min(self.spec.cache.segment_sectors)))
            }
        };
        let start = (read - hidden).max(self.bus_free_at);
        let end = (start + bus).max(read);
        self.bus_free_at = end;
        self.head = waiting.end;
        parts.bus = (end - read).min(bus);
        parts.queued += end - read - parts.bus;
        self.finish(waiting, end, parts, AnsweredBy::Medium);
    }
}
