//! The life of twins: two kernel mounts answer alike, and one that differs is found out.
use extant_testkit::oracle;
use extant_testkit::system::System;
use extant_testkit::twins::{Life, Users, live_beside_kernel};

const OPERATIONS: u64 = 3000;

fn is_possible() -> bool {
    ["mke2fs", "e2fsck", "python3"].iter().all(|tool| oracle::require(tool)) && oracle::can_mount()
}

fn kernel(options: &str) -> System {
    System::Kernel(options.into())
}

#[test]
fn two_kernel_mounts_live_alike() {
    if !is_possible() {
        return;
    }
    let life = Life { seed: 7, operations: OPERATIONS, users: Users::Many };
    // Not with inline_data: Linux 6.18 loses bytes of a file that grew out of its inode, and shows
    // them until it is unmounted.
    for words in ["-t ext4 -b 1024", "-t ext4 -b 4096", "-t ext3 -b 2048"] {
        let lived = live_beside_kernel(&kernel("noatime"), words, life)
            .unwrap_or_else(|error| panic!("{words}: {error}"));
        let succeeded = lived.succeeded;
        assert!(succeeded * 3 > OPERATIONS, "{words}: {lived:?}: most calls fail");
    }
}

#[test]
fn a_file_system_that_differs_is_found_out() {
    if !is_possible() {
        return;
    }
    let life = Life { seed: 7, operations: OPERATIONS, users: Users::Many };
    // Without access lists; reads noted; groups of files taken from their folder.
    for options in ["noatime,noacl", "strictatime", "noatime,grpid"] {
        let outcome = live_beside_kernel(&kernel(options), "-t ext4", life);
        assert!(outcome.is_err(), "the model and {options} are told apart");
    }
}
