//! A device whose n-th read fails: the check says so, and never takes it for damage, or for none.
use crate::damage::harness::Image;
use extant_block::BlockDevice;
use extant_inspect::{CheckOptions, Error, check};
use extant_sim::{Fault, Faulty};
use extant_testkit::oracle::require;
use std::sync::Arc;

/// A volume and its name.
type Row = (&'static str, fn() -> Image);

/// Volumes whose reads are all of the check: lists of orphans, quotas, values in inodes, maps.
const VOLUMES: &[Row] = &[
    ("plain", Image::plain),
    ("journaled", Image::journaled),
    ("an orphan in the file of orphans", waiting),
    ("values in inodes", Image::values),
    ("counted", Image::counted),
    ("branched", Image::branched),
    ("inline", Image::inline),
    ("indexed", Image::indexed),
];

/// The first number in the file of orphans is that of a file.
fn waiting() -> Image {
    let mut image = Image::orphaned();
    let orphans = image.superblock().orphan_file_inode;
    let at = image.block_of(orphans, 0);
    let ino = image.find("/d/file");
    image.put32(at, ino);
    image
}

#[test]
fn a_read_that_fails_is_told_as_that() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    for (name, volume) in VOLUMES {
        let image = volume();
        let device: Arc<dyn BlockDevice> = image.device();
        let sound = check(Arc::clone(&device), &CheckOptions::default()).expect("memory");
        let device = Arc::new(Faulty::new(device));
        let mut met = 0;
        for number in 1.. {
            let told = |fault: Fault| {
                device.repair();
                device.add(fault);
                let report = check(Arc::clone(&device) as _, &CheckOptions::default());
                (report, device.reads())
            };
            let (report, reads) = told(Fault::NthRead(number));
            if reads < number {
                let report = report.expect("nothing failed");
                assert_eq!(report.problems, sound.problems, "{name}");
                break;
            }
            met += 1;
            assert!(matches!(report, Err(Error::Device(_))), "{name}, read {number}: {report:?}");
            let (report, _) = told(Fault::ReadsAfter(number - 1));
            assert!(matches!(report, Err(Error::Device(_))), "{name}, from {number}: {report:?}");
        }
        assert!(met > 5, "{name}: {met} reads");
    }
}
