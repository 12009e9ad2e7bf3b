//! Calls of the engine in this process against the kernel's ext4 in a loop mount, both over an
//! image of the same size on the same disk, with a journal and without.
//!
//! Each run has an image of its own, made by mke2fs over bytes that the host has allocated and
//! written. What a row needs is made in one process, and measured in another after the volume was
//! closed, or unmounted: the engine's memory is empty then, the host's page cache is not. The two
//! take turns, and in every other round the other one begins.

use std::path::{Path, PathBuf};

use super::{Bench, example, settle};
use crate::command::{self, is_root, program};
use crate::measure::median;
use crate::oracle::{self, Access};
use crate::sheet::Sheet;

/// Files, or blocks of 4 KiB, unless asked for otherwise.
const COUNT: u64 = 100_000;
/// How the engine is opened; without a journal in the image there is none.
const POLICIES: &str = "modern";
/// Size of the images.
const IMAGE_MIB: u64 = 1024;
/// Memory that is a file system, for images without a disk.
const MEMORY: &str = "/dev/shm";

/// The rows, and what a table calls them. Those of threads have a table of their own.
const ROWS: &[(&str, &str)] = &[
    ("stat", "stat, one directory"),
    ("stat-100", "stat, 100 directories"),
    ("create", "create, one directory"),
    ("create-100", "create, 100 directories"),
    ("unlink", "unlink, one directory"),
    ("unlink-100", "unlink, 100 directories"),
    ("list", "list, one directory"),
    ("list-100", "list, 100 directories"),
    ("write-128k", "sequential write, 128 KiB"),
    ("write-4k", "sequential write, 4 KiB"),
    ("read-128k", "sequential read, reopened, 128 KiB"),
    ("read-4k", "sequential read, reopened, 4 KiB"),
    ("again-128k", "read again, 128 KiB"),
    ("again-4k", "read again, 4 KiB"),
    ("random-read", "random read, reopened, 4 KiB"),
    ("random-write", "random write, 4 KiB"),
    ("fsync", "random write, 4 KiB, fsync each"),
];

/// The word that asks for the table of threads.
const THREADS: &str = "threads";

/// Which rows are measured, and of how many files.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// All if none is named.
    pub rows: Vec<String>,
    /// As in the document if not given.
    pub count: Option<u64>,
}

impl Choice {
    /// The rows that these words name, of this table or of that of mounts, with commas between
    /// them; a row may be named with the one of many directories, or of other sizes, by what comes
    /// before the hyphen.
    ///
    /// # Errors
    /// A word names no row.
    pub fn rows(words: &str) -> Result<Vec<String>, String> {
        let rows = || ROWS.iter().map(|(row, _)| *row).chain(super::mount::row_names());
        let names = |word: &str| rows().any(|row| is_named(row, word));
        let words = words.split(',').map(str::to_owned);
        words
            .map(|word| match names(&word) || word == THREADS {
                true => Ok(word),
                false => Err(format!("--rows {word}: no such row")),
            })
            .collect()
    }

    /// Whether `row` is among them.
    pub fn takes(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|word| is_named(row, word))
    }

    /// Whether it is everything, at full size.
    pub fn is_complete(&self) -> bool {
        self.rows.is_empty() && self.count.is_none()
    }
}

fn is_named(row: &str, word: &str) -> bool {
    row == word || row.strip_prefix(word).is_some_and(|rest| rest.starts_with('-'))
}

/// Whether a volume has a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Journal {
    With,
    Without,
}

/// Which side makes the calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    /// The engine, on the image in its file or on a copy of it in memory.
    Ours(&'static str),
    Kernel,
}

/// A table for volumes with a journal, one for those without, and one of threads.
///
/// # Errors
/// The example that makes the calls was not built; a call fails.
pub fn tables(bench: &Bench, sheet: &mut Sheet) -> Result<(), String> {
    if !is_root() {
        eprintln!("skipped: only root can mount what the engine is compared to");
        return Ok(());
    }
    let calls = Calls {
        program: example("calls")?,
        image: bench.folder.join("engine.img"),
        count: bench.engine.count.unwrap_or(COUNT),
    };
    for (journal, words) in [(Journal::With, "with"), (Journal::Without, "without")] {
        if !ROWS.iter().any(|(row, _)| bench.engine.takes(row)) {
            continue;
        }
        sheet.say(&format!(
            "\ncalls a second, {} files or blocks, {words} a journal\n",
            calls.count
        ));
        head(sheet, "", ["ours", "kernel", "ours / kernel", "least", "most"]);
        for (row, name) in ROWS.iter().filter(|(row, _)| bench.engine.takes(row)) {
            let pairs = calls.pairs(row, journal, bench.rounds)?;
            sheet.say(&line(name, &pairs));
        }
    }
    if bench.engine.takes(THREADS) {
        threads(&calls, bench.rounds, sheet)?;
    }
    std::fs::remove_file(&calls.image)
        .map_err(|error| format!("{}: {error}", calls.image.display()))
}

/// What four threads in four directories gain over one, on volumes in memory. Both make the files,
/// and nothing is synced in the measured time.
fn threads(calls: &Calls, rounds: usize, sheet: &mut Sheet) -> Result<(), String> {
    let image = Path::new(MEMORY).join(format!("extant-bench-{}.img", std::process::id()));
    let calls = Calls { program: calls.program.clone(), image, count: calls.count };
    sheet.say("\nfiles made a second in four directories, on a volume in memory, no sync\n");
    head(sheet, "", ["one thread", "four threads", "four / one", "least", "most"]);
    let measured = (|| {
        for (side, name) in [(Side::Ours("memory"), "ours"), (Side::Kernel, "kernel")] {
            let mut pairs = Vec::new();
            for round in 0..rounds {
                let one = |threads: &str| calls.rate(side, threads, Journal::With);
                let (one, four) = match round % 2 {
                    0 => (one("threads-1")?, one("threads-4")?),
                    _ => {
                        let four = one("threads-4")?;
                        (one("threads-1")?, four)
                    }
                };
                pairs.push(Pair { first: one, second: four, ratio: four / one });
            }
            sheet.say(&line(name, &pairs));
        }
        Ok(())
    })();
    let _ = std::fs::remove_file(&calls.image);
    measured
}

/// Rates of one round: of the two columns of a table, and the ratio that it shows.
#[derive(Clone, Copy, Debug)]
struct Pair {
    first: f64,
    second: f64,
    ratio: f64,
}

fn head(sheet: &mut Sheet, title: &str, columns: [&str; 5]) {
    let [first, second, ratio, least, most] = columns;
    sheet.say(&format!(
        "| {title:<34} | {first:>12} | {second:>12} | {ratio:>13} | {least:>5} | {most:>5} |"
    ));
    let rule = ":";
    sheet.say(&format!(
        "| {:-<34} | {rule:->12} | {rule:->12} | {rule:->13} | {rule:->5} | {rule:->5} |",
        ""
    ));
}

/// Medians of the columns and of the ratios, and how far these lie apart.
fn line(name: &str, pairs: &[Pair]) -> String {
    let of = |value: fn(&Pair) -> f64| pairs.iter().map(value).collect::<Vec<f64>>();
    let ratios = of(|pair| pair.ratio);
    let least = ratios.iter().copied().fold(f64::MAX, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    format!(
        "| {name:<34} | {:>12.0} | {:>12.0} | {:>13.2} | {least:>5.2} | {most:>5.2} |",
        median(of(|pair| pair.first)),
        median(of(|pair| pair.second)),
        median(ratios)
    )
}

/// How calls are made: by which program, over which image, and how many.
struct Calls {
    program: PathBuf,
    image: PathBuf,
    count: u64,
}

impl Calls {
    /// Rates of the engine and of the kernel, round by round.
    fn pairs(&self, row: &str, journal: Journal, rounds: usize) -> Result<Vec<Pair>, String> {
        let ours = || self.rate(Side::Ours("ours"), row, journal);
        let kernel = || self.rate(Side::Kernel, row, journal);
        let mut pairs = Vec::new();
        for round in 0..rounds {
            let (first, second) = match round % 2 {
                0 => (ours()?, kernel()?),
                _ => {
                    let second = kernel()?;
                    (ours()?, second)
                }
            };
            pairs.push(Pair { first, second, ratio: first / second });
        }
        Ok(pairs)
    }

    /// Calls a second of one row, on a fresh volume.
    fn rate(&self, side: Side, row: &str, journal: Journal) -> Result<f64, String> {
        self.make_volume(journal)?;
        let image = self.image.to_string_lossy();
        let phases = ["prepare", "run"].map(|phase| {
            if row.starts_with(THREADS) && phase == "prepare" {
                return Ok(String::new());
            }
            settle();
            match side {
                Side::Ours(device) => self.call(&[phase, row], &[device, &image, POLICIES]),
                Side::Kernel => {
                    let mounted = oracle::mount_loop(&self.image, Access::ReadWrite, "")?;
                    let output =
                        self.call(&[phase, row], &["host", &mounted.path().to_string_lossy()]);
                    mounted.unmount()?;
                    output
                }
            }
        });
        let [prepared, rate] = phases;
        prepared?;
        let rate = rate?;
        rate.trim().parse().map_err(|_| format!("{row}: no rate: {rate}"))
    }

    fn call(&self, first: &[&str], last: &[&str]) -> Result<String, String> {
        let mut calls = std::process::Command::new(&self.program);
        calls.args(first).arg(self.count.to_string()).args(last);
        let output = command::output(&mut calls)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn make_volume(&self, journal: Journal) -> Result<(), String> {
        self.allocate().map_err(|error| format!("{}: {error}", self.image.display()))?;
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-i", "4096"]);
        mke2fs.args(["-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]);
        match journal {
            Journal::With => mke2fs.args(["-J", "size=64"]),
            Journal::Without => mke2fs.args(["-O", "^has_journal"]),
        };
        command::output(mke2fs.arg(&self.image)).map(|_| ())
    }

    /// Has the host allocate and write the whole image, once.
    fn allocate(&self) -> std::io::Result<()> {
        if self.image.is_file() {
            return Ok(());
        }
        let (file, zeros) = (std::fs::File::create(&self.image)?, vec![0; 1 << 20]);
        for _ in 0..IMAGE_MIB {
            std::io::Write::write_all(&mut &file, &zeros)?;
        }
        file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_chosen_by_its_name_or_with_its_kin() {
        let choice = |words| Choice { rows: Choice::rows(words).expect("rows"), count: None };
        let taken = |words| {
            let choice = choice(words);
            ROWS.iter().map(|(row, _)| *row).filter(|row| choice.takes(row)).collect::<Vec<_>>()
        };
        assert_eq!(taken("stat,fsync"), ["stat", "stat-100", "fsync"]);
        assert_eq!(taken("read-4k"), ["read-4k"]);
        assert!(choice("threads").takes(THREADS) && taken("threads").is_empty());
        assert!(Choice::rows("sta").is_err());
        assert!(Choice::default().takes("list-100") && Choice::default().is_complete());
    }

    #[test]
    fn the_ratio_is_of_the_rounds_and_not_of_the_medians() {
        let pair = |first, second, ratio| Pair { first, second, ratio };
        let pairs = [pair(10.0, 20.0, 0.5), pair(30.0, 10.0, 3.0), pair(5.0, 5.0, 1.0)];
        let words: Vec<String> =
            line("x", &pairs).split('|').map(|cell| cell.trim().to_owned()).collect();
        assert_eq!(words, ["", "x", "10", "10", "1.00", "0.50", "3.00", ""]);
    }
}
