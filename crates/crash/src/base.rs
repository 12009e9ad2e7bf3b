//! The volumes on which histories begin: small, with a journal of the least size, with files of all
//! kinds, and with free blocks that still hold what a removed file wrote.
use crate::history::Script;
use crate::operation::{Held, Operation, Piece};
use crate::tree::Model;
use extant_block::{BlockDevice, Clock, MemoryDevice, RealClock, WallTime};
use extant_engine::mkfs::{FormatOptions, Identity, JournalWish, Profile, default_wishes, format};
use extant_engine::preset::{Costs, Policies};
use extant_engine::{Access, DataKeeping, Filesystem, Options, least_cache_bytes};
use extant_format::layout::Inodes;
use extant_testkit::content;
use std::fmt;
use std::sync::Arc;

/// The time of day at which everything happens: what is written twice is equal twice.
pub const TODAY: WallTime = WallTime { seconds: 1_700_000_000, nanoseconds: 0 };

/// Blocks of the log: as few as mke2fs makes.
const LOG_BLOCKS: u32 = 1024;
/// Of every volume.
const IDENTITY: Identity = Identity {
    uuid: *b"a volume to test",
    hash_seed: [0x0403_025e, 0x0807_0605, 0x0c0b_0a09, 0x100f_0e0d],
    created_seconds: 1_600_000_000,
};
/// Bytes that a removed file leaves in free blocks.
const SOILED_BYTES: u64 = 3 << 20;

/// What volume a history is lived on, and with which policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// ext3 or ext4.
    pub profile: Profile,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// How the engine opens it: a preset with its columns.
    pub policies: &'static str,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.profile.name(), self.block_bytes, self.policies)
    }
}

/// A volume to begin with.
pub struct Base {
    /// What it is.
    pub setting: Setting,
    /// What the device holds: closed in order.
    pub medium: MemoryDevice,
    /// What is on the volume.
    pub model: Model,
}

/// A machine of today: calls take time, so that clocks move between them.
const COSTS: Costs = Costs { call_ns: 1_000, name_ns: 100, kib_ns: 100 };

impl Setting {
    /// How the engine opens the volume.
    ///
    /// # Errors
    /// Words that are no policies.
    pub fn options(&self, access: Access) -> Result<Options, String> {
        let mut policies: Policies = self.policies.parse().map_err(|error| format!("{error}"))?;
        policies.costs = COSTS;
        // Little, so that what is dirty is written before it is asked for.
        let cache_bytes = least_cache_bytes(self.block_bytes);
        Ok(Options { access, policies, cache_bytes, data: DataKeeping::Bytes })
    }

    /// How a volume is recovered: with no thread beside the caller's.
    ///
    /// # Errors
    /// Words that are no policies.
    pub fn recovery_options(&self, access: Access) -> Result<Options, String> {
        let words = format!("{},throttle=inline,atime=none", self.policies);
        let policies: Policies = words.parse().map_err(|error| format!("{error}"))?;
        Ok(Options { policies, ..self.options(access)? })
    }

    fn bytes(&self) -> u64 {
        match self.block_bytes {
            1024 => 10 << 20,
            bytes => u64::from(bytes) * 4096,
        }
    }

    /// Makes a volume of this kind that is clean, and on which the processes find these paths.
    ///
    /// # Errors
    /// Those of the engine: none is expected.
    pub fn make(&self, content: &[Operation]) -> Result<Base, String> {
        let clock: Arc<dyn Clock> = RealClock::pinned(TODAY);
        let device = Arc::new(MemoryDevice::with_chunks(clock, self.bytes(), 16 << 10));
        let options = self.recovery_options(Access::ReadWrite)?;
        self.format(&device, &options.policies).map_err(|error| format!("{self}: {error}"))?;
        let open = || Filesystem::open(Arc::clone(&device) as Arc<dyn BlockDevice>, &options);
        let mut script = Script::new(Model::new(u64::from(self.block_bytes), 1));
        let mut fill = || -> extant_engine::Result<()> {
            let volume = open()?;
            soil(&volume)?;
            for operation in content {
                operation.run(&volume, &mut Held::default())?;
                script.push(operation.clone());
            }
            volume.close()
        };
        fill().map_err(|error| format!("{self}: {error}"))?;
        Ok(Base { setting: *self, medium: device.snapshot(), model: script.model })
    }

    fn format(&self, device: &Arc<MemoryDevice>, policies: &Policies) -> extant_engine::Result<()> {
        let mut wishes =
            default_wishes(self.profile, self.bytes(), Some(self.block_bytes), IDENTITY);
        wishes.inodes = Inodes::AtLeast(160);
        let wishes = FormatOptions {
            journal: JournalWish::Blocks(LOG_BLOCKS),
            ..FormatOptions::new(wishes)
        };
        format(Arc::clone(device) as Arc<dyn BlockDevice>, &wishes, policies).map(drop)
    }
}

/// Fills blocks with what no file may show, and frees them again.
fn soil(volume: &Filesystem) -> extant_engine::Result<()> {
    let file = volume.create_file("/secret", 0o600)?;
    for at in (0..SOILED_BYTES).step_by(64 << 10) {
        file.write_all_at(at, &content::record(content::SECRET, 0, at, 64 << 10))?;
    }
    drop(file);
    volume.sync()?;
    volume.remove_file("/secret")?;
    volume.sync()
}

/// A write of a file that an empty model numbers so.
pub fn first_write(path: &str, owner: u32, length: u64) -> Operation {
    let piece = Piece { owner, write: 1, offset: 0, length };
    Operation::Write { path: path.to_owned(), piece }
}
