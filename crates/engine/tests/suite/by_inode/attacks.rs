//! What an unprivileged caller, a full volume or a damaged one could have broken: each was found by
//! an attack on the calls by inode.
use crate::by_inode::{KINDS, fresh, specification};
use crate::volume::{MIB, judge};
use extant_block::BlockDevice;
use extant_engine::{Caller, ErrorKind, File, Filesystem, Rights, Size};
use extant_format::GroupNo;
use std::sync::Arc;

/// The text of a short symlink is no map: an open file of one would read and write any block.
#[test]
fn a_symlink_is_not_opened_as_a_file() {
    for kind in [KINDS[1], KINDS[0]] {
        let (_device, volume) = fresh(&specification(kind, 32 * MIB));
        volume.symlink("aC", "/link").unwrap();
        let root = volume.inodes().root().unwrap();
        let caller = Caller::user(1000, 1000);
        let link = volume.inodes_for(&caller).lookup(&root, b"link").unwrap();
        if let Ok(file) = volume.inodes_for(&caller).open(&link, Rights::READ | Rights::WRITE) {
            assert!(file.read_at(0, &mut [0; 2]).is_err(), "{kind:?}");
            assert!(file.write_at(0, b"XX").is_err(), "{kind:?}");
            assert!(file.set_len(0).is_err(), "{kind:?}");
        }
        assert_eq!(volume.read_link("/link").unwrap(), b"aC");
        volume.close().unwrap();
    }
}

/// Leaves a volume with three single free blocks and no more.
fn fill(volume: &Filesystem) {
    for number in 0..60 {
        volume.write(format!("/small{number}"), &[1; 1024]).unwrap();
    }
    volume.sync().unwrap();
    let file = volume.create_file("/filler", 0o644).unwrap();
    let (mut at, mut step) = (0, 1 << 20);
    while step >= 1024 {
        match file.allocate(at, step, Size::Grow) {
            Ok(()) => at += step,
            Err(_) => step /= 2,
        }
    }
    drop(file);
    let mut number = 0;
    while volume.write(format!("/last{number}"), &[1; 1024]).is_ok() {
        number += 1;
    }
    let _ = volume.remove_file(format!("/last{number}"));
    volume.sync().unwrap();
    for number in [10, 20, 30] {
        volume.remove_file(format!("/small{number}")).unwrap();
    }
    volume.sync().unwrap();
    volume.sync().unwrap();
}

/// A file with `prepare`d blocks on a volume that is then filled.
fn on_a_full_volume(prepare: impl Fn(&File), work: impl Fn(&File)) {
    let (device, volume) = fresh(&specification(KINDS[0], 32 * MIB));
    let file = volume.create_file("/target", 0o644).unwrap();
    prepare(&file);
    volume.sync().unwrap();
    fill(&volume);
    work(&file);
    volume.sync().expect("what was accepted is written");
    drop(file);
    volume.remove_file("/small1").expect("the volume is still in use");
    volume.close().unwrap();
    judge(&device).unwrap();
}

#[test]
fn a_write_without_room_for_its_map_is_refused_and_not_found_out_later() {
    on_a_full_volume(
        |file| file.allocate(0, 2048, Size::Grow).unwrap(),
        |file| {
            let _ = file.write_all_at(1024, &[9; 4096]);
        },
    );
}

#[test]
fn a_range_is_zeroed_whole_or_left_as_it_is() {
    on_a_full_volume(
        |file| file.write_all_at(0, &[7; 4096]).unwrap(),
        |file| {
            let before = file.metadata().unwrap();
            if file.zero_range(2048, 5 * 1024, Size::Grow).is_err() {
                let after = file.metadata().unwrap();
                assert_eq!((after.size, after.sectors), (before.size, before.sectors));
                let mut bytes = vec![0; 4096];
                file.read_at(0, &mut bytes).unwrap();
                assert!(bytes.iter().all(|byte| *byte == 7));
            }
        },
    );
}

/// Changes the 128 bytes of the inode that has this size.
fn damage(device: &Arc<extant_block::MemoryDevice>, size: u32, change: impl Fn(&mut [u8])) {
    let mut block = vec![0; 1024];
    for number in 0..32 * 1024 {
        device.read(number * 1024, &mut block).unwrap();
        for inode in block.chunks_exact_mut(128) {
            if inode[4..8] == size.to_le_bytes() {
                change(inode);
            }
        }
        device.write(number * 1024, &block).unwrap();
    }
}

#[test]
fn a_size_of_all_ones_makes_no_range_panic() {
    let specification = specification(KINDS[1], 32 * MIB);
    let (device, volume) = fresh(&specification);
    let file = volume.create_file("/target", 0o644).unwrap();
    file.write_all_at(0, &[7; 5000]).unwrap();
    file.set_len(0x12_3456).unwrap();
    drop(file);
    volume.close().unwrap();
    damage(&device, 0x12_3456, |inode| {
        inode[4..8].fill(0xff);
        inode[108..112].fill(0xff);
    });
    let volume = specification.open(&device).unwrap();
    let file = volume.open_file("/target").unwrap();
    let _ = file.read_at(u64::MAX - 5000, &mut [0; 9000]);
    let _ = (file.next_data(0), file.next_data(u64::MAX - 5000));
    let _ = (file.seek_data(u64::MAX - 50), file.seek_hole(0));
    let _ = file.write_at(100, b"x");
    let _ = file.punch_hole(0, 1024);
    let _ = file.punch_hole(u64::MAX - 10, 1024);
}

/// The "number of references" of a bitmap is not lowered.
#[test]
fn an_attribute_block_that_is_a_bitmap_is_left_alone() {
    let specification = specification(KINDS[1], 32 * MIB);
    let (device, volume) = fresh(&specification);
    let file = volume.create_file("/target", 0o644).unwrap();
    file.set_len(0x12_3456).unwrap();
    drop(file);
    let before = volume.free_runs(GroupNo(0)).unwrap();
    volume.close().unwrap();
    let mut descriptor = [0; 4];
    device.read(2 * 1024, &mut descriptor).unwrap();
    damage(&device, 0x12_3456, |inode| inode[104..108].copy_from_slice(&descriptor));
    let volume = specification.open(&device).unwrap();
    let error = volume.remove_file("/target").unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Corrupt(_)), "{error}");
    volume.write("/other", b"the volume is still in use").unwrap();
    volume.remove_file("/other").unwrap();
    volume.sync().unwrap();
    assert_eq!(volume.free_runs(GroupNo(0)).unwrap(), before);
    volume.close().unwrap();
}
