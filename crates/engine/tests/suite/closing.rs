//! What is on the device after `sync` and `close`, and what they ask of it.
use crate::volume;

use extant_block::{BlockDevice, MemoryDevice, RealClock, Traced};
use extant_engine::mkfs::Profile;
use extant_engine::{Change, ErrorKind, Filesystem};
use std::sync::Arc;
use volume::{MIB, Specification, judge};

#[test]
fn closing_frees_files_that_have_no_name_and_are_still_open() {
    if !extant_testkit::oracle::require("e2fsck") {
        return;
    }
    for (profile, policies) in
        [(Profile::Ext4, "modern"), (Profile::Ext2, "linux-2.4"), (Profile::Ext3, "freebsd-5.2")]
    {
        let specification =
            Specification { policies, ..Specification::new(profile, 1024, 8 * MIB) };
        let device = specification.make(RealClock::new());
        let volume = specification.open(&device).expect("opens");
        let before = volume.statfs();
        let mut files = Vec::new();
        for number in 0..3 {
            let path = format!("/file {number}");
            volume.write(&path, &vec![number; 70_000]).expect("a file");
            files.push(volume.open_file(&path).expect("opens"));
            volume.remove_file(&path).expect("is removed");
        }
        // One that is in the list of orphans on the disk, and two that are not yet.
        volume.sync().expect("syncs");
        volume.write("/kept", &[7; 5000]).expect("a file");
        let kept = volume.open_file("/kept").expect("opens");
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
        for file in &files {
            let error = file.read_at(0, &mut [0; 10]).expect_err("a file that was freed");
            assert!(matches!(error.kind, ErrorKind::NotFound), "{error}");
        }
        let mut bytes = [0; 10];
        assert_eq!(kept.read_at(4995, &mut bytes).expect("reads"), 5);
        drop(files);
        drop(kept);
        judge(&device).unwrap_or_else(|said| panic!("{specification}, files dropped: {said}"));
        let volume = specification.open(&device).expect("opens again");
        volume.remove_file("/kept").expect("is removed");
        let after = volume.statfs();
        assert_eq!(
            (after.free_blocks, after.free_inodes),
            (before.free_blocks, before.free_inodes),
            "{specification}"
        );
        volume.close().expect("closes");
    }
}

/// An open volume on a device that counts.
fn traced(policies: &'static str) -> (Filesystem, Arc<Traced<Arc<MemoryDevice>>>) {
    let specification =
        Specification { policies, ..Specification::new(Profile::Ext4, 1024, 8 * MIB) };
    let device = Arc::new(Traced::new(specification.make(RealClock::new())));
    let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let volume = Filesystem::open(shared, &specification.options()).expect("opens");
    (volume, device)
}

#[test]
fn a_sync_with_nothing_to_write_asks_nothing_of_the_device() {
    for policies in ["modern", "linux-2.4", "modern,mount=sync", "freebsd-5.2"] {
        let (volume, device) = traced(policies);
        let asked = || (device.counters().writes, device.counters().flushes);
        volume.create_dir("/directory", 0o755).expect("a directory");
        volume.write("/directory/file", &[1; 30_000]).expect("a file");
        let nameless = volume.create_file("/nameless", 0o600).expect("a file");
        nameless.write_all_at(0, &[2; 3000]).expect("writes");
        volume.remove_file("/nameless").expect("is removed");
        let file = volume.open_file("/directory/file").expect("opens");

        let before = asked();
        volume.sync().expect("syncs");
        let first = asked();
        assert!(first.0 > before.0 && first.1 > before.1, "{policies}: {before:?}, then {first:?}");
        volume.sync().expect("syncs");
        file.sync().expect("syncs");
        volume.metadata("/directory/file").expect("is there");
        volume.sync().expect("syncs");
        assert_eq!(asked(), first, "{policies}: writes and flushes");

        file.write_all_at(5, &[3; 10]).expect("writes");
        file.sync().expect("syncs");
        let second = asked();
        assert!(second.0 > first.0 && second.1 > first.1, "{policies}: {first:?}, then {second:?}");
        volume.sync().expect("syncs");
        assert_eq!(asked(), second, "{policies}: writes and flushes");
    }
}

#[test]
fn what_was_written_and_not_flushed_is_flushed_by_the_next_sync() {
    let (volume, device) = traced("modern,journal=none,mount=sync");
    volume.create_dir("/directory", 0o755).expect("a directory");
    volume.sync().expect("syncs");
    let before = device.counters();
    let change = Change { permissions: Some(0o700), ..Change::default() };
    // On a synchronous mount the call itself writes all that it changed, and does not flush.
    volume.change("/directory", &change).expect("changes");
    let written = device.counters();
    assert!(written.writes > before.writes);
    assert_eq!(written.flushes, before.flushes);
    volume.sync().expect("syncs");
    assert_eq!(device.counters().flushes, before.flushes + 1);
    let flushed = device.counters();
    volume.sync().expect("syncs");
    assert_eq!(device.counters(), flushed);
}
