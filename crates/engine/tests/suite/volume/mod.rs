//! Volumes in memory, made by mkfs to a specification, opened with a policy, and judged by e2fsck.
#![allow(dead_code, reason = "every test uses its part")]

pub mod image;
pub mod patience;
pub mod reading;

use extant_block::clock::{Task, Unparked, Waker, WallTime};
use extant_block::{BlockDevice, Clock, MemoryDevice, RealClock};
use extant_engine::mkfs::{FormatOptions, Identity, Placing, Profile, default_wishes, format};
use extant_engine::{Access, DataKeeping, Filesystem, Options, least_cache_bytes};
use extant_format::layout::Inodes;
use extant_format::superblock::{Feature, Features};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;

/// Of every volume.
const IDENTITY: Identity = Identity {
    uuid: *b"a volume to test",
    hash_seed: [0x0403_025e, 0x0807_0605, 0x0c0b_0a09, 0x100f_0e0d],
    created_seconds: 1_700_000_000,
};

/// Numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678)
    }
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            piece.copy_from_slice(&word[..piece.len()]);
        }
    }
}

/// A clock whose wall time is set by the test.
pub struct SetClock {
    real: Arc<RealClock>,
    nanoseconds: AtomicI64,
}

impl SetClock {
    pub fn new(seconds: i64) -> Arc<SetClock> {
        Arc::new(SetClock {
            real: RealClock::new(),
            nanoseconds: AtomicI64::new(seconds * 1_000_000_000),
        })
    }
    pub fn advance(&self, nanoseconds: i64) {
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    fn now(&self) -> u64 {
        self.real.now()
    }
    fn wall(&self) -> WallTime {
        let now = self.nanoseconds.load(Ordering::Relaxed);
        WallTime {
            seconds: now.div_euclid(1_000_000_000),
            nanoseconds: now.rem_euclid(1_000_000_000) as u32,
        }
    }
    fn waker(&self) -> Waker {
        self.real.waker()
    }
    fn park(&self, deadline: Option<u64>) -> Unparked {
        self.real.park(deadline)
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
        self.real.spawn(name, body)
    }
    fn charge(&self, cpu_ns: u64) {
        self.real.charge(cpu_ns);
    }
}

/// What volume is made, and how it is opened.
#[derive(Clone, Copy, Debug)]
pub struct Specification {
    pub profile: Profile,
    pub block_size: u32,
    pub inode_size: u16,
    /// Words for features as mke2fs has them: `^dir_index,uninit_bg`.
    pub features: &'static str,
    pub bytes: u64,
    pub inodes: u32,
    pub policies: &'static str,
    pub cache_bytes: usize,
}

impl fmt::Display for Specification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Specification {
            block_size,
            inode_size,
            features,
            bytes,
            inodes,
            policies,
            cache_bytes,
            ..
        } = self;
        let profile = self.profile.name();
        write!(
            f,
            "{profile} -b {block_size} -I {inode_size} -O '{features}' -N {inodes} {bytes} bytes; "
        )?;
        write!(f, "{policies}, cache {cache_bytes}")
    }
}

/// Features with these words applied.
pub fn features(words: &str, mut features: Features) -> Features {
    for word in words.split(',').filter(|word| !word.is_empty()) {
        match word.strip_prefix('^') {
            Some(name) => features.clear(Feature::from_name(name).expect("a feature")),
            None => features.set(Feature::from_name(word).expect("a feature")),
        }
    }
    features
}

impl Specification {
    /// An ext4 volume of 1 KiB blocks.
    pub fn new(profile: Profile, block_size: u32, bytes: u64) -> Specification {
        Specification {
            profile,
            block_size,
            inode_size: 256,
            features: "",
            bytes,
            inodes: 1024,
            policies: "modern",
            cache_bytes: 4 << 20,
        }
    }

    /// A fresh volume.
    pub fn make(&self, clock: Arc<dyn Clock>) -> Arc<MemoryDevice> {
        let mut wishes = default_wishes(self.profile, self.bytes, Some(self.block_size), IDENTITY);
        wishes.features = features(self.features, wishes.features);
        wishes.inode_size = self.inode_size;
        wishes.inodes = Inodes::AtLeast(self.inodes.into());
        let device = Arc::new(MemoryDevice::new(clock, self.bytes));
        let policies = self.policies.parse().expect("policies");
        let mut options = FormatOptions::new(wishes);
        if options.wishes.features.has(Feature::QUOTA) {
            // Only as mke2fs makes volumes have they quota files.
            options.placing = Placing::Mke2fs;
        }
        format(Arc::clone(&device) as Arc<dyn BlockDevice>, &options, &policies)
            .unwrap_or_else(|error| panic!("{self}: {error}"));
        device
    }

    /// How it is opened for writing.
    pub fn options(&self) -> Options {
        Options {
            access: Access::ReadWrite,
            policies: self.policies.parse().expect("policies"),
            // As little as may be, where less is asked for.
            cache_bytes: self.cache_bytes.max(least_cache_bytes(self.block_size)),
            data: DataKeeping::Bytes,
        }
    }

    /// Opens it for writing.
    pub fn open(&self, device: &Arc<MemoryDevice>) -> extant_engine::Result<Filesystem> {
        Filesystem::open(Arc::clone(device) as Arc<dyn BlockDevice>, &self.options())
    }
}

/// What e2fsck says about a device, if anything. A journal with changes is replayed first, by
/// e2fsck.
pub fn judge(device: &MemoryDevice) -> Result<(), String> {
    let folder = Scratch::new("judged");
    let image = folder.join("judged.img");
    device.save(&image).map_err(|error| error.to_string())?;
    let verdict = oracle::e2fsck_replays(&image).and_then(|()| oracle::e2fsck(&image));
    if verdict.is_err()
        && let Some(keep) = extant_testkit::variables::chosen("EXTANT_KEEP")
    {
        let _ = std::fs::copy(&image, keep);
    }
    verdict
}
