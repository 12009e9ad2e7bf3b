//! How much memory an open file system takes.
use super::filesystem::Filesystem;
use extant_block::buffer;

/// Memory that a file system takes, by what it holds, in bytes. Sizes are nominal: what an entry
/// takes at most with its places in tables. They change while they are summed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUse {
    /// Blocks of metadata.
    pub metadata: usize,
    /// Committed blocks of metadata that are kept beside newer ones until they are in their place.
    pub journal: usize,
    /// Blocks of files.
    pub data: usize,
    /// What was read ahead across files.
    pub neighbours: usize,
    /// Inodes.
    pub inodes: usize,
    /// Names.
    pub names: usize,
    /// Buffers that no file uses. All file systems of a process share them.
    pub buffers: usize,
}

impl MemoryUse {
    /// All of it.
    pub fn total(&self) -> usize {
        let MemoryUse { metadata, journal, data, neighbours, inodes, names, buffers } = self;
        metadata + journal + data + neighbours + inodes + names + buffers
    }
}

impl Filesystem {
    /// The memory that it takes, of the `cache_bytes` that it was opened with. Looks at each file
    /// that has blocks in memory.
    pub fn memory_use(&self) -> MemoryUse {
        let volume = self.core.volume();
        let nodes = &self.core.inodes.nodes;
        let pages = nodes.with_pages();
        MemoryUse {
            metadata: volume.store.cache.bytes(),
            journal: volume.store.log().map_or(0, |log| log.kept_bytes()),
            data: pages.iter().map(|node| node.pages.bytes()).sum(),
            neighbours: usize::try_from(volume.store.ahead.held_bytes()).unwrap_or(usize::MAX),
            inodes: nodes.bytes(),
            names: volume.names.bytes(),
            buffers: buffer::pooled_bytes(),
        }
    }
}
