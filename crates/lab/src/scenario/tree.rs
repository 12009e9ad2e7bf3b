//! Trees: which directories and files a step makes, in which order, and how large they are.
//!
//! A [`TreeSpec`] is a rule or a listing; [`TreeSpec::build`] makes the [`Tree`] of a seed: some
//! twenty bytes a file, so that millions of files fit in memory. Names are computed when they are
//! wanted.
//!
//! *Invariants*: directory 0 is the place where the tree is put, and has no name. A directory's
//! parent has a smaller number, and comes before it in `order`, as every file's directory does
//! before the file. The totals that a rule demands are met exactly.
//! *Locking*: none; a tree does not change.
mod listing;
mod names;
mod sizes;

pub use listing::{ListingError, read as read_listing};

use extant_sim::random::Random;
use names::Names;
use sizes::Blocks;
use std::sync::Arc;

/// No tree has more directories and files.
pub const ENTRIES_MAX: u64 = 50_000_000;

/// How a tree is made.
#[derive(Clone, Debug)]
pub enum TreeSpec {
    /// Like a source tree: nested directories of uneven size, log-normal file sizes.
    Source(SourceRule),
    /// Directories side by side, files alike.
    Flat(FlatRule),
    /// What a listing or an archive holds.
    Listing(Arc<Tree>),
}

/// A tree like that of a kernel's sources.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceRule {
    /// How many files.
    pub files: u64,
    /// How many directories below the top one.
    pub directories: u64,
    /// How many of the files are empty, evenly among the others.
    pub empty: u64,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Blocks that the files, their indirect blocks and the directories take together: the last
    /// files are made longer or shorter until this is so.
    pub blocks: Option<BlockTotal>,
}

/// A number of blocks of a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockTotal {
    /// How many.
    pub blocks: u64,
    /// Bytes of one.
    pub block_size: u32,
}

/// Directories side by side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlatRule {
    /// How many files in all.
    pub files: u64,
    /// How many directories; 0 puts the files at the top.
    pub directories: u64,
    /// The least and the most bytes of a file; uniform between.
    pub bytes: (u64, u64),
    /// Names of directories: each `%d` is replaced; see [`FlatRule::file_name`].
    pub directory_name: String,
    /// Names of files. One `%d` is the file's number; of several, each is one of its last decimal
    /// digits.
    pub file_name: String,
    /// In which order they are made.
    pub order: FlatOrder,
}

/// In which order the directories and files of a flat tree are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlatOrder {
    /// A directory, its files, the next directory.
    ByDirectory,
    /// All directories, then a file in each, then another in each.
    RoundRobin,
}

/// Directories and files, in the order in which they are made.
#[derive(Debug)]
pub struct Tree {
    directories: Vec<Directory>,
    files: Vec<File>,
    /// Number of a directory, or of a file with [`IS_FILE`].
    order: Vec<u32>,
    names: Names,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Directory {
    parent: u32,
    /// Which among those of its parent, or its place in the kept names.
    name: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct File {
    bytes: u64,
    directory: u32,
    /// Which among those of its directory or of all, or its place in the kept names.
    name: u32,
}

const IS_FILE: u32 = 1 << 31;

/// What comes next in a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The directory of that number.
    Directory(usize),
    /// The file of that number.
    File(usize),
}

/// How much a tree holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Files.
    pub files: u64,
    /// Directories below the top one.
    pub directories: u64,
    /// Bytes of files.
    pub bytes: u64,
}

fn scaled(count: u64, scale: u64) -> u64 {
    match count {
        0 => 0,
        count => (count / scale.max(1)).max(1),
    }
}

impl TreeSpec {
    /// How much the tree will hold when all counts are divided by `scale`. A listing is not scaled;
    /// of files whose size is drawn, the most.
    pub fn totals(&self, scale: u64) -> Totals {
        match self {
            TreeSpec::Source(rule) => Totals {
                files: scaled(rule.files, scale),
                directories: scaled(rule.directories, scale),
                bytes: scaled(rule.bytes, scale),
            },
            TreeSpec::Flat(rule) => Totals {
                files: scaled(rule.files, scale),
                directories: scaled(rule.directories, scale),
                bytes: scaled(rule.files, scale).saturating_mul(rule.bytes.1),
            },
            TreeSpec::Listing(tree) => tree.totals(),
        }
    }

    /// The tree of this seed, with all counts divided by `scale`.
    ///
    /// # Errors
    /// One line: too many entries, or a total that cannot be met.
    pub fn build(&self, seed: u64, scale: u64) -> Result<Arc<Tree>, String> {
        let totals = self.totals(scale);
        if totals.files.saturating_add(totals.directories) > ENTRIES_MAX {
            return Err(format!("a tree has at most {ENTRIES_MAX} directories and files"));
        }
        match self {
            TreeSpec::Source(rule) => source(rule, &totals, seed, scale).map(Arc::new),
            TreeSpec::Flat(rule) => Ok(Arc::new(flat(rule, &totals, seed))),
            TreeSpec::Listing(tree) => Ok(Arc::clone(tree)),
        }
    }
}

impl Tree {
    /// Everything in the order in which it is made; the top directory is not among it.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.order.iter().map(|entry| match entry & IS_FILE {
            0 => Entry::Directory(*entry as usize),
            _ => Entry::File((entry & !IS_FILE) as usize),
        })
    }

    /// How much it holds.
    pub fn totals(&self) -> Totals {
        Totals {
            files: self.files.len() as u64,
            directories: self.directories.len() as u64 - 1,
            bytes: self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes)),
        }
    }

    /// Blocks of `block_size` that the files, their indirect blocks (as ext2 maps files) and the
    /// directories take, the top one included.
    pub fn blocks(&self, block_size: u32) -> u64 {
        Blocks::new(block_size).of_tree(self)
    }

    /// Bytes of a file.
    pub fn bytes(&self, file: usize) -> u64 {
        self.files[file].bytes
    }

    /// The path of a directory below `top`; `top` itself for directory 0.
    pub fn directory_path(&self, top: &str, directory: usize) -> String {
        let mut chain = Vec::new();
        let mut at = directory;
        while at != 0 {
            chain.push(at);
            at = self.directories[at].parent as usize;
        }
        let mut path = top.trim_end_matches('/').to_owned();
        for directory in chain.into_iter().rev() {
            path.push('/');
            self.names.directory(directory, self.directories[directory].name, &mut path);
        }
        if path.is_empty() { "/".to_owned() } else { path }
    }

    /// The name of a directory in the one above; of directory 0, nothing.
    pub fn directory_name(&self, directory: usize) -> String {
        let mut name = String::new();
        if directory > 0 {
            self.names.directory(directory, self.directories[directory].name, &mut name);
        }
        name
    }

    /// The directory that a directory is in; of directory 0, itself.
    pub fn parent_of(&self, directory: usize) -> usize {
        self.directories[directory].parent as usize
    }

    /// The directory that a file is in.
    pub fn directory_of(&self, file: usize) -> usize {
        self.files[file].directory as usize
    }

    /// The name of a file in its directory.
    pub fn file_name(&self, file: usize) -> String {
        let mut name = String::new();
        self.names.file(file, self.files[file].name, &mut name);
        name
    }

    fn empty(names: Names) -> Tree {
        Tree {
            directories: vec![Directory { parent: 0, name: 0 }],
            files: Vec::new(),
            order: Vec::new(),
            names,
        }
    }

    fn add_directory(&mut self, parent: u32, name: u32) -> u32 {
        let number = self.directories.len() as u32;
        self.directories.push(Directory { parent, name });
        self.order.push(number);
        number
    }

    fn add_file(&mut self, directory: u32, name: u32, bytes: u64) {
        let number = self.files.len() as u32;
        self.files.push(File { bytes, directory, name });
        self.order.push(number | IS_FILE);
    }
}

fn flat(rule: &FlatRule, totals: &Totals, seed: u64) -> Tree {
    let mut random = Random::for_part(seed, "flat tree");
    let mut tree = Tree::empty(Names::Patterns {
        directory: rule.directory_name.clone(),
        file: rule.file_name.clone(),
    });
    let mut draw = || random.within(rule.bytes.0..rule.bytes.1.saturating_add(1));
    let directories = totals.directories;
    let parent = |directory: u64| if directories == 0 { 0 } else { directory as u32 + 1 };
    if rule.order == FlatOrder::RoundRobin || directories == 0 {
        for directory in 0..directories {
            tree.add_directory(0, directory as u32);
        }
        for file in 0..totals.files {
            tree.add_file(parent(file % directories.max(1)), file as u32, draw());
        }
        return tree;
    }
    for directory in 0..directories {
        tree.add_directory(0, directory as u32);
        // Cumulative shares, so that the total is met and no directory has more than one file above
        // another.
        let share = |directory: u64| {
            (u128::from(totals.files) * u128::from(directory) / u128::from(directories)) as u64
        };
        for file in share(directory)..share(directory + 1) {
            tree.add_file(parent(directory), file as u32, draw());
        }
    }
    tree
}

fn source(rule: &SourceRule, totals: &Totals, seed: u64, scale: u64) -> Result<Tree, String> {
    let mut random = Random::for_part(seed, "source tree");
    let parents = nested(totals.directories, &mut random);
    let shares = sizes::shares(totals.files, totals.directories + 1, &mut random);
    let empty = scaled(rule.empty, scale).min(totals.files);
    let bytes = sizes::file_bytes(totals.files - empty, totals.bytes, &mut random);
    let mut tree = Tree::empty(Names::Words { seed });
    let mut bytes = sizes::with_empty(&bytes, empty).into_iter();
    for (directory, (parent, share)) in parents.into_iter().zip(shares).enumerate() {
        if directory > 0 {
            tree.add_directory(parent, directory as u32);
        }
        for name in 0..share {
            tree.add_file(directory as u32, name as u32, bytes.next().unwrap_or(0));
        }
    }
    if let Some(total) = rule.blocks {
        Blocks::new(total.block_size).meet(&mut tree, scaled(total.blocks, scale))?;
    }
    Ok(tree)
}

/// No directory lies deeper.
const DEPTH_MAX: u8 = 8;
/// Half of the directories are in one of the first N: trees are bushy at the top.
const TOP: u64 = 20;

/// The parents of N directories below directory 0, numbered from the top down, each before
/// its siblings' children.
fn nested(directories: u64, random: &mut Random) -> Vec<u32> {
    let mut parents: Vec<u32> = vec![0];
    let mut depths: Vec<u8> = vec![0];
    for number in 1..=directories {
        let among = if random.chance(1, 2) { number.min(TOP) } else { number };
        let mut parent = random.below(among) as usize;
        while depths[parent] >= DEPTH_MAX {
            parent = parents[parent] as usize;
        }
        parents.push(parent as u32);
        depths.push(depths[parent] + 1);
    }
    preorder(&parents)
}

/// Numbers a tree anew, so that a directory is followed by all that lies below it, as in an
/// archive.
fn preorder(parents: &[u32]) -> Vec<u32> {
    let count = parents.len();
    // Children as lists: the first child of each, and the next sibling of each, in rising order.
    let (mut first, mut next) = (vec![0u32; count], vec![0u32; count]);
    for child in (1..count).rev() {
        let parent = parents[child] as usize;
        next[child] = first[parent];
        first[parent] = child as u32;
    }
    let mut renumbered = vec![0u32];
    let mut number = vec![0u32; count];
    let mut stack = vec![first[0]];
    while let Some(top) = stack.pop() {
        if top == 0 {
            continue;
        }
        number[top as usize] = renumbered.len() as u32;
        renumbered.push(number[parents[top as usize] as usize]);
        stack.push(next[top as usize]);
        stack.push(first[top as usize]);
    }
    renumbered
}

#[cfg(test)]
mod tests;
