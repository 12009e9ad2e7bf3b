//! Programs on a mount: the kernel's ext4 through a loop device, a FUSE server that stores nothing,
//! `extant mount`, and fuse2fs; all with a journal, over an image on the same disk.
//!
//! They take turns, and each round begins with another one. A run ends when everything is synced,
//! the volume unmounted, its server gone and the image on the disk. What a row needs is made by the
//! kernel on the image before (by the row's own words where nothing is stored), and not measured. A
//! row is cold when the host's caches are emptied and the volume mounted anew first; the server
//! that stores nothing stays mounted.

mod rows;
mod systems;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{Bench, Input, SlowPeer, quoted, settle};
use crate::command::{self, find, is_root, program};
use crate::measure::{median, seconds_now};
use crate::sheet::Sheet;
use rows::{Base, ROWS, Row, Start, Work};
use systems::{Mode, Mounted, System};

/// What `--rows` may name.
pub fn row_names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.word)
}

/// The systems in the order of the columns; ratios are to the first two.
const SYSTEMS: &[System] = &[
    System::Kernel,
    System::Null(Mode::OneUser),
    System::Null(Mode::Everyone),
    System::Extant(Mode::OneUser),
    System::Extant(Mode::Everyone),
];

/// fuse2fs may take this many times as long as the kernel, and no less than the seconds after it.
const PEER_TIMES: f64 = 40.0;
const PEER_SECONDS: f64 = 30.0;

/// The table of programs on a mount.
///
/// # Errors
/// A system fails, or an input cannot be made.
pub fn tables(bench: &Bench, sheet: &mut Sheet) -> Result<(), String> {
    if !is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: only root can mount what the mount is compared to, and with /dev/fuse");
        return Ok(());
    }
    let folder = bench.folder.join("mount");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let input = input(bench)?;
    let course = Course {
        archive: input.archive.clone(),
        folder: folder.clone(),
        slow_peer: bench.slow_peer,
        ready: RefCell::default(),
    };
    sheet.say(&format!(
        "\nseconds of programs on a mount; the tree is {}; ratios are of time, less is better\n",
        input.name
    ));
    head(sheet);
    let chosen = |row: &&Row| bench.engine.rows.is_empty() || bench.engine.takes(row.word);
    let mut measured = BTreeMap::new();
    for row in ROWS.iter().filter(chosen) {
        if let Some(tool) = row.needs.iter().find(|tool| find(tool).is_none()) {
            eprintln!("skipped: {}: no {tool}", row.name);
            continue;
        }
        let seconds = course.row(row, bench.rounds)?;
        sheet.say(&line(row, &seconds));
        measured.insert(row.word, seconds);
    }
    super::remove_tree(&folder)
}

/// The Linux tree, or one of this machine.
fn input(bench: &Bench) -> Result<Input, String> {
    if let Some(input) = bench.inputs()?.into_iter().next().filter(|_| bench.input.is_some()) {
        return Ok(input);
    }
    if let Some(linux) = bench.linux()? {
        return Ok(linux);
    }
    let archive = bench.folder.join("machine.tar");
    if !archive.is_file() {
        let mut tar = program("tar");
        tar.args(["--one-file-system", "-C", "/", "-cf"]).arg(&archive);
        command::output(tar.args(["usr/share", "usr/include"]))?;
    }
    Ok(Input::new("/usr/share and /usr/include of this machine", archive, &bench.folder))
}

/// Seconds of each system, round by round; an error of one that was given up.
type Seconds = BTreeMap<System, Result<Vec<f64>, String>>;

/// Where the measurements take place.
struct Course {
    archive: PathBuf,
    folder: PathBuf,
    slow_peer: SlowPeer,
    /// What is on their images as it is to be.
    ready: RefCell<BTreeSet<Base>>,
}

impl Course {
    fn row(&self, row: &Row, rounds: usize) -> Result<Seconds, String> {
        // git reads what it wrote, and a mount of nothing says nothing of a mount.
        let needs_a_volume = matches!(row.base, Base::Repository | Base::Vast);
        let takes_part = |system: &System| !(needs_a_volume && system.is_null());
        let systems: Vec<System> = SYSTEMS.iter().copied().filter(takes_part).collect();
        let mut seconds: Seconds = systems.iter().map(|it| (*it, Ok(Vec::new()))).collect();
        for round in 0..rounds {
            for place in 0..systems.len() {
                let system = systems[(place + round) % systems.len()];
                eprintln!("{}: round {}, {}", row.name, round + 1, system.name());
                // One that failed has said so, and takes no further part in this row.
                let Some(Ok(all)) = seconds.get_mut(&system) else { continue };
                match self.run(row, system, f64::MAX) {
                    Ok(took) => all.push(took),
                    Err(why) if system == System::Kernel => return Err(why),
                    Err(why) => {
                        eprintln!("{}: {}: {why}", row.name, system.name());
                        seconds.insert(system, Err(why));
                    }
                }
            }
        }
        if self.slow_peer == SlowPeer::Measured && find("fuse2fs").is_some() {
            let kernel = seconds[&System::Kernel].clone()?;
            let limit = (median(kernel) * PEER_TIMES).max(PEER_SECONDS);
            eprintln!("{}: fuse2fs, at most {limit:.0} s", row.name);
            let took = self.run(row, System::Fuse2fs, limit).map(|took| vec![took]);
            seconds.insert(System::Fuse2fs, took);
        }
        Ok(seconds)
    }

    /// One run of one system, in seconds.
    fn run(&self, row: &Row, system: System, limit: f64) -> Result<f64, String> {
        let image = self.image(row, system)?;
        let folder = self.folder.join("at");
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        settle();
        systems::await_detached(&image);
        if row.base == Base::Vast {
            drop_caches()?;
            let start = seconds_now();
            let mounted = Mounted::new(system, &image, &folder)?;
            std::fs::read_dir(&folder).map_err(|error| error.to_string())?.for_each(drop);
            let took = seconds_now() - start;
            return mounted.end(&image).map(|()| took);
        }
        let mounted = Mounted::new(system, &image, &folder)?;
        let took = self.run_mounted(row, system, &mounted, limit);
        match took {
            Ok(start) => {
                mounted.end(&image)?;
                Ok(seconds_now() - start)
            }
            Err(error) => {
                mounted.give_up();
                // What is left of it is no base for another run.
                self.ready.borrow_mut().remove(&row.base);
                Err(error)
            }
        }
    }

    /// Does the work on a mounted volume. Returns when the measured part began.
    fn run_mounted(
        &self,
        row: &Row,
        system: System,
        mounted: &Mounted,
        limit: f64,
    ) -> Result<f64, String> {
        if system.is_null() {
            self.shell(row.base.words_of_nothing(), mounted.folder(), f64::MAX)?;
        }
        match row.start {
            Start::Fresh => {}
            Start::Cold => {
                settle();
                drop_caches()?;
            }
            Start::After(words) => {
                self.shell(words, mounted.folder(), f64::MAX)?;
            }
        }
        let start = seconds_now();
        match row.work {
            Work::Shell(words) => self.shell(words, mounted.folder(), limit)?,
            Work::Creates(count) => creates(mounted.folder(), count)?,
        }
        settle();
        Ok(start)
    }

    fn shell(&self, words: &str, folder: &Path, limit: f64) -> Result<(), String> {
        let mut shell = program("timeout");
        let limit = if limit < 1e6 { limit.ceil() as u64 } else { 0 };
        shell.args(["-k", "5", &limit.to_string(), "sh", "-euc"]);
        let script = format!("cd {}\n{words}", quoted(folder));
        shell.arg(script).env("ARCHIVE", &self.archive).stdin(std::process::Stdio::null());
        shell.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        for role in ["AUTHOR", "COMMITTER"] {
            shell.env(format!("GIT_{role}_NAME"), "bench");
            shell.env(format!("GIT_{role}_EMAIL"), "bench@localhost");
            shell.env(format!("GIT_{role}_DATE"), "1700000000 +0000");
        }
        let output = shell.output().map_err(|error| format!("timeout: {error}"))?;
        match output.status.code() {
            Some(0) => Ok(()),
            Some(124 | 137) => Err(format!("> {limit} s")),
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                let line = said.lines().last().unwrap_or_default();
                Err(format!("{}: {line}", output.status))
            }
        }
    }

    fn base_path(&self, base: Base) -> PathBuf {
        self.folder.join(format!("{}.img", base.word()))
    }

    /// The image of a row, as the run begins with it. Made anew if a run changes it.
    fn image(&self, row: &Row, system: System) -> Result<PathBuf, String> {
        let path = self.base_path(row.base);
        if system.is_null() {
            return Ok(path);
        }
        // What an earlier call of this program left is not trusted.
        let is_ready = self.ready.borrow_mut().remove(&row.base);
        if is_ready && !row.is_spoilt {
            self.ready.borrow_mut().insert(row.base);
            return Ok(path);
        }
        row.base.make(&path)?;
        if !row.base.words().is_empty() {
            let folder = self.folder.join("at");
            std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
            let mounted = Mounted::new(System::Kernel, &path, &folder)?;
            if let Err(error) = self.shell(row.base.words(), mounted.folder(), f64::MAX) {
                mounted.give_up();
                return Err(error);
            }
            mounted.end(&path)?;
        }
        super::flush(&path)?;
        if !row.is_spoilt {
            self.ready.borrow_mut().insert(row.base);
        }
        Ok(path)
    }
}

/// Makes empty files in one directory.
fn creates(folder: &Path, count: u32) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let folder = folder.join("made");
    std::fs::create_dir(&folder).map_err(failed)?;
    for number in 0..count {
        std::fs::File::create_new(folder.join(format!("file-{number:05}"))).map_err(failed)?;
    }
    Ok(())
}

fn drop_caches() -> Result<(), String> {
    std::fs::write("/proc/sys/vm/drop_caches", "3").map_err(|error| format!("drop_caches: {error}"))
}

const COLUMNS: [&str; 11] = [
    "",
    "kernel",
    "null",
    "ours",
    "ours / kernel",
    "to reach",
    "ours / null",
    "all: ours / kernel",
    "all: ours / null",
    "null / kernel",
    "fuse2fs",
];

fn head(sheet: &mut Sheet) {
    sheet.say(&format!("| {} |", COLUMNS.join(" | ")));
    sheet.say(&format!("| --- |{}", " ---: |".repeat(COLUMNS.len() - 1)));
}

/// The line of one row: medians of seconds, and medians of the rounds' ratios.
fn line(row: &Row, seconds: &Seconds) -> String {
    let of = |system| seconds.get(&system).and_then(|runs| runs.as_ref().ok());
    let time = |system| match seconds.get(&system) {
        None => "-".into(),
        Some(Ok(runs)) => shown(median(runs.clone())),
        Some(Err(_)) => "failed".into(),
    };
    let ratio = |upper, lower| match (of(upper), of(lower)) {
        (Some(upper), Some(lower)) => {
            let ratios = upper.iter().zip(lower).map(|(upper, lower)| upper / lower);
            format!("{:.2}", median(ratios.collect()))
        }
        _ => "-".into(),
    };
    let (kernel, null, ours) =
        (System::Kernel, System::Null(Mode::OneUser), System::Extant(Mode::OneUser));
    let (null_all, ours_all) = (System::Null(Mode::Everyone), System::Extant(Mode::Everyone));
    let peer = match seconds.get(&System::Fuse2fs) {
        None => "-".into(),
        Some(Ok(_)) => time(System::Fuse2fs),
        Some(Err(why)) => why.clone(),
    };
    let cells = [
        row.name.into(),
        time(kernel),
        time(null),
        time(ours),
        ratio(ours, kernel),
        row.goal.into(),
        ratio(ours, null),
        ratio(ours_all, kernel),
        ratio(ours_all, null_all),
        ratio(null, kernel),
        peer,
    ];
    format!("| {} |", cells.join(" | "))
}

/// Seconds, with three digits that count.
fn shown(seconds: f64) -> String {
    match seconds {
        _ if seconds < 0.1 => format!("{:.0} ms", seconds * 1000.0),
        _ if seconds < 10.0 => format!("{seconds:.2} s"),
        _ => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_ratios_of_rounds_and_says_what_was_given_up() {
        let row = &ROWS[0];
        let mut seconds = Seconds::new();
        seconds.insert(System::Kernel, Ok(vec![1.0, 10.0, 2.0]));
        seconds.insert(System::Null(Mode::OneUser), Ok(vec![2.0, 10.0, 4.0]));
        seconds.insert(System::Extant(Mode::OneUser), Ok(vec![3.0, 10.0, 6.0]));
        seconds.insert(System::Fuse2fs, Err("> 60 s".into()));
        let line = line(row, &seconds);
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let expected =
            [row.name, "2.00 s", "4.00 s", "6.00 s", "3.00", row.goal, "1.50", "-", "-", "2.00"];
        assert_eq!(cells[..10], expected);
        assert_eq!(cells[10], "> 60 s");
        assert_eq!(cells.len(), COLUMNS.len());
    }

    #[test]
    fn each_row_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<_> = row_names().collect();
        assert_eq!(words.len(), ROWS.len());
        for row in ROWS {
            assert!(!row.is_spoilt || row.base != Base::Vast, "{}", row.word);
        }
    }
}
