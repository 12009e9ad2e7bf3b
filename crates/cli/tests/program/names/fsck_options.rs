//! Options of e2fsck that say who is told and what is given back, and a volume whose superblock is
//! lost.
use crate::names::{extant, run, theirs};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

fn volume(image: &Path, words: &[&str]) {
    let (code, said) = run(theirs("mkfs.ext4").arg("-q").args(words).arg(image).arg("40M"));
    assert_eq!(code, Some(0), "{said}");
}

/// Runs it by a shell that has given it this descriptor.
fn with_descriptor(words: &str, redirected: &str, image: &Path) -> (Option<i32>, String) {
    let program = extant("e2fsck").get_program().to_owned();
    let line = format!("\"$0\" --as e2fsck {words} \"$1\" {redirected}");
    run(Command::new("sh").arg("-c").arg(line).arg(program).arg(image))
}

#[test]
fn a_program_is_told_how_far_a_check_is() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("fsck-completion");
    let (image, told) = (folder.join("x.img"), folder.join("told"));
    volume(&image, &[]);
    let redirected = format!("5>'{}'", told.display());
    let (code, said) = with_descriptor("-fn -N 'a b' -C 5", &redirected, &image);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("a_b: 11/10240 files"), "{said}");
    let text = std::fs::read_to_string(&told).unwrap();
    let mut ends = Vec::new();
    let mut last = (0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [pass, done, all, name] = words[..] else { panic!("{line}") };
        let numbers = [pass, done, all].map(|word| word.parse::<u64>().unwrap());
        assert!(name == "a_b" && numbers[1] <= numbers[2], "{line}");
        assert!((numbers[0], numbers[1]) >= last, "{text}");
        last = (numbers[0], numbers[1]);
        if numbers[1] == numbers[2] {
            ends.push(numbers[0]);
        }
    }
    ends.dedup();
    assert_eq!(ends, [1, 2, 3, 4, 5], "{text}");
    // By a socket, as some programs start it.
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let program = extant("e2fsck").get_program().to_owned();
    let mut check = Command::new("sh");
    check
        .args(["-c", "exec 5>&0 0</dev/null \"$0\" --as e2fsck -fn -N 'a b' -C 5 \"$1\""])
        .arg(program);
    check.arg(&image).stdin(std::os::fd::OwnedFd::from(theirs)).stdout(std::process::Stdio::null());
    let mut child = check.spawn().unwrap();
    drop(check);
    let mut heard = String::new();
    std::io::Read::read_to_string(&mut ours, &mut heard).unwrap();
    assert!(child.wait().unwrap().success());
    // How far each line is differs from run to run.
    assert!(heard.starts_with("1 0 ") && heard.lines().last() == text.lines().last(), "{heard}");
    for (number, expected) in [("77", 8), ("x", 16), ("-1", 0), ("0", 0)] {
        let (code, said) = with_descriptor(&format!("-fn -C {number}"), "", &image);
        assert_eq!(code, Some(expected), "-C {number}: {said}");
    }
}

#[test]
fn bad_blocks_are_named_as_not_searched_for() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("fsck-bad-blocks");
    let image = folder.join("x.img");
    volume(&image, &[]);
    for words in [&["-fy", "-c", "-k"][..], &["-fp", "-cc"]] {
        let (code, said) = run(extant("e2fsck").args(words).arg(&image));
        assert!(code == Some(0) && said.contains("-c: bad blocks are not searched"), "{said}");
    }
    for program in [theirs as fn(&str) -> Command, extant] {
        let (code, said) = run(program("e2fsck").args(["-n", "-c"]).arg(&image));
        assert!(code == Some(8) && said.contains("-n and -c options are incompatible"), "{said}");
    }
}

#[test]
fn free_blocks_are_given_back_and_others_stay() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("fsck-discard");
    let (image, kept, gone) = (folder.join("x.img"), folder.join("kept"), folder.join("gone"));
    std::fs::write(&kept, vec![0x5a; 3 << 20]).unwrap();
    std::fs::write(&gone, vec![0xa5; 20 << 20]).unwrap();
    volume(&image, &[]);
    let write = format!("write {} gone\nwrite {} kept\nrm gone\n", gone.display(), kept.display());
    let script = folder.join("script");
    std::fs::write(&script, write).unwrap();
    run(Command::new("debugfs").arg("-w").arg("-f").arg(&script).arg(&image));
    let taken = || image.metadata().unwrap().blocks() * 512;
    let before = taken();
    assert!(before > 23 << 20, "{before}");
    for words in [["-fn", "-E", "discard"], ["-fy", "-E", "nodiscard"]] {
        let (code, said) = run(extant("e2fsck").args(words).arg(&image));
        assert_eq!((code, taken()), (Some(0), before), "{words:?}: {said}");
    }
    let (code, said) = run(extant("e2fsck").args(["-fp", "-E", "discard"]).arg(&image));
    assert_eq!(code, Some(0), "{said}");
    assert!(taken() + (19 << 20) < before, "{before}, then {}", taken());
    assert_eq!(e2fsck(&image), Ok(()));
    let output = Command::new("debugfs").args(["-R", "cat kept"]).arg(&image).output().unwrap();
    assert!(output.stdout == vec![0x5a; 3 << 20]);
}

/// The free blocks of a volume, as dumpe2fs lists them, and the bytes of a block.
fn free_blocks(image: &Path) -> (Vec<u64>, usize) {
    let (_, said) = run(theirs("dumpe2fs").arg(image));
    let lists = said.lines().filter_map(|line| line.strip_prefix("  Free blocks: "));
    let ranges = lists.flat_map(|list| list.split(", ")).filter(|range| !range.is_empty());
    let number = |text: &str| text.trim().parse::<u64>().unwrap();
    let blocks = ranges.flat_map(|range| match range.split_once('-') {
        Some((first, last)) => number(first)..=number(last),
        None => number(range)..=number(range),
    });
    let size = said.lines().find_map(|line| line.strip_prefix("Block size:")).unwrap();
    (blocks.collect(), number(size) as usize)
}

/// Files between which others were, and files in pieces: what is free becomes holes, and all else
/// is as it was.
#[test]
fn of_a_fragmented_volume_only_free_blocks_are_given_back() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    for words in [&["-b", "1024"][..], &["-b", "4096", "-O", "^has_journal"], &["-g", "4096"]] {
        let folder = Scratch::new("fsck-discard-fragments");
        let (image, part, large) =
            (folder.join("x.img"), folder.join("part"), folder.join("large"));
        std::fs::write(&part, vec![0x5a; 70_001]).unwrap();
        std::fs::write(&large, vec![0xa5; 3 << 20]).unwrap();
        volume(&image, words);
        // Full of small files, of which every other one goes; then large ones in their places.
        let write = |number| format!("write {} p{number}\n", part.display());
        let mut script: String = (0..200).map(write).collect();
        script.extend((0..200).step_by(2).map(|number| format!("rm p{number}\n")));
        script.extend((0..4).map(|number| format!("write {} l{number}\n", large.display())));
        script.push_str("rm l1\nrm l3\n");
        let lines = folder.join("script");
        std::fs::write(&lines, script).unwrap();
        run(Command::new("debugfs").arg("-w").arg("-f").arg(&lines).arg(&image));
        run(theirs("e2fsck").arg("-fy").arg(&image));
        let before = std::fs::read(&image).unwrap();
        let (code, said) = run(extant("e2fsck").args(["-fp", "-E", "discard"]).arg(&image));
        assert_eq!(code, Some(0), "{words:?}: {said}");
        let after = std::fs::read(&image).unwrap();
        let (free, block_size) = free_blocks(&image);
        let is_free: std::collections::BTreeSet<u64> = free.into_iter().collect();
        let (mut emptied, mut changed) = (0, 0);
        let pairs = before.chunks(block_size).zip(after.chunks(block_size));
        for (number, (old, new)) in (0..).zip(pairs) {
            let is_noise = |bytes: &[u8]| bytes.iter().any(|byte| *byte != 0);
            match is_free.contains(&number) {
                true => {
                    assert!(!is_noise(new), "{words:?}: free block {number}");
                    emptied += u64::from(is_noise(old));
                }
                // The superblock, and that of the journal.
                false => changed += u64::from(old != new),
            }
        }
        assert!(emptied > 300 && changed <= 2, "{words:?}: {emptied} emptied, {changed} changed");
        assert_eq!(e2fsck(&image), Ok(()));
    }
}

#[test]
fn a_lost_superblock_is_mended_by_a_copy() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("fsck-lost");
    let image = folder.join("x.img");
    let sizes = [&["-b", "1024"][..], &["-b", "4096", "-g", "4096"], &["-b", "2048"]];
    // In the second one no copy is where one is looked for.
    for (words, expected) in sizes.into_iter().zip([1, 8, 1]) {
        let _ = std::fs::remove_file(&image);
        volume(&image, words);
        let file = std::fs::File::options().write(true).open(&image).unwrap();
        file.write_all_at(&[0; 1024], 1024).unwrap();
        let before = std::fs::read(&image).unwrap();
        for mode in ["-fn", "-n", "-p"] {
            let [(their_code, _), (our_code, said)] = [theirs as fn(&str) -> Command, extant]
                .map(|program| run(program("e2fsck").arg(mode).arg(&image)));
            assert_eq!(our_code, their_code, "{words:?} {mode}: {said}");
        }
        let (code, said) = run(extant("e2fsck").arg("-fy").arg(&image));
        assert_eq!(code, Some(expected), "{words:?}: {said}");
        match expected {
            1 => assert_eq!(e2fsck(&image), Ok(())),
            _ => assert!(std::fs::read(&image).unwrap() == before),
        }
    }
}

/// With -b a volume is judged and mended by a copy of its superblock, whatever the first one says.
#[test]
fn a_volume_is_mended_by_the_copy_that_is_named() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("fsck-copy");
    let (image, [ours, others]) =
        (folder.join("x.img"), ["ours", "theirs"].map(|name| folder.join(name)));
    let kept = folder.join("kept");
    std::fs::write(&kept, vec![0x5a; 3 << 20]).unwrap();
    let lost = |image: &Path| {
        let file = std::fs::OpenOptions::new().write(true).open(image).unwrap();
        file.write_all_at(&[0; 1024], 1024).unwrap();
    };
    let whole = |_: &Path| {};
    let copies = [(&["-b", "1024"][..], "8193"), (&["-b", "4096", "-g", "4096"], "4096")];
    for (words, block) in copies {
        let _ = std::fs::remove_file(&image);
        volume(&image, words);
        let write = format!("write {} kept", kept.display());
        run(Command::new("debugfs").args(["-w", "-R", &write]).arg(&image));
        for (state, damage) in [("whole", &whole as &dyn Fn(&Path)), ("lost", &lost)] {
            for options in [&["-fy"][..], &["-fp"], &["-fn"], &["-fy", "-B", words[1]]] {
                for copy in [&ours, &others] {
                    std::fs::copy(&image, copy).unwrap();
                    damage(copy);
                }
                let before = std::fs::read(&ours).unwrap();
                let options = [options, &["-b", block]].concat();
                let (code, said) = run(extant("e2fsck").args(&options).arg(&ours));
                let (their_code, they) = run(theirs("e2fsck").args(&options).arg(&others));
                let what = format!("{words:?} {state} {options:?}: {said}\n{they}");
                assert_eq!(code, their_code, "{what}");
                if options[0] == "-fn" {
                    assert!(std::fs::read(&ours).unwrap() == before, "{what}: it was written");
                    continue;
                }
                e2fsck(&ours).unwrap_or_else(|error| panic!("{what}: {error}"));
                let cat = Command::new("debugfs").args(["-R", "cat kept"]).arg(&ours).output();
                assert!(cat.unwrap().stdout == vec![0x5a; 3 << 20], "{what}");
            }
        }
    }
    // No copy is there, or one of another size of blocks.
    let before = std::fs::read(&ours).unwrap();
    for words in [&["-fy", "-b", "4097"][..], &["-fy", "-b", "99999999999"]] {
        let (code, said) = run(extant("e2fsck").args(words).arg(&ours));
        assert_eq!(code, Some(8), "{said}");
        assert!(said.contains("is no copy of a superblock"), "{said}");
        assert!(std::fs::read(&ours).unwrap() == before, "{said}");
    }
    let mut wrong = extant("e2fsck");
    let (code, said) = run(wrong.args(["-fy", "-b", "4096", "-B", "1024"]).arg(&ours));
    assert_eq!(code, Some(8), "{said}");
}
