//! What the check has fetched ahead: all of it is read, once, and nothing else is.
use crate::damage::harness::Image;
use extant_block::{BlockDevice, Capabilities, Clock, DeviceInfo, Request};
use extant_inspect::{CheckOptions, ReadOrder, check};
use extant_testkit::oracle::require;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A device that notes in order what it is asked for.
struct Noted {
    device: Arc<dyn BlockDevice>,
    events: Mutex<Vec<Event>>,
}

enum Event {
    Fetched(Range<u64>),
    Read(Range<u64>),
}

impl Noted {
    fn note(&self, event: Event) {
        self.events.lock().expect("nobody fails with it").push(event);
    }
}

impl BlockDevice for Noted {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        self.device.submit(request);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        self.device.capabilities()
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        self.note(Event::Read(offset..offset + bytes.len() as u64));
        self.device.read(offset, bytes)
    }
    fn will_read(&self, offset: u64, bytes: u64) {
        self.note(Event::Fetched(offset..offset + bytes));
    }
}

/// The blocks of 1 KiB that were fetched, and what was read of them afterwards.
fn fetched(image: &Image, read_order: ReadOrder) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let noted = Arc::new(Noted { device: image.device(), events: Mutex::default() });
    let options = CheckOptions { read_order, ..CheckOptions::default() };
    check(Arc::clone(&noted) as _, &options).expect("memory");
    let (mut fetched, mut read) = (BTreeSet::new(), BTreeSet::new());
    let blocks = |range: &Range<u64>| range.start / 1024..range.end.div_ceil(1024);
    for event in noted.events.lock().expect("nobody fails with it").iter() {
        match event {
            Event::Fetched(range) => {
                assert!(blocks(range).all(|block| fetched.insert(block)), "twice: {range:?}");
            }
            Event::Read(range) => read.extend(blocks(range).filter(|at| fetched.contains(at))),
        }
    }
    (fetched, read)
}

#[test]
fn what_is_fetched_ahead_is_read() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    for (name, image) in
        [("plain", Image::plain()), ("indexed", Image::indexed()), ("branched", Image::branched())]
    {
        let (fetched, read) = self::fetched(&image, ReadOrder::DiskOrder);
        assert!(fetched.is_subset(&read), "{name}: {fetched:?}, read {read:?}");
        // The first table, and the root.
        let (table, root) = (image.inode(2) as u64 / 1024, image.block_of(2, 0) as u64 / 1024);
        assert!(fetched.contains(&table) && fetched.contains(&root), "{name}: {fetched:?}");
        assert!(self::fetched(&image, ReadOrder::Vanilla).0.is_empty(), "{name}");
    }
}
