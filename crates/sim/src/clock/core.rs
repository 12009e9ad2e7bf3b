//! The state of virtual time: processes, events, processors; everything that stands under the
//! clock's lock.
use super::report::{RunError, Waiting};
use super::{Counters, Event, Seat, Settings, Signal};
use extant_block::Unparked;
use std::cmp;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;

/// What a process does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ProcessState {
    /// Holds the baton.
    Running,
    /// Is in the ready queue.
    Ready(Unparked),
    /// Waits for a wake, or for a time.
    Parked(Option<u64>),
    /// Waits for the end of its quantum.
    Computing,
    /// Its thread is about to end, or has.
    Ended,
}

/// A thread of the clock.
pub(super) struct Process {
    pub name: String,
    pub state: ProcessState,
    /// It was woken while it did not wait.
    pub permit: bool,
    /// The earliest timer that is under way for it: one that fires too early is set again, so that
    /// the queue of events holds few timers of processes that are mostly woken.
    pub timer: Option<u64>,
    pub seat: Arc<Seat>,
    /// Whom it waits for, when it joins one.
    pub joins: Option<u32>,
    /// Who joins it.
    pub joined_by: Vec<u32>,
    pub thread: Option<JoinHandle<()>>,
}

impl Process {
    pub fn new(name: &str, seat: Arc<Seat>, thread: JoinHandle<()>) -> Process {
        Process {
            name: name.to_owned(),
            state: ProcessState::Ready(Unparked::Woken),
            permit: false,
            timer: None,
            seat,
            joins: None,
            joined_by: Vec::new(),
            thread: Some(thread),
        }
    }
}

/// What happens at a time.
pub(super) enum Target {
    Event(Arc<dyn Event>),
    /// The deadline of a process may have passed.
    Timer(u32),
    /// A process has had its quantum.
    Computed(u32),
}

struct Entry {
    at: u64,
    sequence: u64,
    target: Target,
}

impl Entry {
    fn key(&self) -> (u64, u64) {
        (self.at, self.sequence)
    }
}
impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    /// The earliest is the greatest: the heap gives the greatest first.
    fn cmp(&self, other: &Entry) -> cmp::Ordering {
        other.key().cmp(&self.key())
    }
}

/// Who gets the baton.
pub(super) enum Chosen {
    Process(u32, Signal),
    /// All have ended, or what is left can only wait.
    Nobody,
}

/// What comes next.
pub(super) enum Step {
    Chosen(Chosen),
    /// To be fired with the lock released.
    Fire(Arc<dyn Event>),
}

/// Under the clock's lock.
pub(super) struct Core {
    pub now: u64,
    pub processes: Vec<Process>,
    /// Processes that have not ended.
    pub alive: u32,
    /// Who waits for the end of the run that is under way.
    pub caller: Option<Arc<Seat>>,
    pub poison: Option<RunError>,
    /// Who waited when a deadlock was found, rising.
    stuck: Vec<u32>,
    pub counters: Counters,
    sequence: u64,
    events: BinaryHeap<Entry>,
    ready: VecDeque<u32>,
    /// When each processor is free.
    processors: Vec<u64>,
}

impl Core {
    pub fn new(settings: &Settings) -> Core {
        Core {
            now: 0,
            processes: Vec::new(),
            alive: 0,
            caller: None,
            poison: None,
            stuck: Vec::new(),
            counters: Counters::default(),
            sequence: 0,
            events: BinaryHeap::new(),
            ready: VecDeque::new(),
            processors: vec![0; settings.processors.max(1) as usize],
        }
    }

    pub fn process(&mut self, number: u32) -> &mut Process {
        &mut self.processes[number as usize]
    }

    /// A new process, at the end of the ready queue.
    pub fn admit(&mut self, process: Process) {
        self.ready.push_back(self.processes.len() as u32);
        self.processes.push(process);
        self.alive += 1;
        self.counters.processes += 1;
    }

    pub fn schedule(&mut self, at: u64, target: Target) {
        let sequence = self.sequence;
        self.sequence += 1;
        let at = at.max(self.now);
        self.events.push(Entry { at, sequence, target });
    }

    pub fn wake(&mut self, number: u32) {
        let process = self.process(number);
        if let ProcessState::Parked(_) = process.state {
            self.make_ready(number, Unparked::Woken);
        } else {
            process.permit = true;
        }
    }

    pub fn make_ready(&mut self, number: u32, unparked: Unparked) {
        self.process(number).state = ProcessState::Ready(unparked);
        self.ready.push_back(number);
    }

    /// Whether nothing would happen before or at that time while the running process waits for it.
    pub fn is_quiet_until(&self, at: u64) -> bool {
        self.ready.is_empty() && self.events.peek().is_none_or(|entry| entry.at > at)
    }

    /// The process waits from now on.
    pub fn park(&mut self, number: u32, deadline: Option<u64>) {
        self.process(number).state = ProcessState::Parked(deadline);
        if let Some(deadline) = deadline {
            self.set_timer(number, deadline);
        }
    }

    fn set_timer(&mut self, number: u32, at: u64) {
        let process = self.process(number);
        if process.timer.is_none_or(|earlier| at < earlier) {
            process.timer = Some(at);
            self.schedule(at, Target::Timer(number));
        }
    }

    fn timer_fired(&mut self, number: u32) {
        let now = self.now;
        let process = self.process(number);
        if process.timer.is_some_and(|at| at <= now) {
            process.timer = None;
        }
        match process.state {
            ProcessState::Parked(Some(deadline)) if deadline <= now => {
                self.make_ready(number, Unparked::TimedOut)
            }
            ProcessState::Parked(Some(deadline)) => self.set_timer(number, deadline),
            _ => {}
        }
    }

    /// The processor that is free first.
    pub fn processor(&mut self) -> &mut u64 {
        let mut first = 0;
        for (index, free) in self.processors.iter().enumerate() {
            if *free < self.processors[first] {
                first = index;
            }
        }
        &mut self.processors[first]
    }

    /// What comes next: the first ready process, else the earliest event.
    pub fn step(&mut self) -> Step {
        loop {
            if let Some(number) = self.ready.pop_front() {
                return Step::Chosen(self.choose(number));
            }
            if self.alive == 0 {
                return Step::Chosen(Chosen::Nobody);
            }
            let Some(entry) = self.events.pop() else {
                if self.poison.is_some() {
                    return Step::Chosen(Chosen::Nobody);
                }
                let deadlock = self.deadlock();
                self.poison(deadlock);
                continue;
            };
            self.now = entry.at;
            self.counters.events += 1;
            match entry.target {
                Target::Event(event) => return Step::Fire(event),
                Target::Timer(number) => self.timer_fired(number),
                Target::Computed(number) => self.make_ready(number, Unparked::Woken),
            }
        }
    }

    fn choose(&mut self, number: u32) -> Chosen {
        let poisoned = self.poison.is_some();
        let process = self.process(number);
        let unparked = match process.state {
            ProcessState::Ready(unparked) => unparked,
            state => unreachable!("{} is in the ready queue and {state:?}", process.name),
        };
        process.state = ProcessState::Running;
        Chosen::Process(number, Signal { unparked, poisoned })
    }

    /// Ends the run: every process that waits is made ready, to unwind. The first reason stays.
    pub fn poison(&mut self, reason: RunError) {
        if self.poison.is_some() {
            return;
        }
        self.poison = Some(reason);
        for number in 0..self.processes.len() as u32 {
            match self.process(number).state {
                ProcessState::Parked(_) => self.make_ready(number, Unparked::Woken),
                // Its quantum ends by itself.
                ProcessState::Computing
                | ProcessState::Running
                | ProcessState::Ready(_)
                | ProcessState::Ended => {}
            }
        }
    }

    fn deadlock(&mut self) -> RunError {
        let is_stuck = |number: &u32| self.processes[*number as usize].state != ProcessState::Ended;
        self.stuck = (0..self.processes.len() as u32).filter(is_stuck).collect();
        let waiting = |number: &u32| {
            let process = &self.processes[*number as usize];
            let waits_for = match process.joins {
                Some(other) => format!("the end of {}", self.processes[other as usize].name),
                None => "a wake".to_owned(),
            };
            let process = process.name.clone();
            Waiting { process, waits_for }
        };
        let processes = self.stuck.iter().map(waiting).collect();
        RunError::Deadlock { processes }
    }

    /// Says more exactly what a process waits for, in a deadlock. Whom it joins is exact already.
    pub fn explain(&mut self, number: u32, waits_for: String) {
        let place = self.stuck.binary_search(&number);
        let is_exact = self.process(number).joins.is_some();
        if let (Ok(place), false, Some(RunError::Deadlock { processes })) =
            (place, is_exact, &mut self.poison)
        {
            processes[place].waits_for = waits_for;
        }
    }

    /// The process has ended.
    pub fn end(&mut self, number: u32) {
        let process = self.process(number);
        process.state = ProcessState::Ended;
        let joined_by = std::mem::take(&mut process.joined_by);
        self.alive -= 1;
        joined_by.into_iter().for_each(|joiner| self.wake(joiner));
    }
}
