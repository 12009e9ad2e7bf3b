//! Reads and writes in pieces: in a row, at random, in strides; of a file or of the bare drive.
use super::process::{Call, Outcome, Stop, Worker};
use super::step::{Direction, Durability, Pattern, StreamAction};
use super::time::Time;
use extant_block::{BlockDevice, DeviceInfo, Operation, Segment};
use extant_engine::{ErrorKind, File, Filesystem};
use std::path::PathBuf;
use std::sync::Arc;

/// What is read or written.
enum Target {
    File(Box<File>, PathBuf),
    Device(Arc<dyn BlockDevice>),
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
        let count = stream.count.map(|count| world.scaled(count));
        let started = world.time.settled();
        let mut done = 0;
        while count.is_none_or(|count| done < count)
            && !stream.end.is_some_and(|end| self.is_over(end, started))
        {
            let before = world.time.now();
            let offset = places.take(self);
            self.piece(&target, stream, offset, &mut buffer)?;
            done += 1;
            if stream.end.is_some() {
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

    /// One request to the bare drive; on a simulated one it carries no bytes.
    fn raw(
        &mut self,
        device: &dyn BlockDevice,
        direction: Direction,
        stream: &StreamAction,
        offset: u64,
    ) -> Outcome {
        let segment = || match self.world.time {
            Time::Virtual(_) => Segment::Phantom(stream.chunk as usize),
            Time::Real(_) => Segment::Owned(vec![0; stream.chunk as usize]),
        };
        let segments = vec![segment()];
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
}
