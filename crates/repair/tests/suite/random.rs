//! Volumes with random damage: each is mended, and then clean for e2fsck and for us. What could not
//! be lost by the damage is there.
use crate::corpus::{image, judged, mended};
use extant_repair::Scope;
use extant_testkit::command::{output, program};
use extant_testkit::numbers::Numbers;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::path::Path;

/// Kinds of volumes, as words for mke2fs.
const KINDS: &[&[&str]] = &[
    &["-t", "ext2", "-b", "1024", "-g", "1024", "-N", "128"],
    &["-t", "ext3", "-b", "1024", "-N", "128"],
    &["-t", "ext4", "-b", "1024", "-g", "2048", "-N", "256"],
    &["-t", "ext4", "-b", "4096", "-O", "^metadata_csum,uninit_bg", "-N", "128"],
    &["-t", "ext4", "-b", "1024", "-O", "inline_data,^has_journal", "-N", "128"],
    &["-t", "ext4", "-b", "1024", "-O", "quota", "-N", "128"],
];

/// Files of the tree, but for those in `many`.
const FILES: [&str; 4] = ["a/one", "a/b/two", "three", "empty"];

fn many() -> impl Iterator<Item = String> {
    (0..40).map(|number| format!("many/a name of some length, number {number}"))
}

fn tree(folder: &Path) {
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

#[test]
fn random_damage_is_mended() {
    let scratch = Scratch::new("repair-random");
    let folder = scratch.join("tree");
    std::fs::create_dir(&folder).expect("scratch has room");
    tree(&folder);
    let mut complaints = Vec::new();
    let mut all = 0;
    for (kind, words) in KINDS.iter().enumerate() {
        let path = scratch.join("volume");
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-d"]).arg(&folder).args(*words).arg(&path).arg("6M");
        output(&mut mke2fs).expect("mke2fs makes it");
        let whole = std::fs::read(&path).expect("it is there");
        for round in 0..number("EXTANT_REPAIRS") {
            let seed = (kind as u64) << 32 | round;
            let mut bytes = whole.clone();
            damage(&mut bytes, seed);
            all += 1;
            complaints.extend(lost_safely(&bytes, &folder, &scratch));
            let complain = match mended(&bytes, Scope::All) {
                // Where its only table of inodes is nobody says: nothing is written.
                Err(error) if error.starts_with("the inode table that has the root") => None,
                Err(error) => Some(error),
                Ok(repaired) if !repaired.is_clean() => Some(format!(
                    "left after {} rounds: {:?}; first {:?}",
                    repaired.rounds, repaired.left.counts, repaired.found.counts
                )),
                Ok(repaired) => {
                    std::fs::write(&path, image(&repaired)).expect("scratch has room");
                    let said = judged(&path);
                    said.map(|said| format!("e2fsck: {said}; first {:?}", repaired.found.counts))
                }
            };
            complaints.extend(complain.map(|complain| format!("{words:?} {seed:#x}: {complain}")));
        }
    }
    assert!(complaints.is_empty(), "{} of {all}:\n{}", complaints.len(), complaints.join("\n"));
}

/// What was whole before a safe repair, for a reader that nobody here wrote, and is not after it.
fn lost_safely(bytes: &[u8], tree: &Path, scratch: &Scratch) -> Vec<String> {
    let whole = |bytes: &[u8]| {
        let (image, out) = (scratch.join("read"), scratch.join("out"));
        std::fs::write(&image, bytes).expect("scratch has room");
        let _ = std::fs::remove_dir_all(&out);
        std::fs::create_dir(&out).expect("scratch has room");
        let names: Vec<String> =
            FILES.iter().map(|name| (*name).to_owned()).chain(many()).collect();
        let requests = names
            .iter()
            .enumerate()
            .map(|(at, name)| format!("dump \"/{name}\" {}\n", out.join(at.to_string()).display()));
        let script = scratch.join("requests");
        std::fs::write(&script, requests.collect::<String>()).expect("scratch has room");
        // It reads as far as it can, and what has no end not for ever.
        let limits = "ulimit -f 16384; exec timeout 5 debugfs -f \"$1\" \"$2\"";
        let mut shell = program("sh");
        let _ = shell.args(["-c", limits, "sh"]).arg(&script).arg(&image).output();
        let same = |(at, name): (usize, &String)| {
            let read = std::fs::read(out.join(at.to_string())).ok();
            read.is_some() && read == std::fs::read(tree.join(name)).ok()
        };
        let kept = names.iter().enumerate().filter(|it| same(*it));
        kept.map(|(_, name)| name.clone()).collect::<Vec<String>>()
    };
    let before: Vec<String> = whole(bytes);
    let Ok(repaired) = mended(bytes, Scope::Safe) else { return Vec::new() };
    let after: Vec<String> = whole(&image(&repaired));
    let lost = before.iter().filter(|name| !after.contains(name));
    let lost: Vec<&String> = lost.collect();
    match lost.is_empty() {
        true => Vec::new(),
        false => vec![format!("safe: {lost:?} lost by {:?}", repaired.found.counts)],
    }
}

/// Changes one to four words of what metadata has, after the first superblock, or a whole block of
/// it.
fn damage(bytes: &mut [u8], seed: u64) {
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
