//! What a change writes to: a log of every write and flush, with one flush left out if a test wants
//! to know whether that is found.
use extant_block::{BlockDevice, Clock, CrashLog, DeviceInfo, MemoryDevice, Operation, Request};
use std::io;
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
    /// Where a redo log will be; as it was when the first write came after it.
    redo: Option<PathBuf>,
    whole_log: Mutex<WholeLog>,
}

impl Recorded {
    pub fn new(base: MemoryDevice, skipped: Skipped, redo: Option<PathBuf>) -> Recorded {
        let (flushes, whole_log) = (Mutex::default(), Mutex::new(None));
        Recorded { log: CrashLog::new(base), skipped, flushes, redo, whole_log }
    }

    pub fn flush_moments(&self) -> Vec<usize> {
        self.flushes.lock().unwrap().clone()
    }

    pub fn whole_log(&self) -> WholeLog {
        self.whole_log.lock().unwrap().clone()
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
            if self.skipped == Skipped::Flush(number) {
                return request.complete(Ok(()));
            }
        }
        if let (Operation::Write, Some(path)) = (request.operation, &self.redo) {
            let mut whole = self.whole_log.lock().unwrap();
            if whole.is_none() && path.exists() {
                *whole = Some((self.log.moments(), std::fs::read(path).unwrap()));
            }
        }
        self.log.submit(request);
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.log.read(offset, bytes)
    }
}
