//! Volumes whose descriptors mke2fs spreads over the volume by itself have them spread by both of
//! our names for it, and no others have.
use crate::names::{extant, run, theirs};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::path::Path;
use std::process::Command;

/// Options and size, on both sides of each limit.
const ROWS: [(&str, &str); 13] = [
    ("-b 4096 -g 1024", "192M"),
    ("-b 4096 -g 1024", "193M"),
    ("-b 4096 -g 1024", "200M"),
    ("-b 4096 -g 1024 -O ^64bit", "200M"),
    ("-b 4096 -g 1024 -O ^flex_bg", "200M"),
    ("-b 1024 -g 336", "8M"),
    ("-b 1024 -g 344", "8M"),
    ("-b 1024 -g 352", "64M"),
    ("-b 1024 -g 360", "64M"),
    ("-b 1024 -g 256 -O ^64bit,^resize_inode", "1572865K"),
    // The last group is too small and goes, and still counts here.
    ("-b 1024 -g 256 -O ^64bit,^resize_inode", "1572895K"),
    ("-b 1024 -g 256 -O ^64bit,^resize_inode", "1573121K"),
    ("-b 4096 -g 1024 -E resize=262144", "200M"),
];

#[test]
fn meta_bg_that_no_one_asked_for_is_taken_where_mke2fs_takes_it() {
    if !["mke2fs", "dumpe2fs", "e2fsck"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("names-descriptors");
    let image = folder.join("x.img");
    let is_spread = |image: &Path| {
        let (code, fields) = run(theirs("dumpe2fs").arg("-h").arg(image));
        assert_eq!(code, Some(0), "{fields}");
        fields.contains("meta_bg")
    };
    let mut spread = 0;
    for (options, size) in ROWS {
        let words = ["-q", "-F"].into_iter().chain(options.split(' '));
        let words: Vec<&str> = words.collect();
        let _ = std::fs::remove_file(&image);
        let (code, said) = run(theirs("mkfs.ext4").args(&words).arg(&image).arg(size));
        assert_eq!(code, Some(0), "{options} {size}: {said}");
        let is_wanted = is_spread(&image);
        spread += usize::from(is_wanted);
        let _ = std::fs::remove_file(&image);
        let mut ours = extant("mkfs.ext4");
        let mut mkfs = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
        mkfs.args(["mkfs", "-t", "ext4"]).args(&words[2..]);
        for command in [ours.args(&words), &mut mkfs] {
            let (code, said) = run(command.arg(&image).arg(size));
            assert_eq!(code, Some(0), "{options} {size}: {said}");
            assert_eq!(is_spread(&image), is_wanted, "{options} {size}");
            e2fsck(&image).unwrap_or_else(|error| panic!("{options} {size}: {error}"));
            std::fs::remove_file(&image).unwrap();
        }
    }
    assert!(spread > 4 && spread < ROWS.len() - 4, "{spread} of {}", ROWS.len());
}
