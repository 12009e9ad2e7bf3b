//! A damaged volume mended by the program and by e2fsck, each on a copy: both are to be clean after
//! that, ours is to keep at least as many files, and its undo is to be exact. By e2fsck's name the
//! program ends as e2fsck does; where it does not, that is counted, and is no fault.
use crate::damage::harness::Image;
use extant_format::superblock::{Feature, Superblock};
use extant_testkit::command::program;
use extant_testkit::scratch::Scratch;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The most bytes that a file on the volumes may have, in units of 512: debugfs has no limit.
const FILE_UNITS_MAX: &str = "65536";

/// Files by path, with what is in them.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What is worth a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// It could not be mended, and e2fsck could.
    Refused,
    /// e2fsck finds something after it, or the program itself does.
    NotClean,
    /// The undo did not give the same bytes back.
    NotUndone,
    /// e2fsck kept more files.
    FewerFiles,
    /// As many, and e2fsck kept more of them where they were.
    FewerNames,
}

/// What came of both.
pub struct Mended {
    pub fault: Option<Fault>,
    /// That, as words.
    pub line: String,
    /// Whether e2fsck's own result is not clean, or has fewer files.
    pub is_better: bool,
    /// How both ended by the name of e2fsck.
    pub exits: [Exits; 2],
}

/// How both end with the same option.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Exits {
    pub option: &'static str,
    pub ours: i32,
    pub theirs: i32,
}

/// How many files of a volume are still there: anywhere, and where they were.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Kept {
    files: usize,
    names: usize,
}

impl Exits {
    /// What both, on copies of `image`, end with.
    fn of(option: &'static str, image: &Image, extant: &str, scratch: &Scratch) -> Exits {
        let (name, path) = (scratch.join("e2fsck"), scratch.join("named"));
        let _ = fs::remove_file(&name);
        std::os::unix::fs::symlink(extant, &name).expect("scratch has room");
        let name = name.display().to_string();
        let [ours, theirs] = [name.as_str(), "e2fsck"].map(|program| {
            fs::write(&path, &image.bytes).expect("scratch has room");
            ended(timed(&[program, option]).arg(&path)).0
        });
        Exits { option, ours, theirs }
    }
}

fn timed(words: &[&str]) -> Command {
    let mut command = program("timeout");
    command.arg("60").args(words);
    command.env("E2FSCK_CONFIG", "/dev/null").env("E2FSCK_TIME", "1700000000");
    command
}

/// Exit code and the first words of a command; -1 for a signal.
fn ended(command: &mut Command) -> (i32, String) {
    let output = command.output().expect("it runs");
    let text = [output.stderr, output.stdout].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("Pass "));
    (output.status.code().unwrap_or(-1), lines.take(4).collect::<Vec<_>>().join(" | "))
}

/// The regular files of a clean volume, as debugfs reads them.
pub fn files(image: &Path, scratch: &Scratch) -> Files {
    let out = scratch.join("out");
    let _ = fs::remove_dir_all(&out);
    fs::create_dir(&out).expect("scratch has room");
    let limits = "ulimit -f $0; exec timeout 20 debugfs -R \"rdump / $1\" \"$2\"";
    let mut shell = program("sh");
    let _ = shell.args(["-c", limits, FILE_UNITS_MAX]).arg(&out).arg(image).output();
    let mut found = Files::new();
    let mut folders = vec![out.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let name = path.strip_prefix(&out).unwrap_or(&path).display().to_string();
                found.insert(name, fs::read(&path).unwrap_or_default());
            }
        }
    }
    found
}

fn kept(before: &Files, after: &Files) -> Kept {
    let mut contents: BTreeMap<&[u8], usize> = BTreeMap::new();
    for bytes in after.values() {
        *contents.entry(bytes).or_default() += 1;
    }
    let mut files = 0;
    for bytes in before.values() {
        if let Some(left) = contents.get_mut(bytes.as_slice()).filter(|left| **left > 0) {
            *left -= 1;
            files += 1;
        }
    }
    let names = before.iter().filter(|(name, bytes)| after.get(*name) == Some(bytes)).count();
    Kept { files, names }
}

impl Mended {
    /// Mends `image`, on which `before` were, by `extant` and by e2fsck.
    pub fn of(image: &Image, before: &Files, extant: &str, scratch: &Scratch) -> Mended {
        let (ours, theirs) = (scratch.join("ours"), scratch.join("theirs"));
        fs::write(&ours, &image.bytes).expect("scratch has room");
        fs::write(&theirs, &image.bytes).expect("scratch has room");
        let their_run = ended(timed(&["e2fsck", "-fy"]).arg(&theirs));
        let their_verdict = ended(timed(&["e2fsck", "-fn"]).arg(&theirs));
        let their_kept = kept(before, &files(&theirs, scratch));
        let our_run = ended(timed(&[extant, "repair", "--all"]).arg(&ours));
        let our_verdict = ended(timed(&["e2fsck", "-fn"]).arg(&ours));
        let our_second = ended(timed(&[extant, "repair", "--dry-run", "--all"]).arg(&ours));
        let our_kept = kept(before, &files(&ours, scratch));
        let fault = match () {
            () if our_run.0 == 8 && their_verdict.0 == 0 => Some(Fault::Refused),
            () if our_run.0 == 8 => None,
            () if our_run.0 > 1 || our_verdict.0 != 0 || our_second.0 != 0 => Some(Fault::NotClean),
            () if !is_undone(image, our_run.0, extant, &ours) => Some(Fault::NotUndone),
            () if their_verdict.0 != 0 => None,
            () if our_kept.files < their_kept.files => Some(Fault::FewerFiles),
            () if our_kept < their_kept => Some(Fault::FewerNames),
            () => None,
        };
        let is_better = their_verdict.0 != 0 || our_kept > their_kept;
        let line = format!(
            "ours {our_run:?}, then {our_verdict:?} and {our_second:?}, {our_kept:?}; \
             e2fsck {their_run:?}, then {their_verdict:?}, {their_kept:?}"
        );
        let exits = ["-fp", "-fy"].map(|option| Exits::of(option, image, extant, scratch));
        Mended { fault, line, is_better, exits }
    }
}

/// Whether the undo gives back the bytes that were there.
fn is_undone(image: &Image, code: i32, extant: &str, path: &Path) -> bool {
    if code == 1 {
        let _ = ended(timed(&[extant, "undo"]).arg(path));
    }
    // The block that records mounts says who had the volume last: that was the undo.
    // A damaged superblock says where that is in a copy or not at all: then no other machine could
    // have the volume.
    let superblock = image.bytes.get(1024..).and_then(<[u8]>::first_chunk).map(Superblock::parse);
    let superblock = superblock.and_then(Result::ok).filter(|it| it.has(Feature::MMP));
    let mounts = superblock.map(|it| {
        let size = it.block_size() as usize;
        let start = (it.mount_block().0 as usize).saturating_mul(size);
        start..start.saturating_add(size)
    });
    let is_of_mounts = |at: usize| mounts.as_ref().is_some_and(|block| block.contains(&at));
    let bytes = fs::read(path).unwrap_or_default();
    let mut pairs = bytes.iter().zip(&image.bytes).enumerate();
    bytes.len() == image.bytes.len() && pairs.all(|(at, (now, was))| now == was || is_of_mounts(at))
}
