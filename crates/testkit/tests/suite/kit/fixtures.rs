//! The fixtures hold what they promise.

use std::path::Path;

use extant_testkit::fixtures::{self, Filler, Fixture};
use extant_testkit::oracle::{self, Access, mount_loop};
use extant_testkit::scratch::Scratch;
use extant_testkit::{compare, listing};

fn fixture(name: &str) -> Fixture {
    fixtures::all()
        .find(|fixture| fixture.name == name)
        .unwrap_or_else(|| panic!("no fixture {name}"))
}

#[test]
fn names_are_unique_and_the_matrix_is_whole() {
    let names: Vec<String> = fixtures::all().map(|fixture| fixture.name).collect();
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
    for part in [
        "ext2-b1024-i128",
        "ext3-b4096-i256",
        "ext4-b4096-i1024",
        "ext4-b65536",
        "orphan_file",
        "no-64bit",
    ] {
        assert!(names.iter().any(|name| name.contains(part)), "{part} is in {names:?}");
    }
}

#[test]
fn what_the_kernel_filled_it_reads_again() {
    let fixture = fixture("ext4-b1024-i256");
    if !fixture.is_possible() {
        return;
    }
    let folder = Scratch::new("fixtures");
    let made = fixture.make(folder.path()).expect("the fixture is made");
    let text: String = made.expected.iter().map(|entry| listing::record(entry) + "\n").collect();
    let listed = listing::parse(&text).expect("the listing is read");
    assert_eq!(compare::entries(&listed, &made.expected, &made.options), []);
    let depth_of = |path: &str| extent_levels(&made.image, path);
    assert_eq!(depth_of("sparse/comb"), 2, "the comb needs two levels below the root");
    let index = oracle::debugfs(&made.image, "htree_dump directories/two-levels")
        .expect("debugfs reads the index");
    assert!(index.contains("Indirect levels: 1"), "the index has two levels");
    let entries =
        |part: &str| made.expected.iter().filter(|entry| entry.path.starts_with(part)).count();
    assert!(entries("times") == 10 && entries("attributes") > 10 && entries("directories") > 700);
    // The image is made again from the same seed: another inode or time, perhaps, but the same
    // tree.
    let again = Scratch::new("fixtures");
    let second = fixture.make(again.path()).expect("the fixture is made again");
    let mut options = compare::Options::copy();
    options.fields.remove(&compare::Field::Mtime);
    assert_eq!(compare::entries(&made.expected, &second.expected, &options), []);
}

/// How deep the tree of extents of `path` is, by `debugfs extents`: the second number of
/// `level/depth`.
fn extent_levels(image: &Path, path: &str) -> u32 {
    let text =
        oracle::debugfs(image, &format!("dump_extents {path}")).expect("debugfs reads the extents");
    let depths = text
        .lines()
        .filter_map(|line| line.split_once('/')?.1.split_whitespace().next()?.parse().ok());
    depths.max().unwrap_or(0)
}

#[test]
fn blocks_above_the_page_are_filled_without_the_kernel() {
    let fixture = fixture("ext4-b65536-i256");
    if !fixture.is_possible() {
        return;
    }
    let folder = Scratch::new("fixtures");
    let made = fixture.make(folder.path()).expect("the fixture is made");
    if fixture.filler() == Some(Filler::Kernel) {
        let mounted = mount_loop(&made.image, Access::ReadOnly, "").expect("the kernel mounts it");
        assert!(mounted.path().join("sizes").is_dir());
    }
    let index = oracle::debugfs(&made.image, "htree_dump directories/one-level")
        .expect("debugfs reads the index");
    assert!(index.contains("Indirect levels: 0"), "large directories have an index");
    let dump = oracle::dumpe2fs(&made.image).expect("dumpe2fs runs");
    assert_eq!(dump.number("Block size"), Some(65536));
}
