//! Every volume of the table that is made is sound for e2fsck, and the kernel mounts what it can.
use crate::names::around::at_offset;
use crate::names::option_strings::{offset_bytes, rows, words};
use crate::names::{extant, run};
use extant_testkit::oracle::{Access, can_mount, e2fsck, mount_loop, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::{Known, skip_known};
use extant_testkit::variables::number;

#[test]
fn e2fsck_says_nothing_of_what_is_made() {
    if !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("names-made");
    let image = folder.join("x.img");
    let one_in = number("EXTANT_CASES") as usize;
    let mut checked = 0;
    for row in rows().iter().filter(|row| row.verdict != "refused").step_by(one_in) {
        // Large ones have the features of small ones.
        // e2fsck waits for most of a minute before it looks at a volume with mmp. What is made with
        // -S, and the device of a journal, is no volume.
        let is_slow = row.options.iter().any(|option| option == "mmp");
        let is_large = row.size.ends_with('G') && row.size.len() > 2;
        let is_none = row.options.iter().any(|word| word == "-S" || word == "journal_dev");
        if is_large || is_slow || is_none {
            continue;
        }
        let _ = std::fs::remove_file(&image);
        let mut command = extant(&row.program);
        let (code, said) = run(command.args(words(row)).arg(&image).arg(&row.size));
        assert_eq!(code, Some(0), "{row:?}: {said}");
        e2fsck(&at_offset(&image, offset_bytes(row)))
            .unwrap_or_else(|error| panic!("{row:?}: {error}"));
        checked += 1;
    }
    assert!(checked * one_in > 90, "{checked}");
}

/// Features that a kernel is built with or without.
const OF_THE_BUILD: [&str; 2] = ["casefold", "quota"];

const WORDS: [&str; 12] = [
    "-O quota",
    "-O sparse_super2",
    "-O orphan_file",
    "-O inline_data,large_dir,ea_inode",
    "-O fast_commit",
    "-O encrypt,verity,stable_inodes",
    "-E packed_meta_blocks=1",
    "-O ^extent,^64bit -I 128",
    "-O meta_bg,^resize_inode -b 1024 -g 1024",
    "-O bigalloc -C 65536",
    "-O bigalloc -b 1024 -C 4096",
    "-O bigalloc,meta_bg,^resize_inode,ea_inode,orphan_file -b 1024 -C 8192 -g 2048",
];

#[test]
fn the_kernel_mounts_and_fills_what_is_made() {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("names-mounted");
    let image = folder.join("x.img");
    let mut mounted = 0;
    for options in WORDS {
        let _ = std::fs::remove_file(&image);
        let mut command = extant("mkfs.ext4");
        let words = options.split(' ');
        let (code, said) = run(command.arg("-q").args(words).arg(&image).arg("64M"));
        assert_eq!(code, Some(0), "{options}: {said}");
        let volume = match mount_loop(&image, Access::ReadWrite, "") {
            Ok(volume) => volume,
            Err(error) if OF_THE_BUILD.iter().any(|word| options.contains(word)) => {
                skip_known(Known::KernelFeatures, format_args!("no mount of {options}: {error}"));
                continue;
            }
            Err(error) => panic!("{options}: {error}"),
        };
        for number in 0..50 {
            let file = volume.path().join(format!("file-{number}"));
            std::fs::write(file, vec![number; 5000]).unwrap();
        }
        volume.unmount().unwrap();
        e2fsck(&image).unwrap_or_else(|error| panic!("{options}: {error}"));
        mounted += 1;
    }
    assert!(mounted >= 5, "only {mounted} were mounted");
}
