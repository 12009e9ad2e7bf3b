//! A server that is killed, or whose device is cut, under the load of four processes: what they
//! noted outside holds for what is recovered.
//!
//! A killed server leaves the host's page cache alive, and with it all that it ever wrote. So two
//! rounds of three cut the device instead: the server then has its volume in memory, under a log
//! of what a drive with a volatile cache may hold at that moment.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use extant_testkit::numbers::Numbers;
use extant_testkit::promises::{Load, Notes, Tally, fill_with_secrets, judge, run as run_load};
use rustix::thread::{NanosleepRelativeResult, nanosleep};

use super::Proofs;
use crate::command::{self, program};
use crate::oracle::{self, Access, e2fsck_but_advice, mount_loop};
use crate::repository;
use crate::scratch::Scratch;

/// Unless it is said otherwise.
const ROUNDS: u64 = 200;
const PROCESSES: u32 = 4;
const VOLUME_BYTES: u64 = 64 << 20;
/// Operations of all processes together before the end, at most.
const NOTED_MAX: u64 = 1500;
/// Milliseconds until a mount or a load must have done something.
const PATIENCE_MS: u64 = 60_000;

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed,
    Cut,
}

/// Who recovers the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    Kernel,
    Extant,
}

/// One round after the other, a seed each.
///
/// # Errors
/// The seeds of the rounds that broke a promise.
pub fn prove(proofs: &Proofs) -> Result<(), String> {
    let server = match &proofs.cut_server {
        Some(server) => server.clone(),
        None => cut_server()?,
    };
    let rounds = proofs.rounds.unwrap_or(ROUNDS);
    let mut failures = Vec::new();
    let (mut killed, mut cut) = (Tally::default(), Tally::default());
    for seed in proofs.seed..proofs.seed + rounds {
        let end = if seed.is_multiple_of(3) { End::Killed } else { End::Cut };
        match round(proofs, &server, seed, end) {
            Ok(tally) if end == End::Killed => killed = killed.plus(tally),
            Ok(tally) => cut = cut.plus(tally),
            Err(error) => {
                println!("  seed {seed}, {end:?}: {error}");
                failures.push(seed.to_string());
            }
        }
    }
    for (name, tally) in [("killed", killed), ("cut", cut)] {
        println!(
            "  {name}: {} operations, {} files, {} of them synced",
            tally.operations, tally.files, tally.synced_files
        );
    }
    match failures.len() {
        0 => Ok(()),
        count => Err(format!("{count} of {rounds} rounds: seeds {}", failures.join(", "))),
    }
}

/// The load of one process, for a program of its own: `mount-load FOLDER NOTES SEED PROCESS`.
///
/// # Errors
/// Words are missing, or notes cannot be written.
pub fn load(words: &[String]) -> Result<(), String> {
    let [folder, notes, seed, process] = words else {
        return Err("FOLDER NOTES SEED PROCESS".into());
    };
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text}: no number"));
    run_load(&Load {
        folder: PathBuf::from(folder),
        notes: PathBuf::from(notes),
        seed: number(seed)?,
        process: number(process)? as u32,
        operations: u64::MAX,
    })
}

fn cut_server() -> Result<PathBuf, String> {
    let mut cargo = program("cargo");
    cargo.args(["build", "--quiet", "--profile", "demo", "-p", "extant-mount"]);
    command::output(cargo.args(["--example", "cut_server"]).current_dir(repository()))?;
    Ok(repository().join("target/demo/examples/cut_server"))
}

fn round(proofs: &Proofs, cut_server: &Path, seed: u64, end: End) -> Result<Tally, String> {
    let mut numbers = Numbers::new(seed);
    let folder = Scratch::inside(&proofs.folder, "cuts");
    let target = Scratch::new("extant-mount");
    let (image, out) = (folder.join("volume.img"), folder.join("after.img"));
    let kinds = ["-t ext4 -b 4096", "-t ext4 -b 1024", "-t ext3 -b 4096", "-t ext3 -b 1024"];
    make_volume(&image, kinds[numbers.below(4) as usize])?;
    let mut server = match end {
        End::Cut => serve(Command::new(cut_server).arg(&image).arg(target.path()).arg(&out))?,
        End::Killed => {
            let mut mount = Command::new(&proofs.extant);
            serve(mount.arg("mount").arg("-f").arg(&image).arg(target.path()))?
        }
    };
    let outcome = loaded(&mut server, &folder, target.path(), (&mut numbers, seed), end);
    if outcome.is_err() {
        let _ = server.kill();
    }
    let _ = server.wait();
    let mut umount = program("umount");
    let _ = umount.arg("-l").arg(target.path()).stderr(Stdio::null()).status();
    let done = outcome?;
    let after = if end == End::Cut { out } else { image };
    let recovery = if numbers.below(2) == 0 { Recovery::Kernel } else { Recovery::Extant };
    judged(proofs, &after, (&folder, &done), recovery)
        .map_err(|error| format!("recovered by {recovery:?}: {error}{}", kept(&after, seed)))
}

/// A volume that failed stays, to be looked at.
fn kept(image: &Path, seed: u64) -> String {
    let kept = std::env::temp_dir().join(format!("extant-cut-{seed}.img"));
    match std::fs::copy(image, &kept) {
        Ok(_) => format!("\nthe volume: {}", kept.display()),
        Err(error) => format!("\nthe volume is lost: {error}"),
    }
}

/// Full of bytes that belong to no file, under an empty file system with a folder for each process.
fn make_volume(image: &Path, words: &str) -> Result<(), String> {
    fill_with_secrets(image, VOLUME_BYTES).map_err(|error| error.to_string())?;
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-J", "size=4", "-m", "0"]).args(words.split_whitespace());
    mke2fs.args(["-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]).arg(image);
    command::output(&mut mke2fs)?;
    let mounted = mount_loop(image, Access::ReadWrite, "")?;
    for process in 0..PROCESSES {
        let folder = mounted.path().join(format!("p{process}"));
        std::fs::create_dir(folder).map_err(|error| error.to_string())?;
    }
    mounted.unmount()
}

fn serve(command: &mut Command) -> Result<Child, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().map_err(|error| format!("{}: {error}", command::shown(command)))
}

fn is_mounted(target: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let target = format!(" {} ", target.display());
    mounts.lines().any(|line| line.contains(&target))
}

fn pause_ms(milliseconds: u64) {
    let nanoseconds = (milliseconds % 1000) as i64 * 1_000_000;
    let wish =
        rustix::time::Timespec { tv_sec: (milliseconds / 1000) as i64, tv_nsec: nanoseconds };
    let _: NanosleepRelativeResult = nanosleep(&wish);
}

/// Waits until something is so.
fn until(mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    for _ in 0..PATIENCE_MS {
        if is_so() {
            return Ok(());
        }
        pause_ms(1);
    }
    Err(format!("nothing happened in {PATIENCE_MS} ms"))
}

/// Loads the mount from all processes, and ends it in the middle. Returns how many operations of
/// each process had returned before that.
fn loaded(
    server: &mut Child,
    folder: &Scratch,
    target: &Path,
    (numbers, seed): (&mut Numbers, u64),
    end: End,
) -> Result<Vec<usize>, String> {
    until(|| is_mounted(target) || server.try_wait().is_ok_and(|status| status.is_some()))?;
    if !is_mounted(target) {
        return Err("the server ended at once".into());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut loads = Vec::new();
    for process in 0..PROCESSES {
        let mut load = Command::new(&program);
        load.arg("mount-load").arg(target.join(format!("p{process}")));
        load.arg(notes_of(folder, process)).arg(numbers.draw().to_string());
        load.arg(process.to_string()).stderr(Stdio::null());
        loads.push(load.spawn().map_err(|error| format!("mount-load: {error}"))?);
    }
    let goal = 1 + numbers.below(NOTED_MAX);
    let noted = || (0..PROCESSES).map(|process| lines(&notes_of(folder, process))).sum::<u64>();
    let mut outcome = until(|| {
        let is_over = |load: &mut Child| load.try_wait().is_ok_and(|status| status.is_some());
        noted() >= 2 * goal || loads.iter_mut().all(is_over)
    });
    // What returns while the device is being cut is not promised.
    let done: Result<Vec<usize>, String> =
        (0..PROCESSES).map(|process| Ok(Notes::read(&notes_of(folder, process))?.done)).collect();
    outcome = outcome.and_then(|()| end_server(server, seed, end));
    for load in &mut loads {
        if outcome.is_err() {
            let _ = load.kill();
        }
        let _ = load.wait();
    }
    outcome?;
    done
}

fn end_server(server: &mut Child, seed: u64, end: End) -> Result<(), String> {
    match end {
        End::Killed => server.kill().map_err(|error| error.to_string()),
        End::Cut => {
            let input = server.stdin.as_mut().ok_or("no input")?;
            writeln!(input, "cut {seed}").map_err(|error| error.to_string())?;
            let status = server.wait().map_err(|error| error.to_string())?;
            if status.success() { Ok(()) } else { Err(format!("cut_server: {status}")) }
        }
    }
}

fn notes_of(folder: &Scratch, process: u32) -> PathBuf {
    folder.join(&format!("notes{process}"))
}

fn lines(path: &Path) -> u64 {
    std::fs::File::open(path).map_or(0, |file| BufReader::new(file).lines().count() as u64)
}

/// Recovers a volume, and holds the notes against it.
fn judged(
    proofs: &Proofs,
    image: &Path,
    (folder, done): (&Scratch, &[usize]),
    recovery: Recovery,
) -> Result<Tally, String> {
    match recovery {
        Recovery::Kernel => mount_loop(image, Access::ReadWrite, "")?.unmount()?,
        Recovery::Extant => {
            let mut replay = program("timeout");
            replay.arg("60").arg(&proofs.extant).arg("replay").arg(image);
            command::output(&mut replay).map(|_| ())?;
        }
    }
    // Files without a name are freed by the first to mount it.
    oracle::e2fsck_replays(image)?;
    let mounted = mount_loop(image, Access::ReadWrite, "")?;
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    for process in 0..PROCESSES {
        let mut notes = Notes::read(&notes_of(folder, process))?;
        notes.done = done[process as usize];
        match judge(&notes, &mounted.path().join(format!("p{process}"))) {
            Ok(more) => tally = tally.plus(more),
            Err(error) => wrong.push(format!("process {process}: {error}")),
        }
    }
    mounted.unmount()?;
    e2fsck_but_advice(image)?;
    if wrong.is_empty() { Ok(tally) } else { Err(wrong.join("\n")) }
}
