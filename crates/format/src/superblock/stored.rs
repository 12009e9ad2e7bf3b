//! The superblock as it is stored, nothing checked: for programs that show or judge it.
use super::raw::RawSuperblock;
use super::{HashVersion, SUPERBLOCK_SIZE, Superblock, SuperblockError};
use crate::feature::{Feature, Features};
use crate::{BlockNo, Fault, GroupNo, Ino};
use zerocopy::{transmute, transmute_ref};

/// Fields as they are stored, whatever they hold. Those that a [`Superblock`] has are asked of it;
/// here are those of features that are not supported, and those of which the stored form matters.
#[derive(Clone, Copy)]
pub struct StoredSuperblock<'a>(&'a RawSuperblock);

/// One of the errors that the kernel has recorded in the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredError<'a> {
    /// Seconds since 1970; 0 where no error was recorded.
    pub seconds: u64,
    /// The inode that it was about, or 0.
    pub ino: Ino,
    /// The block that it was about, or 0.
    pub block: BlockNo,
    /// The kernel's function, up to a zero byte.
    pub function: &'a [u8],
    /// The line of the kernel's source.
    pub line: u32,
    /// What went wrong, in a code of the superblock's own; 0 where that was not recorded.
    pub code: u8,
}

/// What had to be changed in a superblock before its other fields say where things are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Corrections {
    /// The stored checksum is not that of the stored bytes.
    pub checksum: Option<Fault>,
    /// The stored inode count, where it is not groups times inodes per group.
    pub inodes_count: Option<u32>,
}

/// The smallest block, of which the sizes of blocks and clusters are stored as multiples (log2).
const LEAST_SIZE_LOG2: u32 = 10;

impl<'a> StoredSuperblock<'a> {
    /// Of the bytes of a superblock.
    pub fn new(bytes: &'a [u8; SUPERBLOCK_SIZE]) -> StoredSuperblock<'a> {
        StoredSuperblock(transmute_ref!(bytes))
    }

    /// All features, known or not.
    pub fn features(self) -> Features {
        self.0.features()
    }

    /// What tells the volume, or the device of a journal, from others.
    pub fn uuid(self) -> [u8; 16] {
        self.0.uuid
    }

    /// log2 of the bytes of a block.
    pub fn block_size_log2(self) -> u32 {
        self.0.log_block_size.get().saturating_add(LEAST_SIZE_LOG2)
    }

    /// Blocks of the volume, or of the device of a journal.
    pub fn blocks_count(self) -> u64 {
        u64::from(self.0.blocks_count_high.get()) << 32 | u64::from(self.0.blocks_count_low.get())
    }

    /// log2 of the bytes of a cluster: that of a block where blocks have no clusters.
    pub fn cluster_size_log2(self) -> u32 {
        self.0.log_cluster_size.get().saturating_add(LEAST_SIZE_LOG2)
    }

    /// Blocks of a group.
    pub fn blocks_per_group(self) -> u32 {
        self.0.blocks_per_group.get()
    }

    /// Clusters of a group; blocks where blocks have no clusters.
    pub fn clusters_per_group(self) -> u32 {
        self.0.clusters_per_group.get()
    }

    /// Bytes of a descriptor, which count with 64bit only; 0 where none is stored.
    pub fn descriptor_size(self) -> u16 {
        self.0.descriptor_size.get()
    }

    /// The first block of descriptors that is kept as meta_bg says.
    pub fn first_meta_group(self) -> u32 {
        self.0.first_meta_group.get()
    }

    /// log2 of the groups of a flex group, also without flex_bg.
    pub fn log_groups_per_flex(self) -> u8 {
        self.0.log_groups_per_flex
    }

    /// The two groups with copies (sparse_super2); 0 for none.
    pub fn backup_groups(self) -> [GroupNo; 2] {
        self.0.backup_groups.map(|group| GroupNo(group.get()))
    }

    /// The block that records mounts (mmp).
    pub fn mmp_block(self) -> BlockNo {
        BlockNo(self.0.mmp_block.get())
    }

    /// How often that block is written, in seconds.
    pub fn mmp_interval_seconds(self) -> u16 {
        self.0.mmp_interval.get()
    }

    /// The quota files of users, groups and projects; 0 for none.
    pub fn quota_inodes(self) -> [Ino; 3] {
        let [users, groups] = self.0.quota_inodes;
        [users, groups, self.0.project_quota_inode].map(|ino| Ino(ino.get()))
    }

    /// The encoding of names (casefold): [`ENCODING_UTF8`].
    pub fn encoding(self) -> u16 {
        self.0.encoding.get()
    }

    /// Whether names must be valid in that encoding.
    pub fn is_encoding_strict(self) -> bool {
        self.0.encoding_flags.get() & ENCODING_STRICT != 0
    }

    /// The stored checksum.
    pub fn checksum(self) -> u32 {
        self.0.checksum.get()
    }

    /// The first error that was recorded, and the last.
    pub fn errors(self) -> [StoredError<'a>; 2] {
        let raw = self.0;
        [
            StoredError {
                seconds: super::raw::seconds(raw.first_error.time, raw.first_error_time_high),
                ino: Ino(raw.first_error.ino.get()),
                block: BlockNo(raw.first_error.block.get()),
                function: &raw.first_error.function,
                line: raw.first_error.line.get(),
                code: raw.first_error_code,
            },
            StoredError {
                seconds: super::raw::seconds(raw.last_error.time, raw.last_error_time_high),
                ino: Ino(raw.last_error.ino.get()),
                block: BlockNo(raw.last_error.block.get()),
                function: &raw.last_error.function,
                line: raw.last_error.line.get(),
                code: raw.last_error_code,
            },
        ]
    }
}

/// The only encoding of names that there is: UTF-8 of Unicode 12.1.
pub const ENCODING_UTF8: u16 = 1;
/// Names must be valid in the encoding.
const ENCODING_STRICT: u16 = 1;

impl Superblock {
    /// Keeps the blocks of descriptors from this one on as meta_bg says, whose feature is set.
    pub(crate) fn set_first_meta_block(&mut self, block: u32) {
        self.raw.first_meta_group = block.into();
    }

    /// Names the device of the volume's journal: its UUID, and its number on this machine.
    pub fn set_external_journal(&mut self, uuid: [u8; 16], number: u32) {
        self.raw.journal_uuid = uuid;
        self.raw.journal_device = number.into();
        self.journal_inode = 0;
    }

    /// Sets the mount options in words; what is past 63 bytes is left out.
    pub fn set_mount_options(&mut self, words: &[u8]) {
        self.raw.mount_options = [0; 64];
        for (to, from) in self.raw.mount_options.iter_mut().take(63).zip(words) {
            *to = *from;
        }
    }

    /// Takes these flags away.
    pub fn remove_flags(&mut self, flags: u32) {
        self.raw.flags = (self.raw.flags.get() & !flags).into();
    }

    /// The encoding of names and its flags (casefold); 0 for none.
    pub fn encoding(&self) -> (u16, u16) {
        (self.raw.encoding.get(), self.raw.encoding_flags.get())
    }

    /// Takes the seed of checksums anew: as it is kept, or from the UUID.
    pub fn reseed(&mut self) {
        if !self.features.has(Feature::CSUM_SEED) {
            self.checksum_seed = crate::checksum::crc32c(!0, &self.uuid);
        }
    }

    /// Forgets the errors that were recorded, and that there were any.
    pub fn clear_errors(&mut self) {
        self.state &= !super::state::ERRORS;
        let raw = &mut self.raw;
        raw.error_count = 0.into();
        raw.first_error = zerocopy::FromZeros::new_zeroed();
        raw.last_error = zerocopy::FromZeros::new_zeroed();
        (raw.first_error_time_high, raw.last_error_time_high) = (0, 0);
        (raw.first_error_code, raw.last_error_code) = (0, 0);
    }

    /// The superblock of a device that is the journal of another volume, unchecked but for the size
    /// of its blocks: such a one has the feature for that, and no inodes. `None` for any other.
    pub fn parse_journal_device(bytes: &[u8; SUPERBLOCK_SIZE]) -> Option<Superblock> {
        let raw = Self::verify(bytes).ok()?;
        let block_size_log2 = raw.block_size_log2().ok()?;
        let is_one = raw.features().has(Feature::JOURNAL_DEV) && raw.inodes_count.get() == 0;
        is_one.then(|| Self::take(raw, block_size_log2))
    }

    /// As [`Superblock::parse_any`], but what follows from other fields is corrected instead of
    /// refused: the checksum, the inode count, an unknown default hash.
    ///
    /// # Errors
    /// As `parse_any`, for all that cannot be corrected.
    pub fn parse_corrected(
        bytes: &[u8; SUPERBLOCK_SIZE],
    ) -> Result<(Superblock, Corrections), SuperblockError> {
        let mut corrected = *bytes;
        let mut corrections = Corrections::default();
        // Each correction is made once, so this ends.
        loop {
            // The stored checksum covers the stored bytes, not what is corrected here.
            let is_as_stored = corrected == *bytes;
            let mut raw: RawSuperblock = transmute!(corrected);
            match Superblock::parse_any(&corrected) {
                Ok(superblock) => return Ok((superblock, corrections)),
                Err(SuperblockError::Fault(fault @ Fault::Checksum { computed, .. })) => {
                    raw.checksum = computed.into();
                    if is_as_stored {
                        corrections.checksum = Some(fault);
                    }
                }
                Err(SuperblockError::Fault(Fault::Field {
                    field: "inode count", value, ..
                })) if corrections.inodes_count.is_none() => {
                    corrections.inodes_count = Some(u32::try_from(value).unwrap_or(u32::MAX));
                    raw.inodes_count = raw.expected_inodes().unwrap_or(0).into();
                }
                Err(SuperblockError::Fault(Fault::Field { field: "hash version", .. }))
                    if HashVersion::from_code(raw.hash_version).is_none() =>
                {
                    raw.hash_version = HashVersion::HalfMd4.code();
                }
                Err(error) => return Err(error),
            }
            corrected = transmute!(raw);
        }
    }
}

impl RawSuperblock {
    /// Groups times inodes per group, by the fields as they are stored.
    fn expected_inodes(&self) -> Option<u32> {
        let wide = self.features().has(Feature::SIXTY_FOUR_BIT);
        let high = if wide { u64::from(self.blocks_count_high.get()) << 32 } else { 0 };
        let blocks = (high | u64::from(self.blocks_count_low.get()))
            .checked_sub(self.first_data_block.get().into())?;
        let groups = blocks.div_ceil(u64::from(self.blocks_per_group.get()).max(1));
        u32::try_from(groups.checked_mul(self.inodes_per_group.get().into())?).ok()
    }
}
