//! resize2fs beside theirs: exit codes, what is printed, what e2fsck says of it.
use crate::names::{extant, run, theirs};
use extant_testkit::oracle::{self, require};
use extant_testkit::scratch::Scratch;
use std::path::Path;
use std::process::Command;

/// Lines of one of both programs, without names and versions.
fn lines(said: &str, image: &Path) -> Vec<String> {
    let shown = image.display().to_string();
    let lines = said.lines().filter(|line| !line.starts_with("resize2fs 1.")).map(str::trim);
    let lines = lines.filter(|line| !line.is_empty()).map(|line| line.replace(&shown, "IMAGE"));
    // The name is as it was called.
    let lines = lines.map(|line| match line.split_once("resize2fs: ") {
        Some((_, rest)) => format!("resize2fs: {rest}"),
        None => line.replace("/usr/sbin/resize2fs [", "resize2fs ["),
    });
    lines.collect()
}

#[test]
fn resize2fs_says_and_does_what_theirs_does() {
    if !["resize2fs", "mke2fs", "e2fsck", "dumpe2fs"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("names-resize2fs");
    let [ours, others] = ["ours.img", "theirs.img"].map(|name| folder.join(name));
    for kind in [&["-t", "ext4"][..], &["-t", "ext4", "-b", "4096"], &["-t", "ext2"]] {
        for image in [&ours, &others] {
            let _ = std::fs::remove_file(image);
            let mut mke2fs = Command::new("mke2fs");
            let (code, said) = run(mke2fs.args(["-q", "-F"]).args(kind).arg(image).arg("40M"));
            assert_eq!(code, Some(0), "{said}");
        }
        for words in [
            "IMAGE",
            "IMAGE 64M",
            "-p IMAGE 30M",
            "-f IMAGE 150000s",
            "-s IMAGE",
            "-b IMAGE",
            "IMAGE 0200000",
            "IMAGE 0x13000",
            "IMAGE 09",
            "IMAGE 1G",
            "IMAGE 0",
            "IMAGE 12q",
            "IMAGE xyz",
            "-x IMAGE",
            "IMAGE 1 2",
            "",
            "-h",
            "-b -s IMAGE",
            "IMAGE 200M",
        ] {
            if kind == ["-t", "ext2"] && words.contains("-s") {
                continue;
            }
            let called = |mut program: Command, image: &Path| {
                let shown = image.display().to_string();
                let all = words.split_whitespace().map(|word| word.replace("IMAGE", &shown));
                let (code, said) = run(program.args(all));
                (code, lines(&said, image))
            };
            let (code, said) = called(extant("resize2fs"), &ours);
            let (their_code, their_said) = called(theirs("resize2fs"), &others);
            assert_eq!(code, their_code, "{kind:?} {words}: {said:?} {their_said:?}");
            let is_bar = |line: &&String| line.contains("pass") || line.contains("---");
            let their_said: Vec<&String> = their_said.iter().filter(|line| !is_bar(line)).collect();
            assert_eq!(said.iter().collect::<Vec<_>>(), their_said, "{kind:?} {words}");
            oracle::e2fsck(&ours).unwrap_or_else(|error| panic!("{kind:?} {words}: {error}"));
            let length = |image: &Path| std::fs::metadata(image).unwrap().len();
            assert_eq!(length(&ours), length(&others), "{kind:?} {words}");
        }
        // As small as can be: theirs at most.
        let least = |mut program: Command, image: &Path| {
            let (code, said) = run(program.arg("-P").arg(image));
            assert_eq!(code, Some(0), "{said}");
            let (_, number) = said.split_once("of the filesystem: ").expect("a number");
            number.lines().next().and_then(|it| it.trim().parse::<u64>().ok()).expect("a number")
        };
        assert!(least(extant("resize2fs"), &ours) <= least(theirs("resize2fs"), &others));
        let (code, said) = run(extant("resize2fs").arg("-M").arg(&ours));
        assert_eq!(code, Some(0), "{said}");
        oracle::e2fsck(&ours).expect("it is sound");
    }
}

/// What e2undo takes back, and a journal that waits: theirs asks for e2fsck first.
#[test]
fn resize2fs_keeps_what_e2undo_needs() {
    if !["mke2fs", "e2fsck", "e2undo"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("names-resize2fs-undo");
    let image = folder.join("disk.img");
    for size in ["60M", "20M"] {
        let _ = std::fs::remove_file(&image);
        let (code, said) = run(Command::new("mke2fs").args(["-q", "-F"]).arg(&image).arg("40M"));
        assert_eq!(code, Some(0), "{said}");
        let before = std::fs::read(&image).unwrap();
        let undo = folder.join(&format!("undo-{size}"));
        let mut resize2fs = extant("resize2fs");
        let (code, said) = run(resize2fs.arg("-z").arg(&undo).arg(&image).arg(size));
        assert!(code == Some(0) && said.contains("e2undo"), "{said}");
        oracle::e2fsck(&image).expect("it is sound");
        let (code, said) = run(Command::new("e2undo").arg(&undo).arg(&image));
        assert_eq!(code, Some(0), "{said}");
        let after = std::fs::read(&image).unwrap();
        assert!(after[..before.len()] == before[..], "{size}");
        oracle::e2fsck(&image).expect("it is what it was");
    }
}
