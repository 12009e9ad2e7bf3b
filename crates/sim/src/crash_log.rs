//! A device that remembers what a power cut could do to it. For tests: the log grows until it is
//! dropped.
//!
//! The fault model is that of a drive with a volatile cache. A write is *durable* once a flush has
//! ended that began after the write had completed, or, if it was forced
//! ([`WritesDurably::write_durable`]), once it has completed. At a cut every other submitted write
//! may have reached the medium or not, in any order, whole or in part; only sectors are written
//! whole. Two writes of one sector keep their order.
//!
//! ```text
//! events   W1 submitted, W1 completed, flush begun, W2 submitted, flush ended, W2 completed, ...
//! cut here ------------------------------------------------------^  W1 is durable, W2 is loose
//! ```
//!
//! *Invariants*: the log has writes and flushes in the order in which the device got them. A failed
//! one stays loose.
//!
//! *Locking*: the log is under one short lock, not held while the device works.
use crate::random::mix;
use extant_block::capability::{Capabilities, Discards, WritesDurably};
use extant_block::{
    BlockDevice, Clock, Completed, DeviceInfo, MemoryDevice, Operation, Request, Segment, ShortLock,
};
use std::io;
use std::sync::Arc;

/// A write as it was submitted.
#[derive(Clone, Debug)]
pub struct LoggedWrite {
    /// First byte on the device.
    pub offset: u64,
    /// Bytes to be stored.
    pub bytes: Arc<Vec<u8>>,
    /// How many flushes had ended before it was submitted. Writes of one epoch have no order.
    pub epoch: u32,
    /// Whether it is durable on completion.
    pub forced: bool,
}

/// What happened at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The write with that number was submitted.
    Submitted(usize),
    /// It has completed.
    Completed(usize),
    /// A flush has ended.
    FlushEnded {
        /// How many of the completed writes it covers.
        covered: usize,
    },
}

#[derive(Default)]
struct Log {
    writes: Vec<LoggedWrite>,
    events: Vec<Event>,
    /// How many writes have completed.
    completed: usize,
    epoch: u32,
}

/// Logs every write and flush, and passes it on.
pub struct CrashLog<D> {
    device: D,
    log: Arc<ShortLock<Log>>,
}

impl<D: BlockDevice> CrashLog<D> {
    /// Logs what goes to this device from now on.
    pub fn new(device: D) -> CrashLog<D> {
        CrashLog { device, log: Arc::default() }
    }

    /// The device that requests are passed to.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// How many events there were. A cut is possible after any number of events, from 0 to this.
    pub fn moments(&self) -> usize {
        self.log.lock().events.len()
    }

    /// Changes what was logged into what the device would have been asked for if those who asked
    /// had made a mistake. Writes are numbered in the order of their submission, and stay so.
    pub fn change(&self, change: impl FnOnce(&mut [LoggedWrite], &mut [Event])) {
        let mut log = self.log.lock();
        let Log { writes, events, .. } = &mut *log;
        change(writes, events);
    }

    /// The writes as a cut after `moment` events finds them.
    pub fn cut(&self, moment: usize) -> Cut {
        let log = self.log.lock();
        let mut cut = Cut { writes: Vec::new() };
        let mut completed: Vec<usize> = Vec::new();
        for event in log.events.iter().take(moment) {
            match *event {
                Event::Submitted(number) => {
                    let write = log.writes[number].clone();
                    cut.writes.push((write, Fate::Loose));
                }
                Event::Completed(number) => {
                    completed.push(number);
                    if cut.writes[number].0.forced {
                        cut.writes[number].1 = Fate::Durable;
                    }
                }
                Event::FlushEnded { covered } => {
                    for number in &completed[..covered.min(completed.len())] {
                        cut.writes[*number].1 = Fate::Durable;
                    }
                }
            }
        }
        cut
    }

    fn below(&self) -> &(dyn BlockDevice + '_) {
        &self.device
    }

    fn begin(&self, offset: u64, bytes: Vec<u8>, durable: Durable) -> usize {
        let forced = durable == Durable::OnCompletion;
        let mut log = self.log.lock();
        let (number, epoch) = (log.writes.len(), log.epoch);
        log.writes.push(LoggedWrite { offset, bytes: Arc::new(bytes), epoch, forced });
        log.events.push(Event::Submitted(number));
        number
    }

    fn flush_begins(&self) -> usize {
        self.log.lock().completed
    }
}

impl Log {
    fn complete(&mut self, number: usize) {
        self.completed += 1;
        self.events.push(Event::Completed(number));
    }

    fn flush_ended(&mut self, covered: usize) {
        self.epoch += 1;
        self.events.push(Event::FlushEnded { covered });
    }
}

/// When a write is durable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durable {
    /// Once a flush has ended that began after its completion.
    AfterFlush,
    /// As soon as it has completed.
    OnCompletion,
}

/// What a cut does to a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// It is on the medium.
    Durable,
    /// It may be on the medium.
    Loose,
}

/// The writes before a cut, in the order of submission.
pub struct Cut {
    writes: Vec<(LoggedWrite, Fate)>,
}

impl Cut {
    /// How many writes may or may not be on the medium.
    pub fn loose(&self) -> usize {
        self.writes.iter().filter(|(_, fate)| *fate == Fate::Loose).count()
    }

    /// The medium if all submitted writes have reached it: a cut of a drive that keeps the order.
    ///
    /// # Errors
    /// As for [`Cut::image`].
    pub fn prefix(&self, base: &MemoryDevice) -> io::Result<MemoryDevice> {
        self.image(base, 512, |_, _| true)
    }

    /// The medium if only durable writes have reached it.
    ///
    /// # Errors
    /// As for [`Cut::image`].
    pub fn durable(&self, base: &MemoryDevice) -> io::Result<MemoryDevice> {
        self.image(base, 512, |_, _| false)
    }

    /// The medium if each loose write is there, missing, or torn, decided by a seed.
    ///
    /// # Errors
    /// As for [`Cut::image`].
    pub fn subset(
        &self,
        base: &MemoryDevice,
        sector_bytes: u32,
        seed: u64,
    ) -> io::Result<MemoryDevice> {
        self.image(base, sector_bytes, drawn_sectors(seed))
    }

    /// The medium if, of each loose write, those sectors are there for which `survives` returns
    /// true. It is called with the number of the write and of the sector on the device. `base` is
    /// what the device held when the log began.
    ///
    /// # Errors
    /// `InvalidInput` for a sector without bytes, or a base that is smaller than the device.
    pub fn image(
        &self,
        base: &MemoryDevice,
        sector_bytes: u32,
        mut survives: impl FnMut(usize, u64) -> bool,
    ) -> io::Result<MemoryDevice> {
        if sector_bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a sector has to have bytes"));
        }
        let medium = base.snapshot();
        let mut result = Ok(());
        self.each_survivor(sector_bytes, &mut survives, |at, bytes| {
            if result.is_ok() {
                result = medium.write(at, bytes);
            }
        });
        result.map(|()| medium)
    }

    /// Calls `each` with the place and the bytes of everything that reaches the medium, sector by
    /// sector in the order of submission: what [`Cut::image`] is made of, for those who compare
    /// media without making them. Nothing is called for a sector without bytes.
    pub fn each_survivor<'a>(
        &'a self,
        sector_bytes: u32,
        mut survives: impl FnMut(usize, u64) -> bool,
        mut each: impl FnMut(u64, &'a [u8]),
    ) {
        let sector_bytes = u64::from(sector_bytes);
        for (number, (write, fate)) in self.writes.iter().enumerate() {
            let end = write.offset + write.bytes.len() as u64;
            let mut at = write.offset;
            while at < end && sector_bytes > 0 {
                let next = (at / sector_bytes + 1).saturating_mul(sector_bytes).min(end);
                if *fate == Fate::Durable || survives(number, at / sector_bytes) {
                    let range = (at - write.offset) as usize..(next - write.offset) as usize;
                    each(at, &write.bytes[range]);
                }
                at = next;
            }
        }
    }
}

/// Whether a sector of a loose write survives: each write is whole, missing or torn, by the seed.
/// To be given to [`Cut::image`] and [`Cut::each_survivor`].
pub fn drawn_sectors(seed: u64) -> impl Fn(usize, u64) -> bool {
    move |write, sector| {
        let draw = mix(seed ^ mix(write as u64));
        match draw % 3 {
            0 => true,
            1 => false,
            _ => mix(draw ^ sector).is_multiple_of(2),
        }
    }
}

/// The bytes of a write. A segment without bytes cannot be stored: the write ends before it.
fn bytes_of(segments: &[Segment]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for segment in segments {
        let Some(piece) = segment.content() else { break };
        bytes.extend_from_slice(piece);
    }
    bytes
}

impl<D: BlockDevice> BlockDevice for CrashLog<D> {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        let log = Arc::clone(&self.log);
        let ended: Box<dyn FnOnce(&mut Log) + Send> = match request.operation {
            Operation::Read => return self.device.submit(request),
            Operation::Write => {
                let number =
                    self.begin(request.offset, bytes_of(&request.segments), Durable::AfterFlush);
                Box::new(move |log| log.complete(number))
            }
            Operation::Flush => {
                let covered = self.flush_begins();
                Box::new(move |log| log.flush_ended(covered))
            }
        };
        let completion = request.completion;
        self.device.submit(Request {
            completion: Box::new(move |completed: Completed| {
                if completed.result.is_ok() {
                    ended(&mut log.lock());
                }
                completion(completed);
            }),
            ..request
        });
    }
    fn capabilities(&self) -> Capabilities<'_> {
        let below = self.device.capabilities();
        // Holes and queues have no part in what a cut may do.
        Capabilities {
            durable: Some(self),
            remembers: below.remembers,
            congestion: None,
            holes: None,
            discard: below.discard.map(|_| self as _),
            metadata: None,
            host_file: None,
            annex: below.annex,
        }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.device.read(offset, bytes)
    }
}

impl<D: BlockDevice> WritesDurably for CrashLog<D> {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let number = self.begin(offset, bytes.to_vec(), Durable::OnCompletion);
        self.below().write_durable(offset, bytes)?;
        self.log.lock().complete(number);
        Ok(())
    }
}

impl<D: BlockDevice> Discards for CrashLog<D> {
    /// Logged as a write of zeros.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let zeros = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        let number = self.begin(offset, zeros, Durable::AfterFlush);
        self.below().discard(offset, bytes)?;
        self.log.lock().complete(number);
        Ok(())
    }
}
