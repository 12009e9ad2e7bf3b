//! What a few inodes are called: one name of each, and of the directories above, found in one walk
//! over all directories.
use extant_format::Ino;
use rustc_hash::FxHashMap;

/// Directories above each other, at most: a loop of directories ends here.
const DEPTH_MAX: usize = 4096;
/// Bytes of names that are kept, at most: inodes that come later stay without a name.
const BYTES_MAX: usize = 256 << 20;

/// A name, and the directory that it is in.
struct Name {
    directory: Ino,
    name: Box<[u8]>,
}

/// What a name is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NameOf {
    /// Directories are kept: paths lead through them.
    Directory,
    /// Others are kept where they are asked for.
    Other,
}

/// Names of the inodes that are asked for, and of all directories.
#[derive(Default)]
pub(crate) struct PathTable {
    wanted: Vec<Ino>,
    names: FxHashMap<Ino, Name>,
    bytes: usize,
}

impl PathTable {
    pub(crate) fn of(mut wanted: Vec<Ino>) -> PathTable {
        wanted.sort_unstable();
        PathTable { wanted, ..PathTable::default() }
    }

    /// Takes a name that was found. The first of an inode is kept.
    pub(crate) fn note(&mut self, directory: Ino, ino: Ino, name: &[u8], kind: NameOf) {
        let is_wanted = kind == NameOf::Directory || self.wanted.binary_search(&ino).is_ok();
        if !is_wanted || self.wanted.is_empty() || self.bytes > BYTES_MAX {
            return;
        }
        self.bytes += name.len() + size_of::<Name>();
        self.names.entry(ino).or_insert_with(|| Name { directory, name: name.into() });
    }

    /// The path of an inode, from the root; `None` where it has no name, or none that leads to the
    /// root.
    pub(crate) fn path(&self, ino: Ino) -> Option<Vec<u8>> {
        let mut parts: Vec<&[u8]> = Vec::new();
        let mut at = ino;
        while at != Ino::ROOT {
            let name = self.names.get(&at).filter(|_| parts.len() < DEPTH_MAX)?;
            parts.push(&name.name);
            at = name.directory;
        }
        parts.reverse();
        Some([b"/", parts.join(&b'/').as_slice()].concat())
    }
}
