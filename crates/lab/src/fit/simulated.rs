//! A drive in virtual time as a target, and as a candidate: the same closed loop for both.
//!
//! *Invariants*: at most as many commands are inside the drive as it takes; more wait in the order
//! in which they were issued. `now` never goes back.
use super::target::{ProbeRequest, ProbeTarget, TargetFacts, Timing};
use extant_sim::drive::{Command, Done, Drive};
use std::collections::VecDeque;
use std::io;

/// Whether a simulated target may be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writes {
    /// Reads only.
    Refused,
    /// The first bytes of the drive may be written.
    Bytes(u64),
}

/// A drive in virtual time.
pub struct SimulatedTarget {
    drive: Box<dyn Drive>,
    writes: Writes,
    now: u64,
    done: Vec<Done>,
}

/// A run of requests on its way.
struct Flow<'a> {
    requests: &'a [ProbeRequest],
    timings: Vec<Timing>,
    /// Requests that wait for room in the drive.
    waiting: VecDeque<usize>,
    /// Commands inside the drive.
    inside: usize,
    /// Requests issued and not ended.
    under_way: usize,
}

impl SimulatedTarget {
    /// The drive at time 0.
    pub fn new(drive: Box<dyn Drive>, writes: Writes) -> SimulatedTarget {
        SimulatedTarget { drive, writes, now: 0, done: Vec::new() }
    }

    /// Lets time pass until then, if it has not yet come.
    pub fn rest_until(&mut self, at_ns: u64) {
        self.now = self.now.max(at_ns);
    }

    fn submit(&mut self, flow: &mut Flow<'_>) {
        let room = self.drive.info().queue_depth.max(1) as usize;
        while flow.inside < room
            && let Some(number) = flow.waiting.pop_front()
        {
            let ProbeRequest { operation, offset, bytes, .. } = flow.requests[number];
            let id = number as u64;
            let command = Command { id, operation, offset, bytes, force_unit_access: false };
            self.drive.submit(command, self.now);
            flow.inside += 1;
        }
    }

    fn issue(&mut self, flow: &mut Flow<'_>, deadline_ns: u64) {
        let number = flow.timings.len();
        let Some(request) = flow.requests.get(number) else { return };
        if flow.under_way == 0 {
            self.now = self.now.saturating_add(request.rest_ns);
        }
        if self.now >= deadline_ns {
            return;
        }
        flow.timings.push(Timing { start_ns: self.now, end_ns: self.now });
        flow.waiting.push_back(number);
        flow.under_way += 1;
    }
}

impl ProbeTarget for SimulatedTarget {
    fn facts(&self) -> TargetFacts {
        let info = self.drive.info();
        TargetFacts {
            name: info.name.clone(),
            bytes: info.bytes,
            sector_bytes: info.sector_bytes,
            write_bytes: match self.writes {
                Writes::Refused => 0,
                Writes::Bytes(bytes) => bytes.min(info.bytes),
            },
        }
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn run(
        &mut self,
        requests: &[ProbeRequest],
        depth: u32,
        deadline_ns: u64,
    ) -> io::Result<Vec<Timing>> {
        let mut flow = Flow {
            requests,
            timings: Vec::with_capacity(requests.len()),
            waiting: VecDeque::new(),
            inside: 0,
            under_way: 0,
        };
        for _ in 0..depth.max(1) {
            self.issue(&mut flow, deadline_ns);
        }
        while flow.under_way > 0 {
            self.submit(&mut flow);
            let Some(event) = self.drive.next_event() else { break };
            self.now = self.now.max(event);
            let mut done = std::mem::take(&mut self.done);
            self.drive.advance(self.now, &mut done);
            for ended in done.drain(..) {
                flow.timings[ended.id as usize].end_ns = ended.at;
                flow.inside -= 1;
                flow.under_way -= 1;
                self.issue(&mut flow, deadline_ns);
            }
            self.done = done;
        }
        Ok(flow.timings)
    }
}
