//! Volumes with random damage: each is mended, and then clean for e2fsck and for us. What could not
//! be lost by the damage is there.
use crate::corpus::{image, judged, mended};
use extant_repair::Scope;
use extant_testkit::command::program;
use extant_testkit::damaged::{FILES, KINDS, damage, many, tree, volume};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::path::Path;

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
        let whole = volume(words, &folder, &path);
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
