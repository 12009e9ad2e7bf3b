//! The contract of block devices, run by every device.
mod abilities;
pub(crate) mod checks;

use abilities::Ability::{Discard, Durable, HostFile, NextData, Remembered};
use abilities::{PROBE_BYTES, Probe, passes_on};
use checks::{BYTES, SubmitOnly, contract, pattern, read};
use extant_block::paced::Limits;
use extant_block::*;
use extant_testkit::skips::skip;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn clock() -> Arc<dyn Clock> {
    RealClock::new()
}

/// A file that is removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Scratch(std::env::temp_dir().join(format!("extant-block-{}-{number}", std::process::id())))
    }
    fn holding(bytes: &[u8]) -> Scratch {
        let scratch = Scratch::new();
        std::fs::write(&scratch.0, bytes).unwrap();
        scratch
    }
    fn of_length(bytes: u64) -> Scratch {
        let scratch = Scratch::new();
        File::create(&scratch.0).unwrap().set_len(bytes).unwrap();
        scratch
    }
    fn open_file(&self) -> File {
        File::options().read(true).write(true).open(&self.0).unwrap()
    }
    fn device(&self, origin: u64) -> FileDevice {
        FileDevice::open(clock(), &self.0, Access::ReadWrite, origin).unwrap()
    }
}
impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Windows as for a device that is far away, from the first reads on.
const FAR: Limits = Limits { stretch_bytes_max: 0, memory_bytes: 1 << 20 };

#[test]
fn memory_device() {
    contract(MemoryDevice::new(clock(), BYTES));
}
#[test]
fn memory_device_through_submit_alone() {
    contract(SubmitOnly(MemoryDevice::new(clock(), BYTES)));
}
#[test]
fn memory_snapshot() {
    contract(MemoryDevice::new(clock(), BYTES).snapshot());
}
#[test]
fn file_device() {
    let scratch = Scratch::of_length(BYTES);
    contract(scratch.device(0));
}
#[test]
fn file_device_with_an_origin() {
    let scratch = Scratch::of_length(BYTES + 1536);
    contract(scratch.device(1536));
    let head = std::fs::read(&scratch.0).unwrap();
    assert!(head[..1536].iter().all(|byte| *byte == 0), "a write went before the origin");
}
#[test]
fn file_device_through_submit_alone() {
    let scratch = Scratch::of_length(BYTES);
    contract(SubmitOnly(scratch.device(0)));
}
#[test]
fn overlay() {
    for block_bytes in [512, 1000, 4096, 65_536] {
        let device = Arc::new(MemoryDevice::new(clock(), BYTES));
        contract(Overlay::new(device, block_bytes, 2 * BYTES));
        let device = Arc::new(MemoryDevice::new(clock(), BYTES));
        contract(SubmitOnly(Overlay::new(device, block_bytes, 2 * BYTES)));
    }
}
#[test]
fn overlay_of_a_file() {
    let scratch = Scratch::of_length(BYTES);
    contract(Overlay::new(Arc::new(scratch.device(0)), 4096, 2 * BYTES));
    let bytes = std::fs::read(&scratch.0).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0), "the file was written");
}
/// An overlay with no memory for its blocks: all are in the spool.
fn spooled() -> Overlay {
    let device = Arc::new(MemoryDevice::new(clock(), BYTES));
    let scratch = Scratch::of_length(0);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&scratch.0).unwrap();
    Overlay::new(device, 4096, 0).with_spool(file)
}
#[test]
fn overlay_in_a_spool() {
    contract(spooled());
    contract(SubmitOnly(spooled()));
}
/// Every other block was free.
fn staged(block_bytes: u32) -> Staged {
    let device = Arc::new(MemoryDevice::new(clock(), BYTES));
    let blocks = BYTES / u64::from(block_bytes);
    let free = (0..blocks).step_by(2).map(|block| block..block + 1).collect();
    Staged::new(Overlay::new(device, block_bytes, 2 * BYTES), free)
}
#[test]
fn staged_device() {
    for block_bytes in [1024, 4096] {
        contract(staged(block_bytes));
        contract(SubmitOnly(staged(block_bytes)));
    }
}
#[test]
fn window_of_a_memory_device() {
    let device = Arc::new(MemoryDevice::new(clock(), 2 * BYTES));
    contract(Window::new(device.clone(), 1536..1536 + BYTES, "window".into()));
    contract(SubmitOnly(Window::new(
        Arc::new(MemoryDevice::new(clock(), BYTES + 512)),
        512..u64::MAX,
        "window".into(),
    )));
    let outside = [(0, 1536), (1536 + BYTES, BYTES - 1536)];
    for (start, length) in outside {
        let bytes = read(&*device, start, length as usize);
        assert!(bytes.iter().all(|byte| *byte == 0), "a write left the window");
    }
}
#[test]
fn window_of_a_file() {
    let scratch = Scratch::of_length(BYTES + 5000);
    let device = Arc::new(scratch.device(100));
    contract(Window::new(device, 1000..1000 + BYTES, "window".into()));
    let bytes = std::fs::read(&scratch.0).unwrap();
    let (before, after) = (&bytes[..1100], &bytes[1100 + BYTES as usize..]);
    assert!(before.iter().chain(after).all(|byte| *byte == 0), "a write left the window");
}
#[test]
fn traced_device() {
    contract(Traced::new(MemoryDevice::new(clock(), BYTES)));
}
#[test]
fn traced_file_device() {
    let scratch = Scratch::of_length(BYTES);
    contract(Traced::new(scratch.device(0)));
}
#[test]
fn neighbours_of_a_memory_device() {
    let memory = MemoryDevice::new(clock(), BYTES);
    contract(Neighbours::new(Arc::new(memory), 2 << 20));
}

#[test]
fn a_memory_device_with_windows_ahead_from_the_start() {
    let memory = MemoryDevice::new(clock(), BYTES);
    contract(Paced::new(Arc::new(memory), FAR));
}

#[test]
fn a_file_device_with_windows_ahead() {
    let scratch = Scratch::of_length(BYTES);
    let limits = Limits { stretch_bytes_max: 2 << 20, ..FAR };
    contract(Paced::new(Arc::new(scratch.device(0)), limits));
}

#[test]
fn neighbours_of_a_file_device() {
    let scratch = Scratch::of_length(BYTES);
    contract(Neighbours::new(Arc::new(scratch.device(0)), 2 << 20));
}

/// All of a probe.
const WHOLE: std::ops::Range<u64> = 0..PROBE_BYTES;

#[test]
fn decorators_pass_on_what_is_below() {
    passes_on(&abilities::ABILITIES, WHOLE, |probe| Box::new(Arc::new(probe)));
    passes_on(&abilities::ABILITIES, 1536..300_000, |probe| {
        Box::new(Window::new(probe, 1536..300_000, "window".into()))
    });
    let kept = [Durable, Remembered, NextData, Discard, HostFile];
    passes_on(&kept, WHOLE, |probe| Box::new(Neighbours::new(probe, 2 << 20)));
    let limits = [FAR, Limits { stretch_bytes_max: 2 << 20, ..FAR }];
    for limits in limits {
        passes_on(&kept, WHOLE, |probe| Box::new(Paced::new(probe, limits)));
    }
    passes_on(&[NextData, Discard], WHOLE, |probe| Box::new(Traced::new(probe)));
    let overlay = |probe: Arc<Probe>| Overlay::new(probe, 4096, PROBE_BYTES);
    passes_on(&[NextData], WHOLE, |probe| Box::new(overlay(probe)));
    passes_on(&[NextData], WHOLE, |probe| Box::new(Staged::new(overlay(probe), Vec::new())));
    passes_on(&[], WHOLE, |probe| Box::new(SubmitOnly(probe)));
}

#[test]
fn shared_device() {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(clock(), BYTES));
    contract(device);
}

#[test]
fn a_file_opened_for_reading_refuses_writes() {
    let scratch = Scratch::holding(&[7; 4096]);
    let device = FileDevice::open(clock(), &scratch.0, Access::ReadOnly, 0).unwrap();
    assert!(device.info().read_only);
    assert_eq!(read(&device, 0, 4096), [7; 4096]);
    let error = device.write(0, &[1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
    assert_eq!(std::fs::read(&scratch.0).unwrap(), [7; 4096]);
}

#[test]
fn an_open_file_has_zeros_behind_it_and_grows() {
    let scratch = Scratch::holding(&[7; 100]);
    let device =
        FileDevice::from_file(clock(), scratch.open_file(), "short".to_owned(), 10_000, 50)
            .unwrap();
    assert_eq!(device.info().bytes, 10_000);
    assert_eq!(read(&device, 0, 60), [&[7; 50][..], &[0; 10]].concat());
    assert_eq!(read(&device, 9_000, 1000), [0; 1000]);
    assert_eq!(device.read(9_000, &mut [0; 1001]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(std::fs::metadata(&scratch.0).unwrap().len(), 100, "reads do not lengthen the file");

    device.write(9_990, &[5; 20]).unwrap();
    assert_eq!(device.info().bytes, 10_010);
    assert_eq!(read(&device, 9_980, 30), [&[0; 10][..], &[5; 20]].concat());
    assert_eq!(std::fs::metadata(&scratch.0).unwrap().len(), 10_060);
    let error = device.write(u64::MAX - 10, &[1; 5]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "no file is that long");
}

#[test]
fn a_file_that_was_cut_off_meanwhile_is_not_zeros() {
    let scratch = Scratch::holding(&[7; 8192]);
    let device = scratch.device(0);
    scratch.open_file().set_len(4096).unwrap();
    assert_eq!(device.read(0, &mut [0; 8192]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(read(&device, 0, 4096), [7; 4096]);
}

#[test]
fn what_cannot_be_a_device_is_refused_by_name() {
    let open = |path: &Path, origin| match FileDevice::open(clock(), path, Access::ReadOnly, origin)
    {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    };
    let scratch = Scratch::holding(&[7; 100]);
    assert_eq!(open(&std::env::temp_dir(), 0).kind(), ErrorKind::IsADirectory);
    assert_eq!(open(Path::new("/dev/null"), 0).kind(), ErrorKind::InvalidInput);
    assert_eq!(open(&scratch.0, 101).kind(), ErrorKind::InvalidInput);
    let missing = open(Path::new("/no/such/image"), 0);
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(missing.to_string().starts_with("/no/such/image: "), "{missing}");

    let from_file = |file, bytes, origin| {
        FileDevice::from_file(clock(), file, "image".to_owned(), bytes, origin)
    };
    assert!(from_file(scratch.open_file(), u64::MAX, 0).is_err());
    assert!(from_file(scratch.open_file(), i64::MAX as u64, 1).is_err());
    assert!(from_file(scratch.open_file(), i64::MAX as u64, 0).is_ok());
    assert!(
        from_file(File::options().write(true).open(&scratch.0).unwrap(), 100, 0).is_err(),
        "not open for reading"
    );
    let read_only = from_file(File::open(&scratch.0).unwrap(), 100, 0).unwrap();
    assert!(read_only.info().read_only);
}

#[test]
fn a_file_has_one_writer_or_many_readers() {
    let scratch = Scratch::of_length(8192);
    let open = |access| FileDevice::open(clock(), &scratch.0, access, 0);
    let refused = |access, words: &str| match open(access) {
        Ok(_) => panic!("it was opened twice"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ResourceBusy);
            assert_eq!(error.to_string(), format!("{}: {words}", scratch.0.display()));
        }
    };
    let writer = open(Access::ReadWrite).unwrap();
    refused(Access::ReadWrite, "is open elsewhere");
    refused(Access::ReadOnly, "is open for writing elsewhere");
    // Another handle is another opening; a copy of the same one is not.
    let other = FileDevice::from_file(clock(), scratch.open_file(), "x".to_owned(), 8192, 0);
    assert_eq!(other.map(drop).unwrap_err().kind(), ErrorKind::ResourceBusy);
    let copy = writer.file().try_clone().unwrap();
    let again = FileDevice::from_file(clock(), copy, "x".to_owned(), 8192, 0).unwrap();
    drop(writer);
    refused(Access::ReadOnly, "is open for writing elsewhere");
    drop(again);

    let readers = [open(Access::ReadOnly).unwrap(), open(Access::ReadOnly).unwrap()];
    refused(Access::ReadWrite, "is open elsewhere");
    drop(readers);
    open(Access::ReadWrite).unwrap().write(0, &[1]).unwrap();
}

/// A clock whose time stands still, and by which somebody lets go of a device when another begins
/// to wait.
struct LettingGo {
    host: Arc<RealClock>,
    held: ShortLock<Option<FileDevice>>,
}

impl Clock for LettingGo {
    fn now(&self) -> u64 {
        0
    }
    fn wall(&self) -> WallTime {
        self.host.wall()
    }
    fn waker(&self) -> Waker {
        self.host.waker()
    }
    fn park(&self, deadline: Option<u64>) -> Unparked {
        let held = self.held.lock().take();
        drop(held);
        match deadline {
            None => self.host.park(None),
            Some(_) => Unparked::TimedOut,
        }
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
        self.host.spawn(name, body)
    }
    fn charge(&self, _cpu_ns: u64) {}
}

#[test]
fn an_image_is_waited_for_while_it_is_let_go() {
    let scratch = Scratch::of_length(8192);
    let held = ShortLock::new(Some(scratch.device(0)));
    let clock = Arc::new(LettingGo { host: RealClock::new(), held });
    FileDevice::open(Arc::clone(&clock) as _, &scratch.0, Access::ReadWrite, 0).unwrap();
    assert!(clock.held.lock().is_none(), "it was opened beside the other");
}

#[test]
fn a_full_host_is_recognised() {
    let full = DeviceError {
        device: "image".to_owned(),
        operation: Operation::Write,
        offset: 4096,
        source: io::Error::from_raw_os_error(28),
    };
    let error = io::Error::from(full);
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(raw_os_error(&error), Some(28));
    assert!(error.to_string().starts_with("image: write at byte 4096: "), "{error}");
}

#[test]
fn dropping_a_file_device_completes_what_was_submitted() {
    let scratch = Scratch::of_length(BYTES);
    let completed = Arc::new(AtomicUsize::new(0));
    let device = scratch.device(0);
    for number in 0..500_u64 {
        let completed = Arc::clone(&completed);
        let completion = Box::new(move |answer: Completed| {
            answer.result.unwrap();
            completed.fetch_add(1, Ordering::Relaxed);
        });
        let segments = vec![Segment::Owned(pattern(number, 4096))];
        let offset = number * 4096;
        device.submit(Request {
            operation: Operation::Write,
            offset,
            segments,
            urgency: Urgency::Background,
            completion,
        });
    }
    drop(device);
    assert_eq!(completed.load(Ordering::Relaxed), 500);
    let bytes = std::fs::read(&scratch.0).unwrap();
    assert!(
        (0..500_u64).all(|number| bytes[number as usize * 4096..][..4096] == pattern(number, 4096))
    );
}

#[test]
fn a_completion_may_drop_the_device_and_submit_to_it() {
    let scratch = Scratch::of_length(BYTES);
    let done = Arc::new((ShortLock::new(false), WaitQueue::new(clock())));
    let device = Arc::new(scratch.device(0));
    let (held, said) = (Arc::clone(&device), Arc::clone(&done));
    let second = move |completed: Completed| {
        completed.result.unwrap();
        *said.0.lock() = true;
        said.1.wake_all();
    };
    let first = move |completed: Completed| {
        completed.result.unwrap();
        held.submit(flush(second));
        drop(held);
    };
    device.submit(flush(first));
    drop(device);
    done.1.wait_until(&done.0, |done| done.then_some(()));
}

fn flush(completion: impl FnOnce(Completed) + Send + 'static) -> Request {
    Request {
        operation: Operation::Flush,
        offset: 0,
        segments: Vec::new(),
        urgency: Urgency::Awaited,
        completion: Box::new(completion),
    }
}

#[test]
fn a_completion_that_panics_costs_the_others_nothing_and_is_raised() {
    let scratch = Scratch::of_length(BYTES);
    let device = scratch.device(0);
    for _ in 0..10 {
        device.submit(flush(|_| panic!("meant")));
    }
    let answered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&answered);
    device.submit(flush(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    let raised =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(device))).unwrap_err();
    assert_eq!(raised.downcast_ref::<&str>(), Some(&"meant"));
    assert_eq!(answered.load(Ordering::Relaxed), 1);
}

/// Drops every request.
struct Lossy(MemoryDevice);

impl BlockDevice for Lossy {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.0.clock()
    }
    fn submit(&self, _request: Request) {}
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }
}

#[test]
fn a_lost_request_is_an_error_and_no_wait_for_ever() {
    let device = Lossy(MemoryDevice::new(clock(), 4096));
    assert!(device.read(0, &mut [0; 10]).is_err());
    assert!(device.write(0, &[0; 10]).is_err());
    assert!(device.flush().is_err());
}

#[test]
fn a_snapshot_and_its_origin_go_apart() {
    let device = MemoryDevice::from_bytes(clock(), &pattern(1, 200_000));
    let snapshot = device.snapshot();
    device.write(70_000, &[0; 100]).unwrap();
    snapshot.write(10, &[0xff; 10]).unwrap();
    assert_eq!(read(&snapshot, 70_000, 100), pattern(1, 200_000)[70_000..70_100]);
    assert_eq!(read(&device, 0, 100), pattern(1, 200_000)[..100]);
    assert_eq!(read(&snapshot, 10, 10), [0xff; 10]);
}

#[test]
fn a_memory_device_takes_room_only_for_what_was_written() {
    let device = MemoryDevice::new(clock(), 1 << 60);
    device.write((1 << 60) - 3, b"end").unwrap();
    device.write(1 << 40, &vec![0; 1 << 20]).unwrap();
    assert_eq!(read(&device, (1 << 60) - 5, 5), b"\0\0end");
    assert_eq!(device.resident_bytes(), 64 * 1024);
}

#[test]
fn a_saved_device_is_the_same_bytes_and_sparse() {
    use std::os::unix::fs::MetadataExt;
    let bytes = 64 * 1024 * 1024 + 100;
    let device = MemoryDevice::new(clock(), bytes);
    device.write(0, b"first").unwrap();
    device.write(40_000_000, &pattern(3, 100_000)).unwrap();
    device.write(bytes - 4, b"last").unwrap();
    let scratch = Scratch::holding(&[0xff; 10_000]);
    device.save(&scratch.0).unwrap();
    let saved = std::fs::read(&scratch.0).unwrap();
    assert!(saved == read(&device, 0, bytes as usize));
    let room = std::fs::metadata(&scratch.0).unwrap().blocks() * 512;
    assert!(room < 1024 * 1024, "it takes {room} bytes");
    let error = device.save(Path::new("/no/such/directory/image")).unwrap_err();
    assert!(error.to_string().contains("/no/such/directory/image"), "{error}");
}

#[test]
fn a_trace_tells_what_was_asked_for() {
    let device = Traced::new(MemoryDevice::new(clock(), BYTES));
    device.write_vectored(5, &[IoSlice::new(&[1; 10]), IoSlice::new(&[2; 20])]).unwrap();
    device.read(7, &mut [0; 100]).unwrap();
    device.flush().unwrap();
    device.read(BYTES, &mut [0; 1]).unwrap_err();
    let records = device.take_records();
    let seen: Vec<_> =
        records.iter().map(|record| (record.operation, record.offset, record.bytes)).collect();
    let expected = [
        (Operation::Write, 5, 30),
        (Operation::Read, 7, 100),
        (Operation::Flush, 0, 0),
        (Operation::Read, BYTES, 1),
    ];
    assert_eq!(seen, expected);
    assert!(records.is_sorted_by_key(|record| record.at));
    assert!(device.take_records().is_empty());
    let counters = device.counters();
    {
        let device: &dyn BlockDevice = &device;
        device.write_durable(5, &[1; 10]).unwrap();
        device.read_metadata(7, &mut [0; 100]).unwrap();
        assert_eq!(device.read_remembered(7, &mut [0; 100]), 0, "it would not be in the trace");
    }
    let forced: Vec<_> = device.take_records().iter().map(|record| record.operation).collect();
    assert_eq!(forced, [Operation::Write, Operation::Flush, Operation::Read]);
    assert_eq!((counters.reads, counters.bytes_read), (2, 101));
    assert_eq!((counters.writes, counters.bytes_written, counters.flushes), (1, 30, 1));
}

#[test]
fn a_file_knows_its_holes() {
    const MIB: u64 = 1 << 20;
    let scratch = Scratch::of_length(64 * MIB);
    let device = scratch.device(MIB);
    device.write(8 * MIB, &[7; 4096]).unwrap();
    device.write(40 * MIB, &[7; 4096]).unwrap();
    let Some(first) = device.next_data(0).unwrap() else {
        panic!("there is data");
    };
    if first == (0..63 * MIB) {
        return skip("the file system of the temporary folder knows of no holes");
    }
    // Hosts keep holes in blocks of their own.
    assert!(
        first.start <= 8 * MIB && first.end >= 8 * MIB + 4096 && first.end < 9 * MIB,
        "{first:?}"
    );
    let second = device.next_data(first.end).unwrap().unwrap();
    assert!(second.start > 39 * MIB && second.end < 41 * MIB, "{second:?}");
    assert_eq!(device.next_data(second.end).unwrap(), None);
    assert!(held_bytes(&device).unwrap() < MIB);
    let mut holes = Holes::default();
    assert!(holes.is_hole(&device, second.end..63 * MIB).unwrap());
    assert!(!holes.is_hole(&device, 0..41 * MIB).unwrap());
    assert!(holes.is_hole(&device, first.end..second.start).unwrap());
}
