//! Reads of what the host has in memory: they return what the file has, whatever changes it between
//! two of them, and what is read once is not kept.
use crate::volume;
use extant_block::capability::{Capabilities, Remembers};

use extant_block::{
    BlockDevice, Clock, Completed, DeviceInfo, FileDevice, MemoryDevice, Operation, RealClock,
    Request, Segment, file,
};
use extant_engine::mkfs::Profile;
use extant_engine::{DataKeeping, File, Filesystem, Options};
use extant_testkit::scratch::Scratch;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use volume::{KIB, MIB, Random, Specification, judge};

/// The largest size of the file, in bytes.
const SIZE_MAX: u64 = 400 * KIB;

/// A file that two programs read from its start to its end, one a little at a time.
struct Readers<'a> {
    files: [(&'a File, u64); 2],
    model: Vec<u8>,
}

impl Readers<'_> {
    /// The next read of one of them.
    fn read(&mut self, which: usize, bytes: usize) {
        let (file, at) = &mut self.files[which];
        let mut buffer = vec![0xee; bytes];
        let done = file.read_at(*at, &mut buffer).expect("reads");
        let start = self.model.len().min(*at as usize);
        let expected = &self.model[start..self.model.len().min(start + bytes)];
        assert_eq!(done, expected.len(), "bytes at {at}");
        assert!(buffer[..done] == *expected, "reader {which}: {done} bytes at {at} differ");
        *at = if done == 0 { 0 } else { *at + done as u64 };
    }
}

/// Changes something, often shortly after the byte at which a reader is.
fn change(file: &File, reader: u64, random: &mut Random, model: &mut Vec<u8>) {
    let offset = match random.one_in(3) {
        true => random.below(SIZE_MAX),
        false => (reader + random.below(20 * KIB)).min(SIZE_MAX),
    };
    match random.below(16) {
        0 => {
            let offset = SIZE_MAX / 2 + offset / 2;
            file.set_len(offset).expect("is cut or extended");
            model.resize(offset as usize, 0);
        }
        1 => {
            let length = random.below(64 * KIB) + 1;
            file.punch_hole(offset, length).expect("has a hole");
            let (start, end) = (model.len().min(offset as usize), (offset + length) as usize);
            let end = model.len().min(end);
            model[start..end].fill(0);
        }
        _ => {
            let mut bytes = vec![0; random.below(20 * KIB) as usize + 1];
            random.fill(&mut bytes);
            file.write_all_at(offset, &bytes).expect("is written");
            let end = offset as usize + bytes.len();
            model.resize(model.len().max(end), 0);
            model[offset as usize..end].copy_from_slice(&bytes);
        }
    }
}

/// Changes a file between reads of it, and opens the volume again from time to time.
fn torture(open: impl Fn() -> Filesystem, seed: u64, rounds: u64) {
    let (mut random, mut model) = (Random::new(seed), vec![0; SIZE_MAX as usize]);
    random.fill(&mut model);
    let volume = open();
    volume.write("/file", &model).expect("a file");
    volume.close().expect("closes");
    for _ in 0..rounds {
        let volume = open();
        let files = [(); 2].map(|()| volume.open_file("/file").expect("opens"));
        let mut readers = Readers { files: [(&files[0], 0), (&files[1], 0)], model };
        for _ in 0..100 {
            let at = readers.files[0].1;
            match random.below(40) {
                0..4 => change(&files[0], at, &mut random, &mut readers.model),
                4..6 => files[1].sync().expect("syncs"),
                6..20 => readers.read(0, random.below(9000) as usize + 1),
                20..39 => readers.read(0, 4096),
                _ => readers.read(1, random.below(200 * KIB) as usize + 1),
            }
        }
        model = readers.model;
        drop(files);
        volume.close().expect("closes");
    }
}

#[test]
fn a_file_that_changes_between_reads_of_it_is_read_as_it_is() {
    for (seed, policies) in
        (0..).zip(["modern", "modern,journal=data", "modern,journal=none", "linux-2.6"])
    {
        for (profile, block_size) in [(Profile::Ext4, 4096), (Profile::Ext3, 1024)] {
            let specification =
                Specification { policies, ..Specification::new(profile, block_size, 16 * MIB) };
            let device = specification.make(RealClock::new());
            torture(|| specification.open(&device).expect("opens"), 100 + seed, 20);
            judge(&device).unwrap_or_else(|why| panic!("{policies}: {why}"));
        }
    }
}

#[test]
fn also_on_a_file_of_the_host() {
    let scratch = Scratch::new("remembered");
    let specification = Specification::new(Profile::Ext4, 1024, 16 * MIB);
    let made = specification.make(RealClock::new());
    let mut image = vec![0; 16 << 20];
    made.read(0, &mut image).expect("reads");
    let path = scratch.join("image");
    std::fs::write(&path, &image).expect("an image");
    let open = || {
        let device = FileDevice::open(RealClock::new(), &path, file::Access::ReadWrite, 0);
        let device = Arc::new(device.expect("opens"));
        Filesystem::open(device, &specification.options()).expect("opens")
    };
    torture(open, 7, 20);
    let bytes = std::fs::read(&path).expect("reads");
    judge(&MemoryDevice::from_bytes(RealClock::new(), &bytes)).expect("sound");
}

/// Counts the bytes of data that are read by requests, which the engine keeps, and otherwise.
struct Counting {
    device: Arc<MemoryDevice>,
    requested: AtomicU64,
    remembered: AtomicU64,
}

impl BlockDevice for Counting {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        if request.operation == Operation::Read {
            self.requested.fetch_add(request.bytes(), Ordering::Relaxed);
        }
        self.device.submit(request);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            durable: None,
            remembers: Some(self),
            congestion: None,
            holes: None,
            discard: None,
            metadata: None,
            host_file: None,
            annex: None,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        self.device.transfer(operation, offset, segments)
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        self.device.read(offset, bytes)
    }
}

impl Remembers for Counting {
    fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize {
        self.remembered.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.device.read_remembered(offset, bytes)
    }
}

#[test]
fn what_is_read_once_is_not_kept_and_what_is_read_again_is() {
    let specification = Specification::new(Profile::Ext4, 4096, 32 * MIB);
    let made = specification.make(RealClock::new());
    let volume = specification.open(&made).expect("opens");
    volume.write("/file", &vec![5; 8 << 20]).expect("a file");
    volume.close().expect("closes");
    for piece in [4096, 128 << 10] {
        let device = Arc::new(Counting {
            device: Arc::clone(&made),
            requested: AtomicU64::new(0),
            remembered: AtomicU64::new(0),
        });
        let options =
            Options { data: DataKeeping::Bytes, cache_bytes: 32 << 20, ..specification.options() };
        let volume = Filesystem::open(Arc::clone(&device) as _, &options).expect("opens");
        let file = volume.open_file("/file").expect("opens");
        let whole = || -> [u64; 2] {
            let counters = [&device.requested, &device.remembered];
            let before = counters.map(|counter| counter.load(Ordering::Relaxed));
            let mut bytes = vec![0; piece];
            for offset in (0..8 << 20).step_by(piece) {
                assert_eq!(file.read_at(offset, &mut bytes).expect("reads"), piece);
                assert!(bytes.iter().all(|byte| *byte == 5));
            }
            let after = counters.map(|counter| counter.load(Ordering::Relaxed));
            [after[0] - before[0], after[1] - before[1]]
        };
        let [requested, remembered] = whole();
        assert!(requested < MIB && remembered >= 8 * MIB, "{requested}, {remembered}");
        let [requested, remembered] = whole();
        assert!(requested >= 8 * MIB && remembered == 0, "{requested}, {remembered}");
        assert_eq!(whole(), [0, 0], "it is kept now");
        drop(file);
        volume.close().expect("closes");
    }
}
