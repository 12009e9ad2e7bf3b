//! The space of small volumes in memory.
mod blocks;
mod groups;
mod inodes;
mod model;

use super::*;
use crate::error::{Corrupt, ErrorKind};
use crate::handle::Handle;
use crate::{Access, DataKeeping, Options};
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_format::group::{BLOCK_UNINIT, INODE_UNINIT, INODE_ZEROED};
use extant_format::layout::{Inodes, Layout, Marks, Packing, Wishes};
use extant_format::superblock::{Feature, HashVersion};
use extant_format::{Fault, Ino, Run};
use extant_policy::allocation::{AllocationPlan, Route, Search};

use std::collections::BTreeSet;

const EXT2: &[Feature] = &[Feature::SPARSE_SUPER, Feature::FILETYPE];
const EXT4: &[Feature] = &[
    Feature::SPARSE_SUPER,
    Feature::FLEX_BG,
    Feature::METADATA_CSUM,
    Feature::SIXTY_FOUR_BIT,
    Feature::EXTENTS,
];
const UNINIT: &[Feature] = &[Feature::SPARSE_SUPER, Feature::UNINIT_BG];

/// Groups of 512 blocks of 1 KiB with about 128 inodes: so small that runs cross their borders.
fn wishes(features: &[Feature], blocks: u64) -> Wishes {
    let mut wishes = Wishes {
        block_size: 1024,
        blocks,
        features: Default::default(),
        inode_size: 256,
        inodes: Inodes::BytesPerInode(4096),
        reserved_ratio: 0.05,
        flex_groups: 4,
        blocks_per_group: Some(512),
        resize_to_blocks: None,
        uuid: [7; 16],
        hash_seed: [1; 4],
        hash_version: HashVersion::HalfMd4,
        label: [0; 16],
        created_seconds: 0,
        stride: 0,
        stripe_width: 0,
        marks: Marks::default(),
        descriptor_size: None,
        copies: 2,
        cluster_size: None,
        bad_blocks: Vec::new(),
        packing: Packing::FlexGroups,
    };
    features.iter().for_each(|feature| wishes.features.set(*feature));
    wishes
}

/// Writes a layout with sealed bitmaps. All other blocks hold 0xaa, so that nothing unwritten looks
/// like zeros.
fn write(layout: &Layout) -> MemoryDevice {
    let superblock = &layout.superblock;
    let block_size = superblock.block_size() as usize;
    let device = MemoryDevice::new(RealClock::new(), superblock.blocks_count * block_size as u64);
    for block in 0..superblock.blocks_count {
        device.write(block * block_size as u64, &vec![0xaa; block_size]).unwrap();
    }
    for (group, descriptor) in (0..).map(GroupNo).zip(&layout.descriptors) {
        let mut descriptor = *descriptor;
        let mut bytes = vec![0; block_size];
        layout.fill_block_bitmap(group, &mut bytes);
        if descriptor.flags & BLOCK_UNINIT == 0 {
            descriptor.seal_block_bitmap(&bytes, superblock);
            device.write(descriptor.block_bitmap.0 * block_size as u64, &bytes).unwrap();
        }
        bytes.fill(0);
        layout.fill_inode_bitmap(group, &mut bytes);
        if descriptor.flags & INODE_UNINIT == 0 {
            descriptor.seal_inode_bitmap(&bytes, superblock);
            device.write(descriptor.inode_bitmap.0 * block_size as u64, &bytes).unwrap();
        }
        let (block, offset) = superblock.descriptor_place(group);
        let mut bytes = vec![0; superblock.descriptor_size.into()];
        descriptor.encode(&mut bytes, group, superblock);
        device.write(block.0 * block_size as u64 + offset as u64, &bytes).unwrap();
    }
    device.write(1024, &superblock.encode()).unwrap();
    device
}

fn open(device: &MemoryDevice) -> Space {
    opened(device).unwrap()
}

fn opened(device: &MemoryDevice) -> Result<Space> {
    let options = Options {
        access: Access::ReadWrite,
        policies: "modern,journal=none".parse().unwrap(),
        cache_bytes: 2 << 20,
        data: DataKeeping::Bytes,
    };
    Space::open(&Arc::new(Store::open(Arc::new(device.snapshot()), &options, None)?))
}

fn layout(features: &[Feature]) -> Layout {
    Layout::new(&wishes(features, 5000)).unwrap()
}

fn fresh(features: &[Feature]) -> Space {
    open(&write(&layout(features)))
}

/// Stores everything, and opens what the device holds then.
fn reopen(space: &Space) -> Space {
    space.write_metadata().unwrap();
    let mut bytes = vec![0; space.store.device.info().bytes as usize];
    space.store.device.read(0, &mut bytes).unwrap();
    open(&MemoryDevice::from_bytes(RealClock::new(), &bytes))
}

/// Every block that is free in the bitmaps.
fn free_blocks(space: &Space) -> BTreeSet<u64> {
    let groups = (0..space.group_count()).map(GroupNo);
    let blocks = |group| {
        let start = space.store.superblock.group_start(group).0;
        let runs = space.free_runs(group).unwrap();
        runs.into_iter().flat_map(move |(first, length)| {
            (0..length).map(move |at| start + u64::from(first + at))
        })
    };
    groups.flat_map(blocks).collect()
}

fn allocate(space: &Space, plan: &AllocationPlan) -> Result<Run> {
    let mut reservation = space.reserve(plan.length.into())?;
    with(space, |handle| space.allocate(handle, &mut reservation, plan, Route::Anywhere))
}

fn free(space: &Space, start: u64, length: u32) -> Result<()> {
    let run = Run { start: BlockNo(start), length };
    with(space, |handle| space.free_data(handle, run, Reuse::AtOnce))
}

/// Runs an operation with more credits than any test needs.
fn with<T>(space: &Space, work: impl FnOnce(&Handle<'_>) -> Result<T>) -> Result<T> {
    space.store.change(9, work)
}

fn plan(goal: u64, length: u32, search: Search) -> AllocationPlan {
    AllocationPlan { goal: BlockNo(goal), length, search }
}

fn fault(result: Result<impl Sized>) -> (Place, String) {
    match result.err().expect("an error").kind {
        ErrorKind::Corrupt(Corrupt { place, fault }) => (place, fault.to_string()),
        other => panic!("{other}"),
    }
}
