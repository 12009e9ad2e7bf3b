//! The host's queue for one device: requests are cut, merged, limited, plugged, and ordered by an
//! elevator.
//!
//! A request larger than `merge_bytes_max` becomes several commands. One that is adjacent to a
//! waiting command of its direction becomes part of it. At most `requests_max` commands of each
//! direction wait in the elevator; the other requests wait before it in the order of arrival, as
//! processes sleep until the queue has room. An idle device is plugged: the first requests wait a
//! little for others that they could be merged with. All of this is behaviour of Linux 2.4 and 2.6
//! as documented (plug, merge, the free list of requests for each direction), with its numbers in
//! [`QueueSettings`]. An elevator may look for merges itself, piece by piece
//! ([`Elevator::search`]). A direction that is nearly full is congested, which the queue only says:
//! a thread that writes for all devices asks, so that it need not sleep in the queue of one.
//!
//! *Invariants*: the elevator holds exactly `waiting`. Each byte of each request is in one place:
//! before the elevator, waiting in it, or dispatched. A command's parts are adjacent and of one
//! direction. While requests of a direction wait before the elevator, as many as allowed wait in
//! it. `older_writes` has one count more than there are flushes. A direction is congested from the
//! moment when as many requests are taken as [`CongestionBounds`] says until fewer than its other
//! bound are.
use super::{Elevator, ElevatorChoice, ElevatorEntry, End, FlushOrder, Next, Queued, Search};
use extant_block::device::{Operation, Urgency};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Commands are cut at multiples of this, in bytes.
const CUT_BYTES: u64 = 4096;

/// What pulls the plug of an idle device, beside the time that it stays at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unplug {
    /// A request that a thread waits for, when it arrives, a thread that starts to wait for what it
    /// submitted ([`HostQueue::holds_of`]), and the number of waiting commands: as in Linux 2.6.
    OnArrival,
    /// A thread that starts to wait for anything ([`HostQueue::unplug`]), and a queue without room:
    /// as in Linux 2.4. What a thread asks for before it waits can merge.
    OnWait,
}

/// When requests that found no room are let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeUp {
    /// When a command is sent.
    EachSent,
    /// When a quarter of the requests of both directions are free, those inside the device not
    /// counted as free: the batches in which Linux 2.4 woke processes. Then all that fit.
    QuarterFree,
    /// When a command has ended, those inside the device not counted as free: Linux 2.6. The stream
    /// that takes the last request, and one that waited for one, may take [`BATCH`] more within 20
    /// ms, while fewer than one and a half times `requests_max` are taken.
    Batches,
}

/// How many more requests a stream takes at once ([`WakeUp::Batches`]).
pub const BATCH: u32 = 32;
/// For how long it may take them, in nanoseconds.
const BATCH_NS: u64 = 20_000_000;

/// Between which numbers of taken requests a direction becomes congested and stops being so: as in
/// Linux 2.6, seven eighths and one more, and a sixteenth and two below that. Of 128: 113 and 103.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionBounds {
    /// Congested once this many are taken.
    pub on: u64,
    /// Not congested any more once fewer than this are.
    pub off: u64,
}

impl CongestionBounds {
    /// Of a queue with this many requests for each direction.
    pub fn of(requests_max: u32) -> CongestionBounds {
        let most = u64::from(requests_max.max(1));
        let left = most - most / 8;
        CongestionBounds {
            on: (left + 1).min(most),
            off: left.saturating_sub(most / 16 + 1).max(1),
        }
    }
}

/// What a stream may take beyond the limit.
#[derive(Clone, Copy)]
struct Batch {
    stream: u32,
    left: u32,
    until: u64,
}

impl Batch {
    fn new(stream: u32, now: u64) -> Batch {
        Batch { stream, left: BATCH, until: now.saturating_add(BATCH_NS) }
    }
}

/// The settings of a host's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSettings {
    /// The order of commands.
    pub elevator: ElevatorChoice,
    /// Size of a command at most, in bytes; rounded down to a multiple of 4096, and at least that.
    pub merge_bytes_max: u64,
    /// How many commands of each direction wait in the elevator (taken as at least 1): 64 in Linux
    /// 2.4 ("128 requests, half for each direction"), 128 later.
    pub requests_max: u32,
    /// This many waiting commands pull the plug.
    pub plug_requests: u32,
    /// How long a plug stays at most, in nanoseconds; 0 for no plug.
    pub plug_ns: u64,
    /// What pulls the plug before that.
    pub unplug: Unplug,
    /// When requests that found no room are let in.
    pub wake_up: WakeUp,
}

impl Default for QueueSettings {
    /// As in Linux 2.6: `deadline`, 512 KiB, 128 of each direction, plugged for 3 ms or until 4
    /// wait.
    fn default() -> QueueSettings {
        const DEADLINE: &ElevatorEntry = &super::deadline::ENTRY;
        QueueSettings {
            elevator: ElevatorChoice::of(DEADLINE),
            merge_bytes_max: 512 << 10,
            requests_max: 128,
            plug_requests: 4,
            plug_ns: 3_000_000,
            unplug: Unplug::OnArrival,
            wake_up: WakeUp::EachSent,
        }
    }
}

/// A piece of a request in a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The request's `sequence`.
    pub sequence: u64,
    /// Where the piece starts on the device.
    pub offset: u64,
    /// How many bytes of the request. A request is done when the commands with all its bytes have
    /// ended.
    pub bytes: u64,
    /// How many flushes had arrived before the request, since the queue was made.
    flushes_before: u64,
}

/// What is sent to the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The argument for [`HostQueue::completed`].
    pub id: u64,
    /// What it does.
    pub operation: Operation,
    /// First byte on the device.
    pub offset: u64,
    /// Length in bytes: the sum of its parts.
    pub bytes: u64,
    /// Whether a thread waits for one of its parts.
    pub urgency: Urgency,
    /// Stream that submitted it; of several, the first that waits.
    pub stream: u32,
    /// The requests that it serves, by rising offset, without gaps. A flush has one of no bytes.
    pub parts: Vec<Part>,
}

/// Counts of what happened in a queue.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct QueueStatistics {
    /// Requests that arrived.
    pub arrivals: u64,
    /// Pieces merged at the front of a waiting command.
    pub merges_front: u64,
    /// Pieces merged at the back of a waiting command.
    pub merges_back: u64,
    /// Waiting commands that were joined when the gap between them was filled.
    pub joins: u64,
    /// Cuts of requests that were too large: pieces minus requests.
    pub cuts: u64,
    /// Commands sent, including flushes.
    pub dispatched: u64,
    /// The most commands that waited in the elevator.
    pub depth_max: u64,
    /// The most requests that waited before it.
    pub outside_max: u64,
}

/// A command that waits in the elevator.
struct Waiting {
    queued: Queued,
    parts: Vec<Part>,
}

/// A request, or the rest of one, that is not in the elevator yet.
struct Outside {
    request: Queued,
    flushes_before: u64,
}

/// What is kept for each direction.
#[derive(Default)]
struct Direction {
    /// Waiting commands by their first byte, to find what can be merged. Of several at one place
    /// only the last is known here.
    starts: FxHashMap<u64, u64>,
    ends: FxHashMap<u64, u64>,
    /// How many wait in the elevator.
    waiting: u64,
    /// How many were sent and have not ended.
    under_way: u64,
    /// The stream that may go beyond the limit.
    batch: Option<Batch>,
    /// See [`CongestionBounds`].
    is_congested: bool,
    /// What waits before it, in the order of arrival.
    outside: VecDeque<Outside>,
}

/// What became of a piece that may be merged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Merged {
    /// It is a part of its own in a waiting command.
    Part,
    /// A part of the same request became longer.
    Longer,
    No,
}

/// The host's queue of one device.
///
/// A flush is sent before anything else: at once, or once all writes that arrived before it were
/// sent, as the elevator's [`FlushOrder`] says. It does not delay what arrives later.
pub struct HostQueue {
    settings: QueueSettings,
    elevator: Box<dyn Elevator>,
    waiting: FxHashMap<u64, Waiting>,
    directions: [Direction; 2],
    under_way: FxHashMap<u64, Queued>,
    /// Flushes that are not sent.
    flushes: VecDeque<Queued>,
    /// How many flushes were sent.
    flushes_sent: u64,
    /// Writes (and pieces of writes) that are not sent: first those older than the first unsent
    /// flush, then those between it and the next one, and so on, last those younger than all of
    /// them.
    older_writes: VecDeque<u64>,
    /// While plugged: until when.
    plugged_until: Option<u64>,
    id_next: u64,
    statistics: QueueStatistics,
}

impl HostQueue {
    /// An empty queue.
    pub fn new(settings: &QueueSettings) -> HostQueue {
        let merge_bytes_max = (settings.merge_bytes_max / CUT_BYTES).max(1) * CUT_BYTES;
        let requests_max = settings.requests_max.max(1);
        HostQueue {
            settings: QueueSettings { merge_bytes_max, requests_max, ..*settings },
            elevator: settings.elevator.build(),
            waiting: FxHashMap::default(),
            directions: Default::default(),
            under_way: FxHashMap::default(),
            flushes: VecDeque::new(),
            flushes_sent: 0,
            older_writes: VecDeque::from([0]),
            plugged_until: None,
            id_next: 0,
            statistics: QueueStatistics::default(),
        }
    }

    /// Forgets all requests, those that were sent too: the device has lost its power. Counts go on,
    /// and so do the numbers of commands.
    pub fn clear(&mut self) {
        let (id_next, statistics) = (self.id_next, self.statistics);
        *self = HostQueue { id_next, statistics, ..HostQueue::new(&self.settings) };
    }

    /// Adds a request. Ask [`next`](HostQueue::next) whether something can be sent now.
    pub fn add(&mut self, request: Queued, now: u64) {
        self.statistics.arrivals += 1;
        if self.is_empty() && self.under_way.is_empty() && self.settings.plug_ns > 0 {
            self.plugged_until = Some(now.saturating_add(self.settings.plug_ns));
        }
        if self.settings.unplug == Unplug::OnArrival
            && (request.urgency.is_awaited() || request.operation == Operation::Flush)
        {
            self.unplug();
        }
        if request.operation == Operation::Flush {
            self.flushes.push_back(request);
            self.older_writes.push_back(0);
            return;
        }
        let flushes_before = self.flushes_sent + self.flushes.len() as u64;
        self.count_write(request.operation, flushes_before, 1);
        let arrived = Outside { request, flushes_before };
        // Requests outside came first: a later one must not get past them into a waiting command.
        let is_first = self.direction(request.operation).outside.is_empty();
        let left = if is_first { self.admit(arrived, now) } else { Some(arrived) };
        if let Some(left) = left {
            let outside = &mut self.direction(request.operation).outside;
            outside.push_back(left);
            let outside = outside.len() as u64;
            self.statistics.outside_max = self.statistics.outside_max.max(outside);
            if self.settings.unplug == Unplug::OnWait {
                self.unplug();
            }
        }
    }

    /// Pulls the plug, because a thread waits: waiting commands may be sent at once.
    pub fn unplug(&mut self) {
        self.plugged_until = None;
    }

    /// The next command when the head is at byte `head` (the end of the last command, if nothing
    /// better is known). To be called whenever the device can take another command, a request has
    /// arrived, a command has ended, or the time has come that the last call returned.
    pub fn next(&mut self, head: u64, now: u64) -> Next<Command> {
        let may_flush = self.settings.elevator.entry().flush == FlushOrder::AtOnce
            || self.older_writes.front() == Some(&0);
        if may_flush && let Some(flush) = self.flushes.pop_front() {
            return Next::Dispatch(self.send_flush(flush));
        }
        if self.waiting.is_empty() {
            return Next::Empty;
        }
        if let Some(until) = self.plugged_until.filter(|until| now < *until)
            && (self.settings.unplug == Unplug::OnWait
                || (self.waiting.len() as u64) < u64::from(self.settings.plug_requests))
        {
            return Next::IdleUntil(until);
        }
        self.unplug();
        match self.elevator.next(head, now) {
            Next::Dispatch(chosen) => {
                self.send(chosen.sequence, now).map_or(Next::Empty, Next::Dispatch)
            }
            Next::IdleUntil(until) => Next::IdleUntil(until),
            Next::Empty => Next::Empty,
        }
    }

    /// Notes that a command has ended. One that is not under way is ignored.
    pub fn completed(&mut self, id: u64, now: u64) {
        if let Some(command) = self.under_way.remove(&id)
            && command.operation != Operation::Flush
        {
            self.direction(command.operation).under_way -= 1;
            self.note_congestion(command.operation);
            self.elevator.completed(&command, now);
            if self.settings.wake_up == WakeUp::Batches {
                self.begin_batch(command.operation, now);
            }
            if self.settings.wake_up == WakeUp::QuarterFree {
                let requests_max = u64::from(self.settings.requests_max);
                let direction = self.direction(command.operation);
                let free = requests_max.saturating_sub(direction.waiting + direction.under_way);
                if free >= (requests_max / 2).max(1) {
                    self.admit_outside(command.operation, now);
                }
            }
        }
    }

    /// How many requests of this direction found no room and wait for it.
    pub fn outside(&self, operation: Operation) -> u64 {
        self.of(operation).outside.len() as u64
    }

    /// Whether so many requests of this direction are taken that who need not wait leaves the queue
    /// alone.
    pub fn is_congested(&self, operation: Operation) -> bool {
        self.of(operation).is_congested
    }

    /// Whether a request of this direction that has ended wakes those who wait for a queue that is
    /// not congested: fewer are taken than [`CongestionBounds::off`].
    pub fn is_relieved(&self, operation: Operation) -> bool {
        self.taken(self.of(operation)) < CongestionBounds::of(self.settings.requests_max).off
    }

    /// Whether the plug is in.
    pub fn is_plugged(&self) -> bool {
        self.plugged_until.is_some()
    }

    /// Whether a command waits that this stream submitted, or its flush does.
    pub fn holds_of(&self, stream: u32) -> bool {
        self.waiting.values().any(|waiting| waiting.queued.stream == stream)
            || self.flushes.iter().any(|flush| flush.stream == stream)
    }

    /// Whether nothing waits (commands may be under way).
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.flushes.is_empty()
    }
    /// How many commands wait, in the elevator, and as requests before it.
    pub fn waiting(&self) -> u64 {
        let outside: usize = self.directions.iter().map(|direction| direction.outside.len()).sum();
        (self.waiting.len() + outside + self.flushes.len()) as u64
    }
    /// How many commands were dispatched and have not ended.
    pub fn under_way(&self) -> u64 {
        self.under_way.len() as u64
    }
    /// The counts so far.
    pub fn statistics(&self) -> QueueStatistics {
        self.statistics
    }

    fn of(&self, operation: Operation) -> &Direction {
        let [reads, writes] = &self.directions;
        match operation {
            Operation::Read => reads,
            Operation::Write | Operation::Flush => writes,
        }
    }

    /// How many requests of a direction count against the limit.
    fn taken(&self, direction: &Direction) -> u64 {
        match self.settings.wake_up {
            WakeUp::EachSent => direction.waiting,
            WakeUp::QuarterFree | WakeUp::Batches => direction.waiting + direction.under_way,
        }
    }

    /// Called whenever a request of this direction was taken or became free.
    fn note_congestion(&mut self, operation: Operation) {
        let CongestionBounds { on, off } = CongestionBounds::of(self.settings.requests_max);
        let taken = self.taken(self.of(operation));
        let direction = self.direction(operation);
        direction.is_congested = taken >= on || direction.is_congested && taken >= off;
    }

    fn direction(&mut self, operation: Operation) -> &mut Direction {
        let [reads, writes] = &mut self.directions;
        match operation {
            Operation::Read => reads,
            Operation::Write | Operation::Flush => writes,
        }
    }

    /// Changes the count of unsent writes: see `older_writes`.
    fn count_write(&mut self, operation: Operation, flushes_before: u64, change: i64) {
        let place =
            usize::try_from(flushes_before.saturating_sub(self.flushes_sent)).unwrap_or(usize::MAX);
        if operation == Operation::Write
            && let Some(count) = self.older_writes.get_mut(place)
        {
            *count = count.saturating_add_signed(change);
        }
    }

    /// Puts a request into the elevator, piece by piece. Returns what does not fit.
    fn admit(&mut self, mut arriving: Outside, now: u64) -> Option<Outside> {
        let request = &mut arriving.request;
        let most = self.settings.merge_bytes_max;
        let piece_max = self.elevator.piece_bytes_max().map_or(most, |bytes| bytes.clamp(1, most));
        loop {
            let bytes = request.bytes.min(piece_max);
            let piece = Queued { bytes, ..*request };
            if !self.admit_piece(piece, arriving.flushes_before, now) {
                return Some(arriving);
            }
            request.offset = request.offset.saturating_add(bytes);
            request.bytes -= bytes;
            if request.bytes == 0 {
                self.count_write(request.operation, arriving.flushes_before, -1);
                return None;
            }
            self.statistics.cuts += 1;
        }
    }

    /// Puts a piece that is small enough into the elevator. Returns false if there is no room.
    fn admit_piece(&mut self, piece: Queued, flushes_before: u64, now: u64) -> bool {
        let part = Part {
            sequence: piece.sequence,
            offset: piece.offset,
            bytes: piece.bytes,
            flushes_before,
        };
        if piece.bytes > 0 {
            match self.merge(piece, part) {
                Merged::Part => {
                    self.count_write(piece.operation, flushes_before, 1);
                    return true;
                }
                Merged::Longer => return true,
                Merged::No => {}
            }
        }
        if !self.has_place(&piece, now) {
            return false;
        }
        self.direction(piece.operation).waiting += 1;
        self.note_congestion(piece.operation);
        let id = self.id_new();
        let queued = Queued { sequence: id, ..piece };
        self.index(&queued);
        self.waiting.insert(id, Waiting { queued, parts: vec![part] });
        self.elevator.add(queued, now);
        self.count_write(piece.operation, flushes_before, 1);
        self.statistics.depth_max = self.statistics.depth_max.max(self.waiting.len() as u64);
        true
    }

    /// Whether a new command of this stream may wait. If it is beyond the limit, it counts.
    fn has_place(&mut self, piece: &Queued, now: u64) -> bool {
        let requests_max = u64::from(self.settings.requests_max);
        let wake_up = self.settings.wake_up;
        let taken = self.taken(self.of(piece.operation));
        let direction = self.direction(piece.operation);
        if wake_up != WakeUp::Batches || taken + 1 < requests_max {
            return taken < requests_max;
        }
        if taken < requests_max {
            direction.batch.get_or_insert(Batch::new(piece.stream, now));
            return true;
        }
        let is_its_own = |batch: &&mut Batch| {
            batch.stream == piece.stream && batch.left > 0 && now <= batch.until
        };
        let batch = direction.batch.as_mut().filter(is_its_own);
        let goes_on = batch.filter(|_| taken < requests_max + requests_max / 2);
        if let Some(batch) = goes_on {
            batch.left -= 1;
            return true;
        }
        false
    }

    /// Lets in what waits outside, if there is room again: the first stream takes a batch.
    fn begin_batch(&mut self, operation: Operation, now: u64) {
        let requests_max = u64::from(self.settings.requests_max);
        let direction = self.direction(operation);
        if direction.waiting + direction.under_way < requests_max {
            let first = direction.outside.front().map(|outside| outside.request.stream);
            direction.batch = first.map(|stream| Batch::new(stream, now));
            self.admit_outside(operation, now);
        }
    }

    /// Makes a piece part of an adjacent waiting command, if there is one.
    fn merge(&mut self, piece: Queued, part: Part) -> Merged {
        match self.elevator.search(&piece, self.settings.merge_bytes_max) {
            Search::Part { sequence, end } => return self.grow(sequence, end, piece, part),
            Search::Alone => return Merged::No,
            Search::ByQueue => {}
        }
        let direction = self.direction(piece.operation);
        let (behind, before) =
            (direction.ends.get(&piece.offset), direction.starts.get(&piece.end()));
        let candidates = [(behind.copied(), End::Back), (before.copied(), End::Front)];
        for (id, end) in candidates {
            let Some(waiting) = id.and_then(|id| self.waiting.get(&id)) else {
                continue;
            };
            let after = together(&waiting.queued, &piece);
            if after.bytes <= self.settings.merge_bytes_max
                && self.elevator.may_grow(&waiting.queued, &piece)
            {
                return self.grow(waiting.queued.sequence, end, piece, part);
            }
        }
        Merged::No
    }

    /// Makes a piece part of this waiting command, which it touches at one end.
    fn grow(&mut self, id: u64, end: End, piece: Queued, part: Part) -> Merged {
        let Some(waiting) = self.waiting.get_mut(&id) else { return Merged::No };
        let before = waiting.queued;
        let after = together(&before, &piece);
        waiting.queued = after;
        let last = waiting.parts.last_mut().filter(|last| {
            last.sequence == part.sequence && last.offset + last.bytes == part.offset
        });
        let merged = match last {
            Some(last) => {
                last.bytes += part.bytes;
                Merged::Longer
            }
            None => {
                waiting.parts.push(part);
                Merged::Part
            }
        };
        self.unindex(&before);
        self.index(&after);
        self.elevator.grow(&before, &after);
        match end {
            End::Front => self.statistics.merges_front += 1,
            End::Back => self.statistics.merges_back += 1,
        }
        self.join(after, end);
        merged
    }

    /// Joins a command that grew at one end with the next one there, if they touch now.
    fn join(&mut self, grown: Queued, end: End) {
        let direction = self.direction(grown.operation);
        let neighbour = match end {
            End::Front => direction.ends.get(&grown.offset).copied(),
            End::Back => direction.starts.get(&grown.end()).copied(),
        };
        let Some(neighbour) =
            neighbour.and_then(|id| self.waiting.get(&id)).map(|waiting| waiting.queued)
        else {
            return;
        };
        let (older, younger) = if grown.sequence < neighbour.sequence {
            (grown, neighbour)
        } else {
            (neighbour, grown)
        };
        let after = together(&older, &younger);
        if after.bytes > self.settings.merge_bytes_max || !self.elevator.may_join(&older, &younger)
        {
            return;
        }
        self.unindex(&older);
        self.unindex(&younger);
        self.index(&after);
        let absorbed = self.waiting.remove(&younger.sequence);
        if let (Some(waiting), Some(absorbed)) = (self.waiting.get_mut(&older.sequence), absorbed) {
            waiting.queued = after;
            waiting.parts.extend(absorbed.parts);
        }
        self.direction(grown.operation).waiting -= 1;
        self.note_congestion(grown.operation);
        self.elevator.join(&older, &younger, &after);
        self.statistics.joins += 1;
    }

    fn index(&mut self, command: &Queued) {
        if command.bytes > 0 {
            let direction = self.direction(command.operation);
            direction.starts.insert(command.offset, command.sequence);
            direction.ends.insert(command.end(), command.sequence);
        }
    }
    fn unindex(&mut self, command: &Queued) {
        let direction = self.direction(command.operation);
        for (map, place) in
            [(&mut direction.starts, command.offset), (&mut direction.ends, command.end())]
        {
            if map.get(&place) == Some(&command.sequence) {
                map.remove(&place);
            }
        }
    }

    /// Takes a command out of the elevator, and lets in a request that waited for its place.
    fn send(&mut self, id: u64, now: u64) -> Option<Command> {
        let sent = self.waiting.remove(&id);
        debug_assert!(sent.is_some(), "the elevator dispatched a command that does not wait");
        let Waiting { queued, mut parts } = sent?;
        self.unindex(&queued);
        parts.sort_unstable_by_key(|part| part.offset);
        for part in &parts {
            self.count_write(queued.operation, part.flushes_before, -1);
        }
        let direction = self.direction(queued.operation);
        direction.waiting -= 1;
        direction.under_way += 1;
        self.note_congestion(queued.operation);
        if self.settings.wake_up == WakeUp::EachSent {
            self.admit_outside(queued.operation, now);
        }
        Some(self.start(queued, parts))
    }

    /// Lets in requests from before the elevator while there is room.
    fn admit_outside(&mut self, operation: Operation, now: u64) {
        while let Some(outside) = self.direction(operation).outside.pop_front() {
            if let Some(left) = self.admit(outside, now) {
                self.direction(operation).outside.push_front(left);
                return;
            }
        }
    }

    fn send_flush(&mut self, flush: Queued) -> Command {
        // Writes that it did not wait for are older than the next flush.
        let passed = self.older_writes.pop_front().unwrap_or(0);
        if let Some(next) = self.older_writes.front_mut() {
            *next += passed;
        }
        let part = Part {
            sequence: flush.sequence,
            offset: flush.offset,
            bytes: 0,
            flushes_before: self.flushes_sent,
        };
        self.flushes_sent += 1;
        let sequence = self.id_new();
        let queued = Queued { sequence, bytes: 0, ..flush };
        self.start(queued, vec![part])
    }

    fn start(&mut self, queued: Queued, parts: Vec<Part>) -> Command {
        self.under_way.insert(queued.sequence, queued);
        self.statistics.dispatched += 1;
        Command {
            id: queued.sequence,
            operation: queued.operation,
            offset: queued.offset,
            bytes: queued.bytes,
            urgency: queued.urgency,
            stream: queued.stream,
            parts,
        }
    }

    fn id_new(&mut self) -> u64 {
        let id = self.id_next;
        self.id_next += 1;
        id
    }
}

/// Two adjacent commands as one, with the number of the first. It is awaited if one of them is, and
/// then has the stream of that one.
fn together(command: &Queued, other: &Queued) -> Queued {
    let rank = |queued: &Queued| match queued.urgency {
        Urgency::Metadata => 2,
        Urgency::Awaited => 1,
        Urgency::Background => 0,
    };
    let waits = if rank(other) > rank(command) { other } else { command };
    Queued {
        offset: command.offset.min(other.offset),
        bytes: command.bytes.saturating_add(other.bytes),
        urgency: waits.urgency,
        stream: waits.stream,
        ..*command
    }
}
