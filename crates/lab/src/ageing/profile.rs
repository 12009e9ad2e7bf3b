//! What a volume is used for: populations of files and of trees, how large they are, how long they
//! live, what is done to them a day.
use super::distribution::Distribution;
use extant_engine::mkfs::Profile as VolumeKind;

/// A profile, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The file, as errors name it.
    pub file: String,
    /// What it is called.
    pub name: String,
    /// One line about it.
    pub line: String,
    /// Size of the volume that rates and counts are meant for; on another, they grow or shrink with
    /// it.
    pub bytes: u64,
    /// How the volume is made.
    pub volume: VolumeWishes,
    /// How full it is.
    pub utilisation: Utilisation,
    /// Files that are written at the same time, piece by piece in turns.
    pub writers: u32,
    /// Such a piece, in bytes.
    pub chunk_bytes: u64,
    /// How often a day everything is written to the drive.
    pub sessions_per_day: u32,
    /// Simulated months of 30 days, unless the command says otherwise.
    pub months: u32,
    /// Simulated days from one sample to the next.
    pub sample_days: u32,
    /// What lives on it; shares add up to 1.
    pub populations: Vec<Population>,
}

/// How a volume is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeWishes {
    /// ext2, ext3 or ext4, with mke2fs's features.
    pub kind: VolumeKind,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes for which there is an inode; mke2fs's when `None`.
    pub bytes_per_inode: Option<u32>,
}

/// How full a volume is over time, as shares of its blocks in millionths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Utilisation {
    /// After it was filled, before the first day.
    pub start_ppm: u32,
    /// In the end.
    pub target_ppm: u32,
    /// Days from one to the other, evenly; it stays there.
    pub after_days: u32,
}

impl Utilisation {
    /// The share that is meant to be used at a time, in thousandths of days.
    pub fn goal_ppm(&self, millidays: u64) -> u32 {
        let span = u64::from(self.after_days) * 1000;
        if millidays >= span {
            return self.target_ppm;
        }
        let (start, target) = (i64::from(self.start_ppm), i64::from(self.target_ppm));
        // Both within 32 bits and millidays below span: nothing overflows, and the result lies
        // between the two.
        (start + (target - start) * millidays as i64 / span as i64) as u32
    }
}

/// Files of one kind, or trees of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Population {
    /// What it is called.
    pub name: String,
    /// The directory in which it lives; "/" is the root.
    pub at: String,
    /// Its share of what files take, in millionths.
    pub share_ppm: u32,
    /// Bytes of a new file.
    pub size: Distribution,
    /// Thousandths of days from making to deletion; `None`: until room is needed.
    pub lifetime: Option<Distribution>,
    /// Least and most directories between `at` (or the top of a tree) and a file.
    pub depth: (u32, u32),
    /// How files are named: `%d` becomes a number that no other file of the population has.
    pub file_names: String,
    /// What is made and deleted as one.
    pub unit: Unit,
    /// What is done a day.
    pub rates: Rates,
    /// Bytes of an append.
    pub append: Distribution,
    /// Bytes of an overwrite, somewhere in a file.
    pub overwrite: Distribution,
    /// What a truncation leaves, in thousandths of the size: least and most.
    pub truncate_permille: (u32, u32),
}

/// What is made and deleted as one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A file, in one of N directories that are there from the beginning, and that become
    /// more by this many a day.
    File {
        /// Directories on a volume of the profile's size.
        directories: u64,
        /// More of them a day, in thousandths.
        new_directories: u64,
    },
    /// A tree of files below a new directory.
    Tree {
        /// How many files.
        files: Distribution,
        /// How many of them to a directory.
        files_per_directory: u64,
        /// How the top directory is named: `%d` becomes a number.
        names: String,
    },
}

/// What is done a day on a volume of the profile's size, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rates {
    /// Units made.
    pub create: u64,
    /// Units deleted, any of them, besides those whose time has come and those that have to make
    /// room.
    pub delete: u64,
    /// Files that are appended to.
    pub append: u64,
    /// Files that are cut.
    pub truncate: u64,
    /// Files of which a part is overwritten.
    pub overwrite: u64,
    /// Files that get another name, in another directory where there are several.
    pub rename: u64,
    /// Files that are written anew beside the old one, which the new one then replaces by a rename.
    pub replace: u64,
}

/// A profile that is built in.
pub struct Builtin {
    /// What `extant lab age` calls it.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

macro_rules! builtin {
    ($name:literal) => {
        Builtin { name: $name, text: include_str!(concat!("../../profiles/", $name, ".toml")) }
    };
}

/// All of them.
pub static PROFILES: &[Builtin] = &[
    builtin!("mail"),
    builtin!("git"),
    builtin!("packages"),
    builtin!("containers"),
    builtin!("new-directories"),
    builtin!("file-server"),
];

/// The built-in profile of that name.
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    PROFILES.iter().find(|builtin| builtin.name == name)
}
