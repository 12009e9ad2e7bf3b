//! The read cache: segments of neighbouring sectors, and the stream that fills one of them while
//! the arm has nothing else to do.
//!
//! *Invariants*: a segment holds `start..end`, at most `room` sectors; the stream, when there is
//! one, fills the segment that it names from its `end` on, and `stream.next ==
//! segments[stream.segment].end`.
use super::layout::{Arm, Layout, Transfer};
use crate::drive::Parts;

#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    pub start: u64,
    pub end: u64,
    used: u64,
    /// Whether it was begun by a write.
    written: bool,
}

/// Reading on: where the arm is, what comes next, and where it ends.
#[derive(Clone, Copy, Debug)]
pub struct ReadAheadStream {
    pub segment: usize,
    pub next: u64,
    pub limit: u64,
    pub arm: Arm,
    /// Until when nothing takes the arm away: what it has to read at least is read then.
    pub held_until: u64,
}

impl ReadAheadStream {
    /// Where the arm is, and when, once the stream has read up to `end`.
    pub fn reaches(&self, layout: &Layout, end: u64) -> Arm {
        let mut arm = self.arm;
        let sectors = end.saturating_sub(self.next);
        layout.transfer(&mut arm, self.next, sectors, Transfer::Read, &mut Parts::default());
        arm
    }
}

pub struct Segments {
    list: Vec<Segment>,
    room: u64,
    /// How many of them hold written sectors at most, and which of them nothing else.
    for_writes: ForWrites,
    stamp: u64,
    pub stream: Option<ReadAheadStream>,
}

/// Which segments hold sectors that were written, for later reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForWrites {
    /// None does.
    None,
    /// At most that many of those of reads.
    Shared(u32),
    /// The last one, which reads do not use.
    Last,
    /// None does, and reads do not use the last one.
    Reserved,
}

impl Segments {
    pub fn new(count: u32, room: u64, for_writes: ForWrites) -> Segments {
        let list = vec![Segment::default(); count as usize];
        Segments { list, room, for_writes, stamp: 0, stream: None }
    }

    /// How many of them reads use.
    fn for_reads(&self) -> usize {
        match self.for_writes {
            ForWrites::None | ForWrites::Shared(_) => self.list.len(),
            ForWrites::Last | ForWrites::Reserved => self.list.len().saturating_sub(1),
        }
    }

    /// Written sectors stay for later reads: after those of the segment that ends where they begin,
    /// or in a segment of their own.
    pub fn keep(&mut self, first: u64, end: u64) {
        let all = self.list.len();
        let range = match self.for_writes {
            ForWrites::None | ForWrites::Reserved => return,
            ForWrites::Last => self.for_reads()..all,
            ForWrites::Shared(_) => 0..all,
        };
        let held = |segment: &usize| self.list[*segment];
        let appends = range.clone().find(|at| {
            let held = held(at);
            held.written && held.start < held.end && held.end == first
        });
        let oldest = |only_written: bool| {
            let found = range.clone().filter(|at| !only_written || held(at).written);
            found.min_by_key(|at| held(at).used)
        };
        let written = range.clone().filter(|at| held(at).written).count();
        let is_full =
            matches!(self.for_writes, ForWrites::Shared(most) if written >= most as usize);
        let Some(segment) = appends.or_else(|| oldest(is_full)) else { return };
        if appends.is_none() {
            if self.stream.is_some_and(|stream| stream.segment == segment) {
                return;
            }
            self.list[segment] = Segment { start: first, end: first, used: 0, written: true };
        }
        self.touch(segment);
        self.fill(segment, end);
    }

    /// The segment that holds the sector, or ends just before it.
    pub fn find(&self, sector: u64) -> Option<usize> {
        self.list
            .iter()
            .position(|held| held.start <= sector && sector <= held.end && held.start < held.end)
    }

    /// The segment that a read from that sector on is served from: as [`Segments::find`], or that
    /// of the stream when the sector is to come under the head within a turn anyway. (A new command
    /// for it would be ready too late if it is near, and lose a turn.)
    pub fn serving(&self, layout: &Layout, sector: u64) -> Option<usize> {
        self.find(sector).or_else(|| {
            let stream =
                self.stream.filter(|stream| stream.next <= sector && sector < stream.limit)?;
            (sector - stream.next <= layout.place(stream.next).track).then_some(stream.segment)
        })
    }

    pub fn get(&self, segment: usize) -> Segment {
        self.list[segment]
    }

    /// Marks it as the last used.
    pub fn touch(&mut self, segment: usize) {
        self.stamp += 1;
        self.list[segment].used = self.stamp;
    }

    /// A segment for a read that starts anew: the one that was used longest ago, emptied. `None`
    /// without any.
    pub fn take(&mut self, start: u64) -> Option<usize> {
        let of_reads = self.list[..self.for_reads()].iter().enumerate();
        let (segment, _) = of_reads.min_by_key(|(_, held)| held.used)?;
        if self.stream.is_some_and(|stream| stream.segment == segment) {
            self.stream = None;
        }
        self.list[segment] = Segment { start, end: start, used: 0, written: false };
        Some(segment)
    }

    /// The segment holds up to `end` now; what no longer fits falls out at its start.
    pub fn fill(&mut self, segment: usize, end: u64) {
        let held = &mut self.list[segment];
        held.end = end;
        held.start = held.start.max(end.saturating_sub(self.room));
    }

    /// The segment begins with that sector; it is empty.
    pub fn open(&mut self, segment: usize, start: u64) {
        self.list[segment].start = start;
    }

    /// Reads on after the segment up to `limit`, `least` sectors of it whatever comes.
    pub fn read_on(&mut self, layout: &Layout, segment: usize, limit: u64, arm: Arm, least: u64) {
        let next = self.list[segment].end;
        if next >= limit {
            return;
        }
        let mut held_until = 0;
        if least > 0 {
            let (mut arm, count) = (arm, least.min(limit - next));
            layout.transfer(&mut arm, next, count, Transfer::Read, &mut Parts::default());
            held_until = arm.at;
        }
        self.stream = Some(ReadAheadStream { segment, next, limit, arm, held_until });
    }

    /// Lets the stream run until that time. It ends when its segment is full; the arm it leaves is
    /// answered then.
    pub fn run(&mut self, layout: &Layout, until: u64) -> Option<Arm> {
        let stream = self.stream.as_mut()?;
        while stream.next < stream.limit {
            let place = layout.place(stream.next);
            let start = layout.arrive(&stream.arm, &place, Transfer::Read).start;
            let count = place.left.min(stream.limit - stream.next);
            let passed = match until >= start + layout.media_ns(count, place.track) {
                true => count,
                false => {
                    layout.sectors_within(until.saturating_sub(start), place.track).min(count - 1)
                }
            };
            if passed == 0 {
                break;
            }
            stream.next += passed;
            stream.arm = Arm {
                cylinder: place.cylinder,
                head: place.head,
                at: stream.arm.at.max(start + layout.media_ns(passed, place.track)),
            };
            if passed < count {
                break;
            }
        }
        let stream = *stream;
        self.fill(stream.segment, stream.next);
        if stream.next < stream.limit {
            return None;
        }
        self.stream = None;
        Some(stream.arm)
    }

    /// When the stream has filled its segment; `None` without a stream.
    pub fn reaches_limit(&self, layout: &Layout) -> Option<u64> {
        self.stream.map(|stream| stream.reaches(layout, stream.limit).at)
    }

    /// The stream goes up to `end` at once (its reader waits for it), and from there on.
    pub fn advance_stream(&mut self, end: u64, arm: Arm, limit: u64) {
        let Some(stream) = self.stream.as_mut() else { return };
        if end > stream.next {
            stream.next = end;
            stream.arm = arm;
        }
        stream.limit = stream.limit.max(limit);
        let (segment, next) = (stream.segment, stream.next);
        self.fill(segment, next);
    }

    /// Ends the stream at that time, or at the end of the sector that is under the head; where it
    /// leaves the arm.
    // tidy: boolean because it is the drive's fact of that name
    pub fn stop(&mut self, layout: &Layout, now: u64, ends_in_sector: bool) -> Option<Arm> {
        if let Some(arm) = self.run(layout, now) {
            return Some(arm);
        }
        let stream = self.stream.take()?;
        let mut at = stream.arm.at.max(now);
        if !ends_in_sector {
            let end = stream.reaches(layout, stream.next + 1).at;
            let sector = layout.media_ns(1, layout.place(stream.next).track);
            if end > at && end - at < sector {
                at = end;
            }
        }
        Some(Arm { at, ..stream.arm })
    }

    /// A write: a segment that holds any of it, or was about to, is dropped whole. The measured
    /// drives that tell (seen in the traces of two) read what lay beside a write anew. Where the
    /// arm is left is answered when the stream ends with it.
    pub fn forget(&mut self, layout: &Layout, first: u64, end: u64, now: u64) -> Option<Arm> {
        let filled = self.run(layout, now);
        let stream = self.stream;
        let limit_of = |segment: usize| {
            stream.filter(|stream| stream.segment == segment).map_or(0, |stream| stream.limit)
        };
        let mut left = filled;
        for (segment, held) in self.list.iter_mut().enumerate() {
            if held.start < end && first < held.end.max(limit_of(segment)) {
                *held = Segment { start: first, end: first, used: 0, written: false };
                if let Some(stream) = stream.filter(|stream| stream.segment == segment) {
                    self.stream = None;
                    left = Some(Arm { at: stream.arm.at.max(now), ..stream.arm });
                }
            }
        }
        left
    }
}
