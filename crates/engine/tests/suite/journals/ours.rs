//! Our log, cut at any moment, with any subset of what no flush had made durable.
use crate::journals::life::Life;
use crate::journals::theirs::with_old_times;
use crate::journals::{apply, faults_of, keep, options, recovered, same};
use extant_block::{BlockDevice, Clock, MemoryDevice, RealClock};
use extant_engine::Filesystem;
use extant_sim::CrashLog;
use extant_testkit::command::{output, program};
use extant_testkit::journals;
use extant_testkit::numbers::Numbers;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables;
use extant_testkit::walk::Entry;
use std::path::Path;
use std::sync::Arc;

/// What mke2fs makes, and how we write it.
struct Case {
    words: &'static [&'static str],
    policies: &'static str,
}

const fn case(words: &'static [&'static str], policies: &'static str) -> Case {
    Case { words, policies }
}

const CASES: &[Case] = &[
    case(&["-t", "ext4", "-b", "1024", "-J", "size=1"], "modern,journal=ordered"),
    case(&["-t", "ext3", "-b", "1024", "-J", "size=1"], "modern,journal=ordered"),
    case(&["-t", "ext4", "-b", "4096", "-J", "size=4"], "modern,journal=ordered"),
    case(
        &["-t", "ext4", "-b", "1024", "-J", "size=1", "-O", "^metadata_csum,^64bit"],
        "modern,journal=data",
    ),
    case(&["-t", "ext3", "-b", "4096", "-J", "size=4"], "modern,journal=ordered-jbd"),
    case(
        &["-t", "ext4", "-b", "1024", "-J", "size=1", "-O", "orphan_file"],
        "modern,journal=writeback",
    ),
];

/// Cuts of one life.
const CUTS: u64 = 4;
/// Things that are done in one life, at most: the log goes round more than once.
const STEPS: u64 = 1500;

/// `EXTANT_JOURNAL_LIVES=100` lives more lives, of four cuts each.
#[test]
fn our_log_is_replayed_by_others_as_by_us() {
    if !journals::is_possible() {
        return;
    }
    let lives = variables::number("EXTANT_JOURNAL_LIVES");
    let first = variables::seed("EXTANT_JOURNAL_SEED", 1);
    let faults = faults_of(lives, |number| {
        let case = &CASES[(number % CASES.len() as u64) as usize];
        let seed = first.wrapping_add(number);
        let words = case.words.join(" ");
        live(case, seed)
            .map_err(|fault| format!("mke2fs {words}, {}, seed {seed}: {fault}", case.policies))
    });
    assert!(faults.is_empty(), "{} of {lives} lives: {faults:#?}", faults.len());
}

/// Lives once, and cuts that life a few times.
fn live(case: &Case, seed: u64) -> Result<(), String> {
    let folder = Scratch::new("ours");
    let fresh = folder.join("fresh.img");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-I", "256", "-N", "500", "-E", "lazy_itable_init=0"]);
    output(mke2fs.args(case.words).arg(&fresh).arg("24M"))?;
    let bytes = std::fs::read(&fresh).map_err(|error| error.to_string())?;
    let base = MemoryDevice::from_bytes(RealClock::new(), &bytes);

    let log = Arc::new(CrashLog::new(base.snapshot()));
    let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
    let mut numbers = Numbers::new(seed);
    {
        let failed = |error: extant_engine::Error| error.to_string();
        let volume = Filesystem::open(device, &options(case.policies)).map_err(failed)?;
        let mut life = Life::new(seed);
        life.begin(&volume).map_err(failed)?;
        for _ in 0..10 + numbers.below(STEPS) {
            life.step(&volume).map_err(failed)?;
        }
        // Dropped without being closed: the cut is somewhere before.
    }
    for _ in 0..CUTS {
        let moment = numbers.below(log.moments() as u64 + 1) as usize;
        let cut = log.cut(moment);
        let (manner, medium) = match numbers.below(3) {
            0 => ("prefix", cut.prefix(&base)),
            // Of a superblock that is torn within, the kernel says only that it is damaged.
            1 => ("subset of sectors", cut.subset(&base, 1024, numbers.draw())),
            _ => ("subset of blocks", cut.subset(&base, 4096, numbers.draw())),
        };
        let image = folder.join(&format!("cut-{seed}-{moment}.img"));
        let place = |fault: &dyn std::fmt::Display| format!("{manner} at {moment}: {fault}");
        medium.map_err(|error| place(&error))?.save(&image).map_err(|error| place(&error))?;
        judge(&image).map_err(|fault| {
            keep(&image);
            place(&fault)
        })?;
    }
    Ok(())
}

/// The same volume, recovered by all three.
fn judge(image: &Path) -> Result<(), String> {
    let [applied, ours, kernels, e2fscks] =
        ["applied", "ours", "kernel", "e2fsck"].map(|name| journals::copy(image, name));
    let (applied, ours, kernels, e2fscks) = (applied?, ours?, kernels?, e2fscks?);
    let replayed_at = RealClock::new().wall();
    let kernels_tree =
        journals::after_kernel(&kernels).map_err(|said| format!("kernel: {said}"))?;
    journals::clean(&kernels).map_err(|said| format!("kernel: {said}"))?;
    // The kernel gives an orphan that it cuts the time at which it did; the others do not.
    let same_as_kernel = |what: &str, tree: &[Entry]| {
        same(what, tree, &with_old_times(kernels_tree.clone(), tree, replayed_at))
    };
    journals::after_e2fsck(&e2fscks)?;
    let theirs = journals::after_preen(&e2fscks).map_err(|said| format!("e2fsck: {said}"))?;
    same_as_kernel("e2fsck's against the kernel's", &theirs)?;
    apply(&applied)?;
    let tree = journals::after_preen(&applied).map_err(|said| format!("our replay: {said}"))?;
    same_as_kernel("our replay against the kernel's", &tree)?;
    same_as_kernel("our recovery against the kernel's", &recovered(&ours)?)
}
