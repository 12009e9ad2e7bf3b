//! Targets of symbolic links: of every length, read back at once, after a sync and after closing,
//! over blocks that held something else before.
use crate::volume;

use extant_block::RealClock;
use extant_engine::mkfs::Profile;
use extant_engine::{ErrorKind, Filesystem};
use std::ffi::OsString;
use volume::{MIB, Specification, judge};

/// A target of that length, different for each length.
fn target(length: usize) -> String {
    let word = format!("{length}/target/");
    word.chars().cycle().take(length).collect()
}

fn check(volume: &Filesystem, lengths: &[usize], when: &str) {
    for length in lengths {
        let read = volume.read_link(format!("/links/{length}")).expect("reads");
        assert!(
            read == target(*length).as_bytes(),
            "{length} bytes, {when}: {}",
            read.escape_ascii()
        );
    }
}

#[test]
fn a_target_is_read_back_whatever_its_length_and_whatever_was_there_before() {
    for (profile, block_size) in
        [(Profile::Ext4, 4096), (Profile::Ext4, 1024), (Profile::Ext2, 1024), (Profile::Ext3, 2048)]
    {
        let specification = Specification::new(profile, block_size, 16 * MIB);
        let device = specification.make(RealClock::new());
        let volume = specification.open(&device).expect("opens");
        // Older files are between files that are read one by one, and are read ahead with them.
        volume.create_dir("/links", 0o755).expect("makes it");
        for number in 0..200 {
            volume.write(format!("/links/old {number}"), &vec![b'x'; 900]).expect("writes");
        }
        volume.sync().expect("syncs");
        for number in (0..200).filter(|number| number % 3 != 0) {
            volume.remove_file(format!("/links/old {number}")).expect("removes");
        }
        volume.close().expect("closes");
        let volume = specification.open(&device).expect("opens");
        for number in (0..200).step_by(3) {
            assert_eq!(volume.read(format!("/links/old {number}")).expect("reads").len(), 900);
        }
        let most = block_size as usize - 1;
        let lengths: Vec<usize> = (1..=most).step_by(61).chain([58, 59, 60, 61, most]).collect();
        for length in &lengths {
            let made = volume.symlink(OsString::from(target(*length)), format!("/links/{length}"));
            assert!(made.is_ok() || lengths.iter().filter(|other| *other == length).count() > 1);
        }
        let too_long = volume.symlink(OsString::from(target(most + 1)), "/links/too long");
        assert!(matches!(too_long.expect_err("too long").kind, ErrorKind::NameTooLong));
        check(&volume, &lengths, "at once");
        volume.sync().expect("syncs");
        check(&volume, &lengths, "after a sync");
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
        let volume = specification.open(&device).expect("opens");
        check(&volume, &lengths, "after opening again");
        // Their blocks go to others, whose bytes are not written over.
        for length in &lengths {
            let _ = volume.remove_file(format!("/links/{length}"));
        }
        volume.sync().expect("syncs");
        for number in 0..100 {
            volume.write(format!("/new {number}"), &vec![b'n'; 3000]).expect("writes");
        }
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
        let volume = specification.open(&device).expect("opens");
        for number in 0..100 {
            assert!(
                volume.read(format!("/new {number}")).expect("reads") == vec![b'n'; 3000],
                "{number}"
            );
        }
    }
}
