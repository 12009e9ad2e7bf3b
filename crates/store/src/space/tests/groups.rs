//! Groups are opened: what they hold, and what of them is refused.
use super::*;

#[test]
fn a_new_volume_is_free_but_for_its_metadata() {
    for features in [EXT2, EXT4, UNINIT] {
        let layout = layout(features);
        let space = open(&write(&layout));
        let mut expected: BTreeSet<u64> = (1..layout.superblock.blocks_count).collect();
        for run in (0..space.group_count()).flat_map(|group| layout.metadata_runs(GroupNo(group))) {
            (run.start.0..run.start.0 + u64::from(run.length))
                .for_each(|block| assert!(expected.remove(&block)));
        }
        assert_eq!(free_blocks(&space), expected);
        let totals = space.totals();
        assert_eq!((totals.free_blocks, totals.reserved_blocks), (expected.len() as u64, 0));
        assert_eq!((totals.free_inodes, totals.directories), (layout.superblock.free_inodes, 0));
        assert!(space.dirty.lock().is_empty(), "looking changes nothing");
    }
}

/// Opens a space after changing one byte of its device.
fn damaged(
    features: &[Feature],
    place: impl Fn(&Layout) -> u64,
    change: impl Fn(u8) -> u8,
) -> Space {
    let layout = layout(features);
    let device = write(&layout);
    let mut byte = [0];
    device.read(place(&layout), &mut byte).unwrap();
    device.write(place(&layout), &[change(byte[0])]).unwrap();
    open(&device)
}

#[test]
fn wrong_bitmaps_are_refused() {
    let last = |layout: &Layout| layout.descriptors.len() - 1;
    let bitmap = |layout: &Layout, group: usize, byte: u64| {
        layout.descriptors[group].block_bitmap.0 * 1024 + byte
    };
    let told = |space: Space, goal| fault(allocate(&space, &plan(goal, 1, Search::Sequential))).1;
    let checksum = damaged(EXT4, |layout| bitmap(layout, 0, 60), |byte| byte ^ 1);
    assert!(told(checksum, 1).starts_with("block bitmap: checksum"));
    let count = damaged(EXT2, |layout| bitmap(layout, 0, 60), |byte| byte ^ 1);
    assert!(told(count, 1).contains("not what the descriptor says"));
    let metadata = damaged(EXT2, |layout| bitmap(layout, 0, 0), |byte| byte & !2);
    assert!(told(metadata, 1).contains("block of metadata 1 is marked free"));
    let padding = damaged(EXT2, |layout| bitmap(layout, last(layout), 1023), |byte| byte & 0x7f);
    assert!(told(padding, 4990).contains("padding bit 8191 is not set"));
    let inodes =
        damaged(EXT4, |layout| layout.descriptors[0].inode_bitmap.0 * 1024 + 2, |byte| byte ^ 8);
    assert!(
        fault(with(&inodes, |handle| inodes.allocate_inode(
            handle,
            GroupNo(0),
            0,
            InodeKind::Other
        )))
        .1
        .starts_with("inode bitmap: checksum")
    );
    assert!(inodes.dirty.lock().is_empty());
}

#[test]
fn wrong_descriptors_are_refused_at_opening() {
    let layout = layout(EXT4);
    let device = write(&layout);
    let (block, offset) = layout.superblock.descriptor_place(GroupNo(2));
    let block_size = u64::from(layout.superblock.block_size());
    device.write(block.0 * block_size + offset as u64, &[0xff]).unwrap();
    let error = opened(&device).err().unwrap();
    assert!(matches!(
        error.kind,
        ErrorKind::Corrupt(Corrupt {
            place: Place::Group(GroupNo(2)),
            fault: Fault::Checksum { .. }
        })
    ));
}

#[test]
fn many_groups_open_at_once() {
    let mut wishes = wishes(EXT4, 131_072 * 32_768);
    (wishes.block_size, wishes.blocks_per_group) = (4096, None);
    (wishes.flex_groups, wishes.inodes) = (16, Inodes::BytesPerInode(65_536));
    let layout = Layout::new(&wishes).unwrap();
    let superblock = &layout.superblock;
    let block_size = superblock.block_size() as usize;
    let mut table = vec![0; superblock.descriptor_blocks() as usize * block_size];
    let first = superblock.descriptor_place(GroupNo(0)).0.0;
    for (group, descriptor) in (0..).map(GroupNo).zip(&layout.descriptors) {
        let size = usize::from(superblock.descriptor_size);
        descriptor.encode(&mut table[size * group.0 as usize..][..size], group, superblock);
    }
    let bytes = superblock.blocks_count * block_size as u64;
    let device = MemoryDevice::new(RealClock::new(), bytes);
    device.write(first * block_size as u64, &table).unwrap();
    device.write(1024, &superblock.encode()).unwrap();
    let space = open(&device);
    assert_eq!(space.group_count(), 131_072);
    assert_eq!(space.totals().free_blocks, superblock.free_blocks);
}
