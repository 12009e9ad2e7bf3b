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

fn tree(folder: &Path) {
    let text = |count: usize| "what is in a file\n".repeat(count);
    for directory in ["a", "a/b", "many"] {
        std::fs::create_dir(folder.join(directory)).expect("scratch has room");
    }
    for (name, lines) in [("a/one", 1), ("a/b/two", 500), ("three", 4000), ("empty", 0)] {
        std::fs::write(folder.join(name), text(lines)).expect("scratch has room");
    }
    for number in 0..40 {
        let name = format!("many/a name of some length, number {number}");
        std::fs::write(folder.join(name), text(2)).expect("scratch has room");
    }
    std::os::unix::fs::symlink("a/one", folder.join("link")).expect("scratch has room");
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
            let complain = match mended(&bytes, Scope::All) {
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
