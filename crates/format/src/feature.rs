//! Features: the bits that say what a volume uses, and their names as mke2fs spells them.

/// A set of feature bits of each class. [`Feature`] names the single ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// May be ignored by systems that do not know them.
    pub compat: u32,
    /// Must be known to read.
    pub incompat: u32,
    /// Must be known to write.
    pub ro_compat: u32,
}

/// One feature: the class it belongs to and its bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// A bit of `compat`.
    Compat(u32),
    /// A bit of `incompat`.
    Incompat(u32),
    /// A bit of `ro_compat`.
    RoCompat(u32),
}

#[allow(missing_docs)] // each constant is the feature of that mke2fs name
impl Feature {
    pub const DIR_PREALLOC: Feature = Feature::Compat(0x1);
    pub const IMAGIC_INODES: Feature = Feature::Compat(0x2);
    pub const HAS_JOURNAL: Feature = Feature::Compat(0x4);
    pub const EXT_ATTR: Feature = Feature::Compat(0x8);
    pub const RESIZE_INODE: Feature = Feature::Compat(0x10);
    pub const DIR_INDEX: Feature = Feature::Compat(0x20);
    pub const SPARSE_SUPER2: Feature = Feature::Compat(0x200);
    pub const FAST_COMMIT: Feature = Feature::Compat(0x400);
    pub const STABLE_INODES: Feature = Feature::Compat(0x800);
    pub const ORPHAN_FILE: Feature = Feature::Compat(0x1000);
    pub const FILETYPE: Feature = Feature::Incompat(0x2);
    pub const NEEDS_RECOVERY: Feature = Feature::Incompat(0x4);
    pub const JOURNAL_DEV: Feature = Feature::Incompat(0x8);
    pub const META_BG: Feature = Feature::Incompat(0x10);
    pub const EXTENTS: Feature = Feature::Incompat(0x40);
    pub const SIXTY_FOUR_BIT: Feature = Feature::Incompat(0x80);
    pub const MMP: Feature = Feature::Incompat(0x100);
    pub const FLEX_BG: Feature = Feature::Incompat(0x200);
    pub const EA_INODE: Feature = Feature::Incompat(0x400);
    pub const CSUM_SEED: Feature = Feature::Incompat(0x2000);
    pub const LARGE_DIR: Feature = Feature::Incompat(0x4000);
    pub const INLINE_DATA: Feature = Feature::Incompat(0x8000);
    pub const ENCRYPT: Feature = Feature::Incompat(0x1_0000);
    pub const CASEFOLD: Feature = Feature::Incompat(0x2_0000);
    pub const SPARSE_SUPER: Feature = Feature::RoCompat(0x1);
    pub const LARGE_FILE: Feature = Feature::RoCompat(0x2);
    pub const HUGE_FILE: Feature = Feature::RoCompat(0x8);
    pub const UNINIT_BG: Feature = Feature::RoCompat(0x10);
    pub const DIR_NLINK: Feature = Feature::RoCompat(0x20);
    pub const EXTRA_ISIZE: Feature = Feature::RoCompat(0x40);
    pub const QUOTA: Feature = Feature::RoCompat(0x100);
    pub const BIGALLOC: Feature = Feature::RoCompat(0x200);
    pub const METADATA_CSUM: Feature = Feature::RoCompat(0x400);
    pub const READ_ONLY: Feature = Feature::RoCompat(0x1000);
    pub const PROJECT: Feature = Feature::RoCompat(0x2000);
    pub const SHARED_BLOCKS: Feature = Feature::RoCompat(0x4000);
    pub const VERITY: Feature = Feature::RoCompat(0x8000);
    pub const ORPHAN_PRESENT: Feature = Feature::RoCompat(0x1_0000);
}

use Feature::{Compat, Incompat, RoCompat};

/// What is written, and read.
const WRITTEN: Features = Features::of(&[
    Feature::DIR_PREALLOC,
    Feature::HAS_JOURNAL,
    Feature::EXT_ATTR,
    Feature::RESIZE_INODE,
    Feature::DIR_INDEX,
    Feature::SPARSE_SUPER2,
    Feature::FAST_COMMIT,
    Feature::STABLE_INODES,
    Feature::ORPHAN_FILE,
    Feature::FILETYPE,
    Feature::NEEDS_RECOVERY,
    Feature::META_BG,
    Feature::EXTENTS,
    Feature::SIXTY_FOUR_BIT,
    Feature::MMP,
    Feature::FLEX_BG,
    Feature::EA_INODE,
    Feature::CSUM_SEED,
    Feature::LARGE_DIR,
    Feature::ENCRYPT,
    Feature::INLINE_DATA,
    Feature::SPARSE_SUPER,
    Feature::LARGE_FILE,
    Feature::HUGE_FILE,
    Feature::UNINIT_BG,
    Feature::DIR_NLINK,
    Feature::EXTRA_ISIZE,
    Feature::QUOTA,
    Feature::BIGALLOC,
    Feature::METADATA_CSUM,
    Feature::PROJECT,
    Feature::VERITY,
    Feature::ORPHAN_PRESENT,
]);

/// What is read besides. Of the other classes all is: a reader may ignore them.
const READ: Features = Features::of(&[Feature::CASEFOLD]);

/// What `extant check` judges besides: every other feature that e2fsprogs 1.47 checks.
const JUDGED: Features = Features::of(&[
    Feature::IMAGIC_INODES,
    Feature::JOURNAL_DEV,
    Feature::CASEFOLD,
    Feature::READ_ONLY,
    Feature::SHARED_BLOCKS,
]);

/// What is made besides, though not written: `journal_dev` by itself, and it is no volume.
const MADE: Features = Features::of(&[Feature::CASEFOLD, Feature::JOURNAL_DEV]);

/// Every feature that has a name, with the name that is printed first where there are two.
const NAMES: &[(Feature, &str)] = &[
    (Compat(0x1), "dir_prealloc"),
    (Compat(0x2), "imagic_inodes"),
    (Compat(0x4), "has_journal"),
    (Compat(0x8), "ext_attr"),
    (Compat(0x10), "resize_inode"),
    (Compat(0x20), "dir_index"),
    (Compat(0x40), "lazy_bg"),
    (Compat(0x100), "snapshot_bitmap"),
    (Compat(0x200), "sparse_super2"),
    (Compat(0x400), "fast_commit"),
    (Compat(0x800), "stable_inodes"),
    (Compat(0x1000), "orphan_file"),
    (Incompat(0x1), "compression"),
    (Incompat(0x2), "filetype"),
    (Incompat(0x4), "needs_recovery"),
    (Incompat(0x8), "journal_dev"),
    (Incompat(0x10), "meta_bg"),
    (Incompat(0x40), "extent"),
    (Incompat(0x40), "extents"),
    (Incompat(0x80), "64bit"),
    (Incompat(0x100), "mmp"),
    (Incompat(0x200), "flex_bg"),
    (Incompat(0x400), "ea_inode"),
    (Incompat(0x1000), "dirdata"),
    (Incompat(0x2000), "metadata_csum_seed"),
    (Incompat(0x4000), "large_dir"),
    (Incompat(0x8000), "inline_data"),
    (Incompat(0x10000), "encrypt"),
    (Incompat(0x20000), "casefold"),
    (RoCompat(0x1), "sparse_super"),
    (RoCompat(0x2), "large_file"),
    (RoCompat(0x8), "huge_file"),
    (RoCompat(0x10), "uninit_bg"),
    (RoCompat(0x10), "uninit_groups"),
    (RoCompat(0x10), "gdt_csum"),
    (RoCompat(0x20), "dir_nlink"),
    (RoCompat(0x40), "extra_isize"),
    (RoCompat(0x80), "snapshot"),
    (RoCompat(0x100), "quota"),
    (RoCompat(0x200), "bigalloc"),
    (RoCompat(0x400), "metadata_csum"),
    (RoCompat(0x800), "replica"),
    (RoCompat(0x1000), "read-only"),
    (RoCompat(0x2000), "project"),
    (RoCompat(0x4000), "shared_blocks"),
    (RoCompat(0x8000), "verity"),
    (RoCompat(0x10000), "orphan_present"),
];

impl Feature {
    /// The mke2fs spelling ("metadata_csum"), or "FEATURE_C12"-like as e2fsprogs prints unknown
    /// bits.
    pub fn name(self) -> String {
        if let Some((_, name)) = NAMES.iter().find(|(feature, _)| *feature == self) {
            return (*name).to_owned();
        }
        let (class, bit) = match self {
            Compat(bit) => ('C', bit),
            Incompat(bit) => ('I', bit),
            RoCompat(bit) => ('R', bit),
        };
        format!("FEATURE_{class}{}", bit.trailing_zeros())
    }

    /// The feature of that mke2fs name (also `uninit_bg` and `gdt_csum`, `extent` and `extents`,
    /// `metadata_csum_seed`), or of a bit as `name` prints it. Names of features that are not
    /// supported are known too.
    pub fn from_name(name: &str) -> Option<Feature> {
        if let Some((feature, _)) = NAMES.iter().find(|(_, known)| *known == name) {
            return Some(*feature);
        }
        let rest = name.strip_prefix("FEATURE_")?;
        let mut characters = rest.chars();
        let class = characters.next()?;
        let bit = 1u32.checked_shl(characters.as_str().parse().ok()?)?;
        match class {
            'C' => Some(Compat(bit)),
            'I' => Some(Incompat(bit)),
            'R' => Some(RoCompat(bit)),
            _ => None,
        }
    }

    /// Whether this project reads volumes that have it.
    pub fn is_read(self) -> bool {
        match self {
            Incompat(_) => WRITTEN.has(self) || READ.has(self),
            Compat(_) | RoCompat(_) => true,
        }
    }

    /// Whether this project writes volumes that have it. What is unknown may be ignored if it is of
    /// `compat`.
    pub fn is_written(self) -> bool {
        let is_unknown = || !NAMES.iter().any(|(feature, _)| *feature == self);
        WRITTEN.has(self) || (matches!(self, Compat(_)) && is_unknown())
    }

    /// Whether this project makes volumes that have it: those that it writes and some more,
    /// but not those that mark a volume in use.
    pub fn is_made(self) -> bool {
        let only_found = [Feature::NEEDS_RECOVERY, Feature::ORPHAN_PRESENT].contains(&self);
        (WRITTEN.has(self) || MADE.has(self)) && !only_found
    }

    /// Whether a volume that has it can be judged: those that are written and some more.
    pub fn is_judged(self) -> bool {
        WRITTEN.has(self) || JUDGED.has(self)
    }
}

impl Features {
    /// The set of these.
    pub const fn of(mut features: &[Feature]) -> Features {
        let mut set = Features { compat: 0, incompat: 0, ro_compat: 0 };
        while let Some((feature, rest)) = features.split_first() {
            match *feature {
                Compat(bit) => set.compat |= bit,
                Incompat(bit) => set.incompat |= bit,
                RoCompat(bit) => set.ro_compat |= bit,
            }
            features = rest;
        }
        set
    }

    /// Whether the set holds this feature.
    pub fn has(&self, feature: Feature) -> bool {
        match feature {
            Compat(bit) => self.compat & bit != 0,
            Incompat(bit) => self.incompat & bit != 0,
            RoCompat(bit) => self.ro_compat & bit != 0,
        }
    }

    /// Adds a feature.
    pub fn set(&mut self, feature: Feature) {
        match feature {
            Compat(bit) => self.compat |= bit,
            Incompat(bit) => self.incompat |= bit,
            RoCompat(bit) => self.ro_compat |= bit,
        }
    }

    /// Takes a feature away.
    pub fn clear(&mut self, feature: Feature) {
        match feature {
            Compat(bit) => self.compat &= !bit,
            Incompat(bit) => self.incompat &= !bit,
            RoCompat(bit) => self.ro_compat &= !bit,
        }
    }

    /// The features in the order in which dumpe2fs prints them (compat, incompat, ro_compat; bits
    /// rising).
    pub fn iter(&self) -> impl Iterator<Item = Feature> {
        let bits =
            |word: u32| (0..32).map(|shift| 1u32 << shift).filter(move |bit| word & bit != 0);
        let incompat = bits(self.incompat).map(Incompat);
        bits(self.compat).map(Compat).chain(incompat).chain(bits(self.ro_compat).map(RoCompat))
    }

    /// Names of those that this project does not read.
    pub fn unread(&self) -> Vec<String> {
        self.iter().filter(|feature| !feature.is_read()).map(Feature::name).collect()
    }

    /// Names of those that this project does not write.
    pub fn unwritten(&self) -> Vec<String> {
        self.iter().filter(|feature| !feature.is_written()).map(Feature::name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_the_bits_that_the_format_has() {
        let written = Features { compat: 0x1e3d, incompat: 0x1_e7d6, ro_compat: 0x1_a77b };
        let judged = Features { compat: 0x1e3f, incompat: 0x3_e7de, ro_compat: 0x1_f77b };
        let read = Features { compat: 0, incompat: 0x2_0000, ro_compat: 0 };
        assert_eq!((WRITTEN, READ), (written, read));
        assert!(Feature::Compat(1 << 31).is_written() && !Feature::RoCompat(1 << 31).is_written());
        assert!(Feature::RoCompat(1 << 31).is_read() && !Feature::Incompat(1 << 31).is_read());
        for feature in judged.iter() {
            assert!(feature.is_judged(), "{}", feature.name());
        }
        assert!(JUDGED.iter().all(|feature| judged.has(feature) && !written.has(feature)));
    }
}
