//! Requests against a drive, however many there are: at their recorded times, in a closed loop, or
//! as fast as the drive takes them.
//!
//! *Invariants*: no more requests are kept than the drive holds and have ended before an earlier
//! one. Times are given in the order of the requests.
use super::{Beyond, Changed, Fit};
use crate::device::Histogram;
use crate::drive::{Done, Drive};
use crate::trace::requests::Request;
use extant_block::Operation;
use std::collections::VecDeque;

/// When requests are issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pace {
    /// At their recorded times, however long the others take: an open loop. Time counts from the
    /// arrival.
    #[default]
    Recorded,
    /// One after another, each as long after the simulated end of the one before as it came after
    /// the recorded one's end (or arrival, where the end is not known).
    Closed,
    /// As soon as the drive takes one more.
    FullSpeed,
}

/// What a replay gave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Requests that were replayed.
    pub requests: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// What had to be changed of them.
    pub changed: Changed,
    /// How long they took on the drive.
    pub times: Histogram,
    /// How long they took where they were traced, those of which it is known.
    pub measured: Histogram,
    /// When the last one ended, in nanoseconds from the start.
    pub ended_ns: u64,
}

/// A request on its way.
struct UnderWay {
    /// From when its time counts.
    from_ns: u64,
    measured_ns: Option<u64>,
    took_ns: Option<u64>,
}

/// A request that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// How long it took on the drive.
    pub took_ns: u64,
    /// How long it took where it was traced, if that is known.
    pub measured_ns: Option<u64>,
}

struct Replay<'a> {
    drive: &'a mut dyn Drive,
    fit: Fit,
    depth: usize,
    /// Those that did not end, and those that ended after them, by their numbers from `first` on.
    under_way: VecDeque<UnderWay>,
    first: u64,
    inside: usize,
    now: u64,
    result: Replayed,
}

/// Replays the requests that `next` gives, in the order of their arrivals, on a drive that is at
/// rest. `answered` gets each with its times, in their order.
///
/// # Errors
/// Those of `next`.
pub fn replay_requests<E>(
    drive: &mut dyn Drive,
    next: &mut dyn FnMut() -> Result<Option<Request>, E>,
    (pace, beyond): (Pace, Beyond),
    answered: &mut dyn FnMut(Answered),
) -> Result<Replayed, E> {
    let info = drive.info().clone();
    let depth = if pace == Pace::Closed { 1 } else { (info.queue_depth as usize).max(1) };
    let mut replay = Replay {
        drive,
        fit: Fit { info, beyond, changed: Changed::default() },
        depth,
        under_way: VecDeque::new(),
        first: 0,
        inside: 0,
        now: 0,
        result: Replayed::default(),
    };
    let mut done = Vec::new();
    // When the one before would have ended where it was traced.
    let mut before_ns = 0;
    let mut pending = next()?;
    loop {
        let due = pending.map(|request| match pace {
            Pace::Recorded => request.arrival_ns.max(replay.now),
            Pace::Closed => replay.now.saturating_add(request.arrival_ns.saturating_sub(before_ns)),
            Pace::FullSpeed => replay.now,
        });
        let due = due.filter(|_| replay.inside < replay.depth);
        match (pending, due, replay.drive.next_event()) {
            // What ends at the time of an arrival ends first. In a closed loop nothing is inside
            // then: what the drive does by itself goes on meanwhile.
            (Some(request), Some(due), event) if event.is_none_or(|event| due < event) => {
                before_ns = request.arrival_ns.saturating_add(request.measured_ns.unwrap_or(0));
                let from_ns = if pace == Pace::Recorded { request.arrival_ns } else { due };
                replay.submit(&request, due, from_ns);
                pending = next()?;
            }
            (_, due, Some(event)) => {
                // Time itself stays, unless something that was waited for has ended.
                let is_idle = replay.inside == 0 && due.is_some() && pace == Pace::Closed;
                if !is_idle {
                    replay.now = replay.now.max(event);
                }
                replay.advance(event, &mut done);
                replay.answer(answered);
            }
            (_, _, None) => {
                return Ok(Replayed { changed: replay.fit.changed, ..replay.result });
            }
        }
    }
}

impl Replay<'_> {
    fn submit(&mut self, request: &Request, due: u64, from_ns: u64) {
        let id = self.first + self.under_way.len() as u64;
        let command = self.fit.command(id, request.operation, request.offset, request.bytes);
        let result = &mut self.result;
        result.requests += 1;
        match request.operation {
            Operation::Read => {
                result.reads += 1;
                result.bytes_read += command.bytes;
            }
            Operation::Write => {
                result.writes += 1;
                result.bytes_written += command.bytes;
            }
            Operation::Flush => result.flushes += 1,
        }
        if let Some(measured) = request.measured_ns {
            result.measured.add(measured);
        }
        self.now = due;
        self.drive.submit(command, due);
        self.inside += 1;
        self.under_way.push_back(UnderWay {
            from_ns,
            measured_ns: request.measured_ns,
            took_ns: None,
        });
    }

    fn advance(&mut self, event: u64, done: &mut Vec<Done>) {
        done.clear();
        self.drive.advance(event, done);
        for answer in done.iter() {
            let Some(entry) = answer
                .id
                .checked_sub(self.first)
                .and_then(|at| self.under_way.get_mut(at as usize))
            else {
                continue;
            };
            self.inside -= 1;
            self.now = self.now.max(answer.at);
            let took = answer.at.saturating_sub(entry.from_ns);
            entry.took_ns = Some(took);
            self.result.times.add(took);
            self.result.ended_ns = self.result.ended_ns.max(answer.at);
        }
    }

    /// Gives the times of those that ended and have none before them.
    fn answer(&mut self, answered: &mut dyn FnMut(Answered)) {
        let ended = |entry: &UnderWay| {
            Some(Answered { took_ns: entry.took_ns?, measured_ns: entry.measured_ns })
        };
        while let Some(one) = self.under_way.front().and_then(ended) {
            self.under_way.pop_front();
            self.first += 1;
            answered(one);
        }
    }
}
