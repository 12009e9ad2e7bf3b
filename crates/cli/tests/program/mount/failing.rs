//! Devices that fail while they are mounted.
use crate::mount::fixture::{Bench, Mounted, errno, extant, has_fuse, when_free};
use extant_testkit::command::{output, program};
use std::fs;

const INPUT_OUTPUT: i32 = 5;
const READ_ONLY: i32 = 30;

/// What no file may be called is not shown, hides nothing, and is named in the log, once.
#[test]
fn a_name_that_no_file_may_have_is_named_in_the_log_and_hides_nothing() {
    if !has_fuse() || !extant_testkit::oracle::require("debugfs") {
        return;
    }
    // Directories in the order of their blocks, and by hash.
    for features in ["^dir_index,^metadata_csum", "dir_index,^metadata_csum"] {
        let bench = Bench::new("mount-illegal");
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-O", features]).arg(bench.image());
        output(mke2fs.arg("16M")).unwrap();
        let mounted = bench.mount("");
        fs::create_dir(bench.inside("d")).unwrap();
        // Enough for an index.
        let names: Vec<String> = (0..200).map(|number| format!("{number:040}")).collect();
        names.iter().for_each(|name| fs::write(bench.inside("d").join(name), name).unwrap());
        fs::write(bench.inside("d/.._pwn"), "bad").unwrap();
        mounted.end();
        let bytes = fs::read(bench.image()).unwrap();
        let (from, to) = (b"\x06\x01.._pwn", b"\x06\x01../pwn");
        let mut changed = bytes.clone();
        let places = bytes.windows(from.len()).enumerate();
        let places: Vec<usize> =
            places.filter(|(_, found)| *found == from).map(|(at, _)| at).collect();
        assert!(!places.is_empty());
        places.iter().for_each(|at| changed[*at..at + to.len()].copy_from_slice(to));
        fs::write(bench.image(), changed).unwrap();

        let mounted = Mounted::of(&bench);
        let log = bench.join("log").display().to_string();
        let told = extant(["mount", "--log", &log, &bench.image(), &bench.point()]);
        assert_eq!(told.code, 0, "{told:?}");
        for _ in 0..2 {
            let entries = fs::read_dir(bench.inside("d")).unwrap();
            let mut shown: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            shown.sort();
            assert_eq!(shown, names);
        }
        assert_eq!(fs::read_to_string(bench.inside("d").join(&names[7])).unwrap(), names[7]);
        let told = when_free(["umount", &bench.point()]);
        assert_eq!(told.code, 0, "{told:?}");
        drop(mounted);
        let log = fs::read_to_string(log).unwrap();
        let count = log.lines().filter(|line| line.contains("\"../pwn\" (inode ")).count();
        assert_eq!(count, 1, "{log}");
    }
}

/// What cannot be read or written any more is an error for programs, said once in the log; the
/// mount then takes no change, is unmounted as any other, and that says that not all is there.
#[test]
fn an_image_that_is_cut_short_ends_in_errors_and_not_in_a_hang() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-cut");
    let mounted = bench.mount("");
    fs::write(bench.inside("old"), vec![b'x'; 100_000]).unwrap();
    mounted.end();
    let mounted = Mounted::of(&bench);
    let log = bench.join("log").display().to_string();
    let told = extant(["mount", "--log", &log, &bench.image(), &bench.point()]);
    assert_eq!(told.code, 0, "{told:?}");
    fs::File::options().write(true).open(bench.image()).unwrap().set_len(100_000).unwrap();

    assert_eq!(errno(fs::read(bench.inside("old"))), Some(INPUT_OUTPUT));
    assert_eq!(errno(fs::read(bench.inside("old"))), Some(INPUT_OUTPUT));
    let write = |name: &str| {
        let file = fs::File::create(bench.inside(name))?;
        std::io::Write::write_all(&mut &file, b"content")?;
        file.sync_all()
    };
    assert_eq!(errno(write("new")), Some(INPUT_OUTPUT));
    assert!(matches!(errno(write("newer")), Some(INPUT_OUTPUT | READ_ONLY)));
    assert!(fs::metadata(bench.point()).is_ok(), "what is known is still shown");

    let told = when_free(["umount", &bench.point()]);
    assert_eq!(told.code, 32, "{told:?}");
    assert!(told.stderr.contains("disk.img: ") && told.stderr.contains("write"), "{told:?}");
    assert_eq!(bench.line(), None);
    drop(mounted);
    let log = fs::read_to_string(log).unwrap();
    let count = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(count("the file ends at byte"), 1, "{log}");
    assert!((1..=2).contains(&count("write at byte")), "{log}");
    assert!(log.lines().count() <= 3, "{log}");
}
