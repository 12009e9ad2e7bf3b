//! The second check: it reads maps again only where they can have changed.
use crate::corpus::{image, judged, mended_with};
use extant_inspect::{Listener, Pass};
use extant_repair::Scope;
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How often a repair of a volume of mke2fs goes through the inodes, after this script of debugfs.
/// `None`: a tool is absent.
fn passes_over_inodes(words: &str, script: &str) -> Option<u32> {
    if !require("mke2fs") || !require("debugfs") || !require("e2fsck") {
        return None;
    }
    let scratch = Scratch::new("repair-again");
    let (path, script_path) = (scratch.join("volume"), scratch.join("script"));
    std::fs::create_dir_all(scratch.join("tree/d")).expect("scratch has room");
    for name in ["a", "b", "d/c"] {
        std::fs::write(scratch.join("tree").join(name), name.repeat(9000)).expect("room");
    }
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-b", "1024", "-g", "8192"]).args(words.split_whitespace());
    output(mke2fs.arg("-d").arg(scratch.join("tree")).arg(&path).arg("40M")).expect("it is made");
    std::fs::write(&script_path, script).expect("scratch has room");
    output(program("debugfs").arg("-w").arg("-f").arg(&script_path).arg(&path))
        .expect("it is done");
    let begun = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&begun);
    let listener: Listener = Arc::new(move |progress| {
        let begins = progress.pass == Pass::Inodes && progress.done_bytes == 0;
        counted.fetch_add(u32::from(begins), Ordering::Relaxed);
    });
    let bytes = std::fs::read(&path).expect("it is there");
    let repaired = mended_with(&bytes, Scope::Safe, Some(listener)).expect("it is mended");
    assert!(repaired.is_clean(), "{words} {script}: {:?}", repaired.left.counts);
    assert!(!repaired.changes.is_empty(), "{words}: nothing was wrong after {script}");
    std::fs::write(&path, image(&repaired)).expect("scratch has room");
    assert_eq!(judged(&path), None, "{words} {script}");
    Some(begun.load(Ordering::Relaxed))
}

#[test]
fn inodes_are_read_again_only_where_more_than_links_and_names_was_wrong() {
    let volumes = [
        "-t ext2",
        "-t ext4 -O ^flex_bg",
        "-t ext4 -O meta_bg,^resize_inode",
        "-t ext4 -O bigalloc -C 4096",
        "-t ext4 -O sparse_super2 -E num_backup_sb=2",
        "-t ext4 -O inline_data -I 512",
    ];
    let of_counts = ["setb 8100 4\nssv state 2", "seti <900>", "ssv free_blocks_count 7"];
    let of_names = [
        "setb 8100 4\nsif a links_count 3",
        "sif b dtime 1700000000",
        "unlink a",
        "sif d links_count 7\nsif d/c links_count 2\nunlink b",
    ];
    for words in volumes {
        for script in of_counts.into_iter().chain(of_names) {
            let Some(passes) = passes_over_inodes(words, script) else { return };
            assert_eq!(passes, 1, "{words}: {script}");
        }
        for more in ["setb 8100 4\nsif a blocks 8", "sif a generation 9\nsif b size 77"] {
            assert_ne!(passes_over_inodes(words, more), Some(1), "{words}: {more}");
        }
    }
}
