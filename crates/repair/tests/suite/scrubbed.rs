//! Volumes that are scrubbed: what was in blocks before somebody got them is gone.
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_repair::{Scrub, TrimOptions, Trimmed, trim};
use extant_testkit::command::{output, program};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::num::NonZeroU32;
use std::sync::Arc;

const BLOCK: usize = 1024;

/// Words for mke2fs, and how many blocks in use have something else before at least.
const KINDS: [(&[&str], usize); 3] = [
    (&[], 40),
    // The rest of an attribute block's cluster, and of those of files.
    (&["-O", "bigalloc", "-C", "16384"], 60),
    // Bitmaps of groups that were never used.
    (&["-g", "1024"], 44),
];

fn scrubbed(path: &std::path::Path) -> (Vec<u8>, Trimmed) {
    let bytes = std::fs::read(path).expect("it is there");
    let device = Arc::new(MemoryDevice::from_bytes(RealClock::new(), &bytes));
    let (scrub, threads) = (Scrub::Stale, NonZeroU32::MIN);
    let trimmed = trim(device, TrimOptions { scrub, threads, spool: None, progress: None });
    (bytes, trimmed.unwrap_or_else(|error| panic!("{error}")))
}

fn requested(path: &std::path::Path, requests: &[String]) {
    for request in requests {
        output(program("debugfs").args(["-w", "-R", request]).arg(path)).expect("debugfs");
    }
}

/// No block in use has what was there before the volume was made, also not one that a file was
/// promised and never wrote.
#[test]
fn blocks_that_were_never_written_are_zeros() {
    if !oracle::require("mke2fs") || !oracle::require("debugfs") {
        return;
    }
    let folder = Scratch::new("scrubbed");
    let path = folder.join("volume");
    for (words, least) in KINDS {
        std::fs::write(&path, vec![0xa5; 8 << 20]).expect("scratch has room");
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-E", "nodiscard"]).args(words);
        output(mke2fs.arg(&path)).expect("mke2fs makes it");
        let (content, value) = (folder.join("content"), folder.join("value"));
        std::fs::write(&content, "some").expect("scratch has room");
        std::fs::write(&value, [b'v'; 600]).expect("scratch has room");
        requested(
            &path,
            &[
                format!("write {} promised", content.display()),
                format!("ea_set -f {} promised user.large", value.display()),
            ],
        );
        if !words.contains(&"bigalloc") {
            requested(&path, &["fallocate promised 1 40".into()]);
        }
        let (bytes, trimmed) = scrubbed(&path);
        let mut block = [0; BLOCK];
        let (mut old, mut before) = (Vec::new(), 0);
        for number in 1..trimmed.superblock.blocks_count {
            if trimmed.free.iter().any(|range| range.contains(&number)) {
                continue;
            }
            let start = number as usize * BLOCK;
            before += usize::from(bytes[start..start + BLOCK] == [0xa5; BLOCK]);
            trimmed.overlay.read(start as u64, &mut block).expect("memory does not fail");
            if block == [0xa5; BLOCK] {
                old.push(number);
            }
        }
        assert!(before >= least, "{words:?}: {before} blocks had something else before");
        assert!(old.is_empty(), "{words:?}: {old:?}");
        let mut made = vec![0; bytes.len()];
        trimmed.overlay.read(0, &mut made).expect("memory does not fail");
        std::fs::write(&path, made).expect("scratch has room");
        oracle::e2fsck(&path).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let kept = oracle::debugfs(&path, "ea_get promised user.large").expect("debugfs");
        assert!(kept.contains(&"v".repeat(600)), "{words:?}: {kept}");
    }
}

/// After the end of a file with fs-verity is the tree of its hashes, and the last block of an
/// encrypted one is encrypted as a whole.
#[test]
fn what_means_something_after_the_end_of_a_file_stays() {
    if !oracle::require("mke2fs") || !oracle::require("debugfs") {
        return;
    }
    let folder = Scratch::new("scrubbed-whole");
    let (path, content) = (folder.join("volume"), folder.join("content"));
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-I", "256"]);
    mke2fs.args(["-O", "verity,encrypt,^metadata_csum"]);
    output(mke2fs.arg(&path).arg("8M")).expect("mke2fs makes it");
    let whole: Vec<u8> = (0..20 * BLOCK).map(|at| (at % 251) as u8 + 1).collect();
    std::fs::write(&content, &whole).expect("scratch has room");
    let mut requests = Vec::new();
    for (name, flags, size) in [
        ("verity", "0x180000", 3000),
        ("encrypted", "0x80800", 19 * BLOCK + 17),
        ("plain", "0x80000", 19 * BLOCK + 17),
    ] {
        requests.push(format!("write {} {name}", content.display()));
        requests.push(format!("sif {name} size {size}"));
        requests.push(format!("sif {name} flags {flags}"));
    }
    let context = folder.join("context");
    std::fs::write(&context, [&[1, 1, 4, 0][..], &[7; 24]].concat()).expect("scratch has room");
    requests.push(format!("ea_set -f {} encrypted user.c", context.display()));
    requested(&path, &requests);
    // debugfs has no word for the attribute that says how a file is encrypted: number 9, not 1.
    let mut bytes = std::fs::read(&path).expect("it is there");
    let list = [0, 0, 2, 0xea, 1, 1];
    let at = bytes.windows(list.len()).position(|window| window == list).expect("one attribute");
    bytes[at + 5] = 9;
    std::fs::write(&path, bytes).expect("scratch has room");
    let (bytes, trimmed) = scrubbed(&path);
    for (name, kept) in
        [("verity", 20 * BLOCK), ("encrypted", 20 * BLOCK), ("plain", 19 * BLOCK + 17)]
    {
        let blocks = oracle::debugfs(&path, &format!("blocks {name}")).expect("debugfs");
        let blocks: Vec<usize> =
            blocks.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert_eq!(blocks.len(), 20, "{name}");
        let mut now = vec![0; bytes.len()];
        trimmed.overlay.read(0, &mut now).expect("memory does not fail");
        let found: Vec<u8> = blocks
            .iter()
            .flat_map(|block| now[block * BLOCK..(block + 1) * BLOCK].iter().copied())
            .collect();
        assert!(found[..kept] == whole[..kept], "{name}");
        assert!(found[kept..].iter().all(|byte| *byte == 0), "{name}: its end");
    }
}

/// What follows a superblock, descriptors, the log's first words, a target, the fixed fields of an
/// inode, and what a pipe has in place of a map.
#[test]
fn what_follows_in_blocks_and_inodes_of_the_volume_goes() {
    if !oracle::require("mke2fs") || !oracle::require("debugfs") {
        return;
    }
    const LARGE: usize = 4096;
    let folder = Scratch::new("scrubbed-rest");
    let path = folder.join("volume");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-g", "1024", "-I", "256"]);
    output(mke2fs.args(["-O", "^metadata_csum"]).arg(&path).arg("12M")).expect("mke2fs makes it");
    let numbered = |request: &str, after: &str| -> usize {
        let said = oracle::debugfs(&path, request).expect("debugfs");
        let rest = said.split_once(after).unwrap_or_else(|| panic!("{request}: {said}")).1;
        rest.split([' ', ',', '\n']).next().and_then(|word| word.parse().ok()).expect("a number")
    };
    let journal: usize = oracle::debugfs(&path, "blocks <8>")
        .ok()
        .and_then(|said| said.split_whitespace().next().and_then(|word| word.parse().ok()))
        .expect("a block");
    let requests = ["mknod pipe p", "symlink link target", "mkdir folder"].map(str::to_owned);
    requested(&path, &requests);
    requested(
        &path,
        &["sif pipe block[6] 0x7a7a7a7a", "sif link block[9] 0x7a7a7a7a"].map(str::to_owned),
    );
    let table = numbered("stats", "inode table at ");
    let mut bytes = std::fs::read(&path).expect("it is there");
    // Inode 2 has no attributes: what follows its 32 bytes of later fields is nothing.
    let root = table * LARGE + 256;
    let stale = [
        2048..LARGE,
        1024 * LARGE + 1024..1025 * LARGE,
        LARGE + 3 * 64..2 * LARGE,
        1025 * LARGE + 3 * 64..1026 * LARGE,
        journal * LARGE + 1024..(journal + 1) * LARGE,
        root + 160..root + 256,
    ];
    for range in stale.clone() {
        assert!(bytes[range.clone()].iter().all(|byte| *byte == 0), "{range:?} has something");
        bytes[range].fill(b'z');
    }
    std::fs::write(&path, &bytes).expect("scratch has room");
    let (_, trimmed) = scrubbed(&path);
    let mut now = vec![0; bytes.len()];
    trimmed.overlay.read(0, &mut now).expect("memory does not fail");
    for range in stale {
        assert!(now[range.clone()].iter().all(|byte| *byte == 0), "{range:?}");
    }
    assert!(!now.windows(4).any(|window| window == b"zzzz"), "in an inode");
    std::fs::write(&path, now).expect("scratch has room");
    oracle::e2fsck(&path).expect("e2fsck finds nothing");
    // Where blocks belong to several files nothing is known of what is theirs alone.
    let shared = folder.join("shared");
    std::fs::copy(&path, &shared).expect("scratch has room");
    requested(&shared, &["feature shared_blocks".to_owned()]);
    let device = std::fs::read(&shared).expect("it is there");
    let device = Arc::new(MemoryDevice::from_bytes(RealClock::new(), &device));
    for (scrub, is_done) in [(Scrub::Stale, false), (Scrub::Nothing, true)] {
        let threads = NonZeroU32::MIN;
        let options = TrimOptions { scrub, threads, spool: None, progress: None };
        assert_eq!(trim(Arc::clone(&device) as _, options).is_ok(), is_done, "{scrub:?}");
    }
    assert!(oracle::debugfs(&path, "stat link").expect("debugfs").contains("\"target\""));
}
