//! Reading by force over a device that fails: each block that cannot be read costs what is in it,
//! which is named, and nothing else.
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_engine::{Access, DataKeeping, Filesystem, Options, salvaged};
use extant_sim::{Fault, Faulty};
use extant_testkit::command::{output, program};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::path::Path;
use std::sync::Arc;

const FILES: usize = 60;

fn content(number: usize) -> Vec<u8> {
    format!("content of file {number}; ").repeat(1 + number % 7 * 60).into_bytes()
}

fn volume(folder: &Path, words: &[&str]) -> Vec<u8> {
    let (tree, image) = (folder.join("tree"), folder.join("x.img"));
    std::fs::create_dir_all(tree.join("folder")).expect("makes");
    for number in 0..FILES {
        std::fs::write(tree.join(format!("folder/{number}")), content(number)).expect("writes");
    }
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F"]).args(words).arg("-d").arg(&tree).arg(&image).arg("10M");
    output(&mut mke2fs).expect("mke2fs makes it");
    std::fs::read(image).expect("reads")
}

/// What of a volume is read by force although these bytes cannot be: how many files are whole, and
/// what was said.
fn read_around(bytes: &[u8], lost: std::ops::Range<u64>) -> Result<(usize, Vec<String>), String> {
    let device = Arc::new(Faulty::new(MemoryDevice::from_bytes(RealClock::new(), bytes)));
    device.add(Fault::ReadsIn(lost));
    let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let salvaged = salvaged(shared).map_err(|error| error.to_string())?;
    let policies = "modern".parse().expect("a preset");
    let (access, data) = (Access::ReadOnly, DataKeeping::Bytes);
    let options = Options { access, policies, cache_bytes: 4 << 20, data };
    let volume = Filesystem::open(salvaged.device, &options).map_err(|error| error.to_string())?;
    let mut whole = 0;
    for number in 0..FILES {
        match volume.read(format!("/folder/{number}")) {
            Ok(read) if read == content(number) => whole += 1,
            Ok(read) => assert!(!salvaged.skipped.is_empty(), "{number}: {} bytes", read.len()),
            // The file is named by the error.
            Err(error) => assert!(error.path.is_some(), "{error}"),
        }
    }
    let lost = salvaged.skipped.iter().map(|loss| loss.line(&|_| None));
    Ok((whole, salvaged.mended.iter().cloned().chain(lost).collect()))
}

#[test]
fn a_block_that_cannot_be_read_costs_what_is_in_it() {
    if !oracle::require("mke2fs") {
        return;
    }
    for (words, size, least) in [
        (&["-t", "ext4", "-b", "1024"][..], 1024_usize, 20),
        (&["-t", "ext4", "-b", "4096"], 4096, 40),
        (&["-t", "ext2", "-b", "1024"], 1024, 20),
    ] {
        let folder = Scratch::new("salvage-blocks");
        let bytes = volume(folder.path(), words);
        let is_used = |block: &usize| bytes[block * size..][..size].iter().any(|byte| *byte != 0);
        let used = (0..bytes.len() / size).filter(is_used);
        // All of the first ones, where metadata is, and some of the others.
        let used: Vec<usize> =
            used.enumerate().filter(|(at, _)| *at < 60 || at % 5 == 0).map(|(_, it)| it).collect();
        let (mut all, mut lost_most) = (0, 0);
        for block in used {
            let range = (block * size) as u64..((block + 1) * size) as u64;
            let is_first = block * size <= 1024 && 1024 < (block + 1) * size;
            let (whole, skipped) = match read_around(&bytes, range) {
                Ok(read) => read,
                // One group has no copy.
                Err(error) if is_first && size == 4096 => {
                    assert!(error.contains("read at byte 1024"), "{error}");
                    continue;
                }
                Err(error) => panic!("{words:?}: block {block}: {error}"),
            };
            assert!(
                !is_first || whole == FILES && skipped[0].contains("superblock"),
                "{skipped:?}"
            );
            all += usize::from(whole == FILES);
            lost_most += usize::from(whole < FILES - least);
        }
        // The table's block with the root directory, its block, that of the folder.
        assert!(lost_most <= 4 && all > 5, "{words:?}: {lost_most}, {all}");
    }
}
