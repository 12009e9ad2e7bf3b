//! Volumes that are scrubbed: what was in blocks before somebody got them is gone.
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_repair::{Scrub, TrimOptions, trim};
use extant_testkit::command::{output, program};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::num::NonZeroU32;
use std::sync::Arc;

const BLOCK: usize = 1024;

/// No block in use has what was there before the volume was made, also not one that a file was
/// promised and never wrote.
#[test]
fn blocks_that_were_never_written_are_zeros() {
    if !oracle::require("mke2fs") || !oracle::require("debugfs") {
        return;
    }
    let folder = Scratch::new("scrubbed");
    let path = folder.join("volume");
    std::fs::write(&path, vec![0xa5; 8 << 20]).expect("scratch has room");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-E", "nodiscard"]);
    output(mke2fs.arg(&path)).expect("mke2fs makes it");
    let content = folder.join("content");
    std::fs::write(&content, "some").expect("scratch has room");
    for request in
        [format!("write {} promised", content.display()), "fallocate promised 1 40".into()]
    {
        output(program("debugfs").args(["-w", "-R", &request]).arg(&path)).expect("debugfs");
    }
    let bytes = std::fs::read(&path).expect("it is there");
    let device = Arc::new(MemoryDevice::from_bytes(RealClock::new(), &bytes));
    let (scrub, threads) = (Scrub::Stale, NonZeroU32::MIN);
    let trimmed = trim(device, TrimOptions { scrub, threads, spool: None, progress: None });
    let trimmed = trimmed.unwrap_or_else(|error| panic!("{error}"));
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
    assert!(before >= 40, "{before} blocks had something else before");
    assert!(old.is_empty(), "{old:?}");
}
