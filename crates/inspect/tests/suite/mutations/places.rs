//! Where the structures of a volume are, found by reading it.
use super::fields::{self, Structure};
use super::seal::Seal;
use crate::damage::harness::Image;
use extant_format::checksum::inode_seed;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::Feature;
use extant_format::{GroupNo, Ino};
use extant_inspect::{Claimed, Visit, Volume, walk};
use std::ops::ControlFlow;

/// A structure on a volume.
#[derive(Clone)]
pub struct Place {
    pub structure: &'static Structure,
    /// Its first byte.
    pub at: usize,
    /// What holds its checksum.
    pub seal: Seal,
}

/// What a volume consists of.
#[derive(Default)]
pub struct Places {
    pub places: Vec<Place>,
    /// Blocks of metadata, for swaps and the like.
    pub blocks: Vec<usize>,
}

/// Inodes of a volume that are looked at.
const INODES_MAX: u32 = 400;
/// Entries of one block, pointers of one map block, bytes of a bitmap.
const OF_ONE_MAX: usize = 6;

impl Places {
    /// Those of a volume without damage.
    pub fn of(image: &Image) -> Places {
        let volume = image.volume();
        let mut finder = Finder { image, volume: &volume, found: Places::default() };
        finder.volume();
        let inodes = volume.superblock().inodes_count.min(INODES_MAX);
        for ino in (1..=inodes).map(Ino) {
            finder.inode(ino);
        }
        let mut found = finder.found;
        found.blocks.sort_unstable();
        found.blocks.dedup();
        found
    }
}

struct Finder<'a> {
    image: &'a Image,
    volume: &'a Volume,
    found: Places,
}

impl Finder<'_> {
    fn add(&mut self, structure: &'static Structure, at: usize, seal: &Seal) {
        self.found.places.push(Place { structure, at, seal: seal.clone() });
    }

    fn byte(&self, block: u64) -> usize {
        block as usize * self.image.block_size()
    }

    fn volume(&mut self) {
        let superblock = self.volume.superblock();
        for _ in 0..4 {
            self.add(&fields::SUPERBLOCK, 1024, &Seal::Superblock);
        }
        for group in (0..self.volume.present_groups()).map(GroupNo) {
            let at = self.image.descriptor(group.0);
            let seal = Seal::Descriptor { group, at };
            self.add(&fields::DESCRIPTOR, at, &seal);
            if superblock.descriptor_size >= 64 {
                self.add(&fields::WIDE_DESCRIPTOR, at, &seal);
            }
            let descriptor = self.volume.descriptor(group).expect("it is on the device");
            let (blocks, inodes) = (descriptor.block_bitmap.0, descriptor.inode_bitmap.0);
            let bitmaps = [
                (blocks, Seal::BlockBitmap { group, at }),
                (inodes, Seal::InodeBitmap { group, at }),
            ];
            for (block, seal) in bitmaps {
                let start = self.byte(block);
                self.found.blocks.push(start);
                for step in [0, 1, 2, 3, 7, 31, 100, 127] {
                    self.add(&fields::BITS, start + step, &seal);
                }
            }
            self.found.blocks.push(at / self.image.block_size() * self.image.block_size());
        }
        if superblock.has(Feature::MMP) {
            let block =
                u64::from_le_bytes(*self.image.bytes[1024 + 0x168..].first_chunk().unwrap());
            self.add(&fields::MOUNT_BLOCK, self.byte(block), &Seal::MountBlock(self.byte(block)));
        }
    }

    fn inode(&mut self, ino: Ino) {
        let Ok(inode) = self.volume.inode(ino) else { return };
        let at = self.image.inode(ino.0);
        let superblock = self.volume.superblock();
        let is_reserved = ino.0 < superblock.first_inode;
        let is_probe = ino.0 % 16 == 3;
        if inode.links == 0 && !is_reserved && !is_probe {
            return;
        }
        let seal = Seal::Inode { ino, at };
        self.found.blocks.push(at / self.image.block_size() * self.image.block_size());
        self.add(&fields::INODE, at, &seal);
        if superblock.inode_size > 128 {
            self.add(&fields::WIDE_INODE, at, &seal);
        }
        if inode.links == 0 {
            return;
        }
        self.tail(at, &seal);
        self.content(ino, &inode, at, &seal);
        if inode.attribute_block.0 != 0 {
            self.attribute_block(self.byte(inode.attribute_block.0));
        }
    }

    /// Attributes in the inode.
    fn tail(&mut self, at: usize, seal: &Seal) {
        let size = usize::from(self.volume.superblock().inode_size);
        if size <= 128 {
            return;
        }
        let list = at + 128 + usize::from(self.image.get16(at + 128));
        if list + 8 < at + size && self.image.get32(list) == 0xea02_0000 {
            self.add(&fields::TAIL_HEADER, list, seal);
            self.attributes(list + 4, at + size, seal);
        }
    }

    fn attribute_block(&mut self, at: usize) {
        let seal = Seal::AttributeBlock(at);
        self.found.blocks.push(at);
        self.add(&fields::ATTRIBUTE_HEADER, at, &seal);
        self.attributes(at + 32, at + self.image.block_size(), &seal);
    }

    fn attributes(&mut self, mut at: usize, end: usize, seal: &Seal) {
        while at + 16 < end && self.image.get32(at) != 0 {
            self.add(&fields::ATTRIBUTE, at, seal);
            at += 16 + usize::from(self.image.bytes[at]).next_multiple_of(4);
        }
    }

    /// What the map of an inode leads to, or what is in its place.
    fn content(&mut self, ino: Ino, inode: &Inode, at: usize, seal: &Seal) {
        let map = at + 40;
        let seed = inode_seed(self.volume.superblock().checksum_seed, ino, inode.generation);
        let is_directory = inode.file_type() == Some(FileType::Directory);
        if inode.flags & flags::INLINE_DATA != 0 {
            if is_directory {
                self.add(&fields::INLINE_DIRECTORY, map, seal);
                self.entries(map + 4, map + 60, seal);
            } else {
                self.add(&fields::TARGET, map, seal);
            }
            return;
        }
        let is_symlink = inode.file_type() == Some(FileType::Symlink);
        if is_symlink && inode.size < 60 {
            return self.add(&fields::TARGET, map + inode.size as usize / 2, seal);
        }
        if inode.has_extents() {
            self.extents(map, seal);
        }
        let (mut map_blocks, mut data) = (Vec::new(), Vec::new());
        let walked = walk(self.volume, inode, &mut Claimed::default(), &mut |visit| {
            match visit {
                Visit::MapBlock(block) => map_blocks.push(block.0),
                Visit::Run { file_block, run, .. } => {
                    let length = u64::from(run.length).min(64);
                    data.extend((0..length).map(|step| (file_block + step, run.start.0 + step)));
                }
                Visit::Fault(_) => {}
            }
            if data.len() > 4096 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        walked.expect("memory does not fail");
        for block in map_blocks {
            let start = self.byte(block);
            self.found.blocks.push(start);
            match inode.has_extents() {
                true => self.extents(start, &Seal::ExtentBlock { at: start, seed }),
                false => (0..OF_ONE_MAX)
                    .for_each(|step| self.add(&fields::POINTER, start + 4 * step, &Seal::None)),
            }
        }
        self.data(ino, inode, &data, seed);
    }

    fn data(&mut self, ino: Ino, inode: &Inode, data: &[(u64, u64)], seed: u32) {
        let superblock = self.volume.superblock();
        let block_size = self.image.block_size();
        let quotas = [0x240, 0x244, 0x26c].map(|at| self.image.get32(1024 + at));
        let has_quota = superblock.has(Feature::QUOTA) && quotas.contains(&ino.0);
        let is_orphans =
            superblock.has(Feature::ORPHAN_FILE) && ino.0 == superblock.orphan_file_inode;
        for (file_block, block) in data.iter().copied() {
            let start = self.byte(block);
            if inode.file_type() == Some(FileType::Directory) {
                self.directory_block(inode, file_block as u32, start, seed);
            } else if ino.0 == superblock.journal_inode && file_block == 0 {
                self.add(&fields::JOURNAL, start, &Seal::Journal(start));
            } else if has_quota {
                (0..block_size).step_by(1024).for_each(|step| {
                    self.quota_block(file_block as usize * block_size + step, start + step);
                });
            } else if is_orphans {
                let seal = Seal::OrphanBlock { at: start, seed };
                self.add(&fields::ORPHANS, start, &seal);
                self.add(&fields::ORPHAN_TAIL, start + block_size - 8, &seal);
            } else if inode.file_type() == Some(FileType::Symlink) {
                self.add(&fields::TARGET, start + inode.size as usize / 2, &Seal::None);
            }
        }
    }

    fn extents(&mut self, at: usize, seal: &Seal) {
        self.add(&fields::EXTENT_HEADER, at, seal);
        let (entries, depth) = (self.image.get16(at + 2), self.image.get16(at + 6));
        for entry in 0..usize::from(entries).min(OF_ONE_MAX) {
            let structure = if depth == 0 { &fields::EXTENT } else { &fields::EXTENT_INDEX };
            self.add(structure, at + 12 * (entry + 1), seal);
        }
    }

    fn directory_block(&mut self, inode: &Inode, file_block: u32, at: usize, seed: u32) {
        let is_indexed = inode.flags & flags::INDEX != 0;
        let end = at + self.image.block_size();
        self.found.blocks.push(at);
        if is_indexed && file_block == 0 {
            let seal = Seal::Index { at, counts: 0x20, seed };
            self.add(&fields::INDEX_ROOT, at, &seal);
            self.add(&fields::ENTRY, at, &seal);
            self.add(&fields::ENTRY, at + 12, &seal);
            return;
        }
        if is_indexed && usize::from(self.image.get16(at + 4)) == end - at {
            return self.add(&fields::INDEX_NODE, at, &Seal::Index { at, counts: 8, seed });
        }
        let seal = Seal::Leaf { at, seed };
        if self.volume.superblock().has(Feature::METADATA_CSUM) {
            self.add(&fields::LEAF_TAIL, end - 12, &seal);
        }
        self.entries(at, end, &seal);
    }

    fn entries(&mut self, mut at: usize, end: usize, seal: &Seal) {
        for _ in 0..OF_ONE_MAX {
            let length = usize::from(self.image.get16(at + 4));
            if length < 8 || at + length > end {
                return;
            }
            self.add(&fields::ENTRY, at, seal);
            at += length;
            if at + 12 > end {
                return;
            }
        }
    }

    /// A block of 1 KiB of a quota file, at that byte of the file.
    fn quota_block(&mut self, of_file: usize, at: usize) {
        let words = |from: usize| self.image.get32(at + from);
        let used: Vec<usize> = (0..1024).step_by(4).filter(|step| words(*step) != 0).collect();
        if of_file == 0 {
            return self.add(&fields::QUOTA_HEADER, at, &Seal::None);
        }
        let is_leaf = self.image.get16(at + 8) != 0 && words(0) == 0 && used.len() > 2;
        if !is_leaf {
            for step in used.into_iter().take(3).chain([4, 1020]) {
                self.add(&fields::QUOTA_POINTER, at + step, &Seal::None);
            }
            return;
        }
        self.add(&fields::QUOTA_LEAF, at, &Seal::None);
        for entry in 0..4 {
            self.add(&fields::QUOTA_ENTRY, at + 16 + 72 * entry, &Seal::None);
        }
    }
}
