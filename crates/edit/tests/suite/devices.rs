//! What a change writes to: a log of every write and flush, with one flush left out if a test wants
//! to know whether that is found; a device that has its host looked at when the redo log is there;
//! and a sparse image on a host that becomes full.
use extant_block::capability::{Capabilities, KnowsHoles};
use extant_block::{BlockDevice, Clock, DeviceInfo, MemoryDevice, Operation, Request};
use extant_sim::CrashLog;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Which flush does not happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skipped {
    /// All happen.
    None,
    /// The one of this number, from 1 on.
    Flush(usize),
}

/// A redo log, and after how many events it was whole.
type WholeLog = Option<(usize, Vec<u8>)>;

/// A device that keeps what is done to it.
pub struct Recorded {
    pub log: CrashLog<MemoryDevice>,
    skipped: Skipped,
    /// After how many events each flush came, also one that is left out.
    flushes: Mutex<Vec<usize>>,
    /// Whether the redo log was there at each of them.
    with_redo: Mutex<Vec<bool>>,
    /// Where a redo log will be; as it was when the first write came after it.
    redo: Option<PathBuf>,
    whole_log: Mutex<WholeLog>,
    /// After how many events the redo log was gone again, where something was written after that.
    log_gone: Mutex<Option<usize>>,
}

impl Recorded {
    pub fn new(base: MemoryDevice, skipped: Skipped, redo: Option<PathBuf>) -> Recorded {
        let (flushes, with_redo) = (Mutex::default(), Mutex::default());
        let (log, whole_log) = (CrashLog::new(base), Mutex::new(None));
        let log_gone = Mutex::new(None);
        Recorded { log, skipped, flushes, with_redo, redo, whole_log, log_gone }
    }

    pub fn flush_moments(&self) -> Vec<usize> {
        self.flushes.lock().unwrap().clone()
    }

    /// Whether the redo log was there at each flush.
    pub fn flushes_with_redo(&self) -> Vec<bool> {
        self.with_redo.lock().unwrap().clone()
    }

    pub fn whole_log(&self) -> WholeLog {
        self.whole_log.lock().unwrap().clone()
    }

    /// After how many events the redo log was gone: all of them, where nothing came after it.
    pub fn log_gone(&self) -> usize {
        self.log_gone.lock().unwrap().unwrap_or_else(|| self.log.moments())
    }
}

impl BlockDevice for Recorded {
    fn info(&self) -> DeviceInfo {
        self.log.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.log.clock()
    }
    fn submit(&self, request: Request) {
        if request.operation == Operation::Flush {
            let mut flushes = self.flushes.lock().unwrap();
            flushes.push(self.log.moments());
            let number = flushes.len();
            drop(flushes);
            let is_there = self.redo.as_ref().is_some_and(|path| path.exists());
            self.with_redo.lock().unwrap().push(is_there);
            if self.skipped == Skipped::Flush(number) {
                return request.complete(Ok(()));
            }
        }
        if let (Operation::Write, Some(path)) = (request.operation, &self.redo) {
            let mut whole = self.whole_log.lock().unwrap();
            if whole.is_none() && path.exists() {
                *whole = Some((self.log.moments(), std::fs::read(path).unwrap()));
            } else if whole.is_some() && !path.exists() {
                self.log_gone.lock().unwrap().get_or_insert_with(|| self.log.moments());
            }
        }
        self.log.submit(request);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.log.read(offset, bytes)
    }
}

/// What is done once, before the first write that comes after a file was made.
pub struct Watched {
    device: MemoryDevice,
    file: PathBuf,
    look: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Watched {
    pub fn new(
        device: MemoryDevice,
        file: PathBuf,
        look: impl FnOnce() + Send + 'static,
    ) -> Watched {
        Watched { device, file, look: Mutex::new(Some(Box::new(look))) }
    }

    /// Whether that has been done.
    pub fn has_looked(&self) -> bool {
        self.look.lock().unwrap().is_none()
    }
}

impl BlockDevice for Watched {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        if request.operation == Operation::Write && self.file.exists() {
            let look = self.look.lock().unwrap().take();
            if let Some(look) = look {
                look();
            }
        }
        self.device.submit(request);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.device.read(offset, bytes)
    }
}

/// Bytes that a host file system takes at once.
const TAKEN_BYTES: u64 = 1024;

/// A sparse image on a host with little room: what was never written takes room when it is.
pub struct Filling {
    pub device: MemoryDevice,
    taken: Mutex<BTreeSet<u64>>,
    room: Mutex<u64>,
}

impl Filling {
    /// What is zeros in `device` takes no room yet; there is room for `room` pieces.
    pub fn new(device: MemoryDevice, room: u64) -> Filling {
        let mut bytes = vec![0; device.info().bytes as usize];
        device.read(0, &mut bytes).expect("it is read");
        let pieces = bytes.chunks(TAKEN_BYTES as usize).enumerate();
        let taken = pieces.filter(|(_, piece)| piece.iter().any(|byte| *byte != 0));
        let taken = Mutex::new(taken.map(|(number, _)| number as u64).collect());
        Filling { device, taken, room: Mutex::new(room) }
    }

    fn take(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let (mut taken, mut room) = (self.taken.lock().unwrap(), self.room.lock().unwrap());
        for piece in offset / TAKEN_BYTES..(offset + bytes).div_ceil(TAKEN_BYTES) {
            if taken.insert(piece) {
                let left = room.checked_sub(1);
                *room = left.ok_or_else(|| {
                    taken.remove(&piece);
                    io::Error::from(io::ErrorKind::StorageFull)
                })?;
            }
        }
        Ok(())
    }
}

impl BlockDevice for Filling {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        let taken = match request.operation {
            Operation::Write => self.take(request.offset, request.bytes()),
            _ => Ok(()),
        };
        match taken {
            Ok(()) => self.device.submit(request),
            Err(error) => request.complete(Err(error)),
        }
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            durable: None,
            remembers: None,
            congestion: None,
            holes: Some(self),
            discard: None,
            metadata: None,
            host_file: None,
            annex: None,
        }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.device.read(offset, bytes)
    }
}

impl KnowsHoles for Filling {
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let taken = self.taken.lock().unwrap();
        let piece = taken.range(offset / TAKEN_BYTES..).next();
        Ok(piece.map(|piece| (piece * TAKEN_BYTES).max(offset)..(piece + 1) * TAKEN_BYTES))
    }
}
