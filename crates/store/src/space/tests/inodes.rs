//! Inode numbers are allocated and freed, and their table is zeroed.
use super::*;

#[test]
fn inodes_are_given_in_order_and_counted() {
    for features in [EXT2, EXT4, UNINIT] {
        let space = fresh(features);
        let groups = &space;
        let before = groups.totals();
        let per_group = space.store.superblock.inodes_per_group;
        let take = |group, from, kind| {
            with(&space, |handle| groups.allocate_inode(handle, GroupNo(group), from, kind))
                .unwrap()
                .0
        };
        assert_eq!(take(0, 0, InodeKind::Directory), 11, "reserved numbers are never given");
        assert_eq!(take(0, 20, InodeKind::Other), 21);
        assert_eq!(take(0, 0, InodeKind::Other), 12);
        assert_eq!(take(2, 5, InodeKind::Directory), 2 * per_group + 6);
        assert_eq!(take(2, 0, InodeKind::Other), 2 * per_group + 1);
        assert_eq!(groups.totals().free_inodes, before.free_inodes - 5);
        assert_eq!(groups.totals().directories, 2);
        assert_eq!(
            (groups.facts(GroupNo(2)).directories, groups.facts(GroupNo(2)).debt),
            (1, 0),
            "+1 and -1"
        );
        assert!(groups.inode_in_use(Ino(21)).unwrap() && !groups.inode_in_use(Ino(22)).unwrap());
        assert!(
            !groups.inode_in_use(Ino(0)).unwrap() && !groups.inode_in_use(Ino(u32::MAX)).unwrap()
        );
        with(&space, |handle| {
            groups.free_inode(handle, Ino(2 * per_group + 6), InodeKind::Directory)
        })
        .unwrap();
        assert!(
            fault(with(&space, |handle| groups.free_inode(
                handle,
                Ino(2 * per_group + 6),
                InodeKind::Directory
            )))
            .1
            .ends_with("free already")
        );
        assert!(
            fault(with(&space, |handle| groups.free_inode(handle, Ino(2), InodeKind::Directory)))
                .1
                .ends_with("reserved")
        );
        assert!(
            fault(with(&space, |handle| groups.free_inode(
                handle,
                Ino(u32::MAX),
                InodeKind::Other
            )))
            .1
            .ends_with("outside the volume")
        );
        assert_eq!(groups.totals().directories, 1);
        let again = reopen(&space);
        assert_eq!(again.totals(), groups.totals());
        assert!(again.inode_in_use(Ino(2 * per_group + 1)).unwrap());
        assert!(!again.inode_in_use(Ino(2 * per_group + 6)).unwrap());
    }
}

#[test]
fn every_inode_is_allocated_once() {
    let space = fresh(EXT4);
    let free = space.totals().free_inodes;
    let given: BTreeSet<Ino> = (0..free)
        .map(|_| {
            with(&space, |handle| space.allocate_inode(handle, GroupNo(3), 7, InodeKind::Other))
                .unwrap()
        })
        .collect();
    assert_eq!(given.len(), free as usize);
    assert_eq!(
        (given.first(), given.last()),
        (Some(&Ino(11)), Some(&Ino(space.store.superblock.inodes_count)))
    );
    let full = with(&space, |handle| space.allocate_inode(handle, GroupNo(3), 7, InodeKind::Other))
        .unwrap_err();
    assert!(matches!(full.kind, ErrorKind::NoInodes));
    assert_eq!(space.totals().free_inodes, 0);
}

#[test]
fn a_table_that_was_never_written_is_zeroed_as_far_as_it_is_used() {
    let mut layout = layout(EXT4);
    for descriptor in &mut layout.descriptors {
        descriptor.flags &= !INODE_ZEROED;
    }
    let group = layout
        .descriptors
        .iter()
        .position(|descriptor| descriptor.flags & INODE_UNINIT != 0)
        .unwrap();
    let group = GroupNo(group as u32);
    let space = open(&write(&layout));
    let per_group = space.store.superblock.inodes_per_group;
    // Four inodes of 256 bytes in a block: index 9 is in the third.
    with(&space, |handle| space.allocate_inode(handle, group, 9, InodeKind::Other)).unwrap();
    let descriptor = space.descriptor(group);
    assert_eq!(
        (descriptor.flags & (INODE_UNINIT | BLOCK_UNINIT), descriptor.unused_inodes),
        (0, per_group - 10)
    );
    let again = reopen(&space);
    assert_eq!(again.descriptor(group).flags & (INODE_UNINIT | BLOCK_UNINIT), 0);
    let table = |space: &Space, block| {
        let place = BlockNo(space.descriptor(group).inode_table.0 + block);
        space.store.cache.read(place, BlockKind::Plain).unwrap().bytes()
    };
    (0..3).for_each(|block| assert!(table(&again, block).iter().all(|byte| *byte == 0)));
    assert!(table(&again, 3).iter().all(|byte| *byte == 0xaa), "no more than needed");
    // A block in use stays as it is: index 8 is in the same block as index 9.
    let block =
        again.store.cache.read(BlockNo(descriptor.inode_table.0 + 2), BlockKind::Plain).unwrap();
    with(&again, |handle| {
        handle.modify(&block, |bytes| bytes[256] = 5);
        Ok(())
    })
    .unwrap();
    with(&again, |handle| again.allocate_inode(handle, group, 8, InodeKind::Other)).unwrap();
    assert_eq!(block.bytes()[256], 5);
    assert_eq!(again.descriptor(group).unused_inodes, per_group - 10, "the mark stays");
}

#[test]
fn debt_is_kept_within_its_counter() {
    let space = fresh(EXT2);
    let take = |kind| {
        with(&space, |handle| space.allocate_inode(handle, GroupNo(1), 0, kind))
            .map(|_| space.facts(GroupNo(1)).debt)
    };
    assert_eq!(take(InodeKind::Other).unwrap(), 0);
    assert_eq!([take(InodeKind::Directory).unwrap(), take(InodeKind::Directory).unwrap()], [1, 2]);
    assert_eq!(take(InodeKind::Other).unwrap(), 1);
}

#[test]
fn a_number_before_the_one_asked_for_is_found_when_no_other_is_free() {
    let space = fresh(EXT4);
    let per_group = space.store.superblock.inodes_per_group;
    let take = |group, from| {
        with(&space, |handle| space.allocate_inode(handle, GroupNo(group), from, InodeKind::Other))
    };
    // The group itself but for its fourth inode, then all others.
    (4..per_group).for_each(|_| assert!(take(2, 4).is_ok()));
    (0..3).for_each(|_| assert!(take(2, 0).is_ok()));
    for group in (0..space.group_count()).filter(|group| *group != 2) {
        let free = space.descriptor(GroupNo(group)).free_inodes;
        (0..free).for_each(|_| assert!(take(group, 0).is_ok()));
    }
    let last = Ino(2 * per_group + 4);
    assert_eq!(take(2, 60).unwrap(), last, "in the same group, before the place asked for");
    assert!(matches!(take(2, 60).unwrap_err().kind, ErrorKind::NoInodes));
}
