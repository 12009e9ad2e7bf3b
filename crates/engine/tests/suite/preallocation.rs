//! Preallocation of `ext2-goal`, and the windows of `reservation`: two files that grow in turns get
//! runs of eight, and nothing stays in hand after a sync. And files that are allocated before they
//! are written: e2fsck has nothing to say of their maps.
use crate::volume::{MIB, Specification, judge};

use extant_block::{MemoryDevice, RealClock};
use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, Filesystem, Options, Size};
use extant_testkit::oracle::require;
use std::sync::Arc;

fn volume(policies: &str) -> Filesystem {
    let policies: Policies = policies.parse().unwrap();
    let device = Arc::new(MemoryDevice::new(RealClock::new(), 16 << 20));
    let mut wishes =
        default_wishes(Profile::from_name("ext2").unwrap(), 16 << 20, Some(1024), Identity::NONE);
    wishes.blocks = 16 << 10;
    format(device.clone(), &FormatOptions::new(wishes), &policies).unwrap();
    let options = Options {
        access: Access::ReadWrite,
        policies,
        cache_bytes: 4 << 20,
        data: DataKeeping::Bytes,
    };
    Filesystem::open(device, &options).unwrap()
}

fn runs_of_interleaved_growth(policies: &str) -> usize {
    let filesystem = volume(policies);
    let before = filesystem.statfs().free_blocks;
    let a = filesystem.create_file("/a", 0o644).unwrap();
    let b = filesystem.create_file("/b", 0o644).unwrap();
    for block in 0..10u64 {
        a.write_at(block * 1024, &[1; 1024]).unwrap();
        b.write_at(block * 1024, &[2; 1024]).unwrap();
    }
    filesystem.sync().unwrap();
    let runs = filesystem.object("/a").unwrap().runs().unwrap().len();
    drop((a, b));
    filesystem.sync().unwrap();
    assert_eq!(before - filesystem.statfs().free_blocks, 20, "nothing stays in hand");
    runs
}

#[test]
fn files_that_grow_in_turns_keep_runs_of_eight() {
    assert_eq!(runs_of_interleaved_growth("linux-2.4"), 2, "8 blocks and 2");
    assert_eq!(runs_of_interleaved_growth("linux-2.6"), 2, "a window of 8, and one of 16");
    assert_eq!(
        runs_of_interleaved_growth("linux-2.4,allocation=freebsd-5.2"),
        10,
        "no preallocation"
    );
}

/// Its extents are many while it is written in part, and four in the end: its tree is as short as
/// e2fsck would make it, whenever it was closed meanwhile.
#[test]
fn a_file_that_was_allocated_first_has_a_short_map_in_the_end() {
    if !require("e2fsck") {
        return;
    }
    for policies in ["modern", "modern,journal=data", "modern,journal=none", "linux-2.6"] {
        for islands in [3, 10, 30] {
            let made = Specification::new(Profile::from_name("ext4").unwrap(), 1024, 12 * MIB);
            let specification = Specification { policies, ..made };
            let device = specification.make(RealClock::new());
            let volume = specification.open(&device).unwrap();
            let file = volume.create_file("/file", 0o644).unwrap();
            file.allocate(0, 100 * 1024, Size::Grow).unwrap();
            for at in 0..islands {
                file.write_at(at * 2048, &[1; 1024]).unwrap();
            }
            drop(file);
            volume.sync().unwrap();
            // All but one, so that as many are left as an inode has room for; some of them first.
            for part in [0..islands / 3, islands / 3..islands] {
                let file = volume.open_file("/file").unwrap();
                for at in part.filter(|at| *at != islands / 2) {
                    file.write_at(at * 2048 + 1024, &[2; 1024]).unwrap();
                }
                drop(file);
                volume.sync().unwrap();
            }
            volume.close().unwrap();
            judge(&device).unwrap_or_else(|said| panic!("{policies}, {islands}: {said}"));
        }
    }
}
