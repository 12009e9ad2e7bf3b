//! The hashes of names in hashed directories: legacy, half MD4 and TEA, with signed and unsigned characters.
use crate::superblock::{HashVersion, Superblock};

/// How names of one directory are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hasher {
    /// Which function.
    pub version: HashVersion,
    /// Whether bytes above 127 count as positive.
    pub unsigned: bool,
    /// The volume's seed; all zero means the standard start values.
    pub seed: [u32; 4],
}

/// Major and minor hash of a name. The lowest bit of `major` is 0 (it marks collisions in the index); the value that
/// marks the end of a directory is never given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Default, Hash)]
pub struct NameHash {
    /// What the index is sorted by.
    pub major: u32,
    /// Decides among equal ones.
    pub minor: u32,
}

impl Hasher {
    /// The volume's default hasher.
    pub fn of(_superblock: &Superblock) -> Hasher {
        todo!()
    }
    /// Hashes a name.
    pub fn hash(&self, _name: &[u8]) -> NameHash {
        todo!()
    }
}
