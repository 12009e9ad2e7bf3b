//! The report of a check.
use crate::{PROFILES, assert_clean_bytes, sample};
use extant::{Code, Image, Memory, Options, Profile, Severity};
use extant_testkit::command::program;
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use std::sync::Arc;

#[test]
fn what_is_right_has_no_problem() {
    for profile in PROFILES {
        let report = extant::check(sample(profile)).unwrap();
        assert!(report.is_clean() && report.problems.is_empty(), "{:?}", report.problems);
        assert_eq!(report.exit_code(), 0);
        assert!(report.summary.inodes_used > 10);
    }
}

#[test]
fn damage_is_a_list_with_codes_and_places() {
    if !require("debugfs") || !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("extant-check");
    let path = folder.join("x.img");
    std::fs::write(&path, sample(Profile::Ext4).to_vec()).unwrap();
    let mut debugfs = program("debugfs");
    debugfs.args(["-w", "-R", "set_inode_field /etc/hostname links_count 7"]).arg(&path);
    assert!(debugfs.output().unwrap().status.success());
    let report = extant::check(&path).unwrap();
    assert_eq!((report.exit_code(), report.is_clean()), (4, false));
    let problem = report.problems.iter().find(|problem| problem.found == Some(7));
    let problem = problem.unwrap_or_else(|| panic!("{:?}", report.problems));
    assert_eq!(problem.rule().severity, Severity::Error);
    assert!(problem.ino.is_some() && problem.to_string().contains('7'), "{problem}");
    assert!(extant_inspect::CODES.iter().any(|rule| rule.name == problem.rule().name));
    assert_eq!(program("e2fsck").arg("-fn").arg(&path).output().unwrap().status.code(), Some(4));
}

#[test]
fn what_is_no_volume_is_a_report_too() {
    let report = extant::check(vec![0; 1 << 20]).unwrap();
    assert_eq!(report.exit_code(), 8);
    assert_eq!(report.problems[0].code, Code::SuperblockUnusable);
    assert!(extant::check("/nowhere.img").is_err());
}

/// As it is after replay, in memory.
#[test]
fn a_journal_that_waits_is_no_problem() {
    let disk = crate::devices::Disk::whole(sample(Profile::Ext4).to_vec());
    let volume = Options::new().write(true).open(Image::device(disk.clone())).unwrap();
    volume.write("/new", vec![1; 50_000]).unwrap();
    volume.sync().unwrap();
    let held = Memory::from(disk.bytes());
    // An inode without a name, which the crash leaves.
    let open = volume.open_file("/new").unwrap();
    volume.remove_file("/new").unwrap();
    volume.sync().unwrap();
    let orphaned = disk.bytes();
    drop(open);
    volume.close().unwrap();
    let report = extant::check(held.clone()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_ne!(held.to_vec(), disk.bytes());
    let report =
        extant::check(Image::device(Arc::new(crate::devices::ReadOnly(orphaned)))).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    let codes: Vec<Code> = report.problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, [Code::OrphansWait]);
    assert_clean_bytes(&disk.bytes(), "closed");
}
