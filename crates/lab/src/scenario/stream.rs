//! Reads and writes in pieces: in a row, at random, in strides; of a file or of the bare drive.
use super::process::{Call, Outcome, Stop, Worker};
use super::step::{Direction, Durability, Pattern, StreamAction};
use super::time::Time;
use extant_block::device::Urgency;
use extant_block::{
    BlockDevice, Clock, DeviceInfo, Operation, Request, Segment, ShortLock, WaitQueue,
};
use extant_engine::{ErrorKind, File, Filesystem};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// What is read or written.
enum Target {
    File(Box<File>, PathBuf),
    Device(Arc<dyn BlockDevice>),
}

/// A request that has ended.
struct Ended {
    began_ns: u64,
    result: io::Result<()>,
}

/// Requests of a stream to the bare drive that are under way at once.
///
/// *Locking*: the lock of `ended` is short; completions take it, and wake the stream.
struct UnderWay {
    ended: Arc<(ShortLock<VecDeque<Ended>>, WaitQueue)>,
    /// How many were submitted, and not taken yet.
    count: u32,
}

impl UnderWay {
    fn new(clock: Arc<dyn Clock>) -> UnderWay {
        let ended = (ShortLock::new(VecDeque::new()), WaitQueue::new(clock));
        UnderWay { ended: Arc::new(ended), count: 0 }
    }

    fn submit(
        &mut self,
        device: &dyn BlockDevice,
        operation: Operation,
        offset: u64,
        segments: Vec<Segment>,
        began_ns: u64,
    ) {
        let ended = Arc::clone(&self.ended);
        self.count += 1;
        device.submit(Request {
            operation,
            offset,
            segments,
            urgency: Urgency::Awaited,
            completion: Box::new(move |completed| {
                let result = completed.result;
                ended.0.lock().push_back(Ended { began_ns, result });
                ended.1.wake_all();
            }),
        });
    }

    /// The next one that ends; there has to be one under way.
    fn next(&mut self) -> Ended {
        self.count -= 1;
        self.ended.1.wait_until(&self.ended.0, VecDeque::pop_front)
    }
}

fn operation(direction: Direction) -> Operation {
    match direction {
        Direction::Read => Operation::Read,
        Direction::Write => Operation::Write,
    }
}

/// Where the pieces lie, and where each of the streams stands.
struct Places {
    /// First byte of all.
    offset: u64,
    /// Bytes that each stream has to itself; `u64::MAX`: no end.
    span: u64,
    chunk: u64,
    pattern: Pattern,
    /// Bytes behind the start of its part that each stream begins its next piece at.
    next: Vec<u64>,
    turn: usize,
}

impl Places {
    fn new(stream: &StreamAction, span: u64) -> Places {
        let streams = stream.streams.max(1);
        let share = if span == u64::MAX && streams == 1 {
            span
        } else {
            (span / u64::from(streams)).max(stream.chunk)
        };
        Places {
            offset: stream.offset,
            span: share,
            chunk: stream.chunk,
            pattern: stream.pattern,
            next: vec![0; streams as usize],
            turn: 0,
        }
    }

    /// Where the next piece begins.
    fn take(&mut self, worker: &mut Worker) -> u64 {
        let stream = self.turn;
        self.turn = (self.turn + 1) % self.next.len();
        let pieces = (self.span / self.chunk).max(1);
        let last = (pieces - 1).saturating_mul(self.chunk);
        let at = match self.pattern {
            Pattern::Sequential | Pattern::Stride(_) => self.next[stream],
            Pattern::Random => worker.random.below(pieces) * self.chunk,
            Pattern::Near(distance) => {
                let least = self.next[stream].saturating_sub(distance / 2).min(last);
                let most = least.saturating_add(distance).min(last);
                worker.random.within(least / self.chunk..most / self.chunk + 1) * self.chunk
            }
        };
        let step = match self.pattern {
            Pattern::Stride(stride) => stride,
            Pattern::Sequential => self.chunk,
            Pattern::Random | Pattern::Near(_) => 0,
        };
        let next = at.saturating_add(step);
        // Where a whole piece does not fit any more, the stream starts again.
        self.next[stream] = if next > last { 0 } else { next };
        let start = if stream == 0 { 0 } else { self.span.saturating_mul(stream as u64) };
        self.offset.saturating_add(start).saturating_add(at)
    }
}

/// Whether all pieces on a bare drive can be of whole sectors of it; else why not.
fn whole_sectors(stream: &StreamAction, info: &DeviceInfo) -> Result<(), String> {
    let stride = match stream.pattern {
        Pattern::Stride(stride) => stride,
        Pattern::Sequential | Pattern::Random | Pattern::Near(_) => 0,
    };
    let sector = u64::from(info.sector_bytes.max(1));
    let given = [("chunk", stream.chunk), ("offset", stream.offset), ("stride", stride)];
    match given.into_iter().find(|(_, bytes)| !bytes.is_multiple_of(sector)) {
        None => Ok(()),
        Some((key, bytes)) => {
            Err(format!("{key}: {bytes} bytes are no whole sectors of {sector} of {}", info.name))
        }
    }
}

impl Worker {
    pub(super) fn stream(&mut self, stream: &StreamAction) -> Outcome {
        let world = Arc::clone(&self.world);
        let in_use = match &stream.path {
            Some(_) => Some(self.enter(&world)?),
            None => None,
        };
        let target = match (&stream.path, &in_use) {
            (Some(path), Some(in_use)) => {
                self.open(&in_use.filesystem, PathBuf::from(self.path(path)), stream.direction)?
            }
            _ => Target::Device(world.drives[self.drive()].device()),
        };
        let span = self.span(&target, stream)?;
        let mut places = Places::new(stream, span);
        let mut buffer = vec![b'e'; stream.chunk as usize];
        let mut under_way = UnderWay::new(world.time.clock());
        let count = stream.count.map(|count| world.scaled(count));
        let started = world.time.settled();
        let mut done = 0;
        while count.is_none_or(|count| done < count)
            && !stream.end.is_some_and(|end| self.is_over(end, started))
        {
            let before = world.time.now();
            let offset = places.take(self);
            match &target {
                Target::Device(device) if stream.depth > 1 => {
                    self.end_down_to(&mut under_way, stream, stream.depth - 1)?;
                    self.begin(&mut under_way, &**device, stream, offset)?;
                }
                _ => self.piece(&target, stream, offset, &mut buffer)?,
            }
            done += 1;
            // Requests beside others take no time of their own.
            if stream.end.is_some() && under_way.count.max(1) >= stream.depth {
                self.go_on_from(before);
            }
            if let Some(rate) = stream.rate {
                let due =
                    u128::from(done) * u128::from(stream.chunk) * 1_000_000_000 / u128::from(rate);
                world
                    .time
                    .sleep_until(started.saturating_add(u64::try_from(due).unwrap_or(u64::MAX)));
            }
        }
        self.end_down_to(&mut under_way, stream, 0)
    }

    /// Submits a request to the bare drive.
    fn begin(
        &mut self,
        under_way: &mut UnderWay,
        device: &dyn BlockDevice,
        stream: &StreamAction,
        offset: u64,
    ) -> Outcome {
        if self.is_halted() {
            return Err(Stop::Halted);
        }
        let operation = operation(stream.direction);
        let segments = vec![self.segment(stream.chunk)];
        device.wait_for_room(operation);
        under_way.submit(device, operation, offset, segments, self.world.time.now());
        Ok(())
    }

    /// Waits until at most so many requests are under way.
    fn end_down_to(
        &mut self,
        under_way: &mut UnderWay,
        stream: &StreamAction,
        most: u32,
    ) -> Outcome {
        while under_way.count > most {
            let ended = under_way.next();
            let call = match stream.direction {
                Direction::Read => Call::Read,
                Direction::Write => Call::Write,
            };
            self.timed(call, ended.began_ns);
            ended.result?;
            match stream.direction {
                Direction::Read => self.work.bytes_read += stream.chunk,
                Direction::Write => self.work.bytes_written += stream.chunk,
            }
        }
        Ok(())
    }

    fn open(
        &mut self,
        filesystem: &Filesystem,
        path: PathBuf,
        direction: Direction,
    ) -> Outcome<Target> {
        let file = self.call(Call::Open, || match filesystem.open_file(&path) {
            Err(error)
                if matches!(error.kind, ErrorKind::NotFound) && direction == Direction::Write =>
            {
                filesystem.create_file(&path, 0o644)
            }
            result => result,
        })?;
        self.work.files += 1;
        Ok(Target::File(Box::new(file), path))
    }

    /// Bytes in which the pieces lie; what is read has to be there.
    fn span(&mut self, target: &Target, stream: &StreamAction) -> Outcome<u64> {
        let (name, size) = match target {
            Target::File(file, path) => {
                (path.display().to_string(), self.call(Call::Stat, || file.metadata())?.size)
            }
            Target::Device(device) => {
                let info = device.info();
                whole_sectors(stream, &info).map_err(Stop::Failed)?;
                (info.name, info.bytes)
            }
        };
        let is_open_ended =
            stream.direction == Direction::Write && matches!(target, Target::File(..));
        let room = size.saturating_sub(stream.offset);
        let span = match (stream.span, stream.pattern) {
            (Some(span), _) => self.world.scaled(span).max(stream.chunk),
            (None, Pattern::Sequential | Pattern::Stride(_)) if is_open_ended => u64::MAX,
            (None, _) => room,
        };
        match is_open_ended || (span <= room && stream.chunk <= span) {
            true if stream.chunk <= span => Ok(span),
            _ => Err(Stop::Failed(format!(
                "{name} has {size} bytes; pieces of {} from byte {} on do not lie in it",
                stream.chunk, stream.offset
            ))),
        }
    }

    fn piece(
        &mut self,
        target: &Target,
        stream: &StreamAction,
        offset: u64,
        buffer: &mut [u8],
    ) -> Outcome {
        match (target, stream.direction) {
            (Target::File(file, path), Direction::Read) => {
                self.read_at(file, path, offset, buffer).map(drop)
            }
            (Target::File(file, path), Direction::Write) => {
                self.write_at(file, path, offset, buffer)?;
                match stream.durability {
                    Durability::Synced => self.call(Call::Sync, || file.sync()),
                    Durability::Cached => Ok(()),
                }
            }
            (Target::Device(device), direction) => self.raw(&**device, direction, stream, offset),
        }
    }

    /// One request to the bare drive, which is waited for.
    fn raw(
        &mut self,
        device: &dyn BlockDevice,
        direction: Direction,
        stream: &StreamAction,
        offset: u64,
    ) -> Outcome {
        let segments = vec![self.segment(stream.chunk)];
        match direction {
            Direction::Read => {
                self.call(Call::Read, || {
                    device.transfer(Operation::Read, offset, segments).result
                })?;
                self.work.bytes_read += stream.chunk;
            }
            Direction::Write => {
                self.call(Call::Write, || {
                    device.transfer(Operation::Write, offset, segments).result
                })?;
                self.work.bytes_written += stream.chunk;
                if stream.durability == Durability::Synced {
                    self.call(Call::Sync, || device.flush())?;
                }
            }
        }
        Ok(())
    }

    /// The memory of a request to the bare drive; on a simulated one it carries no bytes.
    fn segment(&self, bytes: u64) -> Segment {
        match self.world.time {
            Time::Virtual(_) => Segment::Phantom(bytes as usize),
            Time::Real(_) => Segment::Owned(vec![0; bytes as usize]),
        }
    }
}
