//! The first thing to work: a volume of each kind takes files, directories and links, gives them
//! back, and e2fsck is silent.
use crate::volume;

use extant_block::RealClock;
use extant_engine::mkfs::Profile;
use extant_engine::{Filesystem, Rename};
use extant_format::inode::{Device, FileType};
use volume::{MIB, Random, Specification, judge};

fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(seed).fill(&mut bytes);
    bytes
}

fn fill(volume: &Filesystem) -> extant_engine::Result<()> {
    volume.create_dir("/a", 0o755)?;
    volume.create_dir("/a/b", 0o700)?;
    for (number, length) in [0, 1, 1000, 5000, 70_000, 1_500_000].into_iter().enumerate() {
        volume.write(format!("/a/f{number}"), &content(length as u64, length))?;
    }
    volume.symlink("f1", "/a/short")?;
    volume.symlink("f".repeat(200), "/a/long")?;
    volume.make_node("/a/fifo", FileType::Fifo, 0o600, Device::default())?;
    volume.make_node("/a/disk", FileType::BlockDevice, 0o600, Device { major: 8, minor: 300 })?;
    volume.hard_link("/a/f1", "/a/b/f1")?;
    for number in 0..300 {
        volume.write(format!("/a/b/a name of some length {number}"), b"small")?;
    }
    volume.rename("/a/f3", "/a/b/f3", Rename::Replace)?;
    volume.rename("/a/b", "/b", Rename::Replace)?;
    let error = volume.rename("/a/missing", "/b/new", Rename::Replace).unwrap_err();
    assert_eq!(error.to_string(), "/a/missing: no such file or directory");
    for number in (0..300).step_by(2) {
        volume.remove_file(format!("/b/a name of some length {number}"))?;
    }
    volume.create_dir("/gone", 0o755)?;
    volume.remove_dir("/gone")
}

fn check(volume: &Filesystem) -> extant_engine::Result<()> {
    for (path, length) in [
        ("/a/f0", 0),
        ("/b/f1", 1),
        ("/a/short", 1),
        ("/a/f2", 1000),
        ("/b/f3", 5000),
        ("/a/f5", 1_500_000),
    ] {
        assert_eq!(volume.read(path)?, content(length as u64, length), "{path}");
    }
    assert_eq!(volume.read_link("/a/long")?, "f".repeat(200).as_bytes());
    assert_eq!(volume.read_dir("/b")?.len(), 152);
    assert_eq!(volume.metadata("/b/f1")?.links, 2);
    assert_eq!(volume.metadata("/a/disk")?.device, Some(Device { major: 8, minor: 300 }));
    assert_eq!(volume.metadata("/gone").unwrap_err().errno(), 2);
    Ok(())
}

#[test]
fn every_kind_of_volume_takes_a_tree_and_gives_it_back() {
    for profile in [Profile::Ext2, Profile::Ext3, Profile::Ext4] {
        for block_size in [1024, 4096, 65536] {
            for policies in ["modern", "linux-2.4", "linux-2.6", "freebsd-2010", "packed"] {
                let specification = Specification {
                    policies,
                    ..Specification::new(profile, block_size, 160 * MIB)
                };
                let device = specification.make(RealClock::new());
                let volume = specification.open(&device).expect("opens");
                fill(&volume).unwrap_or_else(|error| panic!("{specification}: {error}"));
                check(&volume).unwrap_or_else(|error| panic!("{specification}: {error}"));
                volume.close().unwrap_or_else(|error| panic!("{specification}: {error}"));
                if extant_testkit::oracle::require("e2fsck") {
                    judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
                }
                let volume = specification.open(&device).expect("opens again");
                check(&volume).unwrap_or_else(|error| panic!("{specification}, again: {error}"));
            }
        }
    }
}
