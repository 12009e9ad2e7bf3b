//! The check after a change, by what changed: whatever was there before and is there now, it says
//! what a whole check says.
use crate::damage::harness::Image;
use extant_block::BlockDevice;
use extant_format::BlockNo;
use extant_inspect::{CheckOptions, examine, examine_again};
use extant_testkit::oracle::require;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is done to a volume: its name, and the change.
type Damage = (&'static str, fn(&mut Image));

/// Names, links and what directories say of each other; `d` has the files `file` and `second`.
const DAMAGES: &[Damage] = &[
    ("nothing", |_| {}),
    ("a wrong type", |image| {
        let at = image.entry("/d/file");
        image.put8(at + 7, 2);
    }),
    ("a directory with two names", |image| {
        let (at, ino) = (image.entry("/d/file"), image.find("/lost+found"));
        image.put32(at, ino);
        image.put8(at + 7, 2);
    }),
    ("the same, and a wrong type", |image| {
        let (at, ino) = (image.entry("/d/file"), image.find("/lost+found"));
        image.put32(at, ino);
    }),
    ("another parent", |image| {
        let at = image.block_of(image.find("/d"), 0);
        image.put32(at + 12, 11);
    }),
    ("a wrong count of links", |image| {
        let at = image.inode_of("/d/file");
        image.put16(at + 26, 9);
    }),
    ("no name", |image| {
        let at = image.entry("/d/file");
        image.put32(at, 0);
    }),
    ("another file of that name", |image| {
        let (at, ino) = (image.entry("/d/file"), image.find("/d/second"));
        image.put32(at, ino);
    }),
    ("a directory without a name", |image| {
        let at = image.entry("/d");
        image.put32(at, 0);
    }),
    ("a name that cannot be", |image| {
        let at = image.entry("/d/file");
        image.put8(at + 9, b'/');
    }),
    ("a dot that is too long", |image| {
        let at = image.block_of(image.find("/d"), 0);
        image.put16(at + 4, 1024);
    }),
    ("a name of nothing", |image| {
        let at = image.entry("/d/file");
        image.put32(at, 60);
    }),
    ("wrong bitmaps", |image| {
        let at = image.descriptor(0);
        let bitmap = image.get32(at) as usize * 1024;
        image.put8(bitmap + 100, 0xff);
    }),
];

#[test]
fn what_changed_is_enough_to_know_what_a_whole_check_says() {
    if !require("mke2fs") || !require("debugfs") || !require("e2fsck") {
        return;
    }
    let images: [fn() -> Image; 4] = [Image::plain, Image::modern, Image::indexed, Image::inline];
    let options = CheckOptions::default();
    let device = |image: &Image| -> Arc<dyn BlockDevice> { image.device() };
    for image in images {
        for (was, before) in DAMAGES {
            let mut earlier = image();
            before(&mut earlier);
            for (is, after) in DAMAGES {
                let mut now = image();
                after(&mut now);
                let (report, usage) = examine(device(&earlier), &options).expect("memory");
                let blocks = earlier.bytes.chunks(1024).zip(now.bytes.chunks(1024));
                let changed: BTreeMap<BlockNo, Vec<u8>> = (0..)
                    .map(BlockNo)
                    .zip(blocks)
                    .filter(|(_, (was, is))| was != is)
                    .map(|(block, (was, _))| (block, was.to_vec()))
                    .collect();
                let usage = usage.expect("it was checked");
                let again = examine_again(device(&now), &options, (&report, usage), &changed);
                let (again, _) = again.expect("memory");
                let (whole, _) = examine(device(&now), &options).expect("memory");
                assert_eq!(again.problems, whole.problems, "{was}, then {is}");
                assert_eq!(again.summary, whole.summary, "{was}, then {is}");
            }
        }
    }
}
