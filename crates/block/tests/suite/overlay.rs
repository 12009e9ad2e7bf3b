//! Overlays: what is read of blocks that are zeros until they are written.
use extant_block::{
    BlockDevice, KnowsHoles, MemoryDevice, Operation, Overlay, RealClock, Request, Segment, Urgency,
};
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Reads by a request, as the engine does.
fn requested(overlay: &Overlay, offset: u64, length: usize) -> Vec<u8> {
    let (sender, receiver) = channel();
    overlay.submit(Request {
        operation: Operation::Read,
        offset,
        segments: vec![Segment::Owned(vec![9; length])],
        urgency: Urgency::Awaited,
        completion: Box::new(move |done| {
            done.result.expect("it is read");
            let Some(Segment::Owned(bytes)) = done.segments.into_iter().next() else {
                panic!("other memory")
            };
            sender.send(bytes).expect("somebody waits");
        }),
    });
    receiver.recv().expect("it is answered")
}

#[test]
fn zeros_are_read_until_they_are_written() {
    let device = Arc::new(MemoryDevice::new(RealClock::new(), 10_240));
    device.write(0, &[1; 10_240]).expect("it is inside");
    let overlay = Overlay::new(device, 1024, 3 * 1024);
    overlay.let_zeros(2..4);
    overlay.let_zeros(7..8);
    overlay.write(3100, &[2; 10]).expect("it is inside");
    let mut expected = vec![1; 10_240];
    expected[2048..4096].fill(0);
    expected[7168..8192].fill(0);
    expected[3100..3110].fill(2);
    for (at, length) in [(0, 10_240), (1000, 2000), (2048, 1024), (4095, 4000), (8191, 2)] {
        let mut bytes = vec![9; length];
        overlay.read(at as u64, &mut bytes).expect("it is inside");
        assert_eq!(bytes, expected[at..at + length], "from {at}");
        assert_eq!(requested(&overlay, at as u64, length), expected[at..at + length], "from {at}");
    }
    assert_eq!(overlay.written(), [3]);
}

#[test]
fn what_memory_has_no_room_for_is_in_the_spool() {
    let device = Arc::new(MemoryDevice::new(RealClock::new(), 10_000));
    device.write(0, &[1; 10_000]).expect("it is inside");
    let spool = std::env::temp_dir().join(format!("overlay-spool-{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(&spool).expect("it opens");
    std::fs::remove_file(&spool).expect("it is there");
    let overlay = Overlay::new(device, 1024, 2 * 1024).with_spool(file);
    let mut expected = vec![1; 10_000];
    let writes: [(u64, usize, u8); 7] = [
        (0, 3000, 2), // blocks 0 and 1 in memory, 2 in the spool
        (5000, 10, 3),
        (2500, 1000, 4),
        (9_900, 100, 5),
        (5005, 10, 6),
        (4096, 2048, 7),
        (5000, 1, 8),
    ];
    for (at, length, value) in writes {
        overlay.write(at, &vec![value; length]).expect("the spool takes it");
        expected[at as usize..][..length].fill(value);
        let mut bytes = vec![0; 10_000];
        overlay.read(0, &mut bytes).expect("it is inside");
        assert!(bytes == expected, "after {length} bytes at {at}");
        assert!(requested(&overlay, 7, 9_000) == expected[7..9_007], "{at}");
    }
    assert_eq!(overlay.written(), [0, 1, 2, 3, 4, 5, 9]);
    assert_eq!(overlay.changed().len(), 2, "the limit");
}

#[test]
fn what_a_grown_one_has_past_the_device_is_zeros_until_it_is_written() {
    let device = Arc::new(MemoryDevice::new(RealClock::new(), 2500));
    device.write(0, &[1; 2500]).expect("it is inside");
    let overlay = Overlay::new(device, 1024, 1 << 20).grown(10_000);
    overlay.write(5000, &[2; 10]).expect("it is inside");
    let mut expected = vec![0; 10_000];
    expected[..2500].fill(1);
    expected[5000..5010].fill(2);
    let read = |overlay: &Overlay, from: usize, length: usize| {
        let mut bytes = vec![9; length];
        overlay.read(from as u64, &mut bytes).expect("it is inside");
        assert!(bytes == expected[from..from + length], "{length} bytes from {from}");
        assert!(requested(overlay, from as u64, length) == expected[from..from + length], "{from}");
    };
    for (from, length) in
        [(0, 10_000), (2400, 50), (2400, 200), (2600, 300), (4999, 12), (6000, 4000)]
    {
        read(&overlay, from, length);
    }
    assert!(overlay.read(9_999, &mut [0; 2]).is_err());
    assert_eq!(overlay.next_data(2600).expect("known"), Some(4096..5120));
    assert_eq!(overlay.next_data(6000).expect("known"), None);
    let longer = Arc::new(MemoryDevice::new(RealClock::new(), 10_000));
    longer.write(0, &[1; 2500]).expect("it is inside");
    read(&overlay.over(longer), 0, 10_000);
}
