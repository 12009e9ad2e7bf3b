//! What tune2fs changes of a volume, cut at every write: the next program ends what was begun, and
//! the volume is as it was or as it is to be.
use crate::devices::Recorded;
use crate::quick_folder;
use crate::repairs::{NOW_SECONDS, resized};
use crate::undo::{Job, ended};
use crate::volumes::{self, Kind, bytes_of};
use extant_block::{BlockDevice, MemoryDevice};
use extant_edit::redo;
use extant_repair::tune::words::{self, Names};
use extant_repair::tune::{TuneOptions, tune};
use extant_repair::{Scrub, TrimOptions, trim};
use extant_testkit::oracle;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Changes a volume as words of tune2fs say, by a redo log.
fn tuned(device: &Arc<dyn BlockDevice>, words: &[&str], log: &Path) {
    let asked = words::read_all(words, Names::NONE, NOW_SECONDS).expect("words");
    let options = TuneOptions {
        threads: NonZeroU32::MIN,
        spool: None,
        now_seconds: NOW_SECONDS,
        random: [7; 16],
        mount_record: (b"node".to_vec(), b"disk".to_vec()),
        progress: None,
    };
    let tuned = tune(Arc::clone(device), &asked, options).expect("it can be");
    resized(device, &tuned.resized, log);
}

/// The size of its inodes, and all of its files.
fn seems(device: &Arc<dyn BlockDevice>) -> (u16, volumes::Tree) {
    let superblock = extant_engine::read_superblock(&**device).expect("a superblock");
    (superblock.inode_size, volumes::tree_of(Arc::clone(device)).expect("it is read"))
}

/// The blocks that a whole check finds free.
fn free(bytes: &[u8]) -> Vec<Range<u64>> {
    let device = Arc::new(MemoryDevice::from_bytes(volumes::clock(), bytes));
    let (scrub, threads) = (Scrub::Nothing, NonZeroU32::MIN);
    let options = TrimOptions { scrub, threads, spool: None, progress: None };
    trim(device, options).expect("it is clean").free
}

/// Whether two volumes of blocks of 1024 bytes differ in blocks that are free, and no others.
fn is_the_same(one: &[u8], other: &[u8], free: &[Range<u64>]) -> bool {
    let mut blocks = (0..).zip(one.chunks(1024).zip(other.chunks(1024)));
    blocks.all(|(number, (one, other))| {
        one == other || free.iter().any(|range| range.contains(&number))
    })
}

#[test]
fn a_cut_of_a_change_leaves_what_the_next_program_ends() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = quick_folder("change-cuts");
    let path = redo::path_of(&folder.join("disk")).expect("a name");
    let mut seen = [0, 0];
    for (kind, words) in [
        (Kind::EXT4_1K, &["-O", "^metadata_csum", "-Q", "usrquota"][..]),
        (Kind::EXT3_1K, &["-I", "512"]),
        // Where the old one is: what goes stays until all is written.
        (Kind::EXT4_SMALL, &["-J", "size=1,location="]),
    ] {
        let base = kind.make();
        let superblock = extant_engine::read_superblock(&base).expect("a superblock");
        // The first block of the first extent.
        let journal = superblock.journal_backup[5];
        let words: Vec<String> = words
            .iter()
            .map(|word| word.replace("location=", &format!("location={journal}")))
            .collect();
        let words: &[&str] = &words.iter().map(String::as_str).collect::<Vec<_>>();
        let job = Job::new(base, &path, |device: Arc<Recorded>| {
            tuned(&(device as Arc<dyn BlockDevice>), words, &path);
        });
        assert!(job.ends[0] != job.ends[1], "{words:?} changes nothing");
        let before = Arc::new(MemoryDevice::from_bytes(volumes::clock(), &job.ends[0]));
        let before = seems(&(before as Arc<dyn BlockDevice>));
        // What is written before the log is: moved blocks and zeros, where nothing is in use.
        let is_ahead = matches!(words[0], "-I" | "-J");
        let free = free(&job.ends[0]);
        if words[0] == "-J" {
            let after = MemoryDevice::from_bytes(volumes::clock(), &job.ends[1]);
            let after = extant_engine::read_superblock(&after).expect("a superblock");
            // Both are one run of 1024 blocks.
            let apart = after.journal_backup[5].abs_diff(journal);
            assert!(apart >= 1024, "the new journal is on blocks of the old one");
        }
        let mut count = 0;
        job.each_medium(&mut |medium, log, at| {
            count += 1;
            // Of a hundred writes to free blocks or in place one is like the other.
            if count > 200 && count % 16 != 0 {
                return;
            }
            let (_, device) = ended(medium, (log, &[]), &folder);
            let bytes = bytes_of(&*device);
            let is_after = bytes == job.ends[1];
            let is_before = bytes == job.ends[0]
                || is_ahead && is_the_same(&bytes, &job.ends[0], &free) && seems(&device) == before;
            assert!(is_after || is_before, "{words:?}, {at}: neither before nor after");
            seen[usize::from(is_after)] += 1;
        });
    }
    println!("{} cuts as before, {} as after", seen[0], seen[1]);
    assert!(seen[0] > 20 && seen[1] > 60, "{seen:?}");
}
