//! The device's time in slices: each stream that waits for its commands has a queue and gets slices
//! in turn; all commands that no thread waits for share one more queue, the background. `cfq` and
//! `turns` are [`Rules`] for it.
//!
//! Guarantees: if others wait, a slice ends with the first command after its time (with the last of
//! its batch, where the rules have batches). Waiting queues take turns.
use super::stream::{FirstSeek, Streams};
use super::waiting::Waiting;
use super::{Elevator, Next, Queued};
use extant_block::device::{Operation, Urgency};
use std::collections::{BTreeMap, VecDeque};

/// A stream whose seeks are longer than this on average is a seeker.
const SEEKER_BYTES: u64 = 64 << 20;
/// How long the device is kept for a seeker at most, in nanoseconds.
const SEEKER_IDLE_NS: u64 = 2_000_000;
/// A drive has a queue if it once held more commands than this.
const UNQUEUED_MAX: u64 = 4;

/// The length of a slice, and the age at which the oldest command begins one, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(super) struct Class {
    pub slice_ns: u64,
    pub expire_ns: u64,
}

/// From when the time of a slice runs.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum SliceClock {
    /// From when it is its queue's turn.
    #[default]
    Turn,
    /// From its first command.
    FirstSent,
    /// From the first end of a command of its queue in it.
    FirstEnded,
}

/// How much of the background the device may hold.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum InsideLimit {
    /// As much as it takes.
    #[default]
    None,
    /// A number of commands.
    Commands {
        /// While a stream waits; four times as many otherwise.
        quantum: u64,
        /// While it holds an awaited one.
        beside_awaited: u64,
    },
}

/// What a stream does that begins to wait while the background has its slice.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Preemption {
    /// It waits for its turn.
    #[default]
    Never,
    /// It ends the slice once a command was sent in it, and waits for its turn.
    InTurn,
    /// It ends the slice, and has the next one. So does one that wants metadata while the stream
    /// that has the slice has none waiting; and one that wants what is near, while the device is
    /// kept for that stream.
    AtOnce,
}

/// What a queue sends first.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Metadata {
    /// What is next by place.
    #[default]
    AsOthers,
    /// What a thread waits for of directories and inodes, if any: by place.
    First,
}

/// How long the device is kept for a stream that seeks far.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Seekers {
    /// As long as for any other.
    #[default]
    AsOthers,
    /// 2 ms at most, and not at all if the drive has a queue.
    Impatient,
}

/// When the device is kept for a stream that has the slice and nothing waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum IdleAfter {
    /// After all its commands, and while they are inside, if it is worth waiting for.
    #[default]
    All,
    /// The same, and while its commands are inside in any case.
    AllInside,
    /// A program that reads needs the next block soon. One that waits for a write has what it
    /// wanted, and its next write is elsewhere.
    Reads,
}

/// Where a slice of the background begins.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sweep {
    /// After the last command, whatever queue that was of: a read elsewhere ends the sweep.
    #[default]
    FromLast,
    /// Where the last slice of the background ended.
    GoesOn,
}

/// How far a queue goes back for a command that is nearer than the next one upwards.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Back {
    /// At most as many bytes. 0: it goes upwards only.
    pub bytes_max: u64,
    /// What a byte downwards counts, in bytes upwards.
    pub penalty: u64,
}

impl Back {
    /// The next command of a queue from this byte on; after the highest one the lowest.
    fn next(self, queue: &Waiting, from: u64) -> Option<Queued> {
        self.nearer(queue.before(from), queue.at_or_behind(from), from).or_else(|| queue.lowest())
    }

    /// The same among its commands of metadata.
    fn next_metadata(self, queue: &Waiting, from: u64) -> Option<Queued> {
        let ahead = queue.metadata().find(|command| command.offset >= from);
        let before = queue.metadata().rfind(|command| command.offset < from);
        self.nearer(before, ahead, from).or_else(|| queue.metadata().next())
    }

    /// Which of the neighbours of a byte is next, the one before it or the one after it.
    fn nearer(self, before: Option<Queued>, ahead: Option<Queued>, from: u64) -> Option<Queued> {
        let distance = |back: &Queued| from.saturating_sub(back.offset);
        match (before.filter(|back| distance(back) <= self.bytes_max), ahead) {
            (Some(back), Some(ahead)) => {
                let is_nearer = distance(&back).saturating_mul(self.penalty)
                    < ahead.offset.saturating_sub(from);
                Some(if is_nearer { back } else { ahead })
            }
            (one, other) => one.or(other),
        }
    }
}

/// What the elevators of this kind differ in.
#[derive(Clone, Copy, Default)]
pub(super) struct Rules {
    pub sync: Class,
    pub background: Class,
    /// How long the device is kept for a stream, in nanoseconds.
    pub idle_ns: u64,
    pub clock: SliceClock,
    /// At most as many of the commands that wait are sent before the end of a slice is looked at.
    pub batch: u64,
    pub inside: InsideLimit,
    pub preemption: Preemption,
    /// How many commands a slice of the background has at most while a stream waits.
    pub background_commands: u64,
    pub seekers: Seekers,
    pub idle_after: IdleAfter,
    pub sweep: Sweep,
    pub back: Back,
    pub metadata: Metadata,
}

/// Which commands a queue holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    /// Those of a stream that waits for them.
    Stream(u32),
    /// Those that no thread waits for.
    Background,
}

fn owner(command: &Queued) -> Owner {
    match (command.operation, command.urgency) {
        (Operation::Read, _) | (_, Urgency::Awaited | Urgency::Metadata) => {
            Owner::Stream(command.stream)
        }
        (Operation::Write | Operation::Flush, Urgency::Background) => Owner::Background,
    }
}

struct Slice {
    owner: Owner,
    /// `None` until its time runs.
    ends: Option<u64>,
    /// How many commands were sent in it.
    sent: u64,
    /// How many more are sent before its end is looked at.
    batch_left: u64,
    /// What the last of them was.
    last: Option<Operation>,
    /// When its last command ended, or when it began.
    ended: u64,
    /// A stream began to wait during a slice of the background.
    preempted: bool,
}

impl Slice {
    fn is_used_up(&self, now: u64) -> bool {
        self.ends.is_some_and(|ends| now >= ends)
    }
    /// Until when it lasts at most, in nanoseconds of the clock.
    fn ends_at_last(&self) -> u64 {
        self.ends.unwrap_or_else(|| self.ended.saturating_add(SILENCE_NS))
    }
}

/// The commands in the device.
#[derive(Default)]
struct Inside {
    awaited: u64,
    background: u64,
    /// The most that there ever were.
    most: u64,
}

impl Inside {
    fn count(&mut self, owner: Owner) -> &mut u64 {
        match owner {
            Owner::Stream(_) => &mut self.awaited,
            Owner::Background => &mut self.background,
        }
    }
    fn sent(&mut self, owner: Owner) {
        *self.count(owner) += 1;
        self.most = self.most.max(self.awaited + self.background);
    }
    fn ended(&mut self, owner: Owner) {
        let count = self.count(owner);
        *count = count.saturating_sub(1);
    }
}

/// A device that holds enough background commands but completes none for this long, in nanoseconds,
/// gets more.
const SILENCE_NS: u64 = 1_000_000_000;

/// *Invariants*: `queues` has no empty queue; each of them is in `turns` once or has the slice.
pub(super) struct FairQueues {
    rules: Rules,
    inside: Inside,
    streams: Streams,
    queues: BTreeMap<Owner, Waiting>,
    /// The order of the next slices.
    turns: VecDeque<Owner>,
    slice: Option<Slice>,
    /// Where the command that was sent last ends.
    position: u64,
    /// Where the last command of the background ends.
    sweep: u64,
}

impl FairQueues {
    /// Without commands.
    pub fn new(rules: Rules) -> FairQueues {
        FairQueues {
            rules,
            inside: Inside::default(),
            streams: Streams::new(
                rules.idle_ns,
                match rules.seekers {
                    Seekers::AsOthers => FirstSeek::None,
                    Seekers::Impatient => FirstSeek::FromStart,
                },
            ),
            queues: BTreeMap::new(),
            turns: VecDeque::new(),
            slice: None,
            position: 0,
            sweep: 0,
        }
    }
    fn class(&self, owner: Owner) -> Class {
        match owner {
            Owner::Stream(_) => self.rules.sync,
            Owner::Background => self.rules.background,
        }
    }
    fn remove(&mut self, owner: Owner, sequence: u64) {
        if let Some(queue) = self.queues.get_mut(&owner) {
            queue.remove(sequence);
            if queue.is_empty() {
                self.queues.remove(&owner);
            }
        }
    }
    /// Whether a slice has sent all that it may.
    fn has_sent_all(&self, slice: &Slice) -> bool {
        slice.owner == Owner::Background && slice.sent >= self.rules.background_commands
    }
    /// Whether the slice has to end, given that others wait.
    fn is_over(&self, slice: &Slice, now: u64) -> bool {
        let ends = slice.is_used_up(now) || slice.preempted || self.has_sent_all(slice);
        let is_in_batch = slice.batch_left > 0 && self.queues.contains_key(&slice.owner);
        !self.turns.is_empty() && ends && !is_in_batch
    }
    /// Until when the device is kept for a stream that has the slice and nothing waiting, while
    /// others wait.
    fn idles(&mut self, slice: &Slice, now: u64) -> Option<u64> {
        let Owner::Stream(stream) = slice.owner else {
            return None;
        };
        let ends_with_write = slice.last.is_some_and(|last| last != Operation::Read);
        if self.rules.idle_after == IdleAfter::Reads && ends_with_write {
            return None;
        }
        let last = slice.ends_at_last();
        let is_inside = self.streams.pending(stream) > 0;
        if is_inside && self.rules.idle_after == IdleAfter::AllInside {
            return Some(last).filter(|last| now < *last);
        }
        let idle_ns = self.patience(stream)?;
        if is_inside {
            return Some(last).filter(|last| now < *last);
        }
        let until = slice.ended.saturating_add(idle_ns).min(last);
        if now >= until {
            self.streams.waited_in_vain(stream);
            return None;
        }
        Some(until)
    }
    /// How long the device is kept for this stream, in nanoseconds; `None` if it is not.
    fn patience(&self, stream: u32) -> Option<u64> {
        let is_seeker = self.rules.seekers == Seekers::Impatient
            && !self.streams.comes_near(stream, SEEKER_BYTES);
        let idle_ns = match is_seeker {
            false => self.rules.idle_ns,
            true if self.inside.most > UNQUEUED_MAX => return None,
            true => self.rules.idle_ns.min(SEEKER_IDLE_NS),
        };
        Some(idle_ns).filter(|_| self.streams.comes_soon(stream))
    }
    /// Whether the device holds as many background commands as it may.
    fn holds_enough(&self) -> bool {
        let InsideLimit::Commands { quantum, beside_awaited } = self.rules.inside else {
            return false;
        };
        let others_wait = self.queues.keys().any(|owner| *owner != Owner::Background);
        let most = if others_wait { quantum } else { quantum.saturating_mul(4) };
        let Inside { awaited, background, .. } = self.inside;
        background >= most || (awaited > 0 && background >= beside_awaited)
    }
    /// Sends a command from the queue that has the slice: first its oldest, if that has expired.
    fn send(&mut self, mut slice: Slice, now: u64) -> Next<Queued> {
        let Some(queue) = self.queues.get(&slice.owner) else {
            return Next::Empty;
        };
        let until = slice.ended.saturating_add(SILENCE_NS);
        if slice.owner == Owner::Background && self.holds_enough() && now < until {
            self.slice = Some(slice);
            return Next::IdleUntil(until);
        }
        let class = self.class(slice.owner);
        if self.turns.is_empty() && (slice.is_used_up(now) || self.has_sent_all(&slice)) {
            // No other queue waits: the slice starts again.
            slice.ends = None;
            slice.sent = 0;
        }
        if self.rules.clock != SliceClock::FirstEnded && slice.ends.is_none() {
            slice.ends = Some(now.saturating_add(class.slice_ns));
        }
        let oldest =
            queue.oldest().filter(|(_, arrived)| now >= arrived.saturating_add(class.expire_ns));
        let expired = oldest.filter(|_| slice.sent == 0).map(|(oldest, _)| oldest);
        let goes_on = slice.owner == Owner::Background && self.rules.sweep == Sweep::GoesOn;
        let from = if goes_on { self.sweep } else { self.position };
        let in_order = || match self.rules.metadata {
            Metadata::First if queue.has_metadata() => self.rules.back.next_metadata(queue, from),
            Metadata::First | Metadata::AsOthers => self.rules.back.next(queue, from),
        };
        let Some(command) = expired.or_else(in_order) else {
            return Next::Empty;
        };
        if slice.batch_left == 0 {
            slice.batch_left = self.rules.batch.min(queue.len());
        }
        slice.batch_left = slice.batch_left.saturating_sub(1);
        slice.sent += 1;
        slice.last = Some(command.operation);
        self.inside.sent(slice.owner);
        self.remove(slice.owner, command.sequence);
        self.position = command.end();
        if slice.owner == Owner::Background {
            self.sweep = command.end();
        }
        self.slice = Some(slice);
        Next::Dispatch(command)
    }
    /// A stream has begun to wait, or has one more command waiting, while another queue has the
    /// slice.
    fn preempt(&mut self, owner: Owner, command: &Queued) {
        let Some(active) = self.slice.as_ref().map(|slice| slice.owner) else { return };
        let goes_first = match active {
            _ if active == owner => false,
            Owner::Background => true,
            Owner::Stream(stream) => self.is_better(command, stream),
        };
        let Some(slice) = self.slice.as_mut().filter(|_| goes_first) else { return };
        match self.rules.preemption {
            Preemption::Never => {}
            Preemption::InTurn => slice.preempted |= slice.sent > 0,
            Preemption::AtOnce => {
                slice.preempted = true;
                self.turns.retain(|turn| *turn != owner);
                self.turns.push_front(owner);
            }
        }
    }
    /// Whether a command that arrives is worth more than what the stream with the slice has
    /// waiting, or may ask for while the device is kept for it.
    fn is_better(&self, command: &Queued, active: u32) -> bool {
        if self.rules.preemption != Preemption::AtOnce {
            return false;
        }
        let waiting = self.queues.get(&Owner::Stream(active));
        let is_idle = waiting.is_none() && self.streams.pending(active) == 0;
        let distance = command.offset.abs_diff(self.position);
        let is_near = is_idle && self.streams.is_usual(active, distance);
        let has_metadata = waiting.is_some_and(Waiting::has_metadata);
        is_near || (command.urgency == Urgency::Metadata && !has_metadata)
    }
}

impl Elevator for FairQueues {
    fn add(&mut self, command: Queued, now: u64) {
        let owner = owner(&command);
        if let Owner::Stream(stream) = owner {
            self.streams.arrived(stream, (command.offset, command.end()), now);
        }
        let begins = !self.queues.contains_key(&owner);
        self.queues.entry(owner).or_default().insert(command, now);
        let active = self.slice.as_ref().map(|slice| slice.owner);
        if begins && active != Some(owner) {
            self.turns.push_back(owner);
        }
        if owner != Owner::Background {
            self.preempt(owner, &command);
        }
    }
    /// Only within one queue.
    fn may_grow(&self, waiting: &Queued, arriving: &Queued) -> bool {
        owner(waiting) == owner(arriving)
    }
    fn grow(&mut self, before: &Queued, after: &Queued) {
        if let Some(queue) = self.queues.get_mut(&owner(before)) {
            queue.grow(after);
        }
    }
    fn may_join(&self, older: &Queued, younger: &Queued) -> bool {
        owner(older) == owner(younger)
    }
    fn join(&mut self, older: &Queued, younger: &Queued, after: &Queued) {
        if let Owner::Stream(stream) = owner(younger) {
            self.streams.left(stream);
        }
        self.remove(owner(younger), younger.sequence);
        self.grow(older, after);
    }
    fn next(&mut self, _head: u64, now: u64) -> Next<Queued> {
        if self.queues.is_empty() {
            return Next::Empty;
        }
        if let Some(slice) = self.slice.take() {
            let waits = self.queues.contains_key(&slice.owner);
            if !self.is_over(&slice, now) {
                if waits {
                    return self.send(slice, now);
                }
                if !slice.is_used_up(now)
                    && let Some(until) = self.idles(&slice, now)
                {
                    self.slice = Some(slice);
                    return Next::IdleUntil(until);
                }
            } else if waits {
                self.turns.push_back(slice.owner);
            }
        }
        let Some(owner) = self.turns.pop_front() else {
            return Next::Empty;
        };
        let ends = now.saturating_add(self.class(owner).slice_ns);
        let ends = Some(ends).filter(|_| self.rules.clock == SliceClock::Turn);
        let slice =
            Slice { owner, ends, sent: 0, batch_left: 0, last: None, ended: now, preempted: false };
        self.send(slice, now)
    }
    fn completed(&mut self, command: &Queued, now: u64) {
        let owner = owner(command);
        self.inside.ended(owner);
        if let Owner::Stream(stream) = owner {
            self.streams.answered(stream, now);
        }
        let slice_ns = self.class(owner).slice_ns;
        if let Some(slice) = self.slice.as_mut().filter(|slice| slice.owner == owner) {
            slice.ended = now;
            if self.rules.clock == SliceClock::FirstEnded && slice.ends.is_none() {
                slice.ends = Some(now.saturating_add(slice_ns));
            }
        }
    }
}
