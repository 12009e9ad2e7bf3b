//! Logs of the kernel and of debugfs, replayed by us, by e2fsck and by the kernel's mount.
use crate::volumes;

use extant_format::superblock::Feature;
use extant_journal::{End, Outcome, Report, apply, overlay};
use extant_testkit::oracle::{self, Access};
use extant_testkit::scratch::Scratch;
use extant_testkit::{command, compare};
use std::path::Path;
use std::sync::Arc;
use volumes::{bytes_of, load, make, tools};

/// Leaves committed transactions of several kinds of work in the log.
fn work(root: &Path) {
    let sync = || command::run("sync", &["-f".as_ref(), root.as_os_str()]).expect("synced");
    let magic = 0xc03b_3998_u32.to_be_bytes();
    for number in 0..100_usize {
        let folder = root.join(format!("d{number}"));
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("f"), magic.repeat(1500)).expect("a file");
        std::fs::write(root.join(format!("f{number}")), vec![number as u8; 3000]).expect("a file");
    }
    sync();
    for number in (0..100).step_by(3) {
        std::fs::remove_dir_all(root.join(format!("d{number}"))).expect("removed");
        let (from, to) = (root.join(format!("f{number}")), root.join(format!("g{number}")));
        std::fs::rename(from, to).expect("renamed");
    }
    sync();
    std::fs::write(root.join("last"), vec![9; 200_000]).expect("a file");
    sync();
}

/// Replays the copy of an image, and compares every block with what e2fsck made of another copy.
fn replay(image: &Path, folder: &Scratch, case: &str) -> Report {
    let theirs = folder.join("theirs");
    std::fs::copy(image, &theirs).expect("a copy");
    // It ends with 1 when it changed something, as it has to.
    let mut e2fsck = command::program("e2fsck");
    let output = e2fsck.args(["-y", "-E", "journal_only"]).arg(&theirs).output().expect("e2fsck");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{case}: {output:?}");
    let theirs = load(&theirs);

    let ours = load(image);
    let before = bytes_of(&*ours);
    let (over, report) = overlay(Arc::clone(&ours) as _, 1 << 30).expect(case);
    assert!(bytes_of(&*ours) == before, "{case}: an overlay wrote");
    let applied = apply(Arc::clone(&ours) as _).expect(case);
    assert_eq!(report, applied, "{case}");
    // But for the counters in the superblock, which are in its first sector, and its checksum.
    let (memory, device) = (bytes_of(&*over), bytes_of(&*ours));
    let differ =
        (0..device.len()).find(|at| !(1024..2048).contains(at) && memory[*at] != device[*at]);
    assert_eq!(differ, None, "{case}: overlay and device differ");

    let journal = volumes::journal(&ours);
    let size = u64::from(journal.volume().block_size());
    assert!(!journal.volume().has(Feature::NEEDS_RECOVERY), "{case}");
    assert!(journal.superblock().is_empty(), "{case}");
    let (ours, theirs) = (bytes_of(&*ours), bytes_of(&*theirs));
    let their_journal = size * journal.place(0..1).start.0;
    let blocks = ours.chunks(size as usize).zip(theirs.chunks(size as usize)).enumerate();
    let differ = blocks.filter(|(number, (ours, theirs))| {
        let at = *number as u64 * size;
        // e2fsck stores times and counters in the superblock, and less in the journal's.
        let is_superblock = at == 1024 / size * size || at == their_journal;
        ours != theirs && !is_superblock
    });
    let differ: Vec<usize> = differ.map(|(number, _)| number).collect();
    assert!(differ.is_empty(), "{case}: blocks {differ:?}");
    report
}

#[test]
fn logs_of_the_kernel_are_replayed_as_e2fsck_and_the_kernel_do() {
    if !tools() || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::on_disk("journal-peers");
    let (image, cut) = (folder.join("image"), folder.join("cut"));
    let cases = [
        ("^metadata_csum,^64bit,^extent,^huge_file", "data=ordered", 1024),
        ("^metadata_csum,^64bit", "data=journal", 1024),
        ("^metadata_csum,^64bit", "data=writeback,journal_async_commit", 4096),
        ("^metadata_csum,^64bit", "data=ordered,journal_checksum", 1024),
        ("metadata_csum,64bit", "data=journal", 4096),
        ("metadata_csum,64bit", "data=ordered", 1024),
    ];
    for (features, options, block_size) in cases {
        let case = format!("{features} {options} {block_size}");
        make(&image, features, block_size);
        let options = format!("{options},commit=1000");
        let mounted = oracle::mount_loop(&image, Access::ReadWrite, &options).expect(&case);
        work(mounted.path());
        std::fs::copy(&image, &cut).expect("a copy");
        mounted.unmount().expect("unmounted");
        let report = replay(&cut, &folder, &case);
        println!("{case}: {report:?}");
        assert_eq!((report.outcome, &report.end), (Outcome::Replayed, &End::Clean), "{case}");
        assert!(report.transactions >= 2 && report.blocks > 10, "{case}: {report:?}");

        let ours = folder.join("ours");
        let (device, _) = overlay(load(&cut), 1 << 30).expect(&case);
        std::fs::write(&ours, bytes_of(&*device)).expect("saved");
        oracle::e2fsck(&ours).expect(&case);
        let ours = oracle::mount_loop(&ours, Access::ReadOnly, "").expect(&case);
        let kernels = oracle::mount_loop(&cut, Access::ReadWrite, "").expect(&case);
        let differences =
            compare::trees(kernels.path(), ours.path(), &compare::Options::same_image());
        assert_eq!(differences.expect(&case).len(), 0, "{case}");
        assert!(std::fs::read(ours.path().join("last")).expect("synced").len() == 200_000);
    }
}
