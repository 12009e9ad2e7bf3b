//! A rotating disk: one arm, a platter that turns for ever, a controller with some memory.
//!
//! A command is answered from the read cache, by the stream that is reading on, or from the write buffer when it can be; otherwise it
//! waits for the arm, which takes the waiting command that it reaches first (with ageing). What was answered out of the write
//! buffer is brought to the medium when nothing else wants the arm, or when there is no room left.
//!
//! *Invariants*: `now` never goes back; the arm does one thing at a time, and `arm.at` is when it is free; a command is in
//! exactly one of `waiting`, `filling`, `flushing` and `finished`, or is the `arriving` part of a write; the parts of a finished command add up to its time.
mod layout;
mod seek;
mod segments;
mod spec;
mod write_buffer;

use super::{Command, Done, Drive, DriveInfo, Parts};
use extant_block::Operation;
use layout::{Arm, Layout, Transfer};
use segments::Segments;
use std::collections::VecDeque;
use write_buffer::{Piece, WriteBuffer};

pub use seek::Seek;
pub use spec::{Cache, LookAhead, Overhead, RotatingSpec, Zone};

/// A waiting command's claim grows by a nanosecond for so many that it has waited: after a second it outweighs the longest way.
const AGEING: u64 = 24;

/// A rotating disk in virtual time.
pub struct Rotating {
    info: DriveInfo,
    spec: RotatingSpec,
    layout: Layout,
    now: u64,
    arm: Arm,
    bus_free_at: u64,
    segments: Segments,
    buffer: WriteBuffer,
    /// The piece of the write buffer that is being written until `arm.at`, and where its time goes.
    piece: Option<(Piece, Parts)>,
    /// Commands for the arm.
    waiting: Vec<Waiting>,
    /// Writes that wait for room in the buffer, in order.
    filling: VecDeque<Filling>,
    /// Sectors on the bus, to be in the buffer at that time, in order.
    arriving: VecDeque<Arriving>,
    /// Flushes, and writes that have to be on the medium, until they are.
    flushing: Vec<Flushing>,
    /// Answers in the order of their time.
    finished: VecDeque<Done>,
    scratch: Vec<u64>,
    head: u64,
}

#[derive(Clone, Copy)]
struct Waiting {
    command: Command,
    first: u64,
    end: u64,
    arrival: u64,
    /// When the caches were last asked for it in vain: in the same instant they need not be asked again.
    missed_at: Option<u64>,
}

struct Filling {
    waiting: Waiting,
    next: u64,
    /// When the controller is done with it.
    ready: u64,
    parts: Parts,
}

struct Arriving {
    at: u64,
    first: u64,
    end: u64,
    /// The command whose last sectors these are, and its parts so far.
    last_of: Option<(Waiting, Parts)>,
}

struct Flushing {
    waiting: Waiting,
    /// Every write below that number has to be on the medium.
    below: u64,
    /// Until when the parts account for the time.
    since: u64,
    parts: Parts,
}

impl Rotating {
    /// The drive of these facts, at rest over its first track at time 0.
    pub fn new(name: &str, spec: &RotatingSpec) -> Rotating {
        let layout = Layout::new(spec);
        let (rate, least_seek_ns) = layout.fastest();
        let room = u64::from(spec.cache.write_segments) * spec.cache.segment_sectors;
        Rotating {
            info: DriveInfo {
                name: name.to_owned(),
                bytes: spec.sectors * u64::from(spec.sector_bytes),
                sector_bytes: spec.sector_bytes,
                queue_depth: spec.queue_depth,
                media_bytes_per_second: rate * u64::from(spec.sector_bytes),
                least_seek_ns,
            },
            layout,
            now: 0,
            arm: Arm {
                cylinder: 0,
                head: 0,
                at: 0,
            },
            bus_free_at: 0,
            segments: Segments::new(spec.cache.segments, spec.cache.segment_sectors),
            buffer: WriteBuffer::new(if spec.cache.write_back { room } else { 0 }),
            piece: None,
            waiting: Vec::new(),
            filling: VecDeque::new(),
            arriving: VecDeque::new(),
            flushing: Vec::new(),
            finished: VecDeque::new(),
            scratch: Vec::new(),
            head: 0,
            spec: spec.clone(),
        }
    }

    /// What was answered and is not on the medium: byte offset and bytes, in the order of the answers. At a power cut any
    /// part of it, sector by sector, may be on the medium and the rest not.
    pub fn unflushed(&self) -> Vec<(u64, u64)> {
        let bytes = u64::from(self.spec.sector_bytes);
        let runs = self.buffer.unflushed();
        runs.into_iter()
            .map(|(first, sectors)| (first * bytes, sectors * bytes))
            .collect()
    }

    fn bus_ns(&self, sectors: u64) -> u64 {
        let bytes = u128::from(sectors) * u128::from(self.spec.sector_bytes);
        u64::try_from(bytes * 1_000_000_000 / u128::from(self.spec.cache.bus_bytes_per_second)).unwrap_or(u64::MAX)
    }

    fn finish(&mut self, waiting: &Waiting, at: u64, parts: Parts, hit: bool) {
        debug_assert_eq!(parts.total(), at - waiting.arrival, "{:?} {parts:?}", waiting.command);
        let later = self.finished.partition_point(|done| done.at <= at);
        let id = waiting.command.id;
        self.finished.insert(later, Done { id, at, parts, hit });
    }

    /// Adds the transfer to the host, which starts at `from` or when the interface is free, and ends the command.
    fn to_host(&mut self, waiting: &Waiting, from: u64, mut parts: Parts, hit: bool) {
        let start = from.max(self.bus_free_at);
        parts.queued += start - from;
        parts.bus = self.bus_ns(waiting.end - waiting.first);
        self.bus_free_at = start + parts.bus;
        self.head = waiting.end;
        self.finish(waiting, self.bus_free_at, parts, hit);
    }

    // ---- time

    /// When there is next something to decide; `None` when nothing is going on.
    fn next_step(&self) -> Option<u64> {
        let arrives = self.arriving.front().map(|arriving| arriving.at);
        let arm = self.next_arm_step();
        match (arrives, arm) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    fn next_arm_step(&self) -> Option<u64> {
        if self.piece.is_some() {
            return Some(self.arm.at);
        }
        if !self.waiting.is_empty() || (self.is_pressed() && self.buffer.is_dirty()) {
            return Some(self.arm.at.max(self.grace_end()).max(self.now));
        }
        if !self.buffer.is_dirty() {
            return None;
        }
        Some(match self.segments.reaches_limit(&self.layout) {
            Some(at) => at.max(self.arm.at).max(self.now),
            None => self.arm.at.max(self.now),
        })
    }

    fn grace_end(&self) -> u64 {
        self.segments.stream.map_or(0, |stream| stream.grace_end)
    }

    /// Whether somebody waits for the buffer to be emptied.
    fn is_pressed(&self) -> bool {
        !self.filling.is_empty() || !self.flushing.is_empty()
    }

    /// Does what there is to do up to and including that time.
    fn run_to(&mut self, until: u64) {
        while let Some(at) = self.next_step().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.step();
        }
        self.now = self.now.max(until);
    }

    fn step(&mut self) {
        while self.arriving.front().is_some_and(|arriving| arriving.at <= self.now) {
            if let Some(arriving) = self.arriving.pop_front() {
                self.arrived(arriving);
            }
        }
        if self.arm.at > self.now {
            return;
        }
        if let Some((piece, parts)) = self.piece.take() {
            self.buffer.written(&piece);
            self.end_flushes(parts);
            self.fill_buffer();
        }
        self.choose();
    }

    // ---- the arm

    /// Gives the arm to whoever has the best claim.
    fn choose(&mut self) {
        let pressed = self.is_pressed();
        if self.waiting.is_empty() && !self.buffer.is_dirty() {
            return;
        }
        if let Some(arm) = self.segments.run(&self.layout, self.now) {
            self.rest(arm);
        }
        if self.segments.stream.is_some() {
            let wanted = !self.waiting.is_empty() || pressed;
            if !wanted || self.grace_end() > self.now {
                return;
            }
        }
        let command = self.best_command();
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

    fn here(&self) -> Arm {
        let arm = self.segments.stream.map_or(self.arm, |stream| stream.arm);
        Arm {
            at: arm.at.max(self.now),
            ..arm
        }
    }

    fn age(&self, arrival: u64) -> u64 {
        (self.now - arrival.min(self.now)) / AGEING
    }

    fn best_command(&self) -> Option<(usize, i128)> {
        if let [only] = self.waiting.as_slice() {
            // Nothing to compare it with, unless the buffer is pressed; its oldest claim wins then.
            let claim = if self.is_pressed() { self.claim(only) } else { 0 };
            return Some((0, claim));
        }
        let claims = self
            .waiting
            .iter()
            .enumerate()
            .map(|(index, waiting)| (index, self.claim(waiting)));
        claims.min_by_key(|(index, claim)| (*claim, self.waiting[*index].arrival, self.waiting[*index].command.id))
    }

    fn claim(&self, waiting: &Waiting) -> i128 {
        let transfer = match waiting.command.operation {
            Operation::Write => Transfer::Write,
            _ => Transfer::Read,
        };
        let ready = waiting.arrival + self.overhead(waiting);
        let mut arm = self.here();
        let late = ready.saturating_sub(arm.at);
        arm.at += late;
        let way = late + self.layout.positioning_ns(&arm, waiting.first, transfer);
        i128::from(way) - i128::from(self.age(waiting.arrival))
    }

    fn overhead(&self, waiting: &Waiting) -> u64 {
        match waiting.command.operation {
            Operation::Write => self.spec.overhead.write_ns,
            _ => self.spec.overhead.read_miss_ns,
        }
    }

    fn best_run(&mut self) -> Option<(u64, i128)> {
        let mut found = std::mem::take(&mut self.scratch);
        let presser = self.filling.front().map(|filling| filling.waiting.arrival);
        let presser = presser
            .into_iter()
            .chain(self.flushing.iter().map(|flushing| flushing.waiting.arrival))
            .min();
        found.clear();
        match self.flushing.is_empty() {
            // A flush waits for what is old; what comes later must not keep it waiting.
            false => found.extend(self.buffer.run_of_oldest()),
            true => self.buffer.candidates(self.head, &mut found),
        }
        let arm = self.here();
        let way = |first: &u64| (*first, self.layout.positioning_ns(&arm, *first, Transfer::Write));
        let best = found.iter().map(way).min_by_key(|(first, way)| (*way, *first));
        let age = presser.map_or(0, |arrival| self.age(arrival));
        self.scratch = found;
        best.map(|(first, way)| (first, i128::from(way) - i128::from(age)))
    }

    /// The stream has left the arm there.
    fn rest(&mut self, arm: Arm) {
        let at = arm.at.max(self.arm.at);
        self.arm = Arm { at, ..arm };
    }

    /// Takes the arm away from the stream.
    fn take_arm(&mut self) {
        if let Some(arm) = self.segments.stop(&self.layout, self.now) {
            self.rest(arm);
        }
        self.arm.at = self.arm.at.max(self.now);
    }

    fn write_piece(&mut self, run: u64) {
        self.take_arm();
        let room = u64::from(self.spec.cache.write_segments) * self.spec.cache.segment_sectors;
        let Some(piece) = self.buffer.take(run, room / 4) else {
            return;
        };
        let mut parts = Parts::default();
        let (first, sectors) = (piece.first, piece.end - piece.first);
        self.layout
            .transfer(&mut self.arm, first, sectors, Transfer::Write, &mut parts);
        self.piece = Some((piece, parts));
    }

    fn serve(&mut self, waiting: Waiting) {
        match waiting.command.operation {
            Operation::Write => self.write_through(waiting),
            _ if waiting.missed_at != Some(self.now) && self.answer_read(&waiting) => {}
            _ => self.read_medium(waiting),
        }
    }

    /// A write that the medium itself takes: the data are in the drive before the head is asked for.
    fn write_through(&mut self, waiting: Waiting) {
        self.take_arm();
        let mut parts = Parts::default();
        let (begin, ready) = (self.now, waiting.arrival + self.spec.overhead.write_ns);
        let start = self.start_of(&waiting, ready, begin, &mut parts);
        let sectors = waiting.end - waiting.first;
        let bus_end = start.max(self.bus_free_at) + self.bus_ns(sectors);
        self.bus_free_at = bus_end;
        self.arm.at = start;
        // The arm moves while the data come; what is left of the transfer then is waited for.
        let arrival = self
            .layout
            .arrive(&self.arm, &self.layout.place(waiting.first), Transfer::Write);
        let moved = start + arrival.seek + arrival.settle;
        parts.bus = bus_end.saturating_sub(moved);
        let place = self.layout.place(waiting.first);
        parts.seek = arrival.seek;
        parts.settle = arrival.settle;
        self.arm = Arm {
            cylinder: place.cylinder,
            head: place.head,
            at: moved + parts.bus,
        };
        self.layout
            .transfer(&mut self.arm, waiting.first, sectors, Transfer::Write, &mut parts);
        self.head = waiting.end;
        self.finish(&waiting, self.arm.at, parts, false);
    }

    /// When a command that the controller is ready for at `ready` starts, now that it has the arm; accounts for the time before.
    fn start_of(&self, waiting: &Waiting, ready: u64, now: u64, parts: &mut Parts) -> u64 {
        let start = ready.max(now).max(self.arm.at);
        parts.overhead = ready - waiting.arrival;
        parts.queued = start - ready;
        start
    }

    // ---- reads

    /// Answers a read without the arm, or with the stream that is under way. `false`: it needs the arm.
    fn answer_read(&mut self, waiting: &Waiting) -> bool {
        let ready = waiting.arrival + self.spec.overhead.read_hit_ns;
        let mut parts = Parts::default();
        parts.overhead = ready - waiting.arrival;
        let from = ready.max(self.now);
        parts.queued = from - ready;
        if self.buffer.holds(waiting.first, waiting.end) {
            self.to_host(waiting, from, parts, true);
            return true;
        }
        if let Some(arm) = self.segments.run(&self.layout, self.now) {
            self.rest(arm);
        }
        let Some(segment) = self.segments.find(waiting.first) else {
            return false;
        };
        if waiting.end <= self.segments.get(segment).end {
            self.segments.touch(segment);
            self.after_hit(segment, waiting);
            self.to_host(waiting, from, parts, true);
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
        // Nobody else gets the arm before that.
        self.arm.at = self.arm.at.max(arm.at);
        self.behind_medium(waiting, there, parts);
        true
    }

    fn limit_from(&self, waiting: &Waiting) -> u64 {
        match self.spec.cache.look_ahead {
            LookAhead::Off => waiting.end,
            _ => (waiting.end.saturating_add(self.spec.cache.segment_sectors)).min(self.layout.sectors),
        }
    }

    /// A read was answered from a segment: its stream goes further, or starts again when the arm has nothing to do.
    fn after_hit(&mut self, segment: usize, waiting: &Waiting) {
        let limit = self.limit_from(waiting);
        match self.segments.stream {
            Some(stream) if stream.segment == segment => self.segments.advance_stream(stream.next, stream.arm, limit),
            Some(_) => {}
            None => self.read_on(segment, waiting.end),
        }
    }

    fn read_on(&mut self, segment: usize, from: u64) {
        let idle = self.piece.is_none() && self.waiting.is_empty();
        if self.spec.cache.look_ahead != LookAhead::Off && idle {
            let arm = Arm {
                at: self.arm.at.max(self.now),
                ..self.arm
            };
            let grace_end = arm.at + self.spec.cache.grace_ns;
            self.segments
                .read_on(segment, from, arm, grace_end, self.layout.sectors);
        }
    }

    fn read_medium(&mut self, waiting: Waiting) {
        self.take_arm();
        let mut parts = Parts::default();
        let ready = waiting.arrival + self.spec.overhead.read_miss_ns;
        self.arm.at = self.start_of(&waiting, ready, self.now, &mut parts);
        // What a segment holds of the beginning need not be read again.
        let held = self.segments.find(waiting.first);
        let first = held.map_or(waiting.first, |segment| self.segments.get(segment).end.min(waiting.end));
        self.layout
            .transfer(&mut self.arm, first, waiting.end - first, Transfer::Read, &mut parts);
        if let Some(segment) = held.or_else(|| self.segments.take(waiting.first)) {
            self.segments.touch(segment);
            self.segments.fill(segment, waiting.end);
            if self.spec.cache.look_ahead != LookAhead::Off {
                let grace_end = self.arm.at + self.spec.cache.grace_ns;
                self.segments
                    .read_on(segment, waiting.end, self.arm, grace_end, self.layout.sectors);
            }
        }
        self.behind_medium(&waiting, self.arm.at, parts);
    }

    /// The transfer to the host of what the head has read by `read`. An interface that is slower than the medium begins with the
    /// first sector, for it never has to wait for the next one; a faster one begins when all is there, or a segment is full.
    fn behind_medium(&mut self, waiting: &Waiting, read: u64, mut parts: Parts) {
        let sectors = waiting.end - waiting.first;
        let (bus, all_but_first) = (self.bus_ns(sectors), parts.media - parts.media / sectors);
        let hidden = match bus > parts.media {
            true => all_but_first,
            false => all_but_first.min(bus - self.bus_ns(sectors.min(self.spec.cache.segment_sectors))),
        };
        let start = (read - hidden).max(self.bus_free_at);
        let end = (start + bus).max(read);
        self.bus_free_at = end;
        self.head = waiting.end;
        parts.bus = (end - read).min(bus);
        parts.queued += end - read - parts.bus;
        self.finish(waiting, end, parts, false);
    }

    // ---- writes

    /// Lets waiting writes into the buffer as far as there is room.
    fn fill_buffer(&mut self) {
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
            self.arriving.push_back(Arriving {
                at,
                first,
                end: first + count,
                last_of,
            });
        }
    }

    fn arrived(&mut self, arriving: Arriving) {
        self.forget(arriving.first, arriving.end);
        self.buffer.add(arriving.first, arriving.end);
        let Some((waiting, parts)) = arriving.last_of else {
            return;
        };
        self.head = waiting.end;
        if waiting.command.force_unit_access {
            let below = self.buffer.next_entry();
            self.flushing.push(Flushing {
                waiting,
                below,
                since: arriving.at,
                parts,
            });
        } else {
            self.finish(&waiting, arriving.at, parts, true);
        }
    }

    fn forget(&mut self, first: u64, end: u64) {
        if let Some(arm) = self.segments.forget(&self.layout, first, end, self.now) {
            self.rest(arm);
        }
    }

    /// Ends the flushes whose writes are all on the medium; the last piece's time is theirs.
    fn end_flushes(&mut self, last: Parts) {
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
            self.finish(&flushing.waiting, self.now, parts, false);
        }
    }

    fn flush(&mut self, waiting: Waiting) {
        let ready = self.now + self.spec.overhead.read_hit_ns;
        let parts = Parts {
            overhead: self.spec.overhead.read_hit_ns,
            ..Parts::default()
        };
        let below = self.buffer.next_entry() + self.arriving.len() as u64;
        if self.buffer.oldest().is_none() && self.arriving.is_empty() {
            self.finish(&waiting, ready, parts, true);
        } else {
            // The controller's time is short against that of the medium, and passes meanwhile.
            let (since, parts) = (self.now, Parts::default());
            self.flushing.push(Flushing {
                waiting,
                below,
                since,
                parts,
            });
        }
    }
}

impl Drive for Rotating {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn submit(&mut self, command: Command, now: u64) {
        self.run_to(now);
        let now = self.now;
        let sector = u64::from(self.spec.sector_bytes);
        // Whoever asks for what lies past the end gets the time of the end: whether it is an error is the caller's business.
        let sectors = command.bytes.div_ceil(sector).clamp(1, self.layout.sectors);
        let first = (command.offset / sector).min(self.layout.sectors - sectors);
        let waiting = Waiting {
            command,
            first,
            end: first + sectors,
            arrival: now,
            missed_at: None,
        };
        match command.operation {
            Operation::Flush => self.flush(waiting),
            Operation::Read => self.submit_read(waiting),
            Operation::Write => self.submit_write(waiting),
        }
        if self.arm.at <= self.now {
            self.step();
        }
    }

    fn next_event(&self) -> Option<u64> {
        let answer = self.finished.front().map(|done| done.at);
        let busy = !self.waiting.is_empty() || self.is_pressed() || !self.arriving.is_empty();
        let step = if busy { self.next_step() } else { None };
        match (answer, step) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    fn advance(&mut self, now: u64, done: &mut Vec<Done>) {
        self.run_to(now);
        while self.finished.front().is_some_and(|done| done.at <= now) {
            done.extend(self.finished.pop_front());
        }
    }

    fn head(&self) -> u64 {
        self.head * u64::from(self.spec.sector_bytes)
    }
}

impl Rotating {
    fn submit_read(&mut self, waiting: Waiting) {
        if self.spec.cache.look_ahead == LookAhead::UntilCommand {
            let own = self.segments.find(waiting.first);
            if self.segments.stream.is_some_and(|stream| Some(stream.segment) != own) {
                self.take_arm();
            }
        }
        if !self.answer_read(&waiting) {
            let missed_at = Some(self.now);
            self.waiting.push(Waiting { missed_at, ..waiting });
        }
    }

    fn submit_write(&mut self, waiting: Waiting) {
        if self.spec.cache.look_ahead == LookAhead::UntilCommand && self.segments.stream.is_some() {
            self.take_arm();
        }
        if self.spec.cache.write_back {
            let ready = waiting.arrival + self.spec.overhead.write_ns;
            let parts = Parts {
                overhead: self.spec.overhead.write_ns,
                ..Parts::default()
            };
            self.filling.push_back(Filling {
                waiting,
                next: waiting.first,
                ready,
                parts,
            });
            self.fill_buffer();
        } else {
            self.forget(waiting.first, waiting.end);
            self.waiting.push(waiting);
        }
    }
}
