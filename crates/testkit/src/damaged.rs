//! Small volumes of several kinds, and random damage to their metadata.
use crate::command::{output, program};
use crate::numbers::Numbers;
use std::path::Path;

/// Kinds of volumes, as words for mke2fs.
pub const KINDS: &[&[&str]] = &[
    &["-t", "ext2", "-b", "1024", "-g", "1024", "-N", "128"],
    &["-t", "ext3", "-b", "1024", "-N", "128"],
    &["-t", "ext4", "-b", "1024", "-g", "2048", "-N", "256"],
    &["-t", "ext4", "-b", "4096", "-O", "^metadata_csum,uninit_bg", "-N", "128"],
    &["-t", "ext4", "-b", "1024", "-O", "inline_data,^has_journal", "-N", "128"],
    &["-t", "ext4", "-b", "1024", "-O", "quota", "-N", "128"],
];

/// Files of the tree, but for those in `many`.
pub const FILES: [&str; 4] = ["a/one", "a/b/two", "three", "empty"];

/// The names of many files in one directory.
pub fn many() -> impl Iterator<Item = String> {
    (0..40).map(|number| format!("many/a name of some length, number {number}"))
}

/// Makes the tree that the volumes have.
pub fn tree(folder: &Path) {
    let text = |count: usize| "what is in a file\n".repeat(count);
    for directory in ["a", "a/b", "many"] {
        std::fs::create_dir(folder.join(directory)).expect("scratch has room");
    }
    for (name, lines) in [("a/one", 1), ("a/b/two", 500), ("three", 4000), ("empty", 0)] {
        std::fs::write(folder.join(name), text(lines)).expect("scratch has room");
    }
    for name in many() {
        std::fs::write(folder.join(name), text(2)).expect("scratch has room");
    }
    std::os::unix::fs::symlink("a/one", folder.join("link")).expect("scratch has room");
    // One that fits into an inode of 256 bytes, and one that does not.
    for (name, bytes) in [("a/one", 20), ("three", 600)] {
        let value = "v".repeat(bytes);
        let mut setfattr = program("setfattr");
        setfattr.args(["-n", "user.note", "-v", &value]).arg(folder.join(name));
        output(&mut setfattr).expect("a value");
    }
}

/// The bytes of a volume of 6 MiB that mke2fs makes at `path`, with the tree that `folder` has.
pub fn volume(words: &[&str], folder: &Path, path: &Path) -> Vec<u8> {
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-d"]).arg(folder).args(words).arg(path).arg("6M");
    output(&mut mke2fs).expect("mke2fs makes it");
    std::fs::read(path).expect("it is there")
}

/// Changes one to four words of what metadata has, after the first superblock, or a whole block of
/// it.
pub fn damage(bytes: &mut [u8], seed: u64) {
    let mut numbers = Numbers::new(seed);
    let used: Vec<usize> = (2..bytes.len() / 1024)
        .filter(|block| bytes[block * 1024..][..1024].iter().any(|byte| *byte != 0))
        .filter(|block| !bytes[block * 1024..][..1024].starts_with(b"what is"))
        .take(400)
        .collect();
    for _ in 0..=numbers.below(4) {
        let block = used[numbers.below(used.len() as u64) as usize] * 1024;
        if numbers.below(12) == 0 {
            bytes[block..block + 1024].fill(0);
            continue;
        }
        let at = block + numbers.below(256) as usize * 4;
        let old = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let new = match numbers.below(5) {
            0 => 0,
            1 => u32::MAX,
            2 => old.wrapping_add(1),
            3 => old ^ 1 << numbers.below(32),
            _ => numbers.draw() as u32,
        };
        bytes[at..at + 4].copy_from_slice(&new.to_le_bytes());
    }
}
