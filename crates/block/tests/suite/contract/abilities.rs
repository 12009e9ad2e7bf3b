//! What decorators do with the capabilities of what is below them. That they say something of each
//! the compiler sees; here is whether what they pass on arrives, once, at its place, and within
//! what they are a window of. Shared by the tests of all crates that have decorators.
use extant_block::*;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// What a device may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ability {
    Durable,
    Remembered,
    Room,
    Congested,
    Relief,
    NextData,
    Discard,
    Metadata,
    HostFile,
}
use Ability::*;

/// All of them.
pub const ABILITIES: [Ability; 9] =
    [Durable, Remembered, Room, Congested, Relief, NextData, Discard, Metadata, HostFile];
/// Those of a queue, which are passed on together.
pub const QUEUE: [Ability; 3] = [Room, Congested, Relief];

/// How long the probe is.
pub const PROBE_BYTES: u64 = 1 << 20;

/// A device that has all of it, and notes what arrives.
pub struct Probe {
    memory: MemoryDevice,
    file: File,
    asked: ShortLock<Vec<(Ability, Range<u64>)>>,
}

impl Probe {
    pub fn new() -> Arc<Probe> {
        let file = File::open(std::env::current_exe().expect("a program")).expect("its file");
        let memory = MemoryDevice::new(RealClock::new(), PROBE_BYTES);
        Arc::new(Probe { memory, file, asked: ShortLock::default() })
    }

    fn ask(&self, ability: Ability, offset: u64, bytes: u64) {
        self.asked.lock().push((ability, offset..offset + bytes));
    }
}

impl BlockDevice for Probe {
    fn info(&self) -> DeviceInfo {
        self.memory.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.memory.clock()
    }
    fn submit(&self, request: Request) {
        self.memory.submit(request);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            durable: Some(self),
            remembers: Some(self),
            congestion: Some(self),
            holes: Some(self),
            discard: Some(self),
            metadata: Some(self),
            host_file: Some((&self.file, 512)),
            annex: None,
        }
    }
}

impl WritesDurably for Probe {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.ask(Durable, offset, bytes.len() as u64);
        self.memory.write(offset, bytes)
    }
}
impl Remembers for Probe {
    fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize {
        self.ask(Remembered, offset, bytes.len() as u64);
        self.memory.read_remembered(offset, bytes)
    }
}
impl Congests for Probe {
    fn wait_for_room(&self, _operation: Operation) {
        self.ask(Room, 0, 0);
    }
    fn is_congested(&self, _operation: Operation) -> bool {
        self.ask(Congested, 0, 0);
        true
    }
    fn wait_for_relief(&self, _operation: Operation, _deadline: u64) {
        self.ask(Relief, 0, 0);
    }
}
impl KnowsHoles for Probe {
    /// All of it is data.
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        self.ask(NextData, offset, 0);
        Ok((offset < PROBE_BYTES).then_some(offset..PROBE_BYTES))
    }
}
impl Discards for Probe {
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.ask(Discard, offset, bytes);
        self.memory.discard(offset, bytes)
    }
}
impl ReadsMetadata for Probe {
    fn read_metadata(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.ask(Metadata, offset, bytes.len() as u64);
        self.memory.read(offset, bytes)
    }
}

/// Uses one of them; the place and the length are of no meaning for a queue. Returns whether the
/// device says that it can.
fn use_it(device: &dyn BlockDevice, ability: Ability, offset: u64, length: usize) -> bool {
    let mut bytes = vec![7; length];
    match ability {
        Durable => device.write_durable(offset, &bytes).is_ok(),
        Remembered => device.read_remembered(offset, &mut bytes) == length,
        Room => {
            device.wait_for_room(Operation::Write);
            true
        }
        Congested => device.is_congested(Operation::Write),
        Relief => {
            device.wait_for_relief(Operation::Write, 0);
            true
        }
        NextData => device.next_data(offset).is_ok(),
        Discard => device.discard(offset, length as u64).is_ok(),
        Metadata => device.read_metadata(offset, &mut bytes).is_ok(),
        HostFile => device.host_file().is_some(),
    }
}

/// A decorator of a probe, of which it is the bytes `within`, passes these on, once and at their
/// place, and answers the others without it.
pub fn passes_on(
    passed: &[Ability],
    within: Range<u64>,
    decorate: impl Fn(Arc<Probe>) -> Box<dyn BlockDevice>,
) {
    for ability in ABILITIES {
        let probe = Probe::new();
        let device = decorate(Arc::clone(&probe));
        let bytes = device.info().bytes;
        assert_eq!(bytes, within.end - within.start);
        let is_passed = passed.contains(&ability);
        let is_there = use_it(&*device, ability, 5000, 100);
        let asked = std::mem::take(&mut *probe.asked.lock());
        if ability == HostFile {
            let origin = device.host_file().map(|(_, origin)| origin);
            assert_eq!(origin, is_passed.then_some(512 + within.start), "{ability:?}");
            continue;
        }
        let at = within.start + 5000;
        let place = match ability {
            Room | Congested | Relief => 0..0,
            NextData => at..at,
            _ => at..at + 100,
        };
        match is_passed {
            true => assert_eq!((is_there, asked), (true, vec![(ability, place)])),
            false => assert!(asked.iter().all(|(asked, _)| *asked != ability), "{ability:?}"),
        }
        // What reaches over its end reaches nothing of the device below that is not its own.
        for (offset, length) in [(bytes - 10, 20), (bytes, 1), (u64::MAX - 5, 5)] {
            let is_there = use_it(&*device, ability, offset, length);
            let asked = std::mem::take(&mut *probe.asked.lock());
            let is_within = |place: &Range<u64>| {
                place.start == 0 && place.end == 0
                    || within.start <= place.start && place.end <= within.end
            };
            let is_queue = QUEUE.contains(&ability);
            let reaches_over = asked.iter().any(|(_, place)| !is_within(place));
            let is_window = bytes < PROBE_BYTES;
            assert!(
                !(is_window && reaches_over),
                "{ability:?}: {asked:?} is not within {within:?}"
            );
            assert!(is_queue || ability == NextData || !is_there, "{ability:?} at {offset}");
        }
    }
}
