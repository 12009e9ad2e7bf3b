//! A share of what `xtask mount-proofs` does: system calls on a mount, answered as the kernel's
//! ext4 answers them.
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::{Known, skip_known};
use extant_testkit::system::{System, can_mount_fuse, make_image};
use extant_testkit::twins::{Life, Users, live_beside_kernel};
use std::path::PathBuf;

fn prove(words: &str, options: &str, users: Users) {
    let has_tools = ["mke2fs", "e2fsck", "python3"].iter().all(|tool| oracle::require(tool));
    if !has_tools || !can_mount_fuse() || !oracle::can_mount() {
        return;
    }
    let operations = extant_testkit::variables::number("EXTANT_MOUNT_CALLS");
    let system = System::Extant(
        PathBuf::from(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant"))),
        options.into(),
    );
    let life = Life { seed: 11, operations, users };
    if let Err(error) = live_beside_kernel(&system, words, life) {
        panic!("{words}, {options}: {error}");
    }
}

#[test]
fn one_user_has_the_answers_of_the_kernel() {
    prove("-t ext4 -b 4096", "noatime", Users::One);
}

/// Values in inodes of their own, and quotas where the kernel was built with them.
#[test]
fn large_values_have_the_answers_of_the_kernel() {
    if !oracle::can_mount() || !oracle::require("mke2fs") {
        return;
    }
    let image = Scratch::new("kernel-quota");
    let image = image.join("quota.img");
    let words = "-t ext4 -b 4096 -O ea_inode,quota";
    make_image(&image, words, "16M").expect("mke2fs makes it");
    match oracle::mount_loop(&image, oracle::Access::ReadWrite, "") {
        Ok(mounted) => {
            mounted.unmount().expect("unmounts");
            prove(words, "noatime", Users::One);
        }
        Err(error) => {
            skip_known(Known::KernelFeatures, format_args!("no mount with quota: {error}"));
            prove("-t ext4 -b 4096 -O ea_inode", "noatime", Users::One);
        }
    }
}

#[test]
fn all_users_have_the_answers_of_the_kernel() {
    prove("-t ext3 -b 1024", "noatime,allow_other,default_permissions", Users::Many);
}
