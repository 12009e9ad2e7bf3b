//! What a new file system is to be like: mke2fs's options, shared by the commands that make one.
//!
//! Three steps: `words` reads each option by itself, as clap parses it; [`FormatArguments::read`]
//! judges them together and gives a [`Format`]; [`Format::options`] joins that with a size and with
//! what holds where the user said nothing.
mod words;

use words::{Extended, JournalWord, ReservedPercent, UsageType};
pub(crate) use words::{FeatureWord, UuidWord, uuid_bytes};

use extant_engine::allocation::{MapBlocks, Metacluster};
use extant_engine::mkfs::{FormatOptions, Identity, JournalWish, Profile, default_wishes};
use extant_format::layout::{Inodes, Wishes};
use extant_format::superblock::{Feature, Features};
use extant_host::error::Error;
use extant_host::size::Size;
use std::io::Read;

/// Options of every command that makes a file system, as mke2fs spells them; flatten it into the
/// command's own.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Format (as mke2fs spells it)")]
pub struct FormatArguments {
    /// What the file system is: ext2, ext3 or ext4 [default: ext4]
    #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = words::profile())]
    pub profile: Option<Profile>,
    /// What it is for: floppy, small, default, big, huge, news, largefile, largefile4, hurd.
    /// Decides -b and -i where these are not given; without -T the size decides. mkfs with -T and
    /// without -t makes ext2, as mke2fs does
    #[arg(short = 'T', value_name = "USAGE", value_delimiter = ',',
        value_parser = words::usage_type)]
    pub usage: Vec<UsageType>,
    /// Put indirect blocks and nodes of extent trees together, in one run of each group: begin,
    /// middle or end of the group, and its size: blocks, 2% or 1/64 of it [default: middle,1/64].
    /// Nothing on the disk says so: a system that writes files later puts theirs where its own
    /// policies say
    #[arg(long, value_name = "POSITION[,SIZE]", num_args = 0..=1, require_equals = true,
        default_missing_value = "middle", value_parser = words::metacluster)]
    metacluster: Option<Metacluster>,
    /// Bytes of a block: 1024, 2048, 4096 and so on to 65536
    #[arg(short = 'b', value_name = "BYTES", value_parser = words::block_size)]
    pub block_size: Option<u32>,
    /// Bytes of an inode: 128, 256, 512 or 1024 [default: 256]
    #[arg(short = 'I', value_name = "BYTES", value_parser = words::inode_size)]
    inode_size: Option<u16>,
    /// One inode for this many bytes of the volume: 16384, or 16K
    #[arg(short = 'i', value_name = "BYTES", value_parser = words::bytes_per_inode)]
    bytes_per_inode: Option<u64>,
    /// At least this many inodes, whatever -i says
    #[arg(short = 'N', value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    inodes: Option<u32>,
    /// Volume label, at most 16 bytes
    #[arg(short = 'L', value_name = "LABEL", value_parser = words::label)]
    label: Option<words::Label>,
    /// UUID of the volume, or "random", "time", "clear"
    #[arg(short = 'U', value_name = "UUID", value_parser = words::uuid)]
    uuid: Option<UuidWord>,
    /// Share of the blocks that only root may take, in percent: 0 to 50
    #[arg(short = 'm', value_name = "PERCENT", value_parser = words::reserved_percent)]
    reserved_percent: Option<ReservedPercent>,
    /// Features to add, or to take away with "^"; "none" takes all away first
    #[arg(short = 'O', value_name = "FEATURE,^FEATURE..", value_delimiter = ',',
        value_parser = words::feature)]
    features: Vec<FeatureWord>,
    /// Extended options: hash_seed=UUID, offset=BYTES, stride=BLOCKS, stripe_width=BLOCKS,
    /// resize=BLOCKS, root_owner=UID:GID. lazy_itable_init, lazy_journal_init, discard, nodiscard
    /// and assume_storage_prezeroed are accepted, and change nothing: what has to be zero is, when
    /// the command ends.
    #[arg(short = 'E', value_name = "NAME=VALUE,..", value_delimiter = ',',
        value_parser = words::extended)]
    extended: Vec<Extended>,
    /// A journal of this size, in MiB without a unit: size=MEGABYTES
    #[arg(short = 'J', value_name = "size=MEGABYTES", value_delimiter = ',',
        value_parser = words::journal)]
    journal: Vec<JournalWord>,
    /// Make a journal, as -O has_journal
    #[arg(short = 'j')]
    with_journal: bool,
    /// Bytes of a cluster of blocks, with -O bigalloc: a power of two [default: 16 blocks]
    #[arg(short = 'C', value_name = "BYTES", value_parser = words::cluster_size)]
    cluster_size: Option<u32>,
    /// Groups of a flex group, a power of two [default: 16]
    #[arg(short = 'G', value_name = "NUMBER", value_parser = words::flex_groups)]
    flex_groups: Option<u32>,
    /// Blocks of a group, with -O bigalloc clusters: a multiple of 8 [default: 8 times the bytes of
    /// a block]
    #[arg(short = 'g', value_name = "NUMBER", value_parser = words::blocks_per_group)]
    blocks_per_group: Option<u32>,
}

/// What the options say, judged together, not yet against a size.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// -t; ext4 unless given.
    pub profile: Profile,
    /// The profile's features with -O and -j on top.
    pub features: Features,
    /// -b, or what -T says.
    pub block_size: Option<u32>,
    /// -I, or what -T says.
    pub inode_size: Option<u16>,
    /// -N or -i.
    pub inodes: Option<Inodes>,
    /// What -T says of inodes; a block is never less than an inode's share.
    usage_bytes_per_inode: Option<u64>,
    /// -L.
    pub label: Option<[u8; 16]>,
    /// -U; random and time are drawn already.
    pub uuid: Option<[u8; 16]>,
    /// -m, as a fraction.
    pub reserved_ratio: Option<f64>,
    /// -E hash_seed.
    pub hash_seed: Option<[u8; 16]>,
    /// -E offset: the byte of the file or device at which the volume begins.
    pub offset_bytes: u64,
    /// -E root_owner: user and group.
    pub root_owner: Option<(u32, u32)>,
    /// -G.
    pub flex_groups: Option<u32>,
    /// -g.
    pub blocks_per_group: Option<u32>,
    /// -C.
    pub cluster_size: Option<u32>,
    /// A journal was asked for: by -t ext3, -j, -O has_journal or -J. A small ext4 volume has none
    /// otherwise.
    pub wants_journal: bool,
    /// -J size, in bytes.
    pub journal_bytes: Option<u64>,
    stride: u16,
    stripe_width: u32,
    resize_to: Option<Size>,
    /// -E options that were accepted and change nothing: worth a word to the user.
    pub without_effect: Vec<&'static str>,
}

/// What holds where the user said nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unsaid {
    /// Bytes of a block; `None`: what mke2fs takes for a volume of this size (see
    /// [`Format::block_size_for`]).
    pub block_size: Option<u32>,
    /// How many inodes; `None`: what mke2fs takes.
    pub inodes: Option<Inodes>,
    /// The share of the blocks kept for root; mke2fs: 0.05.
    pub reserved_ratio: f64,
    /// The volume's UUID.
    pub uuid: [u8; 16],
    /// The seed of directory hashes.
    pub hash_seed: [u8; 16],
    /// When the volume was made, in seconds since 1970.
    pub created_seconds: u64,
}

impl FormatArguments {
    /// Where map blocks go, by --metacluster.
    pub fn map_blocks(&self) -> MapBlocks {
        self.metacluster.map_or(MapBlocks::Beside, MapBlocks::Metacluster)
    }

    /// -t, ext4 unless given.
    pub fn profile(&self) -> Profile {
        self.profile.unwrap_or(Profile::Ext4)
    }

    /// The profile's features, with -O and -j on top.
    pub fn features(&self) -> Features {
        let mut features = self.profile().features();
        if self.with_journal {
            features.set(Feature::HAS_JOURNAL);
        }
        for word in &self.features {
            match word {
                FeatureWord::None => features = Features::default(),
                FeatureWord::Add(feature) => features.set(*feature),
                FeatureWord::Remove(feature) => features.clear(*feature),
            }
        }
        features
    }

    fn wanted_inodes(&self) -> Option<Inodes> {
        let ratio = self.bytes_per_inode.map(Inodes::BytesPerInode);
        self.inodes.map(|count| Inodes::AtLeast(count.into())).or(ratio)
    }

    fn wants_journal(&self) -> bool {
        let named = self.features.contains(&FeatureWord::Add(Feature::HAS_JOURNAL));
        let asked = self.profile() == Profile::Ext3
            || self.with_journal
            || named
            || !self.journal.is_empty();
        asked && self.features().has(Feature::HAS_JOURNAL)
    }

    /// Judges the options together.
    ///
    /// # Errors
    /// Wrong usage, with the options that contradict each other. The host's, when it has no
    /// randomness for `-U random`.
    pub fn read(&self) -> Result<Format, Error> {
        let usage = UsageType::joined(&self.usage);
        let mut format = Format {
            profile: self.profile(),
            features: self.features(),
            block_size: self.block_size.or(usage.map(|usage| usage.block_size)),
            inode_size: self.inode_size.or(usage.map(|usage| usage.inode_size)),
            inodes: self.wanted_inodes(),
            usage_bytes_per_inode: usage.map(|usage| usage.bytes_per_inode),
            label: self.label.map(|label| label.0),
            uuid: self.uuid.map(UuidWord::draw).transpose()?,
            reserved_ratio: self.reserved_percent.map(|percent| percent.0 / 100.0),
            hash_seed: None,
            offset_bytes: 0,
            root_owner: None,
            flex_groups: self.flex_groups,
            blocks_per_group: self.blocks_per_group,
            cluster_size: self.cluster_size,
            wants_journal: self.wants_journal(),
            journal_bytes: self.journal.last().map(|word| word.bytes),
            stride: 0,
            stripe_width: 0,
            resize_to: None,
            without_effect: Vec::new(),
        };
        for word in &self.extended {
            format.extend(*word)?;
        }
        self.check(&format)?;
        Ok(format)
    }

    /// What contradicts itself whatever the size is.
    fn check(&self, format: &Format) -> Result<(), Error> {
        let features = format.features;
        let refuse = |message: &str, hint: &str| Err(Error::usage(message).hint(hint));
        if self.flex_groups.is_some() && !features.has(Feature::FLEX_BG) {
            return refuse("-G: the volume has no flex groups", "add -O flex_bg, or leave -G away");
        }
        if features.has(Feature::CSUM_SEED) && !features.has(Feature::METADATA_CSUM) {
            return refuse("-O metadata_csum_seed: it needs metadata_csum", "add -O metadata_csum");
        }
        let journal = features.has(Feature::HAS_JOURNAL) || format.journal_bytes.is_some();
        if features.has(Feature::ORPHAN_FILE) && !journal {
            return refuse("-O orphan_file: it needs a journal", "add -O has_journal");
        }
        if features.has(Feature::SIXTY_FOUR_BIT) && !features.has(Feature::EXTENTS) {
            return refuse("-O: 64bit needs extent", "add -O ^64bit, or -O extent");
        }
        if features.has(Feature::RESIZE_INODE) && !features.has(Feature::SPARSE_SUPER) {
            return refuse("-O: resize_inode needs sparse_super", "add -O ^resize_inode");
        }
        if features.has(Feature::RESIZE_INODE) && features.has(Feature::META_BG) {
            let hint = "add -O ^resize_inode";
            return refuse("-O meta_bg: it and resize_inode exclude each other", hint);
        }
        if features.has(Feature::BIGALLOC) && !features.has(Feature::EXTENTS) {
            return refuse("-O bigalloc: it needs extent", "add -O extent");
        }
        if self.cluster_size.is_some() && !features.has(Feature::BIGALLOC) {
            return refuse("-C: blocks have no clusters", "add -O bigalloc, or leave -C away");
        }
        if format.resize_to.is_some() && !features.has(Feature::RESIZE_INODE) {
            return refuse("-E resize: it needs the feature resize_inode", "add -O resize_inode");
        }
        Ok(())
    }
}

impl Format {
    fn extend(&mut self, word: Extended) -> Result<(), Error> {
        match word {
            Extended::HashSeed(seed) => self.hash_seed = Some(seed.draw()?),
            Extended::Offset(bytes) => self.offset_bytes = bytes,
            Extended::Stride(blocks) => self.stride = blocks,
            Extended::StripeWidth(blocks) => self.stripe_width = blocks,
            Extended::Resize(size) => self.resize_to = Some(size),
            Extended::RootOwner(user, group) => self.root_owner = Some((user, group)),
            Extended::RootOwnerIsMe => {
                extant_image::source::host()?;
                let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
                self.root_owner = Some((user.as_raw(), group.as_raw()));
            }
            Extended::WithoutEffect(name) => self.without_effect.push(name),
        }
        Ok(())
    }

    /// Bytes of a block of a volume of about `bytes`: -b, else what -T says, else as mke2fs
    /// decides.
    pub fn block_size_for(&self, bytes: u64) -> u32 {
        default_wishes(self.profile, bytes, self.block_size, Identity::NONE).block_size
    }

    /// Whether -N, -i or -T say how many inodes there are.
    pub fn asks_for_inodes(&self) -> bool {
        self.inodes.is_some() || self.usage_bytes_per_inode.is_some()
    }

    /// The wishes for a volume of this many blocks.
    ///
    /// # Errors
    /// `-E resize` to what the volume has already.
    pub fn wishes(&self, blocks: u64, unsaid: &Unsaid) -> Result<Wishes, Error> {
        let block_size = self.block_size.or(unsaid.block_size);
        let block_size =
            block_size.unwrap_or_else(|| self.block_size_for(blocks.saturating_mul(4096)));
        let bytes = blocks.saturating_mul(block_size.into());
        let defaults = default_wishes(self.profile, bytes, Some(block_size), Identity::NONE);
        let of_usage = self.usage_bytes_per_inode;
        let unit_size = match self.features.has(Feature::BIGALLOC) {
            true => self.cluster_size.unwrap_or(block_size.saturating_mul(16)),
            false => block_size,
        };
        let at_least_a_unit = |inodes: Inodes| match inodes {
            Inodes::BytesPerInode(share) => Inodes::BytesPerInode(share.max(unit_size.into())),
            other => other,
        };
        let of_usage = of_usage.map(Inodes::BytesPerInode).map(at_least_a_unit);
        let usual = at_least_a_unit(defaults.inodes);
        Ok(Wishes {
            blocks,
            cluster_size: self.cluster_size,
            inodes: self.inodes.or(of_usage).or(unsaid.inodes).unwrap_or(usual),
            features: self.features,
            inode_size: self.inode_size.unwrap_or(defaults.inode_size),
            reserved_ratio: self.reserved_ratio.unwrap_or(unsaid.reserved_ratio),
            flex_groups: self.flex_groups.unwrap_or(defaults.flex_groups),
            blocks_per_group: self.blocks_per_group,
            resize_to_blocks: self.resize_to_blocks(blocks, block_size)?,
            uuid: self.uuid.unwrap_or(unsaid.uuid),
            hash_seed: seed_words(self.hash_seed.unwrap_or(unsaid.hash_seed)),
            label: self.label.unwrap_or_default(),
            created_seconds: unsaid.created_seconds,
            stride: self.stride,
            stripe_width: self.stripe_width,
            ..defaults
        })
    }

    fn resize_to_blocks(&self, blocks: u64, block_size: u32) -> Result<Option<u64>, Error> {
        let target = match self.resize_to {
            Some(Size::Bare(target)) => target,
            Some(Size::Bytes(bytes)) => bytes / u64::from(block_size.max(1)),
            None => return Ok(None),
        };
        if target > blocks {
            return Ok(Some(target));
        }
        Err(Error::usage(format!("-E resize: {target} blocks are not more than the volume has"))
            .hint(format!("it has {blocks} blocks of {block_size} bytes")))
    }

    /// All that [`extant_engine::mkfs::format`] wants to know: the wishes, journal and owner of the
    /// root.
    ///
    /// # Errors
    /// As [`Format::wishes`].
    pub fn options(&self, blocks: u64, unsaid: &Unsaid) -> Result<FormatOptions, Error> {
        let mut options = FormatOptions::new(self.wishes(blocks, unsaid)?);
        if let Some(bytes) = self.journal_bytes {
            let journal_blocks = bytes / u64::from(options.wishes.block_size.max(1));
            let journal_blocks = u32::try_from(journal_blocks).unwrap_or(u32::MAX);
            options.journal = JournalWish::Blocks(journal_blocks);
        }
        options.root_owner = self.root_owner.unwrap_or(options.root_owner);
        Ok(options)
    }
}

/// The hash seed as the superblock keeps it: a UUID's bytes as four little-endian words.
pub fn seed_words(bytes: [u8; 16]) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, four) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*four);
    }
    words
}

/// Sixteen random bytes in the shape of a version 4 UUID.
///
/// # Errors
/// The host's, when it has no /dev/urandom.
pub fn random_uuid() -> Result<[u8; 16], Error> {
    let mut bytes = [0; 16];
    let source = "/dev/urandom";
    let read = std::fs::File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Error::io(source, &error))?;
    Ok(shaped(bytes, 4))
}

/// Sixteen bytes in the shape of a UUID of this version, RFC 9562's variant.
fn shaped(mut bytes: [u8; 16], version: u8) -> [u8; 16] {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}
