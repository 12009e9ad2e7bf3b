//! The undo file of e2fsprogs, which `e2undo` takes back.
use crate::quick_folder;
use crate::volumes::{self, Kind, bytes_of};
use extant_block::{BlockDevice, MemoryDevice, Overlay, Window};
use extant_edit::e2undo;
use extant_edit::redo::{self, Identity};
use extant_edit::undo::{self, Keep};
use extant_testkit::command::{output, program};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::path::Path;
use std::sync::Arc;

/// An overlay in which every `step`th block differs by some bytes, and the superblock by its count.
fn changed(device: Arc<dyn BlockDevice>, block_size: u32, step: usize) -> Overlay {
    let end = device.info().bytes / u64::from(block_size);
    let mut superblock = extant_engine::read_superblock(&*device).expect("a superblock");
    let overlay = Overlay::new(device, block_size, 1 << 30);
    for number in (20..end).step_by(step) {
        overlay.write(number * u64::from(block_size) + 77, &[0xa5; 300]).expect("it is kept");
    }
    superblock.free_blocks -= 3;
    overlay.write(1024, &superblock.encode()).expect("it is kept");
    overlay
}

fn e2undo(words: &[&str], file: &Path, image: &Path) -> Result<(), String> {
    output(program("e2undo").args(words).arg(file).arg(image)).map(drop)
}

#[test]
fn e2undo_takes_back_what_was_changed() {
    if !oracle::require("mke2fs") || !oracle::require("e2undo") {
        return;
    }
    let kinds = [
        (Kind::EXT2_1K, 1024, 9),
        // More blocks than one block of keys has room for.
        (Kind::EXT4_1K, 1024, 61),
        (Kind::EXT4_PLAIN, 2048, 500),
        (Kind::EXT4_4K, 4096, 7),
    ];
    for (kind, block_size, step) in kinds {
        for offset in [0, 3 << 20] {
            let folder = quick_folder("e2undo");
            let (image, file) = (folder.join("disk"), folder.join("undo"));
            let volume = bytes_of(&kind.make());
            let whole = [vec![0x11; offset as usize], volume.clone(), vec![0x22; 5000]].concat();
            let disk = Arc::new(MemoryDevice::from_bytes(volumes::clock(), &whole));
            let window = Window::new(
                disk.clone() as _,
                offset..offset + volume.len() as u64,
                "volume".into(),
            );
            let device: Arc<dyn BlockDevice> = Arc::new(window);
            let overlay = changed(device, block_size, step);
            let kept = e2undo::write(&overlay, block_size, &file, offset).expect("it is kept");
            assert!(kept > 5, "{kept}");
            assert!(bytes_of(&*disk) == whole, "the volume was written");
            let log = redo::path_of(&image).expect("a name");
            let identity = Identity { offset, image_bytes: whole.len() as u64 };
            let place = (log.as_path(), &identity);
            let applied = undo::apply(&overlay, block_size, place, Keep::Nothing);
            assert_eq!(applied.expect("it is applied").blocks, kept);
            let after = bytes_of(&*disk);
            assert!(after != whole);
            std::fs::write(&image, &after).expect("it is written");
            // Looking changes nothing.
            e2undo(&["-n"], &file, &image).expect("it is read");
            assert!(std::fs::read(&image).expect("it is read") == after);
            e2undo(&[], &file, &image).unwrap_or_else(|error| panic!("{kind:?} {offset}: {error}"));
            assert!(std::fs::read(&image).expect("it is read") == whole, "{kind:?} {offset}");
        }
    }
}

/// By the superblock that is there, e2undo tells whether a volume is the one that was changed.
#[test]
fn e2undo_refuses_another_volume() {
    if !oracle::require("mke2fs") || !oracle::require("e2undo") {
        return;
    }
    let folder = quick_folder("e2undo-other");
    let (image, file) = (folder.join("disk"), folder.join("undo"));
    let device = Arc::new(Kind::EXT4_1K.make());
    let overlay = changed(device, 1024, 100);
    e2undo::write(&overlay, 1024, &file, 0).expect("it is kept");
    let other = bytes_of(&Kind::EXT4_1K.make());
    std::fs::write(&image, &other).expect("it is written");
    let refused = e2undo(&[], &file, &image).expect_err("another volume");
    assert!(refused.contains("doesn't match"), "{refused}");
    assert!(std::fs::read(&image).expect("it is read") == other);
}

#[test]
fn a_file_that_holds_something_is_kept_and_no_change_makes_none() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder: Scratch = quick_folder("e2undo-kept");
    let device: Arc<dyn BlockDevice> = Arc::new(Kind::EXT2_1K.make());
    let overlay = changed(Arc::clone(&device), 1024, 100);
    let (notes, link, empty) = (folder.join("notes"), folder.join("link"), folder.join("empty"));
    std::fs::write(&notes, "notes").expect("it is written");
    std::fs::write(&empty, "").expect("it is written");
    std::os::unix::fs::symlink(&empty, &link).expect("a link");
    for path in [&notes, &link, &folder.path().to_owned()] {
        let refused = e2undo::write(&overlay, 1024, path, 0).expect_err("refused").to_string();
        assert!(refused.contains("is there already"), "{refused}");
    }
    assert_eq!(std::fs::read(&notes).expect("it is read"), b"notes");
    assert_eq!(std::fs::read(&empty).expect("it is read"), b"");
    assert!(e2undo::write(&overlay, 1024, &empty, 0).expect("an empty one") > 0);
    let none = folder.join("none");
    let same = Overlay::new(device, 1024, 1 << 20);
    assert_eq!(e2undo::write(&same, 1024, &none, 0).expect("nothing to do"), 0);
    assert!(!none.exists());
}
