//! A run: worker processes of this machine, as many as there are processors, each with one job at a
//! time.
//!
//! ```text
//! waiting --> given to a worker --> done, or there already
//!    ^              |
//!    +-- tries left-+--> failed: killed at a limit, died, or the command said so
//! ```
//!
//! *Invariants*: a job is in one of these states; its result, once there, stays, whatever becomes
//! of the run. A job that passes a limit or kills its worker is given up alone: the others of the
//! run have workers of their own. *Locking*: none; one thread waits for all workers at once.
use crate::directory::{Directory, FAILURE_SCHEMA, Failure, Part, Plan};
use crate::error::{Error, Result};
use crate::job::Job;
use crate::process::{Process, Said};
use crate::worker::{Answer, State, passed_memory};
use extant_block::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

/// What a run is asked for.
pub struct Options<'a> {
    /// Which of the jobs.
    pub part: Part,
    /// How many processes at a time; never 0.
    pub workers: usize,
    /// How often a job that failed is tried again.
    pub retries: u32,
    /// What a job may hold, in bytes, unless it says so itself.
    pub memory_bytes: Option<u64>,
    /// How long it may take, in seconds, likewise.
    pub seconds: Option<u64>,
    /// What starts a worker.
    pub command: &'a dyn Fn() -> Command,
    /// What errors call it.
    pub program: &'a str,
    /// The host's.
    pub clock: &'a dyn Clock,
    /// Is told how far it is.
    pub tell: &'a dyn Fn(&str),
}

/// What became of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ran {
    /// Jobs of its part.
    pub jobs: u64,
    /// Those that it did.
    pub done: u64,
    /// Those that were done before.
    pub there: u64,
    /// Those that have no result.
    pub failed: u64,
    /// The first of them: at most [`FAILURES_TOLD_MAX`].
    pub failures: Vec<Failure>,
}

/// No run tells of more failures; the directory has all of them.
pub const FAILURES_TOLD_MAX: usize = 100;

/// How often the memory of workers is looked at.
const LOOK_NS: u64 = 15_000_000;
/// And no more often for each of them, so that many workers do not take a processor.
const LOOK_OF_EACH_NS: u64 = 500_000;
/// How often it is told how far a run is.
const TELL_NS: u64 = 100_000_000;
/// A worker says within this time that it is ready.
const READY_NS: u64 = 120_000_000_000;
/// Workers that end without a job, again and again, are none.
const IDLE_ENDS_MAX: u32 = 100;
const SECOND_NS: u64 = 1_000_000_000;

/// A job that a worker has.
struct Given {
    line: u64,
    job: Job,
    tries: u32,
    deadline_ns: Option<u64>,
}

struct Seat {
    process: Process,
    started_ns: u64,
    given: Option<Given>,
}

/// Runs the jobs of a plan.
///
/// # Errors
/// The directory cannot be written, or no worker can be started. What is done until then stays.
pub fn run(directory: &Directory, plan: &Plan, options: &Options) -> Result<Ran> {
    let mut pool = Pool {
        directory,
        plan,
        options,
        next: 0,
        again: VecDeque::new(),
        seats: Vec::new(),
        ran: Ran {
            jobs: (0..plan.count()).filter(|line| options.part.has(*line)).count() as u64,
            ..Ran::default()
        },
        idle_ends: 0,
        began_ns: options.clock.now(),
        told_ns: 0,
    };
    if let Part::Job(line) = options.part
        && line >= plan.count()
    {
        let reason = format!("--job {}: the plan has {} jobs", line + 1, plan.count());
        return Err(Error::new(reason));
    }
    pool.run()?;
    Ok(pool.ran)
}

struct Pool<'a> {
    directory: &'a Directory,
    plan: &'a Plan,
    options: &'a Options<'a>,
    /// The next line that nobody had yet.
    next: u64,
    /// Lines that are tried again, with how often they were tried.
    again: VecDeque<(u64, u32)>,
    seats: Vec<Seat>,
    ran: Ran,
    /// Workers that ended without a job.
    idle_ends: u32,
    began_ns: u64,
    told_ns: u64,
}

impl Pool<'_> {
    fn run(&mut self) -> Result<()> {
        loop {
            self.occupy()?;
            if self.seats.iter().all(|seat| seat.given.is_none()) && self.waiting() == 0 {
                break;
            }
            for at in self.wait()? {
                self.read(at)?;
            }
            self.seats.retain(|seat| seat.started_ns != u64::MAX);
            self.look()?;
            self.tell();
        }
        self.seats.drain(..).for_each(|seat| seat.process.dismiss());
        Ok(())
    }

    /// Jobs that no worker has.
    fn waiting(&self) -> u64 {
        let busy = self.seats.iter().filter(|seat| seat.given.is_some()).count() as u64;
        let over = self.ran.done + self.ran.there + self.ran.failed;
        self.ran.jobs.saturating_sub(over).saturating_sub(busy)
    }

    /// Starts workers while there is more to do than they have, and gives a job to each that has
    /// none.
    fn occupy(&mut self) -> Result<()> {
        let idle = self.seats.iter().filter(|seat| seat.given.is_none()).count() as u64;
        let wanted = self.waiting().saturating_sub(idle);
        let room = self.options.workers.saturating_sub(self.seats.len());
        for _ in 0..usize::try_from(wanted).unwrap_or(usize::MAX).min(room) {
            let process = Process::start((self.options.command)(), self.options.program)?;
            let started_ns = self.options.clock.now();
            self.seats.push(Seat { process, started_ns, given: None });
        }
        for at in 0..self.seats.len() {
            let is_idle = self
                .seats
                .get(at)
                .is_some_and(|seat| seat.given.is_none() && seat.process.is_ready());
            if is_idle && let Some((line, tries)) = self.take() {
                self.give(at, line, tries)?;
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Option<(u64, u32)> {
        while self.next < self.plan.count() {
            self.next += 1;
            if self.options.part.has(self.next - 1) {
                return Some((self.next - 1, 0));
            }
        }
        self.again.pop_front()
    }

    fn give(&mut self, at: usize, line: u64, tries: u32) -> Result<()> {
        let mut job = self.plan.job(line)?;
        job.limits.memory_bytes = job.limits.memory_bytes.or(self.options.memory_bytes);
        job.limits.seconds = job.limits.seconds.or(self.options.seconds);
        let now = self.options.clock.now();
        let deadline = |seconds: u64| now.saturating_add(seconds.saturating_mul(SECOND_NS));
        let deadline_ns = job.limits.seconds.map(deadline);
        let text = job.line()?;
        if let Some(seat) = self.seats.get_mut(at) {
            seat.process.give(&text);
            seat.given = Some(Given { line, job, tries: tries + 1, deadline_ns });
        }
        Ok(())
    }

    /// Waits until workers have said something, or it is time to look at them. Gives the seats that
    /// have.
    fn wait(&mut self) -> Result<Vec<usize>> {
        let ns =
            LOOK_NS.max(LOOK_OF_EACH_NS.saturating_mul(self.seats.len() as u64)).min(SECOND_NS / 2);
        let timeout = Timespec { tv_sec: 0, tv_nsec: ns.cast_signed() };
        let mut watched: Vec<PollFd<'_>> = self
            .seats
            .iter()
            .map(|seat| PollFd::from_borrowed_fd(seat.process.descriptor(), PollFlags::IN))
            .collect();
        match poll(&mut watched, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::new(format!("waiting for workers: {error}"))),
        }
        let has_said = |(at, one): (usize, &PollFd<'_>)| (!one.revents().is_empty()).then_some(at);
        Ok(watched.iter().enumerate().filter_map(has_said).collect())
    }

    fn read(&mut self, at: usize) -> Result<()> {
        let Some(seat) = self.seats.get_mut(at) else { return Ok(()) };
        for said in seat.process.read()? {
            match said {
                Said::Hello => {}
                Said::Answer(answer) => self.answered(at, answer)?,
                Said::Ended(status, lines) => self.ended(at, status, lines)?,
            }
        }
        Ok(())
    }

    fn answered(&mut self, at: usize, answer: Answer) -> Result<()> {
        let Some(seat) = self.seats.get_mut(at) else { return Ok(()) };
        let given = seat.given.take().filter(|given| given.job.id == answer.id);
        let Some(given) = given else {
            return Err(seat.process.error("answered for a job that it did not have"));
        };
        if answer.retires {
            // It ends by itself, and another one is started.
            seat.started_ns = u64::MAX;
        }
        match answer.state {
            State::Done => self.ran.done += 1,
            State::There => self.ran.there += 1,
            State::Broken { reason, hint } => return Err(Error { message: reason, hint }),
            State::Failed { reason, exit, said, is_final } => {
                let tries = if is_final { Tries::None } else { Tries::Left };
                self.failed(given, reason, exit, said, tries)?;
            }
        }
        Ok(())
    }

    /// A worker has ended that was not dismissed.
    fn ended(&mut self, at: usize, status: ExitStatus, lines: Vec<String>) -> Result<()> {
        let Some(seat) = self.seats.get_mut(at) else { return Ok(()) };
        if seat.started_ns == u64::MAX {
            return Ok(());
        }
        seat.started_ns = u64::MAX;
        let Some(given) = seat.given.take() else {
            // Killed from outside between two jobs: another one takes its place.
            if seat.process.is_ready() && self.idle_ends < IDLE_ENDS_MAX {
                self.idle_ends += 1;
                return Ok(());
            }
            let last = lines.last().map_or(String::new(), |line| format!(": {line}"));
            return Err(seat.process.error(&format!("ended before it had a job ({status}){last}")));
        };
        // What Rust says when the host refuses memory.
        let is_memory = lines.iter().any(|line| line.starts_with("memory allocation of "));
        let reason = match (given.job.limits.memory_bytes, status.signal()) {
            (Some(limit), Some(_)) if is_memory => passed_memory(limit, limit),
            (_, Some(signal)) => format!("its process was ended by signal {signal}"),
            (_, None) => format!("its process ended in the middle of it ({status})"),
        };
        self.failed(given, reason, None, lines, Tries::Left)
    }

    /// Ends jobs that are over a limit.
    fn look(&mut self) -> Result<()> {
        let now = self.options.clock.now();
        let mut over = Vec::new();
        for (at, seat) in self.seats.iter().enumerate() {
            let Some(given) = &seat.given else {
                if !seat.process.is_ready() && now.saturating_sub(seat.started_ns) > READY_NS {
                    return Err(seat.process.error("does not say that it is ready"));
                }
                continue;
            };
            if given.deadline_ns.is_some_and(|deadline| now >= deadline) {
                let seconds = given.job.limits.seconds.unwrap_or(0);
                over.push((at, format!("passed its time limit of {seconds} s")));
            } else if let Some(limit) = given.job.limits.memory_bytes {
                let peak = seat.process.peak_bytes();
                if peak > limit {
                    over.push((at, passed_memory(limit, peak)));
                }
            }
        }
        for (at, reason) in over {
            let Some(seat) = self.seats.get_mut(at) else { continue };
            seat.process.kill();
            seat.started_ns = u64::MAX;
            let lines = seat.process.last_lines();
            if let Some(given) = seat.given.take() {
                self.failed(given, reason, None, lines, Tries::Left)?;
            }
        }
        self.seats.retain(|seat| seat.started_ns != u64::MAX);
        Ok(())
    }

    /// A job has no result: it is tried again, or given up by name.
    fn failed(
        &mut self,
        given: Given,
        reason: String,
        exit: Option<i64>,
        said: Vec<String>,
        tries: Tries,
    ) -> Result<()> {
        // It may have been killed after its last step.
        if let Ok(Some(_)) = self.directory.read_result(&given.job.id) {
            self.ran.done += 1;
            return Ok(());
        }
        if tries == Tries::Left && given.tries <= self.options.retries {
            self.again.push_back((given.line, given.tries));
            return Ok(());
        }
        let failure = Failure {
            schema: FAILURE_SCHEMA.into(),
            id: given.job.id.clone(),
            label: given.job.label(),
            reason,
            exit,
            tries: given.tries,
            said,
        };
        self.directory.write_failure(&failure)?;
        self.ran.failed += 1;
        if self.ran.failures.len() < FAILURES_TOLD_MAX {
            self.ran.failures.push(failure);
        }
        Ok(())
    }

    fn tell(&mut self) {
        let now = self.options.clock.now();
        if now.saturating_sub(self.told_ns) < TELL_NS {
            return;
        }
        self.told_ns = now;
        let Ran { jobs, done, there, failed, .. } = self.ran;
        let over = done + there + failed;
        let seconds = now.saturating_sub(self.began_ns) as f64 / SECOND_NS as f64;
        let rate = (done + failed) as f64 / seconds.max(1e-3);
        let left = jobs.saturating_sub(over) as f64 / rate.max(1e-3);
        let failures = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        let left = if done + failed > 0 { format!(", {left:.0} s left") } else { String::new() };
        (self.options.tell)(&format!("sweep: {over} of {jobs} jobs{failures}, {rate:.1}/s{left}"));
    }
}

/// Whether another try could help.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tries {
    Left,
    None,
}
