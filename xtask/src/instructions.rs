//! `xtask instructions`: what two builds of the command execute for the same work, by callgrind.
//!
//! A count of instructions is the same on a loaded machine as on a quiet one, so one run says
//! whether a change made something dearer. The programs have to be built alike.

use std::path::Path;

use extant_testkit::command::{output, program};
use extant_testkit::scratch::Scratch;

use crate::sheet::{Print, Sheet};

/// A row: what it is called, and the words after the name of the program.
const ROWS: [(&str, &[&str]); 12] = [
    ("mkfs ext4, 64 GiB", &["mkfs", "-q", "--force", "made.img", "64G"]),
    ("build ext4", &["build", "-q", "--force", "tree", "built.img"]),
    ("build ext2", &["build", "-q", "--force", "-t", "ext2", "tree", "built2.img"]),
    ("ls -R", &["ls", "-R", "image:/"]),
    ("tar", &["tar", "--force", "-o", "out.tar", "image"]),
    ("cat of 32 MiB", &["cat", "image:/large"]),
    ("extract", &["extract", "image", "out"]),
    ("check", &["check", "image"]),
    ("layout", &["layout", "image"]),
    ("diff", &["diff", "image", "tree"]),
    ("cp -a, a tree in", &["cp", "-a", "tree/small", "image:/again"]),
    ("rm -r, a tree out", &["rm", "-r", "image:/small"]),
];

/// Small files of the tree: enough that a program's start is the least part of its work.
const FILES: usize = 4000;

/// `instructions BEFORE AFTER`: the counts of both programs for each row, and after over before.
///
/// # Errors
/// There is no valgrind, or one of the programs fails.
pub fn run(words: &[String]) -> Result<(), String> {
    let [before, after] = words else { return Err("two programs: BEFORE AFTER".into()) };
    let absolute =
        |word: &String| std::fs::canonicalize(word).map_err(|error| format!("{word}: {error}"));
    let programs = [absolute(before)?, absolute(after)?];
    let mut sheet = Sheet::new(Print::Lines);
    sheet.say("| work | before, million | after, million | after over before |");
    sheet.say("| --- | ---: | ---: | ---: |");
    for (name, row) in ROWS {
        let mut counts = [0; 2];
        for (count, program) in counts.iter_mut().zip(&programs) {
            *count = counted(program, row).map_err(|error| format!("{name}: {error}"))?;
        }
        let [before, after] = counts.map(|count| count as f64 / 1e6);
        sheet.say(&format!("| {name} | {before:.1} | {after:.1} | {:.4} |", after / before));
    }
    Ok(())
}

/// The instructions of one run, over a tree and an image that are the same each time.
fn counted(command: &Path, words: &[&str]) -> Result<u64, String> {
    let scratch = Scratch::new("instructions");
    let folder = scratch.path();
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let tree = folder.join("tree");
    std::fs::create_dir_all(tree.join("small")).map_err(failed)?;
    for number in 0..FILES {
        let bytes = format!("{number}\n").repeat(1 + number * 7 % 2000);
        std::fs::write(tree.join(format!("small/{number}")), bytes).map_err(failed)?;
    }
    let large: Vec<u8> =
        (0..32u32 << 20).map(|at| (at.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
    std::fs::write(tree.join("large"), large).map_err(failed)?;
    let built = ["build", "-q", "--free", "128M", "tree", "image"];
    output(program(&command.display().to_string()).args(built).current_dir(folder))?;
    let mut valgrind = program("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(command)
        .args(words)
        .current_dir(folder);
    let said = output(&mut valgrind)?;
    let said = String::from_utf8_lossy(&said.stderr);
    let line = said.lines().find_map(|line| line.split_once("Collected : "));
    let count = line.and_then(|(_, count)| count.trim().parse().ok());
    count.ok_or_else(|| format!("valgrind says no count: {said}"))
}
