//! Block size x inode size x profile x features, in a choice that brings every two of them
//! together, from a tree that has everything: e2fsck is silent, dumpe2fs counts the same, and the
//! kernel reads what went in.
use crate::build::command::{
    as_walked, build, bytes, everything, judge, rebuild, same_trees, same_when_mounted,
};
use extant_testkit::compare::{Field, Grain, Options};
use extant_testkit::fixtures::{Filler, Room, populate};
use extant_testkit::oracle::{
    Access, can_mount, debugfs, kernel_mounts_block_size, mount_loop, require,
};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use extant_testkit::walk::walk;
use rustix::fs::XattrFlags;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Everything that a file system can hold, for blocks of this size.
fn make_tree(root: &Path, block_size: u32, seed: u64) {
    fs::create_dir(root).unwrap();
    let room = Room {
        block_size,
        // Where the host has promised blocks only, what it calls a hole depends on what was read
        // before.
        has_extents: false,
        carried: Filler::Kernel,
        seed,
    };
    populate(root, &room).unwrap();
    shared_attributes(&root.join("sharers"));
    linked_across(root);
    crowded(&root.join("crowded"));
    fs::create_dir(root.join("empty-directory")).unwrap();
}

/// A block of attributes has at most 1,024 sharers.
fn shared_attributes(folder: &Path) {
    fs::create_dir(folder).unwrap();
    let value = bytes(7, 700);
    for number in 0..1100 {
        let path = folder.join(format!("{number:04}"));
        File::create(&path).unwrap();
        rustix::fs::lsetxattr(&path, "user.shared", &value, XattrFlags::empty()).unwrap();
    }
}

fn linked_across(root: &Path) {
    for folder in ["a", "b", "c"] {
        fs::create_dir(root.join(folder)).unwrap();
    }
    fs::write(root.join("b/first"), "linked").unwrap();
    fs::hard_link(root.join("b/first"), root.join("a/second")).unwrap();
    fs::hard_link(root.join("b/first"), root.join("c/third")).unwrap();
    std::os::unix::fs::symlink("target", root.join("b/link")).unwrap();
    fs::hard_link(root.join("b/link"), root.join("c/link")).unwrap();
}

/// Hashed directories: one of one level, one of more with small blocks.
fn crowded(folder: &Path) {
    for (name, count) in [("one", 1), ("two-hundred", 200), ("five-thousand", 5000)] {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).unwrap();
        let origin = folder.join("0");
        File::create(&origin).unwrap();
        for number in 1..count {
            fs::hard_link(&origin, folder.join(format!("name-{number}"))).unwrap();
        }
    }
}

struct Case {
    block_size: u32,
    inode_size: u32,
    profile: &'static str,
    more: &'static str,
}

const fn case(block_size: u32, inode_size: u32, profile: &'static str, more: &'static str) -> Case {
    Case { block_size, inode_size, profile, more }
}

const SMALL_BLOCKS: [Case; 13] = [
    case(1024, 128, "ext2", ""),
    case(1024, 256, "ext4", "-O ^resize_inode -g 1024 -G 2"),
    case(1024, 512, "ext4", "-O ^64bit,orphan_file,metadata_csum_seed"),
    case(1024, 1024, "ext3", "-O ^sparse_super,^resize_inode -g 2048"),
    case(1024, 128, "ext4", "-O ^extents,^64bit,^dir_index,^has_journal"),
    case(2048, 128, "ext3", "-O ^dir_index"),
    case(2048, 256, "ext2", "-O ^large_file -g 1024 -L label"),
    case(2048, 512, "ext4", "-O ^flex_bg,metadata_csum_seed"),
    case(4096, 128, "ext4", "-O ^metadata_csum,uninit_bg"),
    case(4096, 256, "ext4", ""),
    case(4096, 256, "ext3", "-O uninit_bg,^resize_inode -g 256"),
    case(4096, 512, "ext2", "-O ^dir_index,^filetype"),
    case(4096, 1024, "ext4", "-O ^extents,^64bit,^has_journal -G 1"),
];
const LARGE_BLOCKS: [Case; 6] = [
    case(8192, 256, "ext4", ""),
    case(8192, 1024, "ext3", "-g 256"),
    case(16384, 512, "ext2", "-O ^resize_inode"),
    case(16384, 128, "ext4", "-O metadata_csum_seed,orphan_file"),
    case(32768, 256, "ext4", "-O ^64bit,^flex_bg"),
    case(65536, 1024, "ext4", "-O ^has_journal,^metadata_csum"),
];

/// What this case keeps of a tree.
fn kept(case: &Case) -> Options {
    let mut options = everything();
    if case.inode_size == 128 {
        // No nanoseconds, nothing after 2038.
        options.grain = Grain::Second;
        options = options.without("times");
    }
    if case.block_size > 4096 {
        options.fields.remove(&Field::Holes);
    }
    options
}

fn run(cases: &[Case]) {
    if !require("e2fsck") || !extant_testkit::skips::require_root() {
        return;
    }
    let folder = Scratch::new("build-matrix");
    let image = folder.join("x.img");
    let mut block_size = 0;
    let source = folder.join("source");
    // As it is after the first image was made of it: to read all of it takes as long as an image.
    let mut walked = None;
    for case in cases.iter().step_by(number("EXTANT_CASES") as usize) {
        if case.block_size != block_size {
            walked = None;
            block_size = case.block_size;
            let _ = fs::remove_dir_all(&source);
            make_tree(&source, block_size.min(4096), u64::from(block_size));
        }
        let words = format!(
            "-t {} -b {} -I {} {}",
            case.profile, case.block_size, case.inode_size, case.more
        );
        eprintln!("{words}");
        let report = rebuild(&words, &[&source], &image);
        judge(&image, &report);
        assert_eq!(report.free_blocks, 0, "{words}: {report:?}");
        if can_mount() && kernel_mounts_block_size(case.block_size) {
            let walk = || walk(&source, everything().depth(), &everything().excluded).unwrap();
            let mounted = mount_loop(&image, Access::ReadOnly, "").unwrap();
            as_walked(walked.get_or_insert_with(walk), mounted.path(), &kept(case));
        } else {
            same_when_dumped(&image, &source, &folder.join("dumped"));
        }
    }
}

/// Where the kernel cannot mount it: debugfs copies the files out, and bytes, modes, owners and
/// targets are the same.
fn same_when_dumped(image: &Path, source: &Path, target: &Path) {
    fs::create_dir(target).unwrap();
    for name in ["sizes", "symlinks", "life", "sparse", "b", "names"] {
        // debugfs takes no name with a line's end in it; it walks over it all the same.
        debugfs(image, &format!("rdump /{name} {}", target.display()))
            .unwrap_or_else(|error| panic!("{error}"));
        let mut options = Options::copy();
        options.fields =
            [Field::Mode, Field::Owner, Field::Size, Field::Target, Field::Bytes].into();
        same_trees(&source.join(name), &target.join(name), &options);
    }
    fs::remove_dir_all(target).unwrap();
}

#[test]
fn small_blocks() {
    run(&SMALL_BLOCKS);
}

#[test]
fn large_blocks() {
    run(&LARGE_BLOCKS);
}

/// Files whose last block is the first or the last that a level of indirection maps, with nothing
/// before it.
#[test]
fn far_blocks_of_sparse_files() {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("build-sparse");
    let source = folder.join("source");
    fs::create_dir(&source).unwrap();
    let block = 1024u64;
    let fan = block / 4;
    let edges = [11, 12, 12 + fan - 1, 12 + fan, 12 + fan + fan * fan - 1, 12 + fan + fan * fan];
    for edge in edges {
        for shift in [0, 1, 700] {
            let file = File::create(source.join(format!("{edge}-{shift}"))).unwrap();
            file.write_all_at(&bytes(edge, 4096), (edge / 4 * 4) * block + shift).unwrap();
            if shift == 1 {
                file.set_len((edge + 3 * fan) * block + 1).unwrap();
            }
        }
    }
    let image = folder.join("x.img");
    for words in
        ["-t ext2 -b 1024", "-t ext4 -b 1024", "-t ext3 -b 2048", "-t ext2 -b 4096", "-t ext4"]
    {
        let report = rebuild(words, &[&source], &image);
        judge(&image, &report);
        assert_eq!(report.free_blocks, 0, "{words}");
        same_when_mounted(&image, &source, &everything());
    }
}

/// Whatever a source has of that name: the image always has one that e2fsck is content with.
#[test]
fn lost_and_found_of_a_source() {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("build-lost");
    let image = folder.join("x.img");
    let makes: [(&str, crate::build::Deed); 4] = [
        ("none", |_| {}),
        ("empty", |path| {
            fs::create_dir(path).unwrap();
            std::os::unix::fs::chown(path, Some(7), Some(70_000)).unwrap();
            rustix::fs::lsetxattr(path, "user.word", b"kept", XattrFlags::empty()).unwrap();
        }),
        ("full", |path| {
            fs::create_dir(path).unwrap();
            fs::write(path.join("#12"), "found").unwrap();
        }),
        ("two-names", |path| {
            fs::create_dir(path).unwrap();
            fs::create_dir(path.join("inner")).unwrap();
            fs::write(path.join("inner/file"), "found").unwrap();
        }),
    ];
    for (name, make) in makes {
        let source = folder.join(name);
        fs::create_dir(&source).unwrap();
        fs::write(source.join("zebra"), "z").unwrap();
        make(&source.join("lost+found"));
        for words in ["-t ext2", "-t ext4 -b 1024", "-t ext4 -O orphan_file -J size=4"] {
            let report = rebuild(words, &[&source], &image);
            judge(&image, &report);
            let mut options = everything();
            if name != "none" {
                options.excluded.clear();
                options.fields.insert(Field::DirectoryLinks);
            }
            same_when_mounted(&image, &source, &options);
        }
    }
}

/// A name that is no text comes out as it went in.
#[test]
fn names_are_bytes() {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("build-names");
    let source = folder.join("source");
    fs::create_dir(&source).unwrap();
    let longest = [b'\xfe'; 255];
    File::create(source.join(std::ffi::OsStr::from_bytes(&longest))).unwrap();
    let image = folder.join("x.img");
    judge(&image, &build("-t ext4", &[&source], &image));
    same_when_mounted(&image, &source, &everything());
}
