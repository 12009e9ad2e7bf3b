//! What follows from what is asked for: the fields and features of the superblock as they are to
//! be, and what goes, is rewritten and comes. What no volume like this can have is refused here.
use super::fields::{self, Field};
use super::{Drawn, JournalWish, Tuning, Wanted};
use crate::error::Error;
use extant_format::superblock::{ENCODING_UTF8, Feature, Features, Superblock};

/// What tune2fs can set.
const SETTABLE: Features = Features::of(&[
    Feature::HAS_JOURNAL,
    Feature::DIR_INDEX,
    Feature::STABLE_INODES,
    Feature::FAST_COMMIT,
    Feature::ORPHAN_FILE,
    Feature::FILETYPE,
    Feature::EXTENTS,
    Feature::FLEX_BG,
    Feature::MMP,
    Feature::SIXTY_FOUR_BIT,
    Feature::LARGE_DIR,
    Feature::ENCRYPT,
    Feature::CSUM_SEED,
    Feature::CASEFOLD,
    Feature::EA_INODE,
    Feature::LARGE_FILE,
    Feature::HUGE_FILE,
    Feature::DIR_NLINK,
    Feature::EXTRA_ISIZE,
    Feature::UNINIT_BG,
    Feature::SPARSE_SUPER,
    Feature::QUOTA,
    Feature::METADATA_CSUM,
    Feature::READ_ONLY,
    Feature::PROJECT,
    Feature::VERITY,
]);

/// What tune2fs can clear.
const CLEARABLE: Features = Features::of(&[
    Feature::HAS_JOURNAL,
    Feature::RESIZE_INODE,
    Feature::DIR_INDEX,
    Feature::FAST_COMMIT,
    Feature::ORPHAN_FILE,
    Feature::FILETYPE,
    Feature::FLEX_BG,
    Feature::MMP,
    Feature::SIXTY_FOUR_BIT,
    Feature::CSUM_SEED,
    Feature::CASEFOLD,
    Feature::LARGE_FILE,
    Feature::HUGE_FILE,
    Feature::DIR_NLINK,
    Feature::EXTRA_ISIZE,
    Feature::UNINIT_BG,
    Feature::QUOTA,
    Feature::METADATA_CSUM,
    Feature::READ_ONLY,
    Feature::PROJECT,
]);

/// Features whose bit is all that changes when they are set; others need a check.
const BITS_WHEN_SET: Features = Features::of(&[
    Feature::DIR_INDEX,
    Feature::STABLE_INODES,
    Feature::FAST_COMMIT,
    Feature::EXTENTS,
    Feature::FLEX_BG,
    Feature::LARGE_DIR,
    Feature::ENCRYPT,
    Feature::CSUM_SEED,
    Feature::CASEFOLD,
    Feature::EA_INODE,
    Feature::LARGE_FILE,
    Feature::HUGE_FILE,
    Feature::DIR_NLINK,
    Feature::EXTRA_ISIZE,
    Feature::READ_ONLY,
    Feature::VERITY,
]);

/// The same, when they are cleared.
const BITS_WHEN_CLEARED: Features = Features::of(&[Feature::FAST_COMMIT, Feature::READ_ONLY]);

/// A change as it is made.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Plan {
    fields: Vec<Field>,
    /// Features before, and as they are to be.
    before: Features,
    pub(super) features: Features,
    /// The encoding of names, where it changes.
    encoding: Option<(u16, u16)>,
    /// The seed of hashes, where there is none.
    hash_seed: Option<[u32; 4]>,
    /// The journal that comes.
    pub(super) journal: Option<JournalWish>,
    pub(super) removes_journal: bool,
    /// Bytes of the file of orphans that comes; 0 for the usual number.
    pub(super) orphan_file: Option<u64>,
    pub(super) removes_orphan_file: bool,
    /// Quota files that come, and that go.
    pub(super) quota_files: [Option<Wanted>; 3],
    pub(super) clears_mount_block: bool,
    /// Bytes of an inode, where they change.
    pub(super) inode_size: Option<u16>,
    /// Checksums of everything are to be written, or those of descriptors at least.
    pub(super) rewrites_sums: bool,
    needs_check: bool,
}

fn refused<T>(why: impl Into<String>) -> Result<T, Error> {
    Err(Error::Refused(why.into()))
}

/// What is asked for, as it is read.
struct Reading<'a> {
    before: &'a Superblock,
    features: Features,
    fields: Vec<Field>,
    encoding: Option<(u16, u16)>,
    journal: Option<JournalWish>,
    orphan_bytes: Option<u64>,
    quota_files: [Option<Wanted>; 3],
    clears_mount_block: bool,
    inode_size: Option<u16>,
    /// Whether somebody said something of uninit_bg.
    uninit: Option<Wanted>,
}

impl Reading<'_> {
    fn feature(&mut self, feature: Feature, wanted: Wanted) -> Result<(), Error> {
        let name = feature.name();
        match wanted {
            Wanted::Set if !SETTABLE.has(feature) => {
                return refused(format!("Setting filesystem feature '{name}' not supported."));
            }
            Wanted::Cleared if !CLEARABLE.has(feature) => {
                return refused(format!("Clearing filesystem feature '{name}' not supported."));
            }
            Wanted::Set => self.features.set(feature),
            Wanted::Cleared => self.features.clear(feature),
        }
        let is_set = wanted == Wanted::Set;
        match feature {
            Feature::UNINIT_BG => self.uninit = Some(wanted),
            Feature::QUOTA if is_set => {
                self.quota_files[..2].fill(Some(Wanted::Set));
            }
            Feature::QUOTA => self.quota_files.fill(Some(Wanted::Cleared)),
            Feature::PROJECT => self.quota_files[2] = Some(wanted),
            Feature::HAS_JOURNAL if !is_set => self.journal = None,
            _ => {}
        }
        Ok(())
    }

    fn one(&mut self, asked: &Tuning) -> Result<(), Error> {
        match asked {
            Tuning::Feature(feature, wanted) => self.feature(*feature, *wanted)?,
            Tuning::Journal(wish) => {
                self.features.set(Feature::HAS_JOURNAL);
                let known = self.journal.unwrap_or_default();
                self.journal = Some(JournalWish {
                    bytes: wish.bytes.or(known.bytes),
                    fast_commit_bytes: wish.fast_commit_bytes.or(known.fast_commit_bytes),
                    block: wish.block.or(known.block),
                    byte: wish.byte.or(known.byte),
                });
            }
            Tuning::Quota(kind, wanted) => {
                if let Some(file) = self.quota_files.get_mut(*kind as usize) {
                    *file = Some(*wanted);
                }
            }
            Tuning::Encoding(..) if self.before.has(Feature::CASEFOLD) => {
                return refused("Cannot alter existing encoding");
            }
            Tuning::Encoding(encoding, flags) => {
                self.encoding = Some((*encoding, *flags));
                self.features.set(Feature::CASEFOLD);
            }
            Tuning::OrphanFileSize(bytes) => {
                self.orphan_bytes = Some(*bytes);
                self.features.set(Feature::ORPHAN_FILE);
            }
            Tuning::ClearMountBlock => self.clears_mount_block = true,
            Tuning::InodeSize(size) => self.inode_size = Some(inode_size(self.before, *size)?),
            _ => {}
        }
        Ok(())
    }

    /// What features bring with them, and exclude.
    fn join(&mut self) -> Result<(), Error> {
        let before = self.before;
        let sums = [before.features, self.features].map(|of| of.has(Feature::METADATA_CSUM));
        match sums {
            [_, true] => self.features.clear(Feature::UNINIT_BG),
            [true, false] => {
                self.features.clear(Feature::CSUM_SEED);
                if self.uninit != Some(Wanted::Cleared) {
                    self.features.set(Feature::UNINIT_BG);
                }
            }
            [false, false] => {}
        }
        self.join_quota();
        let has = |feature| self.features.has(feature);
        if has(Feature::CSUM_SEED) && !has(Feature::METADATA_CSUM) {
            return refused(
                "Setting feature 'metadata_csum_seed' is only supported on filesystems with the \
                 metadata_csum feature enabled.",
            );
        }
        if has(Feature::SIXTY_FOUR_BIT) != before.has(Feature::SIXTY_FOUR_BIT) {
            return refused(
                "64bit: descriptors of another width are made by resize2fs -b, and resize2fs -s \
                 takes them away (extant --as resize2fs)",
            );
        }
        if has(Feature::PROJECT) && !before.has(Feature::PROJECT) && before.inode_size <= 128 {
            return refused("Cannot enable project feature; inode size too small.");
        }
        let is_new = |feature| has(feature) && !before.has(feature);
        if !has(Feature::HAS_JOURNAL) {
            if is_new(Feature::ORPHAN_FILE) {
                return refused(
                    "orphan_file feature can be set only for filesystems with journal.",
                );
            }
            // Without a journal nothing may have one.
            self.features.clear(Feature::ORPHAN_FILE);
        }
        let changes_uuid = self
            .fields
            .iter()
            .any(|field| matches!(field, Field::Uuid(uuid) if *uuid != before.uuid));
        if changes_uuid && before.has(Feature::STABLE_INODES) {
            return refused(
                "Cannot change the UUID of this filesystem because it has the stable_inodes \
                 feature flag.",
            );
        }
        Ok(())
    }

    /// Files of quotas and the features of them.
    fn join_quota(&mut self) {
        let numbers = self.before.quota_inodes();
        for (file, number) in self.quota_files.iter_mut().zip(numbers) {
            let is_there = number.0 != 0 && self.before.has(Feature::QUOTA);
            if (*file == Some(Wanted::Set)) == is_there && file.is_some() {
                *file = None;
            }
        }
        let remains = |at: usize| {
            let is_there = numbers.get(at).is_some_and(|number| number.0 != 0);
            match self.quota_files.get(at).copied().flatten() {
                Some(wanted) => wanted == Wanted::Set,
                None => is_there && self.before.has(Feature::QUOTA),
            }
        };
        let (any, projects) = ((0..3).any(remains), remains(2));
        match any {
            true => self.features.set(Feature::QUOTA),
            false => self.features.clear(Feature::QUOTA),
        }
        match projects {
            true => self.features.set(Feature::PROJECT),
            false if self.quota_files.get(2) == Some(&Some(Wanted::Cleared)) => {
                self.features.clear(Feature::PROJECT);
            }
            false => {}
        }
    }
}

/// The size that inodes of a volume get.
fn inode_size(before: &Superblock, size: u16) -> Result<u16, Error> {
    let has = before.inode_size;
    if size == has {
        return refused(format!("The inode size is already {size}"));
    }
    if size < has {
        return refused("Shrinking inode size is not supported");
    }
    if u32::from(size) > before.block_size() {
        return refused(format!("Invalid inode size {size} (max {})", before.block_size()));
    }
    Ok(size)
}

impl Plan {
    /// What follows.
    ///
    /// # Errors
    /// [`Error::Refused`], with why.
    pub(super) fn of(before: &Superblock, asked: &[Tuning], drawn: &Drawn) -> Result<Plan, Error> {
        let mut reading = Reading {
            before,
            features: before.features,
            fields: Vec::new(),
            encoding: None,
            journal: None,
            orphan_bytes: None,
            quota_files: [None; 3],
            clears_mount_block: false,
            inode_size: None,
            uninit: None,
        };
        for tuning in asked {
            reading.one(tuning)?;
            reading.fields.extend(fields::field(before, tuning, drawn)?);
        }
        reading.join()?;
        let mut plan = reading.finish(drawn);
        plan.rewrites_sums = plan.must_rewrite_sums(before);
        plan.needs_check |= plan.rewrites_sums || plan.removes() || plan.adds();
        if plan.inode_size.is_some() && (plan.needs_check || plan.clears_mount_block) {
            return refused(
                "-I: inodes of another size are made with changes of the superblock alone: what \
                 else is asked for needs a line of its own",
            );
        }
        plan.needs_check |= plan.inode_size.is_some();
        Ok(plan)
    }

    /// Whether more than the superblock is looked at.
    pub(super) fn needs_check(&self) -> bool {
        self.needs_check
    }

    /// Whether anything of the superblock is written.
    pub(super) fn changes_fields(&self) -> bool {
        !self.fields.is_empty() || self.features != self.before || self.encoding.is_some()
    }

    /// Whether anything goes.
    pub(super) fn removes(&self) -> bool {
        self.removes_journal
            || self.removes_orphan_file
            || self.quota_files.contains(&Some(Wanted::Cleared))
            || self.is_cleared(Feature::MMP)
            || self.is_cleared(Feature::RESIZE_INODE)
    }

    /// Whether anything comes.
    pub(super) fn adds(&self) -> bool {
        self.journal.is_some()
            || self.orphan_file.is_some()
            || self.quota_files.contains(&Some(Wanted::Set))
            || self.is_set(Feature::MMP)
    }

    /// Whether a feature is new.
    pub(super) fn is_set(&self, feature: Feature) -> bool {
        self.features.has(feature) && !self.before.has(feature)
    }

    /// Whether a feature goes.
    pub(super) fn is_cleared(&self, feature: Feature) -> bool {
        !self.features.has(feature) && self.before.has(feature)
    }

    /// Features that come with something that is made later, or went with it before.
    const LATER: [Feature; 4] =
        [Feature::HAS_JOURNAL, Feature::ORPHAN_FILE, Feature::QUOTA, Feature::MMP];

    /// Sets what is of the superblock alone.
    pub(super) fn apply_fields(&self, superblock: &mut Superblock) {
        if self.features != self.before && superblock.revision == 0 {
            superblock.revision = 1;
        }
        for field in &self.fields {
            fields::apply(superblock, field);
        }
        let is_later = |feature: &Feature| Plan::LATER.contains(feature);
        for feature in self.features.iter().filter(|it| self.is_set(*it) && !is_later(it)) {
            superblock.features.set(feature);
        }
        for feature in self.before.iter().filter(|it| self.is_cleared(*it) && !is_later(it)) {
            superblock.features.clear(feature);
        }
        // Of users and groups alone there is no project: it comes with its file.
        if self.is_set(Feature::PROJECT) && self.quota_files.get(2) == Some(&Some(Wanted::Set)) {
            superblock.features.clear(Feature::PROJECT);
        }
        if let Some(encoding) = self.encoding {
            superblock.set_encoding(encoding);
        }
        if let Some(seed) = self.hash_seed {
            superblock.hash_seed = seed;
        }
        if self.is_set(Feature::ENCRYPT) {
            superblock.set_encryption_algorithms();
        }
        superblock.reseed();
    }

    /// Whether checksums of more than the superblock change.
    fn must_rewrite_sums(&self, before: &Superblock) -> bool {
        let mut after = before.clone();
        self.apply_fields(&mut after);
        let is_reseeded = after.checksum_seed != before.checksum_seed;
        [Feature::METADATA_CSUM, Feature::UNINIT_BG]
            .iter()
            .any(|feature| after.has(*feature) != before.has(*feature))
            || is_reseeded && (after.has(Feature::METADATA_CSUM) || before.has(Feature::EA_INODE))
            || after.uuid != before.uuid && after.has(Feature::UNINIT_BG)
    }
}

impl Reading<'_> {
    fn finish(self, drawn: &Drawn) -> Plan {
        let before = self.before;
        let is_new = |feature| self.features.has(feature) && !before.has(feature);
        let is_gone = |feature| !self.features.has(feature) && before.has(feature);
        let encoding = match (is_new(Feature::CASEFOLD), is_gone(Feature::CASEFOLD)) {
            (true, _) => Some(self.encoding.unwrap_or((ENCODING_UTF8, 0))),
            (_, true) => Some((0, 0)),
            _ => None,
        };
        let wants_seed = is_new(Feature::DIR_INDEX) && before.hash_seed == [0; 4];
        let (words, _) = drawn.random.as_chunks::<4>();
        let hash_seed = wants_seed.then(|| {
            let mut seed = [0; 4];
            for (to, from) in seed.iter_mut().zip(words) {
                *to = u32::from_le_bytes(*from);
            }
            seed
        });
        let makes_journal = is_new(Feature::HAS_JOURNAL) || self.journal.is_some();
        let removes_journal = before.has(Feature::HAS_JOURNAL)
            && (is_gone(Feature::HAS_JOURNAL) || self.journal.is_some());
        let resizes = self.orphan_bytes.is_some() && before.has(Feature::ORPHAN_FILE);
        let orphan_file = (is_new(Feature::ORPHAN_FILE) || resizes)
            .then(|| self.orphan_bytes.unwrap_or_default());
        let is_more = |one: &Features, other: &Features, bits: &Features| {
            one.iter().any(|feature| !other.has(feature) && !bits.has(feature))
        };
        let needs_check = is_more(&self.features, &before.features, &BITS_WHEN_SET)
            || is_more(&before.features, &self.features, &BITS_WHEN_CLEARED);
        Plan {
            removes_orphan_file: is_gone(Feature::ORPHAN_FILE) || resizes,
            journal: makes_journal.then(|| self.journal.unwrap_or_default()),
            before: before.features,
            features: self.features,
            fields: self.fields,
            encoding,
            hash_seed,
            removes_journal,
            orphan_file,
            quota_files: self.quota_files,
            clears_mount_block: self.clears_mount_block,
            inode_size: self.inode_size,
            rewrites_sums: false,
            needs_check,
        }
    }
}
