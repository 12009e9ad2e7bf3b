//! Sparse images whose superblocks claim much, written by hand: nothing of the project makes them.
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

pub const TIB: u64 = 1 << 40;
/// What a hostile image may hold.
pub const HELD_MAX: u64 = 2 << 20;

pub const EXTENTS: u32 = 0x40;
pub const META_BG: u32 = 0x10;
pub const SIXTY_FOUR_BIT: u32 = 0x80;
pub const FLEX_BG: u32 = 0x200;
pub const FILETYPE: u32 = 2;
pub const SPARSE_SUPER: u32 = 1;
pub const BIGALLOC: u32 = 0x200;
pub const SPARSE_SUPER_2: u32 = 0x200;
const EXTENTS_FLAG: u32 = 0x8_0000;
pub const DIRECTORY: u16 = 0x41ed;
pub const FILE: u16 = 0x81a4;

/// The fields of a superblock that say how large everything is.
#[derive(Clone, Copy, Debug)]
pub struct Claims {
    pub block_log: u32,
    pub blocks: u64,
    pub blocks_per_group: u32,
    pub inodes_per_group: u32,
    pub inode_size: u16,
    pub descriptor_size: u16,
    pub first_inode: u32,
    pub first_meta_group: u32,
    pub cluster_log: u32,
    pub journal_inode: u32,
    pub reserved_descriptors: u16,
    /// Compatible, incompatible, read-only compatible.
    pub features: [u32; 3],
}

/// An ordinary ext4 of 4 KiB blocks, to be changed.
pub const ORDINARY: Claims = Claims {
    block_log: 2,
    blocks: 1 << 20,
    blocks_per_group: 32768,
    inodes_per_group: 8192,
    inode_size: 256,
    descriptor_size: 64,
    first_inode: 11,
    first_meta_group: 0,
    cluster_log: 2,
    journal_inode: 0,
    reserved_descriptors: 0,
    features: [0, FILETYPE | EXTENTS | SIXTY_FOUR_BIT | FLEX_BG, SPARSE_SUPER],
};

impl Claims {
    pub fn block_size(&self) -> u64 {
        1024 << self.block_log
    }

    pub fn groups(&self) -> u64 {
        let first = u64::from(self.block_log == 0);
        (self.blocks - first).div_ceil(self.blocks_per_group.into())
    }

    /// Where descriptor 0 is.
    pub fn descriptors_at(&self) -> u64 {
        self.block_size().max(2048)
    }

    pub fn table_blocks(&self) -> u64 {
        (u64::from(self.inodes_per_group) * u64::from(self.inode_size)).div_ceil(self.block_size())
    }

    pub fn superblock(&self) -> [u8; 1024] {
        let mut bytes = [0; 1024];
        let mut word = |at: usize, value: u64| {
            bytes[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes())
        };
        word(0, self.groups() * u64::from(self.inodes_per_group));
        word(4, self.blocks);
        word(20, u64::from(self.block_log == 0));
        word(24, self.block_log.into());
        word(28, self.cluster_log.into());
        word(32, self.blocks_per_group.into());
        word(36, self.blocks_per_group.into());
        word(40, self.inodes_per_group.into());
        word(56, 0x1_ef53);
        word(76, 1);
        word(84, self.first_inode.into());
        word(88, self.inode_size.into());
        (0..3).for_each(|set| word(92 + 4 * set, self.features[set].into()));
        word(0xcc, u64::from(self.reserved_descriptors) << 16);
        word(0xe0, self.journal_inode.into());
        word(0xfc, u64::from(self.descriptor_size) << 16);
        word(0x104, self.first_meta_group.into());
        word(0x150, self.blocks >> 32);
        bytes
    }

    /// A group's descriptor: its block bitmap, inode bitmap and table, and its flags.
    pub fn descriptor(&self, places: [u64; 3], flags: u16) -> Vec<u8> {
        let mut bytes = vec![0; self.descriptor_size.into()];
        for (index, place) in places.into_iter().enumerate() {
            bytes[4 * index..][..4].copy_from_slice(&(place as u32).to_le_bytes());
            if self.descriptor_size >= 64 {
                bytes[32 + 4 * index..][..4].copy_from_slice(&((place >> 32) as u32).to_le_bytes());
            }
        }
        bytes[18..20].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    pub fn inode(&self, mode: u16, size: u64, links: u16, map: Map<'_>) -> Vec<u8> {
        let mut bytes = vec![0; self.inode_size.into()];
        bytes[..2].copy_from_slice(&mode.to_le_bytes());
        bytes[4..8].copy_from_slice(&(size as u32).to_le_bytes());
        bytes[26..28].copy_from_slice(&links.to_le_bytes());
        bytes[108..112].copy_from_slice(&((size >> 32) as u32).to_le_bytes());
        match map {
            Map::Extents(extents) => {
                bytes[32..36].copy_from_slice(&EXTENTS_FLAG.to_le_bytes());
                let node = node(extents, 4);
                bytes[40..40 + node.len()].copy_from_slice(&node);
            }
            Map::Pointers(pointers) => {
                let words: Vec<u8> =
                    pointers.iter().flat_map(|pointer| pointer.to_le_bytes()).collect();
                bytes[40..40 + words.len()].copy_from_slice(&words);
            }
        }
        bytes
    }
}

/// What an inode maps.
#[derive(Clone, Copy)]
pub enum Map<'a> {
    /// File block, length, block.
    Extents(&'a [(u32, u16, u64)]),
    Pointers(&'a [u32; 15]),
}

/// A leaf of an extent tree.
pub fn node(extents: &[(u32, u16, u64)], most: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xf30a, extents.len() as u16, most, 0, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    for (file_block, length, start) in extents {
        bytes.extend(file_block.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(((start >> 32) as u16).to_le_bytes());
        bytes.extend((*start as u32).to_le_bytes());
    }
    bytes
}

/// Makes an image of that length: these bytes at these places, and the superblock.
pub fn write(path: &Path, length: u64, claims: &Claims, pieces: &[(u64, Vec<u8>)]) {
    let _ = std::fs::remove_file(path);
    let file = File::create(path).expect("an image");
    file.set_len(length).expect("a sparse file");
    for (at, bytes) in pieces.iter().filter(|(at, bytes)| at + bytes.len() as u64 <= length) {
        file.write_all_at(bytes, *at).expect("a piece");
    }
    file.write_all_at(&claims.superblock(), 1024).expect("a superblock");
    let held = file.metadata().expect("its size").blocks() * 512;
    assert!(held <= HELD_MAX + (64 << 10), "{}: holds {held} bytes", path.display());
}
