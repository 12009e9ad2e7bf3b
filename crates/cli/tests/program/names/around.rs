//! A volume in a part of a file or device: every byte around it stays, judged by noise.
use crate::names::{UUID, extant, run, theirs};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::path::{Path, PathBuf};
use std::process::Command;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Bytes that look like nothing.
pub fn noise(bytes: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = (0..bytes.div_ceil(8)).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(bytes as usize).collect()
}

/// The name by which e2fsprogs finds a volume at an offset.
pub fn at_offset(image: &Path, offset_bytes: u64) -> PathBuf {
    match offset_bytes {
        0 => image.to_owned(),
        bytes => PathBuf::from(format!("{}?offset={bytes}", image.display())),
    }
}

/// Fails unless what was at these places of a file is there still.
#[track_caller]
fn stays(shown: &str, file: &Path, before: &[u8], volume: std::ops::Range<u64>) {
    let after = std::fs::read(file).unwrap();
    let kept = [0..volume.start, volume.end..before.len() as u64];
    for place in kept {
        let end = place.end.min(before.len() as u64) as usize;
        let place = (place.start as usize).min(end)..end;
        let differs = place.clone().find(|at| after.get(*at) != before.get(*at));
        assert_eq!(differs, None, "{shown}: the first byte that changed, of {place:?}");
    }
}

/// File, options, size: the volume begins at 512 KiB, or where -E offset says.
const CASES: [(u64, &str, &str); 10] = [
    (2 * MIB, "-b 1024 -E offset=524288", "1024"),
    (2 * MIB, "-b 1024 -E offset=524288,nodiscard", "1024"),
    (2 * MIB, "-b 1024 -E offset=524288 -K", "1024"),
    (16 * MIB, "-b 1024 -t ext4 -E offset=524289", "8M"),
    (16 * MIB, "-b 4096 -t ext3 -E offset=525312", "9M"),
    // From the volume on there is nothing but the end of the file, or not even that.
    (16 * MIB, "-t ext4 -E offset=1048576", "30M"),
    (2 * MIB, "-t ext4 -E offset=4194304", "8M"),
    // Without a size the volume ends with the last whole block.
    (16 * MIB + 100, "-b 4096 -t ext4 -E offset=524288", ""),
    // What is after a volume stays without an offset too.
    (16 * MIB, "-t ext4", "8M"),
    (16 * MIB, "-b 1024 -t ext2 -E nodiscard", "8M"),
];

#[test]
fn what_is_around_a_volume_stays() {
    if !require("mke2fs") || !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("names-around");
    let source = folder.join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("file"), noise(300_000)).unwrap();
    for (bytes, options, size) in CASES {
        for filled in [false, true] {
            let before = noise(bytes);
            let of = |mut command: Command, name: &str| {
                let image = folder.join(name);
                std::fs::write(&image, &before).unwrap();
                command
                    .args(["-q", "-F", "-U", UUID])
                    .args(crate::names::filled::extended(options));
                if filled {
                    command.arg("-d").arg(&source);
                }
                command.arg(&image);
                (run(command.args(size.split_whitespace())), image)
            };
            let shown = format!("{options} {size}, filled: {filled}");
            let ((their_code, _), their_image) = of(theirs("mke2fs"), "theirs.img");
            let ((code, said), image) = of(extant("mke2fs"), "ours.img");
            assert_eq!((code, their_code), (Some(0), Some(0)), "{shown}: {said}");
            let lengths = [&image, &their_image].map(|image| image.metadata().unwrap().len());
            assert_eq!(lengths[0], lengths[1], "{shown}");
            let offset = options.split_once("offset=").map_or(0, |(_, rest)| {
                let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next();
                digits.unwrap().parse().unwrap()
            });
            let end = offset + volume_bytes(&image, offset);
            stays(&shown, &image, &before, offset..end);
            // The same bytes are those that theirs leaves alone.
            stays(&shown, &their_image, &before, offset..end);
            e2fsck(&at_offset(&image, offset)).unwrap_or_else(|error| panic!("{shown}: {error}"));
            assert_eq!(said.contains("without an explicit"), size.is_empty(), "{shown}: {said}");
        }
    }
}

/// Blocks of a volume, in bytes, as its superblock says.
fn volume_bytes(image: &Path, offset: u64) -> u64 {
    let bytes = std::fs::read(image).unwrap();
    let superblock = &bytes[offset as usize + 1024..];
    let word = |at: usize| u32::from_le_bytes(superblock[at..at + 4].try_into().unwrap());
    u64::from(word(4)) << (10 + word(24))
}

#[test]
fn a_volume_after_the_end_needs_a_size() {
    let folder = Scratch::new("names-after-end");
    let image = folder.join("x.img");
    for offset in [2 * MIB, 4 * MIB] {
        for filled in [false, true] {
            std::fs::write(&image, noise(2 * MIB)).unwrap();
            let mut command = extant("mke2fs");
            command.args(["-q", "-F", "-E", &format!("offset={offset}")]);
            if filled {
                command.arg("-d").arg(folder.path());
            }
            let (code, said) = run(command.arg(&image));
            assert_eq!(code, Some(1), "{said}");
            assert!(said.contains("Device size reported to be zero"), "{said}");
            assert!(std::fs::read(&image).unwrap() == noise(2 * MIB), "it was changed");
        }
    }
}

/// A volume on a device that is larger, and one at an offset there.
#[test]
fn what_is_around_a_volume_on_a_device_stays() {
    use extant_testkit::oracle::can_mount;
    if !can_mount() || !require("losetup") || !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("names-around-device");
    let (image, source) = (folder.join("x.img"), folder.join("source"));
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("file"), noise(3_000_000)).unwrap();
    let before = noise(24 * MIB);
    let source = source.display().to_string();
    let build = ["build", "-q", "--force"];
    let rows: [(&[&str], u64, &str); 8] = [
        (&["--as", "mke2fs", "-q", "-F", "-b", "1024"], 0, "8192"),
        (&["--as", "mke2fs", "-q", "-F", "-b", "1024", "-d", &source], 0, "8192"),
        (&["--as", "mke2fs", "-q", "-F", "-E", "offset=4194304", "-d", &source], 4 * MIB, "8M"),
        (&["mkfs", "-q", "-F", "-E", "offset=4194304"], 4 * MIB, "8M"),
        (&[&build[..], &[&source]].concat(), 0, ""),
        (&[&build[..], &["--free", "3M", &source]].concat(), 0, ""),
        (&[&build[..], &["--size", "9M", "-b", "1024", &source]].concat(), 0, ""),
        (&[&build[..], &["-E", "offset=4194304", &source]].concat(), 4 * MIB, ""),
    ];
    for (words, offset, size) in rows {
        std::fs::write(&image, &before).unwrap();
        let shown = image.to_str().unwrap();
        let made = extant_testkit::command::run("losetup", &["-f", "--show", shown]).unwrap();
        let device = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        let mut command =
            Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
        let command = command.env_remove("SOURCE_DATE_EPOCH");
        let (code, said) = run(command.args(words).arg(&device).args(size.split_whitespace()));
        let _ = run(Command::new("blockdev").args(["--flushbufs", &device]));
        let _ = run(Command::new("losetup").args(["-d", &device]));
        assert_eq!(code, Some(0), "{words:?}: {said}");
        let end = offset + volume_bytes(&image, offset);
        stays(&format!("{words:?}"), &image, &before, offset..end);
        e2fsck(&at_offset(&image, offset)).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }
}

/// In the last 64 KiB an array keeps that a device is a member of it. Without discard that would be
/// found there, in the place of the volume.
#[test]
fn nothing_is_recognised_at_the_end_of_a_volume() {
    if !require("mke2fs") {
        return;
    }
    const END: usize = 64 << 10;
    let folder = Scratch::new("names-end");
    let image = folder.join("x.img");
    for words in
        ["-E nodiscard", "-E nodiscard -b 4096", "-K", "-E nodiscard,offset=524288 -b 1024"]
    {
        let ends = ["extant", "mke2fs"].map(|program| {
            std::fs::write(&image, vec![7; 8 << 20]).unwrap();
            let mut command = match program {
                "extant" => extant("mke2fs"),
                _ => extant_testkit::command::program("mke2fs"),
            };
            let size = if words.contains("offset") { "7M" } else { "8M" };
            let (code, said) =
                run(command.args(["-q", "-F"]).args(words.split(' ')).arg(&image).arg(size));
            assert_eq!(code, Some(0), "{program} {words}: {said}");
            let end = if words.contains("offset") { (7 << 20) + (512 << 10) } else { 8 << 20 };
            let bytes = std::fs::read(&image).unwrap();
            (bytes[end - END..end].to_vec(), bytes[end..].to_vec())
        });
        let [(ours, after), (theirs, _)] = ends;
        assert!(ours == theirs && ours.iter().all(|byte| *byte == 0), "{words}: the end");
        assert!(after.iter().all(|byte| *byte == 7), "{words}: what is after it");
    }
}
