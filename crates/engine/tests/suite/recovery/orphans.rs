//! Orphans that Linux left: freed, or cut to their size, when the volume is opened.
use crate::recovery::kernel::{Shutdown, Wish, is_possible, judge, leave};
use crate::recovery::{copy_recovered, device, recover_by_writing};
use extant_engine::{OrphanCounts, Orphans, recovered};
use extant_testkit::command::{self, program};
use extant_testkit::oracle::{Access, debugfs, dumpe2fs, mount_loop};
use extant_testkit::scratch::Scratch;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Files that are open and have no name, and a directory that is.
fn hold(root: &Path) -> Vec<File> {
    let mut held = Vec::new();
    for at in 0..40 {
        let name = root.join(format!("held{at}"));
        fs::write(&name, vec![at as u8; 3000 * at]).unwrap();
        held.push(File::open(&name).unwrap());
    }
    fs::create_dir(root.join("directory")).unwrap();
    held.push(File::open(root.join("directory")).unwrap());
    extant_testkit::oracle::sync(root);
    fs::remove_dir(root.join("directory")).unwrap();
    (0..40).for_each(|at| fs::remove_file(root.join(format!("held{at}"))).unwrap());
    fs::write(root.join("kept"), [7; 5000]).unwrap();
    extant_testkit::oracle::sync(root);
    held
}

fn free(image: &Path) -> (Option<u64>, Option<u64>) {
    let dump = dumpe2fs(image).expect("dumpe2fs reads it");
    (dump.number("Free blocks"), dump.number("Free inodes"))
}

#[test]
fn files_without_a_name_are_freed_as_linux_frees_them() {
    if !is_possible() {
        return;
    }
    for (features, block_size) in [("64bit", 1024), ("orphan_file", 1024), ("orphan_file", 4096)] {
        let left = leave(Wish { features, block_size }, Shutdown::LogWritten, hold);
        let kernel = left.copy("kernel.img");
        let mounted = mount_loop(&kernel, Access::ReadWrite, "").expect("the kernel replays it");
        mounted.unmount().expect("it is unmounted");

        let read = left.beside("read.img");
        copy_recovered(&left.image, &read, Orphans::Finish).expect("it is recovered");
        let written = left.copy("written.img");
        recover_by_writing(&written).expect("it is recovered");
        for image in [&read, &written] {
            judge(image, features);
            assert_eq!(left.differences(image), Vec::<String>::new(), "{features}");
            assert_eq!(free(image), free(&kernel), "{features}: blocks and inodes");
        }
        let device = device(&left.image, extant_block::Access::ReadOnly);
        let report = recovered(device, Orphans::Finish).expect("it is recovered").report;
        let counts = report.and_then(|report| report.orphans);
        assert_eq!(counts, Some(OrphanCounts { freed: 41, truncated: 0 }), "{features}");
    }
}

/// An image with two files, on which debugfs has run these commands.
fn crafted(commands: &[String]) -> (Scratch, PathBuf) {
    let folder = Scratch::new("recovery");
    let image = folder.join("crafted.img");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024"]).arg(&image).arg("16M");
    command::output(&mut mke2fs).expect("mke2fs runs");
    let source = folder.join("source");
    fs::write(&source, vec![7; 50_000]).unwrap();
    let writes = ["one", "two"].map(|name| format!("write {} {name}", source.display()));
    for request in writes.iter().chain(commands) {
        command::output(program("debugfs").args(["-w", "-R", request]).arg(&image))
            .expect("debugfs runs");
    }
    (folder, image)
}

#[test]
fn a_truncation_that_had_begun_is_completed() {
    if !is_possible() {
        return;
    }
    let commands = ["sif one size 5000", "ssv last_orphan 12"].map(String::from);
    let (_folder, image) = crafted(&commands);
    recover_by_writing(&image).expect("it is recovered");
    judge(&image, "a file with blocks after its size");
    let stat = debugfs(&image, "stat one").expect("debugfs runs");
    assert!(stat.contains("Blockcount: 10"), "{stat}");
}

#[test]
fn an_immutable_file_leaves_the_list_as_it_is() {
    if !is_possible() {
        return;
    }
    let commands = ["sif one flags 0x80010", "ssv last_orphan 12"].map(String::from);
    let (_folder, image) = crafted(&commands);
    recover_by_writing(&image).expect("it is recovered");
    judge(&image, "an immutable file on the list");
    let stat = debugfs(&image, "stat one").expect("debugfs runs");
    assert!(stat.contains("Size: 50000"), "{stat}");
}

#[test]
fn a_damaged_list_is_left_to_e2fsck() {
    if !is_possible() {
        return;
    }
    let unlinked = ["sif one links_count 0", "sif two links_count 0"];
    let with = |more: &[&str]| unlinked.iter().chain(more).map(ToString::to_string).collect();
    let cases: [(Vec<String>, &str); 4] = [
        (with(&["ssv last_orphan 12", "sif one dtime @13", "sif two dtime @12"]), "on it twice"),
        (with(&["ssv last_orphan 12", "sif one dtime @12"]), "on it twice"),
        (with(&["ssv last_orphan 99999"]), "not one that can be an orphan"),
        (with(&["ssv last_orphan 2"]), "not one that can be an orphan"),
    ];
    for (commands, expected) in cases {
        let (_folder, image) = crafted(&commands);
        let before = fs::read(&image).unwrap();
        let words = recover_by_writing(&image).expect_err("it is refused");
        assert!(words.contains(expected) && !words.contains('\n'), "{commands:?}: {words}");
        assert!(fs::read(&image).unwrap() == before, "{commands:?}: it was changed");
    }
}
