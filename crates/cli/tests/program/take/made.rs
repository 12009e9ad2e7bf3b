//! Images and trees that the tests look at.
use extant_testkit::command::{output, program};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// What is in `etc/motd` of every volume.
pub const TEXT: &[u8] = b"hello\n";

/// Bytes without a pattern, the same in every run.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(next).collect()
}

/// A folder `tree` with a text, noise and a hole.
pub fn plain_tree(folder: &Path) -> PathBuf {
    let tree = folder.join("tree");
    fs::create_dir_all(tree.join("etc")).unwrap();
    fs::write(tree.join("etc/motd"), TEXT).unwrap();
    fs::write(tree.join("noise"), noise(700_000)).unwrap();
    let holes = fs::File::create(tree.join("holes")).unwrap();
    holes.set_len(3 << 20).unwrap();
    holes.write_all_at(b"x", 2_000_000).unwrap();
    tree
}

/// `volume.img` of that size in `folder`, made by mke2fs of a plain tree.
pub fn volume(folder: &Path, size: &str) -> PathBuf {
    let image = folder.join("volume.img");
    let tree = plain_tree(folder);
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-d"]).arg(&tree).arg(&image).arg(size);
    output(&mut mke2fs).unwrap();
    image
}

/// Fills a folder with all that a file system can hold. As root.
pub fn everything(folder: &Path) {
    let at = |name: &str| folder.join(name);
    let run = |tool: &str, words: &[&str]| {
        let mut command = program(tool);
        output(command.args(words).current_dir(folder)).unwrap();
    };
    fs::create_dir_all(at("a/b")).unwrap();
    fs::create_dir(at("closed")).unwrap();
    fs::write(at("a/f"), "text").unwrap();
    fs::hard_link(at("a/f"), at("a/b/link")).unwrap();
    symlink("/etc/passwd", at("a/absolute")).unwrap();
    symlink("../../../..", at("a/up")).unwrap();
    run("mkfifo", &["a/fifo"]);
    run("mknod", &["a/null", "c", "1", "3"]);
    run("mknod", &["a/disk", "b", "7", "70000"]);
    fs::write(at("a/big"), noise(1_500_000)).unwrap();
    fs::write(at("a/empty"), "").unwrap();
    fs::write(at("a/capable"), "program").unwrap();
    let holes = fs::File::create(at("a/holes")).unwrap();
    holes.set_len(10 << 20).unwrap();
    holes.write_all_at(b"middle", 5_000_000).unwrap();
    run("chown", &["123:100456", "a/f"]);
    run("chown", &["-h", "77:78", "a/up"]);
    run("chmod", &["6755", "a/f"]);
    run("chmod", &["0", "a/empty"]);
    run("setfattr", &["-n", "user.x", "-v", "value", "a/big"]);
    run("setfattr", &["-n", "trusted.t", "-v", "value", "a/b"]);
    run("setfattr", &["-h", "-n", "trusted.l", "-v", "value", "a/absolute"]);
    run("setcap", &["cap_net_raw+ep", "a/capable"]);
    run("setfacl", &["-m", "u:99:rw", "a/big"]);
    run("setfacl", &["-d", "-m", "g:88:rx", "a/b"]);
    run("touch", &["-d", "1950-01-02 03:04:05.678", "a/empty"]);
    run("touch", &["-h", "-d", "2030-02-03", "a/absolute"]);
    run("touch", &["-d", "1999-09-09", "a"]);
    fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o555)).unwrap();
}
