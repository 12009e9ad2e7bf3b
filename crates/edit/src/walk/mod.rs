//! The walk over a tree: for all that goes through one inside an image, and for what is copied from
//! the host.
//!
//! ```text
//! image   the tree in an image: inodes by number     host   a folder of the host: descriptors
//! ```
//! A walk goes from folder to folder. Each object is reached from the folder that it is in, never
//! by a path from the root, so each level costs the same however deep it is. Paths are made for
//! what is said to users.
//!
//! *Invariants*: no folder is entered while the walk is in it, and where a directory has one name,
//! none is entered twice: a walk ends whatever is on disk. What keeps it from going on somewhere is
//! an event, not its end.
mod host;
mod image;
#[cfg(test)]
mod tests;

pub(crate) use host::found as found_on_host;
pub use host::{HostTree, is_host_folder, open_host_parent};
pub use image::ImageTree;

use crate::error::{Error, Result};
use crate::tree::Links;
use extant_format::Ino;
use extant_format::inode::FileType;
use extant_tree::Facts;
use rustc_hash::FxHashSet;
use std::ffi::OsStr;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What is at a place of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// What it is like.
    pub facts: Facts,
    /// How many names it has.
    pub links: u64,
    /// What tells it from all others of its tree: device and inode number.
    pub identity: (u64, u64),
}

impl Deref for Found {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.facts
    }
}

/// A name in a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// The name's bytes, which a path can hold.
    pub bytes: Vec<u8>,
    /// The number of the inode that it leads to, where the tree is read by numbers.
    pub number: Option<Ino>,
    /// What is on disk instead, where no file may have it as its name.
    pub stored: Option<Vec<u8>>,
}

/// An object, by its name in the folder that a tree has open.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'a> {
    /// Its name there. Where a walk begins, what [`Tree::begin`] has left of the path.
    pub name: &'a [u8],
    /// The number of its inode, if the folder was read.
    pub number: Option<Ino>,
    /// How a user would write it, for what is said of it.
    pub path: &'a Path,
}

/// How many names the directories of a tree have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectoryNames {
    /// One each: another one is damage.
    One,
    /// Folders can be mounted in several places.
    Several,
}

/// Directories that were passed over since they had been entered already.
pub type Loops = Vec<Error>;

/// A tree with one folder open, from which all others are reached.
pub trait Tree {
    /// Opens the folder that a path is in, and returns what is left of the path.
    ///
    /// # Errors
    /// Those of the tree.
    fn begin(&self, path: &Path) -> Result<Vec<u8>>;
    /// What is at a place.
    ///
    /// # Errors
    /// Those of the tree; nothing is there.
    fn facts(&self, spot: Spot<'_>, links: Links) -> Result<Found>;
    /// Opens a directory in place of the folder that is open.
    ///
    /// # Errors
    /// Those of the tree; then the folder stays open.
    fn enter(&self, spot: Spot<'_>, links: Links) -> Result<()>;
    /// The names in the folder, sorted.
    ///
    /// # Errors
    /// Those of the tree, about the folder's path.
    fn names(&self, path: &Path) -> Result<Vec<Name>>;
    /// Opens the folder again that was open before the last [`Tree::enter`].
    ///
    /// # Errors
    /// Those of the tree, about the path of the folder that is left.
    fn leave(&self, path: &Path) -> Result<()>;
    /// An error about a path of it.
    fn error(&self, path: &Path, said: &str) -> Error;
    /// How many names its directories have.
    fn directory_names(&self) -> DirectoryNames;
}

/// What becomes of a name that no file may have. It is told in either case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Illegal {
    /// What it leads to is passed over.
    Skip,
    /// What it leads to is visited, under the name that it is written as.
    Save,
}

/// How a walk goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// Whether the path itself is what a symbolic link leads to.
    pub named: Links,
    /// The same for all below.
    pub below: Links,
    /// What becomes of names that no file may have.
    pub illegal: Illegal,
}

impl Manner {
    /// Symbolic links are themselves, but for the path, and what has an impossible name is left.
    pub fn plain(named: Links) -> Manner {
        Manner { named, below: Links::Stay, illegal: Illegal::Skip }
    }
}

/// What a visitor wants to see of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Below {
    /// What is in it.
    Enter,
    /// Nothing.
    Skip,
}

/// An object of a walk.
#[derive(Clone, Copy, Debug)]
pub struct Visited<'a> {
    /// Where it is: its folder is the one that the tree has open.
    pub spot: Spot<'a>,
    /// What it is.
    pub facts: &'a Found,
    /// How many directories were entered on the way.
    pub depth: usize,
    /// Whether a symbolic link there was followed.
    pub links: Links,
}

impl Visited<'_> {
    /// The number of its inode, in an image.
    pub fn number(&self) -> Ino {
        Ino(u32::try_from(self.facts.identity.1).unwrap_or(0))
    }
}

/// What a walk meets.
#[derive(Debug)]
pub enum Event<'a> {
    /// An object: a directory before what is in it.
    Found(Visited<'a>),
    /// A directory that was to be entered, after all that is in it.
    Left(Visited<'a>),
    /// Something that cannot be read, or is not walked. The walk goes on without it.
    Trouble(Error),
}

/// What a walk calls for each event. What it returns counts for directories that were found.
pub type Visit<'a> = dyn FnMut(Event<'_>) -> Result<Below> + 'a;

/// A directory that is walked.
struct Level {
    name: Name,
    facts: Found,
    links: Links,
    /// The names in it that are still to come.
    rest: std::vec::IntoIter<Name>,
    /// Bytes of its path.
    length: usize,
    /// The tree has it open, or one below it.
    is_open: bool,
}

struct Walk<'t, 'v, 'c> {
    tree: &'t dyn Tree,
    manner: Manner,
    visit: &'v mut Visit<'c>,
    /// The path of the object that is visited.
    path: Vec<u8>,
    levels: Vec<Level>,
    /// The directories that the walk is in.
    within: FxHashSet<(u64, u64)>,
    /// Those that it has been in, where each has one name.
    seen: FxHashSet<(u64, u64)>,
}

/// Calls `visit` for a path and all below it, names sorted by their bytes.
///
/// # Errors
/// Those of the tree about the path itself; those of `visit`, which end the walk.
pub fn walk(tree: &dyn Tree, path: &Path, manner: Manner, visit: &mut Visit<'_>) -> Result<()> {
    let start = Name { bytes: tree.begin(path)?, number: None, stored: None };
    let mut walk = Walk {
        tree,
        manner,
        visit,
        path: path.as_os_str().as_bytes().to_vec(),
        levels: Vec::new(),
        within: FxHashSet::default(),
        seen: FxHashSet::default(),
    };
    walk.object(start, manner.named)?;
    loop {
        let Some(level) = walk.levels.last_mut() else { return Ok(()) };
        let Some(name) = level.rest.next() else {
            walk.leave()?;
            continue;
        };
        let length = level.length;
        walk.path.truncate(length);
        if walk.path.last() != Some(&b'/') {
            walk.path.push(b'/');
        }
        walk.path.extend_from_slice(&name.bytes);
        if walk.is_passed_over(&name, length)? {
            continue;
        }
        walk.object(name, manner.below)?;
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

impl Walk<'_, '_, '_> {
    /// Tells a name that no file may have, in a directory whose path has this length.
    fn is_passed_over(&mut self, name: &Name, length: usize) -> Result<bool> {
        let Some(stored) = &name.stored else { return Ok(false) };
        let folder = as_path(self.path.get(..length).unwrap_or_default());
        let error = illegal_name(self.tree, folder, (stored, name), self.manner.illegal);
        (self.visit)(Event::Trouble(error))?;
        Ok(self.manner.illegal == Illegal::Skip)
    }

    /// Visits an object, and goes into it if it is a directory that is wanted.
    fn object(&mut self, name: Name, links: Links) -> Result<()> {
        let depth = self.levels.len();
        let spot = Spot { name: &name.bytes, number: name.number, path: as_path(&self.path) };
        let facts = match self.tree.facts(spot, links) {
            Ok(facts) => facts,
            Err(error) if depth == 0 => return Err(error),
            Err(error) => return (self.visit)(Event::Trouble(error)).map(drop),
        };
        if facts.file_type == FileType::Directory
            && let Some(said) = self.repeated(facts.identity)
        {
            let error = self.tree.error(spot.path, &said).of_loop();
            return (self.visit)(Event::Trouble(error)).map(drop);
        }
        let below = (self.visit)(Event::Found(Visited { spot, facts: &facts, depth, links }))?;
        if facts.file_type != FileType::Directory || below == Below::Skip {
            return Ok(());
        }
        let entered = self.tree.enter(spot, links);
        let is_open = entered.is_ok();
        let names = match entered.and_then(|()| self.tree.names(spot.path)) {
            Ok(names) => names,
            Err(error) => {
                (self.visit)(Event::Trouble(error))?;
                Vec::new()
            }
        };
        self.within.insert(facts.identity);
        if self.has_one_name() {
            self.seen.insert(facts.identity);
        }
        let (rest, length) = (names.into_iter(), self.path.len());
        self.levels.push(Level { name, facts, links, rest, length, is_open });
        Ok(())
    }

    fn has_one_name(&self) -> bool {
        self.manner.below == Links::Stay && self.tree.directory_names() == DirectoryNames::One
    }

    /// Why a directory is not entered again; `None` if it was not.
    fn repeated(&self, identity: (u64, u64)) -> Option<String> {
        if self.within.contains(&identity) {
            let number = identity.1;
            return Some(format!("is its own ancestor: directory inode {number} is a loop"));
        }
        let is_seen = self.has_one_name() && self.seen.contains(&identity);
        is_seen.then(|| format!("directory inode {} has another name already", identity.1))
    }

    /// All in the last directory was visited.
    fn leave(&mut self) -> Result<()> {
        let Some(level) = self.levels.pop() else { return Ok(()) };
        self.path.truncate(level.length);
        self.within.remove(&level.facts.identity);
        let path = as_path(&self.path);
        if level.is_open {
            self.tree.leave(path)?;
        }
        let spot = Spot { name: &level.name.bytes, number: level.name.number, path };
        let Level { facts, links, .. } = &level;
        let left = Visited { spot, facts, depth: self.levels.len(), links: *links };
        (self.visit)(Event::Left(left)).map(drop)
    }
}

/// What is said of a name in a folder that no file may have.
fn illegal_name(
    tree: &dyn Tree,
    folder: &Path,
    (stored, name): (&[u8], &Name),
    illegal: Illegal,
) -> Error {
    let (stored, saved) = (stored.escape_ascii(), name.bytes.escape_ascii());
    let number = name.number.map_or(String::new(), |number| format!(" (inode {})", number.0));
    let done = match illegal {
        Illegal::Skip => number,
        Illegal::Save => format!("{number}, which comes out as \"{saved}\""),
    };
    tree.error(folder, &format!("has a name that no file may have: \"{stored}\"{done}"))
}
