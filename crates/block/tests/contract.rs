//! The contract of block devices, run by every device.
use extant_block::*;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of every device here: not whole chunks of 64 KiB, so that the end is met within one.
const BYTES: u64 = 3 * 1024 * 1024 + 512;

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

/// Has `submit` and nothing else: what the trait provides must do for such a device.
struct SubmitOnly<D>(D);

impl<D: BlockDevice> BlockDevice for SubmitOnly<&D> {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.0.clock()
    }
    fn submit(&self, request: Request) {
        self.0.submit(request)
    }
}

#[test]
fn memory_device() {
    contract(&MemoryDevice::new(clock(), BYTES));
}
#[test]
fn memory_device_through_submit_alone() {
    contract(&SubmitOnly(&MemoryDevice::new(clock(), BYTES)));
}
#[test]
fn memory_snapshot() {
    contract(&MemoryDevice::new(clock(), BYTES).snapshot());
}
#[test]
fn file_device() {
    let scratch = Scratch::of_length(BYTES);
    contract(&scratch.device(0));
}
#[test]
fn file_device_with_an_origin() {
    let scratch = Scratch::of_length(BYTES + 1536);
    contract(&scratch.device(1536));
    let head = std::fs::read(&scratch.0).unwrap();
    assert!(
        head[..1536].iter().all(|byte| *byte == 0),
        "a write went before the origin"
    );
}
#[test]
fn file_device_through_submit_alone() {
    let scratch = Scratch::of_length(BYTES);
    contract(&SubmitOnly(&scratch.device(0)));
}
#[test]
fn traced_device() {
    contract(&Traced::new(MemoryDevice::new(clock(), BYTES)));
}
#[test]
fn traced_file_device() {
    let scratch = Scratch::of_length(BYTES);
    contract(&Traced::new(scratch.device(0)));
}
#[test]
fn faulty_device_without_faults() {
    contract(&Faulty::new(MemoryDevice::new(clock(), BYTES)));
}
#[test]
fn shared_device() {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(clock(), BYTES));
    contract(&device);
}

/// The suite. The device holds `BYTES` zeros.
fn contract(device: &dyn BlockDevice) {
    assert_eq!(device.info().bytes, BYTES);
    assert!(!device.info().read_only);
    unwritten_bytes_are_zero(device);
    writes_are_read_back_where_they_went(device);
    pieces_lie_end_to_end(device);
    segments_lie_end_to_end(device);
    the_ends_are_guarded(device);
    empty_requests_succeed(device);
    reads_into_shared_memory_fail(device);
    every_request_completes_once(device);
    neighbours_written_at_the_same_time_are_both_kept(device);
    device.flush().unwrap();
}

fn pattern(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|index| (index.wrapping_mul(31).wrapping_add(seed * 17) % 251) as u8 + 1)
        .collect()
}

fn read(device: &dyn BlockDevice, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; length];
    device.read(offset, &mut bytes).unwrap();
    bytes
}

fn unwritten_bytes_are_zero(device: &dyn BlockDevice) {
    assert!(read(device, 0, BYTES as usize).iter().all(|byte| *byte == 0));
}

fn writes_are_read_back_where_they_went(device: &dyn BlockDevice) {
    // At both ends, unaligned, across the ends of chunks, over each other.
    let mut model = vec![0; BYTES as usize];
    let writes = [
        (0, 1),
        (511, 2),
        (65_535, 2),
        (100_000, 400_000),
        (120_000, 4096),
        (131_072, 65_536),
        (BYTES - 1, 1),
        (BYTES - 70_000, 70_000),
    ];
    for (seed, (offset, length)) in writes.into_iter().enumerate() {
        let bytes = pattern(seed as u64, length);
        device.write(offset, &bytes).unwrap();
        model[offset as usize..][..length].copy_from_slice(&bytes);
        assert!(
            read(device, 0, BYTES as usize) == model,
            "after the write of {length} bytes at {offset}"
        );
    }
    device.write(100_000, &vec![0; 400_000]).unwrap();
    model[100_000..500_000].fill(0);
    assert!(read(device, 0, BYTES as usize) == model, "zeros over bytes are zeros");
    assert_eq!(read(device, 65_530, 11), model[65_530..65_541]);
}

fn pieces_lie_end_to_end(device: &dyn BlockDevice) {
    // More pieces than one system call takes, of odd lengths, with empty ones between.
    let bytes = pattern(7, 1_000_000);
    let mut rest = bytes.as_slice();
    let mut pieces = Vec::new();
    for length in (0..1300).cycle() {
        let (piece, after) = rest.split_at(rest.len().min(length % 700));
        pieces.push(IoSlice::new(piece));
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    assert!(pieces.len() > 2048);
    device.write_vectored(12_345, &pieces).unwrap();
    assert!(read(device, 12_345, bytes.len()) == bytes);
}

fn segments_lie_end_to_end(device: &dyn BlockDevice) {
    let (first, second, third) = (pattern(1, 5000), pattern(2, 70_000), pattern(3, 1));
    device.write(200_000, &vec![0xaa; 100_000]).unwrap();
    let written = device.transfer(
        Operation::Write,
        200_000,
        vec![
            Segment::Owned(first.clone()),
            Segment::Shared(Arc::new(second.clone())),
            Segment::Phantom(1000),
            Segment::Owned(Vec::new()),
            Segment::Owned(third.clone()),
        ],
    );
    written.result.unwrap();
    assert_eq!(written.segments.len(), 5, "the memory comes back");

    let expected = [first.as_slice(), &second, &vec![0xaa; 1000], &third].concat();
    assert!(read(device, 200_000, expected.len()) == expected);
    let segments = vec![
        Segment::Owned(vec![0; 10]),
        Segment::Phantom(74_990),
        Segment::Phantom(1000),
        Segment::Owned(vec![0; 1]),
        Segment::Owned(vec![0; 9]),
    ];
    let completed = device.transfer(Operation::Read, 200_000, segments);
    completed.result.unwrap();
    let [
        Segment::Owned(head),
        Segment::Phantom(74_990),
        Segment::Phantom(1000),
        Segment::Owned(one),
        Segment::Owned(tail),
    ] = completed.segments.as_slice()
    else {
        panic!("other segments came back: {:?}", completed.segments)
    };
    assert_eq!(head[..], first[..10]);
    assert_eq!(one[..], third[..]);
    assert_eq!(tail[..], [0xaa; 9]);
}

fn the_ends_are_guarded(device: &dyn BlockDevice) {
    let before = read(device, BYTES - 16, 16);
    for (offset, length) in [
        (BYTES, 1),
        (BYTES - 1, 2),
        (BYTES - 16, 100_000),
        (u64::MAX, 1),
        (u64::MAX - 3, 100),
    ] {
        let error = device.read(offset, &mut vec![0; length]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
        names_the_device(device, &error, "read");
        let error = device.write(offset, &vec![1; length]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        names_the_device(device, &error, "write");
    }
    let huge = vec![
        Segment::Phantom(usize::MAX),
        Segment::Phantom(usize::MAX),
        Segment::Owned(vec![1]),
    ];
    let error = device.transfer(Operation::Write, 0, huge).result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(read(device, BYTES - 16, 16), before, "a refused write stores nothing");
    assert_eq!(device.info().bytes, BYTES);
}

fn names_the_device(device: &dyn BlockDevice, error: &io::Error, operation: &str) {
    let message = error.to_string();
    assert!(
        message.contains(&device.info().name) && message.contains(operation),
        "{message}"
    );
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<DeviceError>())
        .expect("a DeviceError");
    assert_eq!(inner.source.kind(), error.kind());
}

fn empty_requests_succeed(device: &dyn BlockDevice) {
    device.read(0, &mut []).unwrap();
    device.read(BYTES, &mut []).unwrap();
    device.write(BYTES, &[]).unwrap();
    device.write_vectored(5, &[]).unwrap();
    device
        .write_vectored(5, &[IoSlice::new(&[]), IoSlice::new(&[])])
        .unwrap();
}

fn reads_into_shared_memory_fail(device: &dyn BlockDevice) {
    let segments = vec![Segment::Shared(Arc::new(vec![0; 10]))];
    let completed = device.transfer(Operation::Read, 0, segments);
    assert_eq!(completed.result.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(completed.segments.len(), 1, "the memory comes back from failures too");
}

fn every_request_completes_once(device: &dyn BlockDevice) {
    const REQUESTS: usize = 600;
    let done = Arc::new(ShortLock::new(Vec::new()));
    let changed = Arc::new(WaitQueue::new(Arc::clone(device.clock())));
    for number in 0..REQUESTS {
        // Every third fails; every seventh is a flush.
        let (operation, offset) = match number {
            number if number % 7 == 0 => (Operation::Flush, 0),
            number if number % 3 == 0 => (Operation::Read, BYTES - 10),
            number => (Operation::Write, number as u64 * 1000),
        };
        let segments = if operation == Operation::Flush {
            Vec::new()
        } else {
            vec![Segment::Owned(pattern(9, 1000))]
        };
        let (done, changed) = (Arc::clone(&done), Arc::clone(&changed));
        let completion = Box::new(move |completed: Completed| {
            assert_eq!(completed.segments.len(), usize::from(operation != Operation::Flush));
            done.lock().push((number, completed.result));
            changed.wake_one();
        });
        device.submit(Request {
            operation,
            offset,
            segments,
            urgency: Urgency::Background,
            completion,
        });
    }
    let all = |done: &mut Vec<_>| (done.len() >= REQUESTS).then(|| std::mem::take(done));
    let mut done = changed.wait_until(&done, all);
    done.sort_by_key(|(number, _)| *number);
    for (index, (number, result)) in done.iter().enumerate() {
        assert_eq!(index, *number, "a request completed twice or never");
        assert_eq!(
            result.is_err(),
            number % 3 == 0 && number % 7 != 0,
            "request {number}: {result:?}"
        );
    }
    for number in (0..REQUESTS).filter(|number| number % 3 != 0 && number % 7 != 0) {
        assert!(
            read(device, number as u64 * 1000, 1000) == pattern(9, 1000),
            "request {number}"
        );
    }
}

fn neighbours_written_at_the_same_time_are_both_kept(device: &dyn BlockDevice) {
    // Each thread owns every fourth 100 bytes, so that they meet in the same chunks and sectors.
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                for index in (thread..2000).step_by(4) {
                    device.write(index * 100, &pattern(index, 100)).unwrap();
                    assert!(
                        read(device, index * 100, 100) == pattern(index, 100),
                        "its own write, at once"
                    );
                }
            });
        }
    });
    for index in 0..2000 {
        assert!(read(device, index * 100, 100) == pattern(index, 100), "piece {index}");
    }
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
    let device = FileDevice::from_file(clock(), scratch.open_file(), "short".to_owned(), 10_000, 50).unwrap();
    assert_eq!(device.info().bytes, 10_000);
    assert_eq!(read(&device, 0, 60), [&[7; 50][..], &[0; 10]].concat());
    assert_eq!(read(&device, 9_000, 1000), [0; 1000]);
    assert_eq!(
        device.read(9_000, &mut [0; 1001]).unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );
    assert_eq!(
        std::fs::metadata(&scratch.0).unwrap().len(),
        100,
        "reads do not lengthen the file"
    );

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
    assert_eq!(
        device.read(0, &mut [0; 8192]).unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );
    assert_eq!(read(&device, 0, 4096), [7; 4096]);
}

#[test]
fn what_cannot_be_a_device_is_refused_by_name() {
    let open = |path: &Path, origin| match FileDevice::open(clock(), path, Access::ReadOnly, origin) {
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

    let from_file = |file, bytes, origin| FileDevice::from_file(clock(), file, "image".to_owned(), bytes, origin);
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
    assert!((0..500_u64).all(|number| bytes[number as usize * 4096..][..4096] == pattern(number, 4096)));
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
    let raised = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(device))).unwrap_err();
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
    device
        .write_vectored(5, &[IoSlice::new(&[1; 10]), IoSlice::new(&[2; 20])])
        .unwrap();
    device.read(7, &mut [0; 100]).unwrap();
    device.flush().unwrap();
    device.read(BYTES, &mut [0; 1]).unwrap_err();
    let records = device.take_records();
    let seen: Vec<_> = records
        .iter()
        .map(|record| (record.operation, record.offset, record.bytes))
        .collect();
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
    assert_eq!((counters.reads, counters.bytes_read), (2, 101));
    assert_eq!((counters.writes, counters.bytes_written, counters.flushes), (1, 30, 1));
}

#[test]
fn faults_come_when_they_were_ordered() {
    let device = Faulty::new(MemoryDevice::new(clock(), BYTES));
    device.add(Fault::NthWrite(2));
    device.write(0, &[1; 10]).unwrap();
    let error = device.write(0, &[2; 10]).unwrap_err();
    assert_eq!(raw_os_error(&error), Some(5));
    device.write(10, &[3; 10]).unwrap();
    assert_eq!(
        read(&device, 0, 20),
        [[1; 10], [3; 10]].concat(),
        "a failed write stores nothing"
    );

    device.repair();
    device.add(Fault::ReadsIn(100..200));
    assert!(device.read(0, &mut [0; 100]).is_ok());
    assert!(device.read(0, &mut [0; 101]).is_err());
    assert!(device.read(199, &mut [0; 10]).is_err());
    assert!(device.read(200, &mut [0; 10]).is_ok());

    device.repair();
    device.add(Fault::FullAfter(15));
    device.write(0, &[1; 10]).unwrap();
    assert_eq!(device.write(0, &[1; 10]).unwrap_err().kind(), ErrorKind::StorageFull);
    device.write(0, &[1; 5]).unwrap();
    assert_eq!(device.write(0, &[1]).unwrap_err().kind(), ErrorKind::StorageFull);

    device.repair();
    device.add(Fault::NthWrite(1));
    assert!(SubmitOnly(&device).write(0, &[1]).is_err(), "also when it is submitted");

    device.repair();
    device.add(Fault::WritesAfter(1));
    device.add(Fault::Flushes);
    device.write(0, &[1]).unwrap();
    assert!((0..3).all(|_| device.write(0, &[1]).is_err()));
    assert!(device.flush().is_err());
}
