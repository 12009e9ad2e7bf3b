//! Features: the bits that say what a volume uses, and their names as mke2fs spells them.

/// A set of feature bits of each class. [`Feature`] names the single ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// May be ignored by those who do not know them.
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
    pub const HAS_JOURNAL: Feature = Feature::Compat(0x4);
    pub const EXT_ATTR: Feature = Feature::Compat(0x8);
    pub const RESIZE_INODE: Feature = Feature::Compat(0x10);
    pub const DIR_INDEX: Feature = Feature::Compat(0x20);
    pub const ORPHAN_FILE: Feature = Feature::Compat(0x1000);
    pub const FILETYPE: Feature = Feature::Incompat(0x2);
    pub const NEEDS_RECOVERY: Feature = Feature::Incompat(0x4);
    pub const EXTENTS: Feature = Feature::Incompat(0x40);
    pub const SIXTY_FOUR_BIT: Feature = Feature::Incompat(0x80);
    pub const FLEX_BG: Feature = Feature::Incompat(0x200);
    pub const CSUM_SEED: Feature = Feature::Incompat(0x2000);
    pub const SPARSE_SUPER: Feature = Feature::RoCompat(0x1);
    pub const LARGE_FILE: Feature = Feature::RoCompat(0x2);
    pub const HUGE_FILE: Feature = Feature::RoCompat(0x8);
    pub const UNINIT_BG: Feature = Feature::RoCompat(0x10);
    pub const DIR_NLINK: Feature = Feature::RoCompat(0x20);
    pub const EXTRA_ISIZE: Feature = Feature::RoCompat(0x40);
    pub const METADATA_CSUM: Feature = Feature::RoCompat(0x400);
    pub const ORPHAN_PRESENT: Feature = Feature::RoCompat(0x10000);

    /// Not supported; known because sizes in the superblock depend on it.
    pub(crate) const BIGALLOC: Feature = Feature::RoCompat(0x200);
}

use Feature::{Compat, Incompat, RoCompat};

/// What is read and written: the public constants.
const SUPPORTED: Features = Features { compat: 0x103d, incompat: 0x22c6, ro_compat: 0x1047b };

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

    /// Whether this project reads and writes volumes that have it.
    pub fn is_supported(self) -> bool {
        SUPPORTED.has(self)
    }
}

impl Features {
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

    /// Those that this project does not read and write: everything but the constants of
    /// [`Feature`].
    pub fn unsupported(&self) -> Vec<String> {
        self.iter().filter(|feature| !feature.is_supported()).map(Feature::name).collect()
    }
}
