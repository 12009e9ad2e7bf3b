//! `--order arrival`: file data goes into the image while its archive is read.
use crate::command::{build, build_command, bytes, extant};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A tree with files of all lengths, one of them across several groups, one with holes.
fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("deep/er")).unwrap();
    for (number, length) in [0, 1, 100, 4095, 4096, 4097, 70_000, 300_000].into_iter().enumerate() {
        fs::write(root.join(format!("{number}")), bytes(number as u64, length)).unwrap();
        fs::write(root.join(format!("deep/er/{number}")), bytes(77, length)).unwrap();
    }
    fs::write(root.join("large"), bytes(9, 30 << 20)).unwrap();
    let sparse = File::create(root.join("deep/sparse")).unwrap();
    for at in [5_000, 1 << 20, 9 << 20] {
        sparse.write_all_at(b"data between holes", at).unwrap();
    }
    std::os::unix::fs::symlink("../large", root.join("deep/link")).unwrap();
    fs::hard_link(root.join("6"), root.join("deep/hard")).unwrap();
}

fn packed(folder: &Path, tree: &str) -> PathBuf {
    let archive = folder.join(format!("{tree}.tar"));
    let mut tar = program("tar");
    tar.args(["--sort=name", "--sparse", "-cf"]).arg(&archive);
    output(tar.arg("-C").arg(folder.join(tree)).arg(".")).unwrap();
    archive
}

/// The image is sound, and holds what the folder does.
fn check(image: &Path, wanted: &Path, folder: &Path) {
    e2fsck(image).unwrap();
    let (archive, unpacked) = (folder.join("out.tar"), folder.join("out"));
    let _ = fs::remove_dir_all(&unpacked);
    fs::create_dir(&unpacked).unwrap();
    output(extant(["tar", "-F", "-o"]).arg(&archive).arg(image)).unwrap();
    output(program("tar").arg("-xf").arg(&archive).arg("-C").arg(&unpacked)).unwrap();
    output(program("diff").args(["-r", "--no-dereference"]).arg(wanted).arg(&unpacked)).unwrap();
}

#[test]
fn an_image_in_the_order_of_its_archive_holds_the_same() {
    let folder = Scratch::new();
    let tree = folder.join("tree");
    make_tree(&tree);
    let archive = packed(&folder, "tree");
    let image = folder.join("x.img");
    // Small groups: bodies and tables cross copies of the superblock.
    for words in ["", "-b 1024", "-b 2048 -I 512", "-O ^has_journal", "--free 10M"] {
        build(&format!("--force --order arrival {words}"), &[&archive], &image);
        check(&image, &tree, &folder);
        let first = fs::read(&image).unwrap();
        if require("zstd") {
            let packed = folder.join("tree.zst");
            output(program("zstd").args(["-qf"]).arg(&archive).arg("-o").arg(&packed)).unwrap();
            build(&format!("--force --order arrival {words}"), &[&packed], &image);
            assert!(first == fs::read(&image).unwrap(), "{words}: compressed or not, the same");
        }
    }
}

#[test]
fn what_it_cannot_do_is_refused_before_anything_is_read() {
    let folder = Scratch::new();
    let archive = folder.join("no.tar");
    for words in ["-t ext2", "-t ext3", "--size 10M", "-G 16", "-O ^resize_inode"] {
        let image = folder.join("x.img");
        let refused =
            build_command(&format!("--order arrival {words}"), &[&archive], &image).output();
        let refused = refused.unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains("--order arrival: "), "{words}: {said}");
        assert!(!image.exists());
    }
}
