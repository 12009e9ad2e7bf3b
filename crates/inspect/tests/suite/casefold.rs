//! Indexes of directories whose names know no case: the hashes of letters beyond ASCII too.
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_inspect::{CheckOptions, check};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{self, require};
use extant_testkit::scratch::Scratch;
use std::path::Path;
use std::sync::Arc;

/// Names of the problems of a volume in an image.
fn problems(image: &Path) -> Vec<&'static str> {
    let bytes = std::fs::read(image).expect("it is read");
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(RealClock::new(), &bytes));
    let report = check(device, &CheckOptions::default()).expect("it is checked");
    report.problems.iter().map(|problem| problem.rule().name).collect()
}

#[test]
fn hashes_of_all_letters_are_compared_with_the_index() {
    if !["mke2fs", "debugfs", "e2fsck"].iter().all(|tool| require(tool)) {
        return;
    }
    let folder = Scratch::new("check-casefold");
    let (tree, image) = (folder.join("tree"), folder.join("image"));
    std::fs::create_dir_all(tree.join("folder")).expect("makes");
    for number in 0..200 {
        let name = format!("folder/ÅNGSTRÖM Größe ΣΊΣΥΦΟΣ {number}");
        std::fs::write(tree.join(name), "").expect("writes");
    }
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-E", "encoding=utf8"]);
    mke2fs.args(["-O", "casefold,^has_journal,^metadata_csum", "-d"]).arg(&tree);
    output(mke2fs.arg(&image).arg("8M")).expect("mke2fs makes it");
    let request = "set_inode_field /folder flags 0x40080000";
    output(program("debugfs").args(["-w", "-R", request]).arg(&image)).expect("the flag is set");
    let indexed = program("e2fsck").arg("-fyD").arg(&image).output().expect("it runs");
    assert!(matches!(indexed.status.code(), Some(0 | 1)));
    oracle::e2fsck(&image).expect("the index is right");
    assert_eq!(problems(&image), [""; 0]);

    // The second leaf would begin with a later hash: the first of its names are in the first.
    let blocks = oracle::debugfs(&image, "blocks /folder").expect("its blocks");
    let root: usize = blocks.split_whitespace().next().expect("one").parse().expect("a number");
    let mut bytes = std::fs::read(&image).expect("it is read");
    bytes[root * 1024 + 0x28 + 3] += 2;
    std::fs::write(&image, &bytes).expect("it is written");
    oracle::e2fsck(&image).expect_err("the index is wrong");
    assert_eq!(problems(&image), ["index-below"]);
}
