//! Reads: out of the cache, from the stream that is reading on, or from the medium.
use super::cache::{LookAhead, Reach};
use super::layout::{Arm, Transfer};
use super::{Rotating, Waiting};
use crate::drive::{AnsweredBy, Parts};

impl Rotating {
    pub(super) fn submit_read(&mut self, waiting: Waiting) {
        if self.spec.cache.look_ahead.kind == LookAhead::UntilCommand {
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
        let ready = waiting.arrival + self.overhead(waiting, AnsweredBy::Cache);
        let from = ready.max(self.now);
        let mut parts =
            Parts { overhead: ready - waiting.arrival, queued: from - ready, ..Parts::default() };
        if self.buffer.holds(waiting.first, waiting.end) {
            self.send(waiting, from, parts);
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
            self.send(waiting, from, parts);
            return true;
        }
        let streams = self.segments.stream.filter(|stream| stream.segment == segment);
        let Some(stream) = streams.filter(|_| self.piece.is_none() && self.arm.at <= self.now)
        else {
            return false;
        };
        self.segments.touch(segment);
        let arm = stream.reaches(&self.layout, waiting.end);
        let limit = self.ahead_limit(waiting);
        self.segments.advance_stream(waiting.end, arm, limit);
        let there = arm.at.max(from);
        parts.media = there - from;
        // No other command gets the arm before that.
        self.arm.at = self.arm.at.max(arm.at);
        let source = Source { from, first: stream.next, arm: stream.arm, read: there };
        self.deliver(waiting, &source, parts);
        true
    }

    /// How far the drive reads on after that read: the first sector that it leaves.
    fn ahead_limit(&self, waiting: &Waiting) -> u64 {
        let ahead = &self.spec.cache.look_ahead;
        let track_end = |sector: u64| sector + self.layout.place(sector).left;
        let reach = match ahead.reach {
            Reach::Segment => u64::MAX,
            Reach::Track => track_end(waiting.end - 1),
            Reach::NextTrack => track_end(track_end(waiting.end - 1)),
            Reach::Cylinder => self.layout.cylinder_end(waiting.end - 1),
        };
        let from = if ahead.keep_request { waiting.first } else { waiting.end };
        let room = from.saturating_add(self.spec.cache.segment_sectors);
        let most = match ahead.kind {
            LookAhead::Off => 0,
            _ => ahead.most_sectors,
        };
        let limit = waiting.end.saturating_add(most).min(reach).min(room);
        limit.min(self.layout.sectors).max(waiting.end)
    }

    /// A read was answered from a segment: its stream goes further, or starts again when the arm
    /// has nothing to do.
    fn after_hit(&mut self, segment: usize, waiting: &Waiting) {
        let limit = self.ahead_limit(waiting);
        match self.segments.stream {
            Some(stream) if stream.segment == segment => {
                self.segments.advance_stream(stream.next, stream.arm, limit)
            }
            Some(_) => {}
            None => {
                let idle = self.piece.is_none() && self.waiting.is_empty();
                if idle && self.spec.cache.look_ahead.after_hit {
                    let arm = Arm { at: self.arm.at.max(self.now), ..self.arm };
                    self.read_on(segment, limit, arm);
                }
            }
        }
    }

    /// Begins to read on after the segment.
    fn read_on(&mut self, segment: usize, limit: u64, arm: Arm) {
        let least = self.spec.cache.look_ahead.least_sectors;
        self.segments.read_on(&self.layout, segment, limit, arm, least);
    }

    pub(super) fn read_medium(&mut self, waiting: Waiting) {
        self.take_arm();
        let mut parts = Parts::default();
        let ready = waiting.arrival + self.overhead(&waiting, AnsweredBy::Medium);
        self.arm.at = self.start_of(&waiting, ready, self.now, &mut parts);
        // What a segment holds of the beginning need not be read again.
        let held = self.segments.find(waiting.first);
        let first =
            held.map_or(waiting.first, |segment| self.segments.get(segment).end.min(waiting.end));
        let from = self.arm;
        let order = self.spec.cache.read_order;
        let count = waiting.end - first;
        self.layout.transfer_in(order, &mut self.arm, first, count, Transfer::Read, &mut parts);
        if let Some(segment) = held.or_else(|| self.segments.take(waiting.first)) {
            self.segments.touch(segment);
            if held.is_none() && self.spec.cache.read_before {
                self.segments.open(segment, first - self.layout.passed_before(&from, first));
            }
            self.segments.fill(segment, waiting.end);
            let is_sequence = held.is_some();
            let reads_on = match self.spec.cache.look_ahead.kind {
                LookAhead::Off => false,
                LookAhead::OnSequence => is_sequence,
                LookAhead::UntilCommand | LookAhead::Continue => true,
            };
            if reads_on {
                self.read_on(segment, self.ahead_limit(&waiting), self.arm);
            }
        }
        let source = Source { from: from.at, first, arm: from, read: self.arm.at };
        self.deliver(&waiting, &source, parts);
    }

    /// The transfer to the host of what the medium gives, and the end of the command. The bus
    /// starts when the share that the drive's water mark asks for is in the buffer, and lets go
    /// when there is nothing to send. `parts` account for the time until `source.read`.
    fn deliver(&mut self, waiting: &Waiting, source: &Source, mut parts: Parts) {
        let (bus, overhead) = (&self.spec.cache.bus, &self.spec.overhead);
        let sectors = waiting.end - waiting.first;
        let burst = bus.start_sectors(sectors, self.spec.cache.segment_sectors);
        let (mut next, mut arm) = (source.first, source.arm);
        // When the first sectors are in the buffer; asked for more of them each time.
        let mut there = |count: u64| {
            let end = waiting.first + count;
            if end <= source.first {
                return source.from;
            }
            let (first, more) = (next, end - next);
            let layout = &self.layout;
            layout.transfer(&mut arm, first, more, Transfer::Read, &mut Parts::default());
            next = end;
            arm.at.clamp(source.from.min(source.read), source.read)
        };
        let mut at = source.from.max(self.bus_free_at);
        let mut sent = 0;
        let held = source.first.saturating_sub(waiting.first);
        if held > 0 && bus.held_at_once {
            sent = held;
            at += overhead.preparation_ns + bus.read_ns(sent);
        }
        if burst == 1 && sent < sectors {
            let begin = there(sent + 1) + overhead.reconnect_ns;
            let whole = at.max(begin) + overhead.preparation_ns + bus.read_ns(sectors - sent);
            at = whole.max(source.read + bus.read_ns(1));
            sent = sectors;
        }
        while sent < sectors {
            let count = burst.min(sectors - sent);
            let ready = there(sent + count);
            if sent == 0 || ready > at {
                at = at.max(ready + overhead.reconnect_ns) + overhead.preparation_ns;
            }
            at += bus.read_ns(count);
            sent += count;
        }
        let mut rest = at.saturating_sub(source.read);
        let end = source.read + rest + overhead.read_completion_ns;
        let mut take = |most: u64| {
            let taken = rest.min(most);
            rest -= taken;
            taken
        };
        parts.bus = take(bus.read_ns(sectors));
        parts.overhead += overhead.read_completion_ns;
        parts.overhead += take(overhead.reconnect_ns + overhead.preparation_ns);
        parts.queued += rest;
        self.bus_free_at = end;
        self.head = waiting.end;
        self.finish(waiting, end, parts, AnsweredBy::Medium);
    }
}

/// Where the sectors of a read come from, and when.
struct Source {
    /// When the bus could start, as far as the controller is concerned.
    from: u64,
    /// The first sector that comes from the medium.
    first: u64,
    /// The arm before it.
    arm: Arm,
    /// When the last sector is in the buffer.
    read: u64,
}
