//! Writes: into the buffer and from there to the medium, or straight to it; flushes, and writes
//! that have to be on the medium.
use super::cache::LookAhead;
use super::layout::{Arm, Transfer};
use super::{Arriving, Filling, Flushing, Held, Passing, Rotating, Waiting};
use crate::drive::{AnsweredBy, Parts, Unflushed};
use extant_block::Operation;

impl Rotating {
    pub(super) fn submit_write(&mut self, waiting: Waiting) {
        let ahead = &self.spec.cache.look_ahead;
        let ends = ahead.kind == LookAhead::UntilCommand || ahead.ends_at_write;
        if ends && self.segments.stream.is_some() {
            self.take_arm();
        }
        if self.spec.cache.write_back && !self.bypasses(&waiting) {
            let fits = waiting.end - waiting.first <= self.buffer.room();
            let by = match self.filling.is_empty() && fits && self.admits(waiting.first) {
                true => AnsweredBy::Cache,
                false => AnsweredBy::Medium,
            };
            let overhead = self.overhead(&waiting, by) + self.spec.overhead.preparation_ns;
            let ready = waiting.arrival + overhead;
            let parts = Parts { overhead, ..Parts::default() };
            self.filling.push_back(Filling { waiting, next: waiting.first, ready, parts });
            self.fill_buffer();
        } else {
            self.forget(waiting.first, waiting.end);
            self.waiting.push(waiting);
        }
    }

    /// Whether a write goes to the medium past the buffer: one that the buffer cannot hold would
    /// wait for each piece of it, and lose turns where pieces are short. What the buffer has of the
    /// same sectors is older, and has to reach the medium first: then it goes through.
    fn bypasses(&self, waiting: &Waiting) -> bool {
        waiting.end - waiting.first > self.buffer.capacity()
            && !self.buffer.overlaps(waiting.first, waiting.end)
    }

    /// Whether the buffer takes a write from that sector on, as far as its runs are concerned.
    fn admits(&self, first: u64) -> bool {
        let follows = self.arriving.back().is_some_and(|arriving| arriving.end == first);
        follows || (self.buffer.admits(first) && (self.arriving.is_empty() || !self.is_limited()))
    }

    fn is_limited(&self) -> bool {
        self.spec.cache.write_runs > 0
    }

    /// A write that the medium itself takes: the data are in the drive before the head is asked
    /// for.
    pub(super) fn write_through(&mut self, waiting: Waiting) {
        self.take_arm();
        let mut parts = Parts::default();
        let overhead = self.spec.overhead;
        let ready = waiting.arrival + self.overhead(&waiting, AnsweredBy::Medium);
        let start = self.start_of(&waiting, ready, self.now, &mut parts);
        let sectors = waiting.end - waiting.first;
        self.arm.at = start + overhead.write_seek_delay_ns;
        let place = self.layout.place(waiting.first);
        let in_time = self.fetch(&waiting, start, place.track);
        // The arm moves while the data come.
        let arrival = self.layout.arrive(&self.arm, &place, Transfer::Write);
        let moved = self.arm.at + arrival.seek + arrival.settle;
        parts.overhead += overhead.write_seek_delay_ns;
        parts.bus = in_time.saturating_sub(moved);
        parts.seek = arrival.seek;
        parts.settle = arrival.settle;
        self.arm = Arm { cylinder: place.cylinder, head: place.head, at: moved + parts.bus };
        self.pass(waiting.first, sectors, Some(waiting.command.id), &mut parts);
        self.head = waiting.end;
        self.segments.keep(waiting.first, waiting.end);
        let end = self.arm.at + overhead.write_completion_ns;
        parts.overhead += overhead.write_completion_ns;
        self.finish(&waiting, end, parts, AnsweredBy::Medium);
    }

    /// Puts what is left of a write's data on the bus, for an arm that it has from `start` on.
    /// Returns when the head may start over a track of that many sectors: as soon as no sector will
    /// come too late for it.
    fn fetch(&mut self, waiting: &Waiting, start: u64, track: u64) -> u64 {
        let bus = self.spec.cache.bus;
        let (held, medium) = (waiting.held, self.layout.media_ns(1, track));
        let each = medium.min(bus.write_ns(1));
        let held_in_time = held.at.saturating_sub(held.sectors.saturating_sub(1) * each);
        let rest = waiting.end - waiting.first - held.sectors;
        if rest == 0 {
            return held_in_time;
        }
        let end = self.bus_end(waiting, start, rest);
        self.bus_free_at = end;
        let ahead = (rest - 1) * each + self.layout.media_ns(held.sectors, track);
        held_in_time.max(end.saturating_sub(ahead))
    }

    /// When that many more sectors of a write are in the buffer, if the drive asks for them at
    /// `from`.
    fn bus_end(&self, waiting: &Waiting, from: u64, sectors: u64) -> u64 {
        let overhead = &self.spec.overhead;
        let (delay, preparation) = match waiting.held.sectors {
            0 => (overhead.write_data_delay_ns, overhead.preparation_ns),
            _ => (0, 0),
        };
        (from + delay).max(self.bus_free_at) + preparation + self.spec.cache.bus.write_ns(sectors)
    }

    /// When the first sector of a write is in the buffer, for an arm that it has from `start` on.
    pub(super) fn first_data_at(&self, waiting: &Waiting, start: u64) -> u64 {
        match waiting.held.sectors {
            0 => {
                let ready = waiting.arrival + self.overhead(waiting, AnsweredBy::Medium);
                self.bus_end(waiting, ready.max(start), 1)
            }
            held => waiting.held.at.saturating_sub(self.spec.cache.bus.write_ns(held - 1)),
        }
    }

    /// Lets the data of queued writes into the buffer while the arm works for another command, as
    /// far as the segments for writes hold them: first those that the arm would take next. What
    /// the arm is writing leaves the buffer meanwhile, and counts no more.
    pub(super) fn fetch_ahead(&mut self) {
        let cache = &self.spec.cache;
        if cache.write_back || self.spec.queue_depth == 1 || self.waiting.is_empty() {
            return;
        }
        let room = u64::from(cache.write_segments) * cache.segment_sectors;
        let mut left = room - self.waiting.iter().map(|one| one.held.sectors).sum::<u64>();
        while left > 0 {
            let writes = self.waiting.iter().enumerate().filter(|(_, one)| {
                one.held.sectors == 0 && one.command.operation == Operation::Write
            });
            let claims = writes.map(|(index, one)| (self.way(one).time, one.arrival, index));
            let Some((_, _, index)) = claims.min() else { return };
            let waiting = self.waiting[index];
            let sectors = left.min(waiting.end - waiting.first);
            let ready = waiting.arrival + self.overhead(&waiting, AnsweredBy::Medium);
            let at = self.bus_end(&waiting, ready.max(self.now), sectors);
            self.bus_free_at = at;
            self.waiting[index].held = Held { sectors, at };
            left -= sectors;
        }
    }

    /// Has the arm write these sectors from where it is; of a write that did not come through the
    /// buffer, with its command.
    pub(super) fn pass(&mut self, first: u64, sectors: u64, id: Option<u64>, parts: &mut Parts) {
        let start = self.arm;
        let order = self.spec.cache.write_order;
        self.layout.transfer_in(order, &mut self.arm, first, sectors, Transfer::Write, parts);
        self.passing = Some(Passing { id, first, end: first + sectors, start, until: self.arm.at });
    }

    /// The sectors that are being written now: those before the returned one have passed the head.
    /// Of a write in the order of passing, what is beyond the first gap counts as not written.
    fn passed(&self) -> Option<(Passing, u64)> {
        let passing = self.passing.filter(|passing| self.now < passing.until)?;
        let is_written = |sectors: u64| {
            let mut arm = passing.start;
            let mut parts = Parts::default();
            self.layout.transfer(&mut arm, passing.first, sectors, Transfer::Write, &mut parts);
            arm.at <= self.now
        };
        // How many have passed: at least `least`, and fewer than `most`.
        let (mut least, mut most) = (0, passing.end - passing.first);
        while least + 1 < most {
            let middle = least.midpoint(most);
            match is_written(middle) {
                true => least = middle,
                false => most = middle,
            }
        }
        Some((passing, passing.first + least))
    }

    /// What is not on the medium now.
    pub(super) fn not_on_medium(&self) -> Vec<Unflushed> {
        let sector_bytes = u64::from(self.spec.sector_bytes);
        let left = |id: u64, first: u64, end: u64| Unflushed {
            id,
            offset: first * sector_bytes,
            bytes: (end - first) * sector_bytes,
        };
        let passed = self.passed();
        let piece = self.piece.as_ref().zip(passed).map(|((piece, _), (_, first))| (piece, first));
        let mut found = self.buffer.unflushed(piece, sector_bytes);
        if let Some((Passing { id: Some(id), end, .. }, first)) = passed {
            found.push(left(id, first, end));
        }
        found.extend(self.arriving.iter().map(|part| left(part.id, part.first, part.end)));
        let filling = self.filling.iter();
        found
            .extend(filling.map(|filling| {
                left(filling.waiting.command.id, filling.next, filling.waiting.end)
            }));
        let waiting =
            self.waiting.iter().filter(|waiting| waiting.command.operation == Operation::Write);
        found.extend(waiting.map(|waiting| left(waiting.command.id, waiting.first, waiting.end)));
        found
    }

    /// Lets waiting writes into the buffer as far as there is room.
    pub(super) fn fill_buffer(&mut self) {
        while let Some(filling) = self.filling.front() {
            let count = (filling.waiting.end - filling.next).min(self.buffer.room());
            let is_new = filling.next == filling.waiting.first;
            if count == 0 || (is_new && !self.admits(filling.next)) {
                return;
            }
            let Some(filling) = self.filling.front_mut() else { return };
            let from = filling.ready.max(self.now);
            let start = from.max(self.bus_free_at);
            let first = filling.next;
            filling.next += count;
            let is_last = filling.next == filling.waiting.end;
            let bus = self.spec.cache.bus.write_ns(count);
            self.bus_free_at = start + bus;
            self.buffer.reserve(count);
            let Some(filling) = self.filling.front_mut() else {
                return;
            };
            filling.parts.queued += start - filling.ready;
            filling.parts.bus += bus;
            filling.ready = self.bus_free_at;
            let id = filling.waiting.command.id;
            let mut last_of = None;
            if is_last {
                last_of = self.filling.pop_front().map(|filling| (filling.waiting, filling.parts));
            }
            let at = self.bus_free_at;
            self.arriving.push_back(Arriving { at, id, first, end: first + count, last_of });
        }
    }

    pub(super) fn arrived(&mut self, arriving: Arriving) {
        self.forget(arriving.first, arriving.end);
        self.buffer.add(arriving.id, arriving.first, arriving.end);
        self.segments.keep(arriving.first, arriving.end);
        let Some((waiting, parts)) = arriving.last_of else {
            return;
        };
        self.head = waiting.end;
        if waiting.command.force_unit_access {
            let below = self.buffer.next_entry();
            self.flushing.push(Flushing { waiting, below, since: arriving.at, parts });
        } else {
            let completion = self.spec.overhead.write_completion_ns;
            let parts = Parts { overhead: parts.overhead + completion, ..parts };
            self.finish(&waiting, arriving.at + completion, parts, AnsweredBy::Cache);
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
        let overhead = self.overhead(&waiting, AnsweredBy::Cache);
        let ready = self.now + overhead;
        let parts = Parts { overhead, ..Parts::default() };
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
