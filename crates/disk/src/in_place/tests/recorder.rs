//! A file in memory that grows, and notes what is written to it.
use extant_block::capability::{Capabilities, Discards};
use extant_block::{
    BlockDevice, Clock, DeviceInfo, Operation, RealClock, Request, Segment, ShortLock,
};
use std::io;
use std::sync::Arc;

/// Something that was done to the file.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Write { at: u64, bytes: Vec<u8> },
    Flush,
    Discard { at: u64, bytes: u64 },
}

#[derive(Default)]
struct Contents {
    bytes: Vec<u8>,
    events: Vec<Event>,
    /// How many writes and flushes succeed before all fail.
    left: Option<u64>,
}

/// The file.
pub(super) struct Recorder {
    clock: Arc<dyn Clock>,
    contents: ShortLock<Contents>,
}

impl Recorder {
    pub(super) fn new(bytes: Vec<u8>) -> Arc<Recorder> {
        let contents = Contents { bytes, ..Contents::default() };
        Arc::new(Recorder { clock: RealClock::new(), contents: ShortLock::new(contents) })
    }
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.contents.lock().bytes.clone()
    }
    pub(super) fn events(&self) -> Vec<Event> {
        self.contents.lock().events.clone()
    }
    pub(super) fn count(&self) -> usize {
        self.contents.lock().events.len()
    }
    pub(super) fn fail_after(&self, left: Option<u64>) {
        self.contents.lock().left = left;
    }
}

impl Contents {
    fn may(&mut self) -> io::Result<()> {
        match &mut self.left {
            None => Ok(()),
            Some(0) => Err(io::ErrorKind::StorageFull.into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

/// What an event leaves of the bytes of a file.
pub(super) fn apply(file: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let end = at as usize + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[at as usize..end].copy_from_slice(bytes);
}

impl BlockDevice for Recorder {
    fn info(&self) -> DeviceInfo {
        let bytes = self.contents.lock().bytes.len() as u64;
        DeviceInfo { name: "recorder".into(), bytes, sector_bytes: 512, read_only: false }
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            durable: None,
            remembers: None,
            congestion: None,
            holes: None,
            discard: Some(self),
            metadata: None,
            host_file: None,
            annex: None,
        }
    }
    fn submit(&self, mut request: Request) {
        let mut contents = self.contents.lock();
        let mut at = usize::try_from(request.offset).unwrap();
        let result = match request.operation {
            Operation::Read
                if request.offset.saturating_add(request.bytes()) > contents.bytes.len() as u64 =>
            {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Operation::Read => {
                for target in request.segments.iter_mut().filter_map(Segment::target) {
                    target.copy_from_slice(&contents.bytes[at..at + target.len()]);
                    at += target.len();
                }
                Ok(())
            }
            Operation::Flush => contents.may().map(|()| contents.events.push(Event::Flush)),
            Operation::Write => contents.may().map(|()| {
                let bytes: Vec<u8> = request
                    .segments
                    .iter()
                    .filter_map(Segment::content)
                    .flatten()
                    .copied()
                    .collect();
                apply(&mut contents.bytes, at as u64, &bytes);
                contents.events.push(Event::Write { at: at as u64, bytes });
            }),
        };
        drop(contents);
        request.complete(result);
    }
}

impl Discards for Recorder {
    /// What is given back reads as something else, so that who reads it is found out.
    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        let mut contents = self.contents.lock();
        contents.may()?;
        let end = (at + bytes) as usize;
        contents.bytes[at as usize..end].fill(0xdb);
        contents.events.push(Event::Discard { at, bytes });
        Ok(())
    }
}
