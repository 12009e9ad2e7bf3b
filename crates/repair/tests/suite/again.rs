//! The second check: it reads maps and directories again only where they can have changed.
use crate::corpus::{image, judged, mended_with};
use extant_inspect::{Listener, Pass};
use extant_repair::Scope;
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use std::sync::{Arc, Mutex};

/// What the passes of a repair read, in bytes, as they say when they begin.
#[derive(Default, Clone)]
struct Passes {
    inodes: Vec<u64>,
    directories: Vec<u64>,
}

/// The passes of a repair of a volume of mke2fs, after this script of debugfs. `None`: a tool is
/// absent.
fn passes(words: &str, script: &str, scope: Scope) -> Option<Passes> {
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
    let begun = Arc::new(Mutex::new(Passes::default()));
    let noted = Arc::clone(&begun);
    let listener: Listener = Arc::new(move |progress| {
        let mut noted = noted.lock().expect("nobody fails with it");
        match progress.pass {
            Pass::Inodes if progress.done_bytes == 0 => noted.inodes.push(progress.expected_bytes),
            Pass::Directories if progress.done_bytes == 0 => {
                noted.directories.push(progress.expected_bytes);
            }
            _ => {}
        }
    });
    let bytes = std::fs::read(&path).expect("it is there");
    let repaired = mended_with(&bytes, scope, Some(listener)).expect("it is mended");
    assert!(repaired.is_clean(), "{words} {script}: {:?}", repaired.left.counts);
    assert!(!repaired.changes.is_empty(), "{words}: nothing was wrong after {script}");
    std::fs::write(&path, image(&repaired)).expect("scratch has room");
    assert_eq!(judged(&path), None, "{words} {script}");
    let begun = begun.lock().expect("nobody fails with it").clone();
    Some(begun)
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
            let Some(passes) = passes(words, script, Scope::Safe) else { return };
            assert_eq!(passes.inodes.len(), 1, "{words}: {script}");
        }
        for more in ["setb 8100 4\nsif a blocks 8", "sif a generation 9\nsif b size 77"] {
            let Some(passes) = passes(words, more, Scope::Safe) else { return };
            assert_ne!(passes.inodes.len(), 1, "{words}: {more}");
        }
    }
}

#[test]
fn directories_are_read_again_only_where_they_were_written() {
    // An entry is taken out, another file comes back into lost+found, links are wrong, `..` leads
    // to a file.
    let of_files = [
        "clri d/c",
        "unlink a",
        "sif d links_count 7\nsif a links_count 4",
        "unlink d/..\nln a d/..",
    ];
    // A directory is cut off, and another one is not there any more.
    let of_the_tree = ["unlink d", "clri d"];
    for words in ["-t ext2", "-t ext4", "-t ext4 -O bigalloc -C 4096"] {
        for script in of_files {
            let Some(passes) = passes(words, script, Scope::All) else { return };
            let (first, later) = passes.directories.split_first().expect("they were read");
            assert!(later.iter().all(|read| read < first), "{words}: {script}: {later:?}");
        }
        for script in of_the_tree {
            let Some(passes) = passes(words, script, Scope::All) else { return };
            let (first, later) = passes.directories.split_first().expect("they were read");
            assert!(later.contains(first), "{words}: {script}: {later:?} after {first}");
        }
    }
}
