//! First superblocks of which one field is damaged: by a copy, or by what the other fields say, the
//! volume is whole again, also where e2fsck does not find the copy; and numbers of files of the
//! system that lead to others, which keep what is in them.
use crate::names::{extant, run, theirs};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use std::path::{Path, PathBuf};

/// Words for mke2fs, and what debugfs sets in the first superblock, one after another.
const CASES: &[(&str, &[&str])] = &[
    (
        "-t ext2 -g 2048 -N 512",
        &[
            "blocks_count 2850",
            "blocks_per_group 1024",
            "clusters_per_group 7",
            "first_data_block 181",
            "first_ino 131072",
            "inode_size 255",
            "inodes_count 256",
            "inodes_per_group 1024",
            "log_block_size 2",
            "log_cluster_size 7",
            "rev_level 7",
        ],
    ),
    (
        "-t ext4 -g 4096 -N 512 -J size=1 -O ^metadata_csum,uninit_bg",
        &["inodes_per_group 255", "first_data_block 0", "desc_size 15", "last_orphan 4294967295"],
    ),
    (
        "-t ext4 -g 1024 -N 512 -J size=1 -O meta_bg,^resize_inode",
        &["first_meta_bg 2", "desc_size 15", "last_orphan 3", "feature_incompat 2048"],
    ),
    ("-t ext4 -C 4096 -N 256 -J size=1 -O bigalloc", &["inodes_count 5"]),
    (
        "-t ext4 -g 4096 -N 512 -J size=1 -O quota,project",
        &[
            "usr_quota_inum 100",
            "usr_quota_inum 40",
            "grp_quota_inum 1",
            "grp_quota_inum 200",
            "prj_quota_inum 2",
            "prj_quota_inum 3",
            "prj_quota_inum 12000",
        ],
    ),
    (
        "-t ext3 -g 4096 -N 512 -J size=1",
        &["journal_inum 33", "journal_inum 2", "usr_quota_inum 100", "grp_quota_inum 2"],
    ),
];

/// Files of the tree: as many as have the numbers that are set above.
const FILES: usize = 120;

fn content(at: usize) -> Vec<u8> {
    format!("file {at}\n").repeat(1 + at * 7 % 300).into_bytes()
}

/// A folder with the files, in two directories.
fn tree(folder: &Scratch) -> PathBuf {
    let tree = folder.join("tree");
    for name in ["a", "b"] {
        std::fs::create_dir_all(tree.join(name)).unwrap();
    }
    for at in 0..FILES {
        std::fs::write(tree.join(name(at)), content(at)).unwrap();
    }
    tree
}

fn name(at: usize) -> String {
    format!("{}/{at}", if at.is_multiple_of(3) { "a" } else { "b" })
}

/// The files that debugfs does not read as they were.
fn lost(image: &Path, folder: &Scratch) -> Vec<usize> {
    let out = folder.join("out");
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir(&out).unwrap();
    let rdump = format!("rdump /a /b {}", out.display());
    run(theirs("debugfs").args(["-R", &rdump]).arg(image));
    let is_lost =
        |at: &usize| std::fs::read(out.join(name(*at))).ok().as_ref() != Some(&content(*at));
    (0..FILES).filter(is_lost).collect()
}

#[test]
fn one_damaged_field_loses_nothing() {
    if !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-superblocks");
    let (base, image) = (folder.join("base.img"), folder.join("image"));
    let tree = tree(&folder);
    for (words, fields) in CASES {
        let mut mke2fs = theirs("mke2fs");
        mke2fs.args(["-q", "-F", "-b", "1024"]).args(words.split_whitespace()).arg("-d").arg(&tree);
        let _ = std::fs::remove_file(&base);
        let (code, said) = run(mke2fs.arg(&base).arg("12M"));
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(lost(&base, &folder), [0; 0], "{words}: before");
        for field in *fields {
            let damaged = || {
                std::fs::copy(&base, &image).unwrap();
                let set = format!("ssv {field}");
                run(theirs("debugfs").args(["-w", "-R", &set]).arg(&image));
            };
            damaged();
            let (code, said) = run(extant("e2fsck").arg("-fn").arg(&image));
            let theirs_too = run(theirs("e2fsck").arg("-fn").arg(&image)).0;
            assert_eq!(code == Some(0), theirs_too == Some(0), "{words}, {field}: {said}");
            let (code, said) = run(extant("e2fsck").arg("-fy").arg(&image));
            assert_eq!(code, Some(1), "{words}, {field}: {said}");
            let (code, said) = run(theirs("e2fsck").arg("-fn").arg(&image));
            assert_eq!(code, Some(0), "{words}, {field}: {said}");
            assert_eq!(lost(&image, &folder), [0; 0], "{words}, {field}");
        }
    }
}
