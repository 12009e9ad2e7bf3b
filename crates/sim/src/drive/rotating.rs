//! A rotating disk: one arm, a platter that turns for ever, a controller with some memory.
//!
//! A command is answered from the read cache, by the stream that is reading on, or from the write
//! buffer when it can be; otherwise it waits for the arm, which takes the waiting command that it
//! reaches first (with ageing). What was answered out of the write buffer is brought to the medium
//! when nothing else wants the arm, or when there is no room left.
//!
//! At a power cut the write buffer is lost, and of the sectors under the head those that have
//! passed are on the platter; a sector is written whole or not at all. The time in which the
//! platter comes up to speed is not modelled.
//!
//! *Invariants*: `now` never goes back; the arm does one thing at a time, and `arm.at` is when it
//! is free; a command is in exactly one of `waiting`, `filling`, `flushing` and `finished`, or is
//! the `arriving` part of a write; the parts of a finished command add up to its time.
mod arm;
mod cache;
mod controller;
mod layout;
mod overhead;
mod reading;
mod seek;
mod segments;
mod spec;
mod write_buffer;
mod writing;

use super::{AnsweredBy, Command, Done, Drive, DriveInfo, Parts, Unflushed};
use extant_block::Operation;
use layout::{Arm, Layout};
use segments::{ForWrites, Segments};
use std::collections::VecDeque;
use write_buffer::{Piece, WriteBuffer};

pub use cache::{Bus, Cache, Destage, LookAhead, Order, Reach, ReadingOn, StartOf};
pub use controller::Controller;
pub use overhead::{After, Overhead};
pub use seek::Seek;
pub use spec::{RotatingSpec, Zone};

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
    /// The sectors that the arm writes, or last wrote.
    passing: Option<Passing>,
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
    /// The last read or write that came.
    before: Operation,
    head: u64,
}

#[derive(Clone, Copy)]
struct Waiting {
    command: Command,
    first: u64,
    end: u64,
    arrival: u64,
    /// The read or write that came before it: the controller's time depends on it.
    before: Operation,
    /// When the caches were last asked for it in vain: in the same instant they need not be asked
    /// again.
    missed_at: Option<u64>,
    /// What of a write's data came into the buffer, or is coming, while it waits.
    held: Held,
}

/// The beginning of a write's data, ahead of the arm.
#[derive(Clone, Copy, Default)]
struct Held {
    sectors: u64,
    /// When the last of them is in the buffer.
    at: u64,
}

struct Filling {
    waiting: Waiting,
    next: u64,
    /// When the controller is done with it.
    ready: u64,
    parts: Parts,
}

/// Sectors that pass under the writing head until `until`.
#[derive(Clone, Copy)]
struct Passing {
    /// The command, of a write that the buffer does not hold.
    id: Option<u64>,
    first: u64,
    end: u64,
    /// The arm before the first of them.
    start: Arm,
    until: u64,
}

struct Arriving {
    at: u64,
    id: u64,
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
        let for_writes = match (spec.cache.separate_write_segment, spec.cache.keep_written) {
            (true, true) => ForWrites::Last,
            (true, false) => ForWrites::Reserved,
            (false, true) => ForWrites::Shared(spec.cache.write_segments),
            (false, false) => ForWrites::None,
        };
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
            arm: Arm { cylinder: 0, head: 0, at: 0 },
            bus_free_at: 0,
            segments: Segments::new(spec.cache.segments, spec.cache.segment_sectors, for_writes),
            buffer: WriteBuffer::new(
                if spec.cache.write_back { room } else { 0 },
                spec.cache.write_runs as usize,
            ),
            piece: None,
            passing: None,
            waiting: Vec::new(),
            filling: VecDeque::new(),
            arriving: VecDeque::new(),
            flushing: Vec::new(),
            finished: VecDeque::new(),
            scratch: Vec::new(),
            before: Operation::Read,
            head: 0,
            spec: spec.clone(),
        }
    }

    fn finish(&mut self, waiting: &Waiting, at: u64, parts: Parts, by: AnsweredBy) {
        debug_assert_eq!(parts.total(), at - waiting.arrival, "{:?} {parts:?}", waiting.command);
        let later = self.finished.partition_point(|done| done.at <= at);
        let id = waiting.command.id;
        self.finished.insert(later, Done { id, at, parts, hit: by == AnsweredBy::Cache });
    }

    /// Adds the transfer to the host of what the cache holds, which starts at `from` or when the
    /// interface is free, and ends the command.
    fn send(&mut self, waiting: &Waiting, from: u64, mut parts: Parts) {
        let overhead = &self.spec.overhead;
        let start = from.max(self.bus_free_at);
        parts.queued += start - from;
        parts.overhead += overhead.preparation_ns + overhead.read_completion_ns;
        parts.bus = self.spec.cache.bus.read_ns(waiting.end - waiting.first);
        let end = start + overhead.preparation_ns + parts.bus + overhead.read_completion_ns;
        self.bus_free_at = end;
        self.head = waiting.end;
        self.finish(waiting, end, parts, AnsweredBy::Cache);
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
            return Some(self.arm.at.max(self.held_until()).max(self.now));
        }
        if !self.buffer.is_dirty() {
            return None;
        }
        Some(match self.segments.reaches_limit(&self.layout) {
            Some(at) => at.max(self.arm.at).max(self.now),
            None => self.arm.at.max(self.now),
        })
    }

    fn held_until(&self) -> u64 {
        self.segments.stream.map_or(0, |stream| stream.held_until)
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
        self.fetch_ahead();
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
        // What asks for sectors past the end gets the time of the end: whether it is an error
        // is the caller's business.
        let sectors = command.bytes.div_ceil(sector).clamp(1, self.layout.sectors);
        let first = (command.offset / sector).min(self.layout.sectors - sectors);
        let before = self.before;
        if command.operation != Operation::Flush {
            self.before = command.operation;
        }
        let end = first + sectors;
        let (missed_at, held) = (None, Held::default());
        let waiting = Waiting { command, first, end, arrival: now, before, missed_at, held };
        match command.operation {
            Operation::Flush => self.flush(waiting),
            Operation::Read => self.submit_read(waiting),
            Operation::Write => self.submit_write(waiting),
        }
        if self.arm.at <= self.now {
            self.step();
        }
        self.fetch_ahead();
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

    fn unflushed(&mut self, now: u64) -> Vec<Unflushed> {
        self.run_to(now);
        self.not_on_medium()
    }

    fn power_cut(&mut self, now: u64) -> Vec<Unflushed> {
        let lost = self.unflushed(now);
        let mut anew = Rotating::new(&self.info.name, &self.spec);
        (anew.now, anew.arm.at, anew.bus_free_at) = (self.now, self.now, self.now);
        *self = anew;
        lost
    }

    fn head(&self) -> u64 {
        self.head * u64::from(self.spec.sector_bytes)
    }
}
