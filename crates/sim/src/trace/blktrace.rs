//! The binary stream of the kernel's block layer (`blktrace -d DEVICE -o -`): a record of 48 bytes
//! for everything that happens to a command, in the byte order of the machine, with `pdu_len` more
//! bytes behind it.
//!
//! ```text
//! 0 magic 0x65617407   4 sequence   8 time (ns)   16 sector (512 bytes)   24 bytes   28 action
//! 32 pid   36 device   40 cpu   44 error (16 bits)   46 pdu_len (16 bits)
//! ```
//!
//! The low half of an action says what happened, the high half is a set of categories. Of what
//! happens, three are written and read: Q (queued), D (dispatched) and C (completed); categories
//! tell reads, writes and flushes.
//!
//! A stream does not say which D belongs to which Q: it is found by place. A dispatch takes the
//! queued commands that begin in its range, one for each place, in order of arrival (so merges come
//! apart again); one that reaches further is cut in two (as splits are). Completions take the
//! dispatched ones in the same way. What was dispatched without being queued arrives then, what was
//! completed without being dispatched is no command, and what had not completed at the end of the
//! stream is left out, as are discards and commands that are no blocks.
use super::{TraceError, TraceRecord, by_arrival};
use extant_block::Operation;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};

const MAGIC: u32 = 0x6561_7407;
const LENGTH: usize = 48;
const SECTOR: u64 = 512;
/// 8,0: what `blkparse` shows.
const DEVICE: u32 = 8 << 20;

const QUEUED: u32 = 1;
const DISPATCHED: u32 = 7;
const COMPLETED: u32 = 8;
/// What happened, without the bit that tells of a control group.
const WHAT: u32 = 0xff;

/// Categories, in the high half of an action.
mod category {
    pub const READ: u32 = 1 << 16;
    pub const WRITE: u32 = 1 << 17;
    pub const FLUSH: u32 = 1 << 18;
    pub const QUEUE: u32 = 1 << 20;
    pub const ISSUE: u32 = 1 << 22;
    pub const COMPLETE: u32 = 1 << 23;
    pub const PACKET: u32 = 1 << 25;
    pub const NOTIFY: u32 = 1 << 26;
    pub const DISCARD: u32 = 1 << 29;
    pub const DRIVER_DATA: u32 = 1 << 30;
    /// No transfers of blocks.
    pub const OTHERS: u32 = PACKET | NOTIFY | DISCARD | DRIVER_DATA;
}

pub(super) fn write(records: &[TraceRecord], writer: &mut dyn Write) -> Result<(), TraceError> {
    let mut events: Vec<(u64, u32, &TraceRecord)> = Vec::new();
    for (record, number) in by_arrival(records) {
        check(record).map_err(|reason| TraceError::Unwritable { record: number, reason })?;
        events.push((record.arrival_ns, QUEUED | category::QUEUE, record));
        events.push((record.dispatch_ns, DISPATCHED | category::ISSUE, record));
        events.push((record.completion_ns, COMPLETED | category::COMPLETE, record));
    }
    // Stable: equal times stay in order of arrival, Q before D before C.
    events.sort_by_key(|(time, what, _)| (*time, *what & WHAT));
    let mut out = BufWriter::new(writer);
    for (index, (time, what, record)) in events.into_iter().enumerate() {
        let sequence = (index as u32).wrapping_add(1);
        out.write_all(&encode(sequence, time, what, record))?;
    }
    Ok(out.flush()?)
}

fn check(record: &TraceRecord) -> Result<(), String> {
    if !record.offset.is_multiple_of(SECTOR) || !record.bytes.is_multiple_of(SECTOR) {
        return Err(format!(
            "offset {} and {} bytes are no whole sectors",
            record.offset, record.bytes
        ));
    }
    if u32::try_from(record.bytes).is_err() {
        return Err(format!("{} bytes are more than a command has", record.bytes));
    }
    match record.arrival_ns <= record.dispatch_ns && record.dispatch_ns <= record.completion_ns {
        true => Ok(()),
        false => Err("it ends before it begins".to_owned()),
    }
}

fn encode(sequence: u32, time: u64, what: u32, record: &TraceRecord) -> [u8; LENGTH] {
    let action = what
        | match record.operation {
            Operation::Read => category::READ,
            Operation::Write => category::WRITE,
            Operation::Flush => category::FLUSH | category::WRITE,
        };
    let mut bytes = [0; LENGTH];
    bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[4..8].copy_from_slice(&sequence.to_le_bytes());
    bytes[8..16].copy_from_slice(&time.to_le_bytes());
    bytes[16..24].copy_from_slice(&(record.offset / SECTOR).to_le_bytes());
    bytes[24..28].copy_from_slice(&u32::try_from(record.bytes).unwrap_or(u32::MAX).to_le_bytes());
    bytes[28..32].copy_from_slice(&action.to_le_bytes());
    bytes[32..36].copy_from_slice(&record.stream.to_le_bytes());
    bytes[36..40].copy_from_slice(&DEVICE.to_le_bytes());
    bytes
}

pub(super) fn read(bytes: &[u8]) -> Result<Vec<TraceRecord>, TraceError> {
    let mut events = parse(bytes)?;
    events.sort_by_key(|event| event.time);
    let mut pairing = Pairing::default();
    for event in &events {
        match event.what {
            QUEUED => pairing.queue(event),
            DISPATCHED => pairing.dispatch(event),
            _ => pairing.complete(event),
        }
    }
    let mut ended = pairing.ended;
    ended.sort_by_key(|(number, record)| (record.arrival_ns, *number, record.offset));
    Ok(ended.into_iter().map(|(_, record)| record).collect())
}

/// One Q, D or C of a transfer of blocks.
#[derive(Clone, Copy)]
struct Event {
    what: u32,
    time: u64,
    operation: Operation,
    device: u32,
    offset: u64,
    bytes: u64,
    stream: u32,
}

/// Takes numbers from a record in the byte order that its magic number tells.
#[derive(Clone, Copy)]
struct Fields<'a> {
    record: &'a [u8; LENGTH],
    swapped: bool,
}

impl Fields<'_> {
    fn u16(self, at: usize) -> u16 {
        let value = u16::from_le_bytes([self.record[at], self.record[at + 1]]);
        if self.swapped { value.swap_bytes() } else { value }
    }

    fn u32(self, at: usize) -> u32 {
        let halves = [self.u16(at), self.u16(at + 2)].map(u32::from);
        if self.swapped { halves[0] << 16 | halves[1] } else { halves[1] << 16 | halves[0] }
    }

    fn u64(self, at: usize) -> u64 {
        let halves = [self.u32(at), self.u32(at + 4)].map(u64::from);
        if self.swapped { halves[0] << 32 | halves[1] } else { halves[1] << 32 | halves[0] }
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Event>, TraceError> {
    let mut events = Vec::new();
    let mut rest = bytes;
    let mut number = 0;
    while !rest.is_empty() {
        number += 1;
        let byte = bytes.len() - rest.len();
        let damaged = |reason: String| TraceError::Record { record: number, byte, reason };
        let (record, behind) = rest
            .split_first_chunk::<LENGTH>()
            .ok_or_else(|| damaged(format!("{} bytes are left of its {LENGTH}", rest.len())))?;
        let fields = fields(record).map_err(damaged)?;
        let extra = usize::from(fields.u16(46));
        rest = behind
            .get(extra..)
            .ok_or_else(|| damaged(format!("its {extra} further bytes are not all there")))?;
        events.extend(event(fields).map_err(damaged)?);
    }
    Ok(events)
}

fn fields(record: &[u8; LENGTH]) -> Result<Fields<'_>, String> {
    let magic = Fields { record, swapped: false }.u32(0);
    match magic {
        MAGIC => Ok(Fields { record, swapped: false }),
        _ if magic.swap_bytes() == MAGIC => Ok(Fields { record, swapped: true }),
        _ => Err(format!("it begins with {magic:#010x}, not with {MAGIC:#010x}")),
    }
}

/// `None` for what is neither Q, D nor C of a transfer of blocks.
fn event(fields: Fields<'_>) -> Result<Option<Event>, String> {
    let action = fields.u32(28);
    let what = action & WHAT;
    if action & category::OTHERS != 0 || ![QUEUED, DISPATCHED, COMPLETED].contains(&what) {
        return Ok(None);
    }
    let bytes = u64::from(fields.u32(24));
    let operation = match () {
        () if action & category::FLUSH != 0 && bytes == 0 => Operation::Flush,
        () if bytes == 0 => return Ok(None),
        () if action & category::WRITE != 0 => Operation::Write,
        () => Operation::Read,
    };
    let sector = match operation {
        Operation::Flush => 0,
        _ => fields.u64(16),
    };
    let offset = sector.checked_mul(SECTOR).filter(|offset| offset.checked_add(bytes).is_some());
    let offset = offset.ok_or_else(|| format!("sector {sector} is beyond any drive"))?;
    let (time, device, stream) = (fields.u64(8), fields.u32(36), fields.u32(32));
    Ok(Some(Event { what, time, operation, device, offset, bytes, stream }))
}

/// Commands by device, kind, first byte and number: in order of place, then of arrival.
type Waiting = BTreeMap<(u32, u8, u64, usize), TraceRecord>;

#[derive(Default)]
struct Pairing {
    queued: Waiting,
    dispatched: Waiting,
    ended: Vec<(usize, TraceRecord)>,
    arrived: usize,
}

impl Pairing {
    fn arrive(&mut self, event: &Event) -> ((u32, u8, u64, usize), TraceRecord) {
        let mut record =
            TraceRecord::plain(event.operation, event.offset, event.bytes, [event.time; 3]);
        record.stream = event.stream;
        self.arrived += 1;
        ((event.device, event.kind(), event.offset, self.arrived), record)
    }

    fn queue(&mut self, event: &Event) {
        let (key, record) = self.arrive(event);
        self.queued.insert(key, record);
    }

    fn dispatch(&mut self, event: &Event) {
        let mut taken = take(&mut self.queued, event);
        if taken.is_empty() {
            taken.push(self.arrive(event));
        }
        for (key, mut record) in taken {
            (record.dispatch_ns, record.completion_ns) = (event.time, event.time);
            self.dispatched.insert(key, record);
        }
    }

    fn complete(&mut self, event: &Event) {
        for ((_, _, _, number), mut record) in take(&mut self.dispatched, event) {
            record.completion_ns = event.time;
            self.ended.push((number, record));
        }
    }
}

impl Event {
    fn kind(&self) -> u8 {
        match self.operation {
            Operation::Read => 0,
            Operation::Write => 1,
            Operation::Flush => 2,
        }
    }
}

/// Takes out the commands that begin in the event's range, one after the other without overlap;
/// what reaches beyond it stays.
fn take(waiting: &mut Waiting, event: &Event) -> Vec<((u32, u8, u64, usize), TraceRecord)> {
    let mut taken = Vec::new();
    let end = event.offset + event.bytes;
    let mut from = event.offset;
    // A flush is at its place, and has no extent.
    let last = end.max(event.offset + 1) - 1;
    while from <= last {
        let range =
            (event.device, event.kind(), from, 0)..=(event.device, event.kind(), last, usize::MAX);
        let Some(key) = waiting.range(range).next().map(|(key, _)| *key) else {
            break;
        };
        let Some(mut record) = waiting.remove(&key) else { break };
        let reach = record.offset + record.bytes;
        if event.bytes > 0 && reach > end {
            let rest = TraceRecord { offset: end, bytes: reach - end, ..record };
            waiting.insert((key.0, key.1, end, key.3), rest);
            record.bytes = end - record.offset;
        }
        taken.push((key, record));
        from = reach.max(key.2 + 1);
    }
    taken
}
