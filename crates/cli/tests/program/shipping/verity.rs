//! Hash trees of dm-verity, beside veritysetup's.
use crate::shipping::fixture::{build, command, ended, number, source, text, told};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::os::unix::fs::FileExt;

#[test]
fn veritysetup_verifies_the_image_and_makes_the_same_tree() {
    if !require("veritysetup") {
        return;
    }
    let folder = Scratch::new("verity");
    source(&folder);
    // Volumes that end within a block of the tree, and one large enough for three levels.
    for words in ["-t ext4", "-t ext2 -b 1024", "-t ext2 -b 1024 --size 4099K", "--free 70M"] {
        let report = build(&folder, &format!("--verity {words} -F source disk.img"));
        let root = text(&report, "/disk/verity/root_hash");
        let at = number(&report, "/disk/verity/hash_offset");
        let blocks = number(&report, "/disk/verity/data_blocks");
        assert_eq!(blocks, number(&report, "/bytes").div_ceil(4096), "{words}");
        let offset = format!("--hash-offset={at}");
        told(&folder, "veritysetup", &["verify", "disk.img", "disk.img", root, &offset]);
        // Made once more by veritysetup, with the same salt and UUID.
        let superblock = &fs::read(folder.join("disk.img")).unwrap()[at as usize..];
        let uuid: String = superblock[16..32].iter().map(|byte| format!("{byte:02x}")).collect();
        let uuid = format!(
            "--uuid={}-{}-{}-{}-{}",
            &uuid[..8],
            &uuid[8..12],
            &uuid[12..16],
            &uuid[16..20],
            &uuid[20..]
        );
        let salt = format!("--salt={}", text(&report, "/disk/verity/salt"));
        let count = format!("--data-blocks={blocks}");
        let format = ["format", "disk.img", "theirs.tree", &salt, &uuid, &count];
        let said = told(&folder, "veritysetup", &format);
        assert!(said.contains(root), "{words}: {said}");
        let theirs = fs::read(folder.join("theirs.tree")).unwrap();
        assert!(superblock == theirs, "{words}: the trees differ");
        fs::remove_file(folder.join("theirs.tree")).unwrap();
        e2fsck(&folder.join("disk.img")).unwrap();
    }
}

#[test]
fn a_tree_in_a_file_leaves_the_image_alone_and_finds_a_changed_byte() {
    if !require("veritysetup") {
        return;
    }
    let folder = Scratch::new("verity");
    source(&folder);
    let report = build(&folder, "--verity=disk.verity --verity-salt - source disk.img");
    build(&folder, "source plain.img");
    crate::shipping::fixture::same(&folder.join("disk.img"), &folder.join("plain.img"));
    let root = text(&report, "/disk/verity/root_hash");
    assert_eq!(text(&report, "/disk/verity/salt"), "");
    let verify = ["verify", "disk.img", "disk.verity", root];
    told(&folder, "veritysetup", &verify);
    let image = fs::File::options().write(true).open(folder.join("disk.img")).unwrap();
    image.write_all_at(b"!", 1 << 20).unwrap();
    assert!(!ended(&folder, "veritysetup", &verify).status.success(), "it is not seen");
}

#[test]
fn the_root_hash_is_told_and_the_same_every_time() {
    let folder = Scratch::new("verity");
    source(&folder);
    let said = |image: &str| {
        let words = format!("build --partition gpt --verity source {image}");
        let output = command(&folder, &words).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().replace(image, "IMAGE")
    };
    let first = said("a.img");
    assert!(first.contains("verity: root hash "), "{first}");
    assert_eq!(first, said("b.img"));
    crate::shipping::fixture::same(&folder.join("a.img"), &folder.join("b.img"));
}
