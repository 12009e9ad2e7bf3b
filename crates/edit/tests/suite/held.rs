//! A change holds a volume that several machines may reach (mmp) from its opening to its end.
use crate::volumes::{clock, identity};
use extant_block::{BlockDevice, MemoryDevice};
use extant_edit::create::{self, Into};
use extant_edit::{Change, ChangeOptions};
use extant_format::mount_block::{MOUNT_BLOCK_SIZE, NewMountBlock, StoredMountBlock, hold};
use extant_testkit::command::{output, program};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::sync::Arc;

fn block(device: &MemoryDevice) -> (u64, Vec<u8>) {
    let superblock = extant_engine::read_superblock(device).expect("it is read");
    let place = superblock.mount_block().0 * u64::from(superblock.block_size());
    let mut bytes = vec![0; MOUNT_BLOCK_SIZE];
    device.read(place, &mut bytes).expect("it is read");
    assert!(StoredMountBlock::new(&bytes).is_sound(&superblock));
    (place, bytes)
}

fn is_held(device: &MemoryDevice) -> bool {
    StoredMountBlock::new(&block(device).1).is_held()
}

#[test]
fn a_change_holds_the_volume_and_is_not_made_once_another_machine_has_it() {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") {
        return;
    }
    let folder = Scratch::new("edit-held");
    let image = folder.join("image");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-O", "mmp", "-E", "mmp_update_interval=1"]);
    output(mke2fs.arg(&image).arg("16M")).expect("mke2fs makes it");
    let bytes = std::fs::read(&image).expect("the image");
    let device = Arc::new(MemoryDevice::from_bytes(clock(), &bytes));
    let redo = Some((folder.join("redo"), identity(&*device)));
    let options = ChangeOptions { redo, ..ChangeOptions::default() };
    let open = || Change::open(Arc::clone(&device) as Arc<dyn BlockDevice>, &options);
    let write = |change: &Change, text: &str| {
        let text = &mut text.as_bytes();
        create::write(change, "/file".as_ref(), Into::Whole, text).map(drop)
    };

    let change = open().expect("no machine has it");
    assert!(is_held(&device));
    let refused = open().map(drop).expect_err("the first change has it").to_string();
    assert!(refused.contains("in use on the machine"), "{refused}");
    assert!(is_held(&device), "who was refused gives nothing back");
    write(&change, "content").expect("written");
    change.commit().expect("committed");
    assert!(!is_held(&device));

    // A change that is dropped gives it back, too.
    let dropped = open().expect("it was given back");
    drop(dropped);
    assert!(!is_held(&device));

    let change = open().expect("it was given back");
    write(&change, "lost").expect("written");
    let superblock = extant_engine::read_superblock(&*device).expect("it is read");
    let (place, mut theirs) = block(&device);
    let new = NewMountBlock {
        seconds: 1_700_000_000,
        node_name: b"elsewhere",
        device_name: b"/dev/shared",
        interval_seconds: 5,
    };
    hold(&mut theirs, 77, &new, &superblock);
    device.write(place, &theirs).expect("another machine writes");
    let lost = change.commit().map(drop).expect_err("it is lost").to_string();
    assert!(lost.contains("elsewhere"), "{lost}");
    assert!(block(&device).1 == theirs, "their block stays");
    device.save(&image).expect("saved");
    oracle::e2fsck(&image).expect("e2fsck finds nothing");
    let kept = oracle::debugfs(&image, "cat /file").expect("it is read");
    assert_eq!(kept, "content", "no change was made");
}
