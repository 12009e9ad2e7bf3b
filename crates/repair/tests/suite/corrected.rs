//! One byte of a thing with a checksum is not what was written: a safe repair gives it back, and
//! every other byte stays.
use crate::corpus::{image, mended};
use crate::kept::{BLOCK, Volume};
use crate::regained::{debugfs, nodes, scattered};
use extant_repair::Scope;
use extant_testkit::command::{output, program};
use std::path::Path;

/// Of a thing one byte in this many is changed.
const STEP: usize = 7;

/// What says how long a checksum is, or is in it twice: the limit of a node, the generation of an
/// inode, and the size of its extra fields.
const OF_LENGTHS: [std::ops::Range<usize>; 3] = [4..6, 0x64..0x68, 0x80..0x82];

/// What is damaged: what it is, its first byte and how many it has.
type Place = (&'static str, usize, usize);

/// A number that debugfs says behind a word.
fn said(path: &Path, command: &str, word: &str) -> usize {
    let said = debugfs(path, command);
    let (_, after) = said.split_once(word).unwrap_or_else(|| panic!("{command}: {said}"));
    let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{command}: {said}"))
}

/// What is in an inode: where it starts, by debugfs.
fn inode(path: &Path, name: &str) -> usize {
    let said = debugfs(path, &format!("imap {name}"));
    let (_, after) = said.split_once("located at block ").expect("a place");
    let (block, offset) = after.trim().split_once(", offset 0x").expect("an offset");
    let offset = usize::from_str_radix(offset, 16).expect("a number");
    block.parse::<usize>().expect("a number") * BLOCK + offset
}

/// A volume with the inode, the nodes, the blocks of names and of attributes that are damaged.
fn volume(words: &str) -> Option<(Volume, Vec<Place>)> {
    let mut volume = scattered(words)?;
    let path = volume.written(&volume.bytes);
    for command in [
        format!("ea_set /pieces user.long {}", "a".repeat(700)),
        "ea_set /d user.short short".to_owned(),
    ] {
        output(program("debugfs").args(["-w", "-R", &command]).arg(&path)).expect("it does it");
    }
    volume.bytes = std::fs::read(&path).expect("it is there");
    let block = |name: &str, at: usize| {
        debugfs(&path, &format!("bmap {name} {at}")).trim().parse::<usize>().expect("a block")
    };
    let places = vec![
        ("inode of a file", inode(&path, "/pieces"), 256),
        ("inode of a directory", inode(&path, "/d"), 256),
        ("node", nodes(&volume, "/pieces")[0].1 * BLOCK, BLOCK),
        ("names", block("/d", 3) * BLOCK, BLOCK),
        ("attributes", said(&path, "stat /pieces", "File ACL:") * BLOCK, BLOCK),
    ];
    Some((volume, places))
}

#[test]
fn a_byte_is_what_its_checksum_says() {
    let Some((volume, places)) = volume("-t ext4 -O metadata_csum,^has_journal -I 256") else {
        return;
    };
    for (what, start, length) in places {
        // By a checksum that is wrong itself a map is written anew, with the same in it.
        let length = if what == "node" { length - 4 } else { length };
        let steps = (0..length).step_by(STEP);
        for at in steps.chain(OF_LENGTHS.into_iter().flatten()) {
            let mut damaged = volume.bytes.clone();
            // A bit, all of them, or any of both.
            let change = [1 << (at % 8), 0xff, (at * 37 % 255 + 1) as u8][at % 3];
            damaged[start + at] ^= change;
            let what = format!("{what}, byte {at} with {change:#x}");
            let repaired =
                mended(&damaged, Scope::Safe).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(!repaired.found.is_clean(), "{what}: nothing is wrong");
            assert!(repaired.is_clean(), "{what}: left {:?}", repaired.left.counts);
            let lost: Vec<_> = repaired.changes.iter().filter(|it| it.loss.is_some()).collect();
            assert!(lost.is_empty(), "{what}: {lost:?}");
            let after = image(&repaired);
            // The superblock says when it was written.
            let others = after.iter().zip(&volume.bytes).enumerate();
            let wrong = others.skip(2 * BLOCK).find(|(_, (after, before))| after != before);
            assert_eq!(wrong.map(|(at, _)| at / BLOCK), None, "{what}, as block");
        }
    }
}
