//! How many blocks a copy takes: reckoned when a volume turned out to be too small for it, so that
//! its message is about the whole and not about the file at which it was full.
//!
//! Data counts as it is on the source: its holes are none of it. Maps are reckoned from above, and
//! attributes that do not fit into inodes are left out.
use super::source::Source;
use super::{Dereference, Options, Sparse};
use crate::error::Result;
use crate::tree::Links;
use crate::walk::{self, Below, Event, Found, Illegal, Manner, Visited};
use extant_format::inode::FileType;
use extant_format::superblock::{Feature, Superblock};
use rustc_hash::FxHashSet;
use std::path::Path;

/// Bytes of a symbolic link's target that fit into its inode.
const FAST_SYMLINK_MAX: u64 = 59;
/// Extents that fit into an inode.
const INODE_EXTENTS: u64 = 4;
/// Blocks of a file without extents that its inode points to.
const DIRECT_BLOCKS: u64 = 12;
/// Blocks of one extent at most.
const EXTENT_BLOCKS: u64 = 1 << 15;
/// Bytes of a directory entry besides its name, with what rounding adds.
const ENTRY_BYTES: u64 = 8 + 3;

/// What copies need in a volume.
pub struct Need {
    block_size: u64,
    has_extents: bool,
    /// Files that have several names, and were counted.
    counted: FxHashSet<(u64, u64)>,
    /// Blocks so far.
    pub blocks: u64,
}

impl Need {
    /// Nothing yet, in this volume.
    pub fn of(superblock: &Superblock) -> Need {
        Need {
            block_size: superblock.block_size().into(),
            has_extents: superblock.has(Feature::EXTENTS),
            counted: FxHashSet::default(),
            blocks: 0,
        }
    }

    /// Adds what is at a path of a source, as it is copied with these options. What cannot be read
    /// counts nothing.
    ///
    /// # Errors
    /// Those of the source about the path itself.
    pub fn add(&mut self, source: &dyn Source, path: &Path, options: &Options) -> Result<()> {
        let (named, below) = match options.dereference {
            Dereference::Always => (Links::Follow, Links::Follow),
            Dereference::Named => (Links::Follow, Links::Stay),
            Dereference::Never => (Links::Stay, Links::Stay),
        };
        let manner = Manner { named, below, illegal: Illegal::Save };
        // Bytes of the names in each directory that the walk is in.
        let mut names: Vec<u64> = Vec::new();
        walk::walk(source, path, manner, &mut |event| {
            match event {
                Event::Found(visited) => {
                    if let Some(bytes) = names.last_mut() {
                        *bytes = bytes.saturating_add(ENTRY_BYTES + visited.spot.name.len() as u64);
                    }
                    match visited.facts.file_type {
                        FileType::Directory => names.push(0),
                        _ => self.object(source, &visited, options),
                    }
                }
                Event::Left(_) => {
                    let bytes = names.pop().unwrap_or(0);
                    self.more(bytes.div_ceil(self.block_size).max(1));
                }
                Event::Trouble(_) => {}
            }
            Ok(Below::Enter)
        })
    }

    fn more(&mut self, blocks: u64) {
        self.blocks = self.blocks.saturating_add(blocks);
    }

    fn object(&mut self, source: &dyn Source, visited: &Visited<'_>, options: &Options) {
        let facts = visited.facts;
        let is_further_name =
            options.keep.links && facts.links > 1 && !self.counted.insert(facts.identity);
        match facts.file_type {
            _ if is_further_name => {}
            FileType::Regular => {
                let (data, runs) = self.data(source, visited, options).unwrap_or((0, 0));
                self.more(data.saturating_add(self.map(facts, data, runs)));
            }
            FileType::Symlink if facts.size > FAST_SYMLINK_MAX => self.more(1),
            _ => {}
        }
    }

    /// Blocks of a file's data, and in how many stretches they are.
    fn data(
        &self,
        source: &dyn Source,
        visited: &Visited<'_>,
        options: &Options,
    ) -> Result<(u64, u64)> {
        let size = visited.facts.size;
        if options.sparse == Sparse::Never {
            return Ok((size.div_ceil(self.block_size), 1));
        }
        let mut body = source.open(visited.spot, visited.facts)?;
        let (mut at, mut end, mut blocks, mut runs) = (0, 0, 0_u64, 0_u64);
        while at < size
            && let Some(data) = body.next_data(at, size)?
        {
            let first = (data.start / self.block_size).max(end);
            end = data.end.div_ceil(self.block_size).max(first);
            blocks = blocks.saturating_add(end - first);
            runs = runs.saturating_add(1);
            at = data.end.max(at.saturating_add(1));
        }
        Ok((blocks, runs))
    }

    /// Blocks of the map of a file.
    fn map(&self, facts: &Found, data: u64, runs: u64) -> u64 {
        let extents = runs.saturating_add(data / EXTENT_BLOCKS);
        match self.has_extents {
            true if extents <= INODE_EXTENTS => 0,
            true => extents.div_ceil((self.block_size / 12).saturating_sub(2).max(1)),
            false if facts.size.div_ceil(self.block_size) <= DIRECT_BLOCKS => 0,
            false => data.div_ceil((self.block_size / 4).max(1)).saturating_add(1),
        }
    }
}
