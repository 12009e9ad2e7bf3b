//! Devices that fail while they are mounted.
use crate::mount::fixture::{Bench, Mounted, errno, extant, has_fuse};
use std::fs;

const INPUT_OUTPUT: i32 = 5;
const READ_ONLY: i32 = 30;

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

    let told = extant(["umount", &bench.point()]);
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
