//! The contract of block devices, as a suite that every device runs. Shared by the tests of all
//! crates that have devices.
use extant_block::*;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

/// Of every device here: not whole chunks of 64 KiB, so that the end is met within one.
pub const BYTES: u64 = 3 * 1024 * 1024 + 512;

/// Has `submit` and nothing else: what the trait provides must do for such a device.
pub struct SubmitOnly<D>(pub D);

impl<D: BlockDevice> BlockDevice for SubmitOnly<D> {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.0.clock()
    }
    fn submit(&self, request: Request) {
        self.0.submit(request)
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }
}

/// The suite. The device holds `BYTES` zeros.
pub fn contract(device: impl BlockDevice + 'static) {
    let shared: Arc<dyn BlockDevice> = Arc::new(device);
    let device = &*shared;
    assert_eq!(device.info().bytes, BYTES);
    assert!(!device.info().read_only);
    unwritten_bytes_are_zero(device);
    writes_are_read_back_where_they_went(device);
    pieces_lie_end_to_end(device);
    segments_lie_end_to_end(device);
    pooled_memory_is_written_in_parts_and_filled_wholly(device);
    the_ends_are_guarded(device);
    empty_requests_succeed(device);
    reads_into_shared_memory_fail(device);
    every_request_completes_once(device);
    neighbours_written_at_the_same_time_are_both_kept(&shared);
    discards_touch_nothing_else(device);
    what_it_has_beside_requests_is_of_the_same_bytes(device);
    device.flush().unwrap();
    holes_hold_zeros(device);
}

/// Whatever way bytes take, they are the same, and none goes over the end.
fn what_it_has_beside_requests_is_of_the_same_bytes(device: &dyn BlockDevice) {
    let bytes = pattern(11, 100_001);
    device.write_durable(700_001, &bytes).unwrap();
    assert!(read(device, 700_001, bytes.len()) == bytes);
    let mut found = vec![0; bytes.len()];
    device.read_metadata(700_001, &mut found).unwrap();
    assert!(found == bytes);
    found.fill(0xee);
    let remembered = device.read_remembered(700_001, &mut found);
    assert!(found[..remembered] == bytes[..remembered]);
    if let Some((file, origin)) = device.host_file() {
        std::os::unix::fs::FileExt::read_exact_at(file, &mut found, origin + 700_001).unwrap();
        assert!(found == bytes);
    }
    let before = read(device, BYTES - 16, 16);
    assert!(device.write_durable(BYTES - 10, &[1; 20]).is_err());
    assert!(device.read_metadata(BYTES - 10, &mut [0; 20]).is_err());
    assert!(device.read_remembered(BYTES - 10, &mut [0; 20]) <= 10);
    assert_eq!(read(device, BYTES - 16, 16), before);
    for operation in [Operation::Read, Operation::Write] {
        device.wait_for_room(operation);
        assert!(!device.is_congested(operation), "nothing is under way");
        device.wait_for_relief(operation, device.clock().now());
    }
}

/// What is discarded may read as anything, and is kept again once it is written; what is beside it
/// stays.
fn discards_touch_nothing_else(device: &dyn BlockDevice) {
    let bytes = pattern(9, 300_000);
    let (start, discarded) = (100_000, 131_072..196_613);
    device.write(start, &bytes).unwrap();
    match device.discard(discarded.start, discarded.end - discarded.start) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        outcome => outcome.unwrap(),
    }
    let (before, after) = ((discarded.start - start) as usize, (discarded.end - start) as usize);
    let found = read(device, start, bytes.len());
    assert!(found[..before] == bytes[..before] && found[after..] == bytes[after..]);
    device.write(discarded.start, &bytes[before..after]).unwrap();
    assert!(read(device, start, bytes.len()) == bytes);
    assert!(device.discard(BYTES - 10, 20).is_err(), "past the end");
}

/// Bytes outside the stretches that may be data are zeros; the stretches rise, and end with the
/// device.
fn holes_hold_zeros(device: &dyn BlockDevice) {
    let bytes = read(device, 0, BYTES as usize);
    let (mut at, mut end) = (0, 0);
    while let Some(data) = device.next_data(at).unwrap() {
        assert!(
            at <= data.start && data.start < data.end && data.end <= BYTES,
            "{data:?} from {at} on"
        );
        assert!(
            bytes[end as usize..data.start as usize].iter().all(|byte| *byte == 0),
            "before {data:?}"
        );
        (at, end) = (data.end, data.end);
    }
    assert!(bytes[end as usize..].iter().all(|byte| *byte == 0), "after {end}");
    assert_eq!(device.next_data(BYTES).unwrap(), None);
}

pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|index| (index.wrapping_mul(31).wrapping_add(seed * 17) % 251) as u8 + 1)
        .collect()
}

pub fn read(device: &dyn BlockDevice, offset: u64, length: usize) -> Vec<u8> {
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

fn pooled_memory_is_written_in_parts_and_filled_wholly(device: &dyn BlockDevice) {
    let bytes = pattern(4, PIECE_BYTES);
    let shared = Arc::new(Buffer::from(&bytes[..]));
    let segments = vec![
        Segment::Part(Arc::clone(&shared), 4096..12_288),
        Segment::Pooled(Buffer::from(&bytes[..100])),
        Segment::Part(shared, 60_000..PIECE_BYTES),
    ];
    let written = device.transfer(Operation::Write, 300_000, segments);
    written.result.unwrap();
    let expected = [&bytes[4096..12_288], &bytes[..100], &bytes[60_000..]].concat();
    assert!(read(device, 300_000, expected.len()) == expected);

    // Memory for a read may hold anything before, also where the device holds only zeros.
    for block in 0..8 {
        device.write(1_048_576 + block * 65_536, &[0; 65_536]).unwrap();
    }
    for offset in [290_000, 1_048_576, 1_400_000, BYTES - 70_000] {
        let dirty = || Buffer::from(&vec![0xee; PIECE_BYTES][..]);
        let segments = vec![Segment::Pooled(dirty()), Segment::Owned(vec![0xee; 4000])];
        let completed = device.transfer(Operation::Read, offset, segments);
        completed.result.unwrap();
        let filled: Vec<_> = completed.segments.iter().filter_map(Segment::content).collect();
        let mut expected = vec![0xdd; PIECE_BYTES + 4000];
        device.read(offset, &mut expected).unwrap();
        assert!(filled.concat() == expected, "at {offset}");
    }
}

fn the_ends_are_guarded(device: &dyn BlockDevice) {
    let before = read(device, BYTES - 16, 16);
    for (offset, length) in
        [(BYTES, 1), (BYTES - 1, 2), (BYTES - 16, 100_000), (u64::MAX, 1), (u64::MAX - 3, 100)]
    {
        let error = device.read(offset, &mut vec![0; length]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
        names_the_device(device, &error, "read");
        let error = device.write(offset, &vec![1; length]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        names_the_device(device, &error, "write");
    }
    let huge =
        vec![Segment::Phantom(usize::MAX), Segment::Phantom(usize::MAX), Segment::Owned(vec![1])];
    let error = device.transfer(Operation::Write, 0, huge).result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(read(device, BYTES - 16, 16), before, "a refused write stores nothing");
    assert_eq!(device.info().bytes, BYTES);
}

fn names_the_device(device: &dyn BlockDevice, error: &io::Error, operation: &str) {
    let message = error.to_string();
    assert!(message.contains(&device.info().name) && message.contains(operation), "{message}");
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
    device.write_vectored(5, &[IoSlice::new(&[]), IoSlice::new(&[])]).unwrap();
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
        assert!(read(device, number as u64 * 1000, 1000) == pattern(9, 1000), "request {number}");
    }
}

fn neighbours_written_at_the_same_time_are_both_kept(device: &Arc<dyn BlockDevice>) {
    // Each thread owns every fourth 100 bytes, so that they meet in the same chunks and sectors.
    let write = |thread: u64| {
        let device = Arc::clone(device);
        move || {
            for index in (thread..2000).step_by(4) {
                device.write(index * 100, &pattern(index, 100)).unwrap();
                assert!(
                    read(&*device, index * 100, 100) == pattern(index, 100),
                    "its own write, at once"
                );
            }
        }
    };
    let spawn = |thread| device.clock().spawn("writer", Box::new(write(thread)));
    let tasks: Vec<Task> = (0..4).map(spawn).collect();
    tasks.into_iter().for_each(Task::join);
    for index in 0..2000 {
        assert!(read(&**device, index * 100, 100) == pattern(index, 100), "piece {index}");
    }
}
