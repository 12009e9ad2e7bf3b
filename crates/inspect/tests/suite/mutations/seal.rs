//! Checksums stored anew after a change, so that what is judged is the change and not its checksum.
use crate::damage::harness::Image;
use extant_format::checksum::crc32c;
use extant_format::group::{GroupDescriptor, bitmap_checksum};
use extant_format::inode::Inode;
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, Fault, GroupNo, Ino, attribute, extent};

/// What holds the checksum of a structure, with all that it depends on, as it was before a change.
#[derive(Clone)]
pub enum Seal {
    None,
    Superblock,
    Descriptor {
        group: GroupNo,
        at: usize,
    },
    BlockBitmap {
        group: GroupNo,
        at: usize,
    },
    InodeBitmap {
        group: GroupNo,
        at: usize,
    },
    Inode {
        ino: Ino,
        at: usize,
    },
    ExtentBlock {
        at: usize,
        seed: u32,
    },
    Leaf {
        at: usize,
        seed: u32,
    },
    /// With the place of limit and count.
    Index {
        at: usize,
        counts: usize,
        seed: u32,
    },
    AttributeBlock(usize),
    Journal(usize),
    OrphanBlock {
        at: usize,
        seed: u32,
    },
    MountBlock(usize),
}

fn computed(result: Result<(), Fault>) -> Option<u32> {
    match result {
        Err(Fault::Checksum { computed, .. }) => Some(computed),
        _ => None,
    }
}

impl Seal {
    /// Stores the checksum, where the volume (`before` the change) has such.
    pub fn store(&self, image: &mut Image, before: &Image, superblock: &Superblock) {
        let block_size = superblock.block_size() as usize;
        let has_checksums = superblock.has(Feature::METADATA_CSUM);
        match *self {
            Seal::None => {}
            Seal::Superblock if has_checksums => image.seal_superblock(),
            Seal::Descriptor { group, at } => seal_descriptor(image, group, at, superblock),
            Seal::BlockBitmap { group, at } if has_checksums => {
                // Clusters of a group; blocks where there are none.
                let bits = before.get32(1024 + 0x24);
                let sum = bitmap_sum(image, before.get32(at), bits, superblock);
                put_halves(image, at + 0x18, at + 0x38, sum, superblock);
                seal_descriptor(image, group, at, superblock);
            }
            Seal::InodeBitmap { group, at } if has_checksums => {
                let bits = superblock.inodes_per_group;
                let sum = bitmap_sum(image, before.get32(at + 4), bits, superblock);
                put_halves(image, at + 0x1a, at + 0x3a, sum, superblock);
                seal_descriptor(image, group, at, superblock);
            }
            Seal::Inode { ino, at } => {
                let size = usize::from(superblock.inode_size);
                let bytes = &image.bytes[at..at + size];
                if let Some(sum) = computed(Inode::verify_checksum(bytes, ino, superblock)) {
                    image.put16(at + 0x7c, sum as u16);
                    if size > 128 && image.get16(at + 128) >= 4 {
                        image.put16(at + 0x82, (sum >> 16) as u16);
                    }
                }
            }
            Seal::ExtentBlock { at, seed } if has_checksums => {
                extent::seal(&mut image.bytes[at..at + block_size], seed);
            }
            Seal::Leaf { at, seed } if has_checksums => {
                let sum = crc32c(seed, &image.bytes[at..at + block_size - 12]);
                image.put32(at + block_size - 4, sum);
            }
            Seal::Index { at, counts, seed } if has_checksums => {
                let end = |count: u16| counts + 8 * usize::from(count);
                let (limit, count) = (image.get16(at + counts), image.get16(at + counts + 2));
                // Of more entries than there is room for e2fsck computes no checksum.
                if count <= limit && end(limit) + 8 <= block_size {
                    let sum = crc32c(seed, &image.bytes[at..at + end(count)]);
                    let tail = at + end(limit);
                    let sum = crc32c(crc32c(sum, &image.bytes[tail..tail + 4]), &[0; 4]);
                    image.put32(tail + 4, sum);
                }
            }
            Seal::AttributeBlock(at) => {
                let block = BlockNo((at / block_size) as u64);
                attribute::seal_block(&mut image.bytes[at..at + block_size], block, superblock);
            }
            // Versions 2 and 3 of checksums.
            Seal::Journal(at) if before.bytes[at + 0x2b] & 0x18 != 0 => {
                image.put32(at + 0xfc, 0);
                let sum = crc32c(!0, &image.bytes[at..at + 1024]);
                image.put(at + 0xfc, &sum.to_be_bytes());
            }
            Seal::OrphanBlock { at, seed } if has_checksums => {
                let block = (at / block_size) as u64;
                let sum = crc32c(seed, &block.to_le_bytes());
                let sum = crc32c(sum, &image.bytes[at..at + block_size - 8]);
                image.put32(at + block_size - 4, sum);
            }
            Seal::MountBlock(at) if has_checksums => {
                let sum = crc32c(superblock.checksum_seed, &image.bytes[at..at + 0x3fc]);
                image.put32(at + 0x3fc, sum);
            }
            _ => {}
        }
    }
}

fn seal_descriptor(image: &mut Image, group: GroupNo, at: usize, superblock: &Superblock) {
    let bytes = &image.bytes[at..at + usize::from(superblock.descriptor_size)];
    if let Some(sum) = computed(GroupDescriptor::verify_checksum(bytes, group, superblock)) {
        image.put16(at + 0x1e, sum as u16);
    }
}

fn bitmap_sum(image: &Image, block: u32, bits: u32, superblock: &Superblock) -> u32 {
    let block_size = superblock.block_size() as usize;
    let at = block as usize * block_size;
    bitmap_checksum(&image.bytes[at..at + block_size], bits, superblock)
}

fn put_halves(image: &mut Image, low: usize, high: usize, sum: u32, superblock: &Superblock) {
    image.put16(low, sum as u16);
    if superblock.descriptor_size >= 64 {
        image.put16(high, (sum >> 16) as u16);
    }
}
