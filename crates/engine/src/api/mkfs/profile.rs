//! The defaults of mke2fs 1.47: its profiles and usage types, as in the `mke2fs.conf` of Debian.
use extant_format::layout::{Inodes, Marks, Packing, Wishes};
use extant_format::superblock::{Feature, Features, HashVersion};

/// `-t`: which features a new volume has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// No journal, indirect maps.
    Ext2,
    /// A journal, indirect maps.
    Ext3,
    /// A journal, extents, flexible groups, checksums.
    Ext4,
}

/// `base_features`.
const BASE: [Feature; 6] = [
    Feature::SPARSE_SUPER,
    Feature::LARGE_FILE,
    Feature::FILETYPE,
    Feature::RESIZE_INODE,
    Feature::DIR_INDEX,
    Feature::EXT_ATTR,
];

/// What `[fs_types]` adds.
const ADDED: [(Profile, &str, &[Feature]); 3] = [
    (Profile::Ext2, "ext2", &[]),
    (Profile::Ext3, "ext3", &[Feature::HAS_JOURNAL]),
    (
        Profile::Ext4,
        "ext4",
        &[
            Feature::HAS_JOURNAL,
            Feature::EXTENTS,
            Feature::HUGE_FILE,
            Feature::FLEX_BG,
            Feature::METADATA_CSUM,
            Feature::SIXTY_FOUR_BIT,
            Feature::DIR_NLINK,
            Feature::EXTRA_ISIZE,
        ],
    ),
];

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// A usage type: the sizes of volumes that it is for, and its defaults.
struct Usage {
    /// Volumes below this many bytes.
    below_bytes: u64,
    block_size: u32,
    bytes_per_inode: u64,
}

/// Usage types by rising size: floppy, small, default, big, huge.
const USAGES: [Usage; 5] = [
    Usage { below_bytes: 3 * MIB, block_size: 1024, bytes_per_inode: 8192 },
    Usage { below_bytes: 512 * MIB, block_size: 1024, bytes_per_inode: 4096 },
    Usage { below_bytes: 4 * TIB, block_size: 4096, bytes_per_inode: 16384 },
    Usage { below_bytes: 16 * TIB, block_size: 4096, bytes_per_inode: 32768 },
    Usage { below_bytes: u64::MAX, block_size: 4096, bytes_per_inode: 65536 },
];

impl Profile {
    /// The profile with that name: "ext2", "ext3" or "ext4".
    pub fn from_name(name: &str) -> Option<Profile> {
        ADDED.iter().find(|(_, known, _)| *known == name).map(|(profile, ..)| *profile)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The features of a volume of this profile, as `mke2fs -t` sets them.
    pub fn features(self) -> Features {
        let mut features = Features::default();
        for feature in BASE.iter().chain(self.row().2) {
            features.set(*feature);
        }
        features
    }

    fn row(self) -> &'static (Profile, &'static str, &'static [Feature]) {
        match self {
            Profile::Ext2 => &ADDED[0],
            Profile::Ext3 => &ADDED[1],
            Profile::Ext4 => &ADDED[2],
        }
    }
}

/// What tells a volume from all others, and its names from guessed ones. Whoever makes a volume
/// draws the first two at random, or derives them from what it will hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Its UUID. Of a volume whose UUID is zero, e2fsck says so and writes another one.
    pub uuid: [u8; 16],
    /// What the hashes of names begin with.
    pub hash_seed: [u32; 4],
    /// When it was made, in seconds since 1970.
    pub created_seconds: u64,
}

impl Identity {
    /// All zero: for who asks for the numbers of a volume alone, or fills the identity in later.
    pub const NONE: Identity = Identity { uuid: [0; 16], hash_seed: [0; 4], created_seconds: 0 };
}

/// What mke2fs would use for a volume of `bytes`: block size (unless given), inodes and features.
/// It has this identity, and no label.
pub fn default_wishes(
    profile: Profile,
    bytes: u64,
    block_size: Option<u32>,
    identity: Identity,
) -> Wishes {
    let usage = USAGES.iter().find(|usage| bytes < usage.below_bytes).unwrap_or(&USAGES[4]);
    let block_size = block_size.unwrap_or(usage.block_size);
    let blocks = bytes / u64::from(block_size.max(1));
    let mut features = profile.features();
    if blocks > u64::from(u32::MAX) {
        // The resize inode has a map of indirect blocks, with 32 bits.
        features.clear(Feature::RESIZE_INODE);
    }
    Wishes {
        block_size,
        blocks,
        features,
        inode_size: 256,
        inodes: Inodes::BytesPerInode(usage.bytes_per_inode.max(block_size.into())),
        reserved_ratio: 0.05,
        flex_groups: 16,
        blocks_per_group: None,
        resize_to_blocks: None,
        uuid: identity.uuid,
        hash_seed: identity.hash_seed,
        hash_version: HashVersion::HalfMd4,
        label: [0; 16],
        created_seconds: identity.created_seconds,
        stride: 0,
        stripe_width: 0,
        marks: Marks::default(),
        descriptor_size: None,
        copies: 2,
        packing: Packing::FlexGroups,
        cluster_size: None,
        bad_blocks: Vec::new(),
    }
}
