//! Small changes to the metadata of volumes of all features, judged by the check and by e2fsck.
//!
//! Each trial changes one to three fields, or moves a block of metadata, and stores checksums anew
//! or not. It is the same for the same seed, number and list of volumes. `cargo run --bin xtask --
//! damage` runs many, and one alone.
//!
//! ```text
//! bases    the volumes          fields   what a structure consists of
//! places   where they are       seal     checksums after a change
//! draw     one change           verdict  both judges
//! mended   both menders, where a program is named
//! ```
mod bases;
mod draw;
mod fields;
mod mended;
mod places;
mod seal;
mod verdict;

use crate::damage::harness::Image;
use bases::{BASES, Base};
use draw::Change;
use extant_testkit::numbers::Numbers;
use extant_testkit::oracle::{Access, can_mount, mount_loop, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::{chosen, number, seed};
use mended::{Exits, Fault, Files, Mended};
use places::Places;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use verdict::{Difference, Verdicts};

/// Trials for each volume before one more takes part.
const TRIALS_A_BASE: u64 = 40;
/// Of a thousand trials, at most this many may be missed, and as many false alarms.
const WRONG_PER_THOUSAND: usize = 5;

/// Where e2fsck is content and should not be: what the check says first, and why that is right.
/// They are counted apart.
const ARGUED: &[(&str, &str)] = &[
    ("extent-empty", "the kernel reads no file whose tree has levels and no entry"),
    (
        "extent-node",
        "the kernel reads no file whose nodes have another depth than their parents say",
    ),
    ("descriptors-damaged", "the kernel does not look for copies, and does not mount the volume"),
];

/// A volume, and what it consists of.
struct Subject {
    base: &'static Base,
    image: Image,
    places: Places,
    /// What is on it, where it is to be mended.
    files: Files,
}

impl Subject {
    fn of(base: &'static Base) -> Subject {
        let image = base.image();
        let places = Places::of(&image);
        let mut files = Files::new();
        if chosen("EXTANT_DAMAGE_REPAIR").is_some() {
            let scratch = Scratch::new("mended");
            let path = scratch.join("image");
            std::fs::write(&path, &image.bytes).expect("a file");
            files = mended::files(&path, &scratch);
        }
        Subject { base, image, places, files }
    }

    /// The volume with changes.
    fn changed(&self, changes: &[Change]) -> Image {
        let mut image = self.image.clone();
        let superblock = self.image.superblock();
        changes.iter().for_each(|change| change.apply(&mut image, &self.image, &superblock));
        image
    }
}

/// A trial in which the two judges differ, with no more changes than that takes.
struct Found {
    difference: Difference,
    /// The first code that the check has.
    code: String,
    key: String,
    line: String,
}

/// What all trials come to.
#[derive(Default)]
struct Tally {
    trials: usize,
    damaged: usize,
    found: BTreeMap<u64, Found>,
    hits: BTreeMap<String, usize>,
    /// Those that were mended, where they were; of them those that e2fsck mends worse.
    mended: usize,
    better: usize,
    faults: BTreeMap<(Fault, u64), String>,
    /// How many ended otherwise by e2fsck's name, and the words that show the first of them.
    exits: BTreeMap<Exits, (usize, String)>,
}

/// After as many trials it is said how many there were.
const TOLD_EACH: u64 = 1000;

/// The chosen volumes: those that `EXTANT_DAMAGE_BASES` names, or as many as the trials are for.
fn subjects(trials: u64) -> Vec<Subject> {
    let named = chosen("EXTANT_DAMAGE_BASES").filter(|names| names != "ALL");
    let is_named = |base: &&Base| {
        named.as_ref().is_none_or(|names| names.split(',').any(|name| name == base.name))
    };
    let many = match chosen("EXTANT_DAMAGE_BASES") {
        Some(_) => BASES.len(),
        None => usize::try_from(trials / TRIALS_A_BASE).unwrap_or(usize::MAX).max(1),
    };
    let bases: Vec<_> = BASES.iter().filter(is_named).take(many).collect();
    assert!(!bases.is_empty(), "no such volume: {named:?}");
    bases.into_iter().map(Subject::of).collect()
}

/// One trial: its changes, and what the judges say where they differ.
fn try_one(
    subject: &Subject,
    (seed, trial): (u64, u64),
    scratch: &Scratch,
) -> (Vec<Change>, Verdicts, Option<Found>) {
    let of_name = |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte));
    let name = subject.base.name.bytes().fold(seed, of_name);
    let mut numbers = Numbers::new(name ^ trial << 32);
    let count = [1, 1, 1, 2, 3][numbers.below(5) as usize];
    let changes: Vec<_> =
        (0..count).map(|_| Change::draw(&mut numbers, &subject.image, &subject.places)).collect();
    let verdicts = Verdicts::of(&subject.changed(&changes), scratch);
    let Some(difference) = verdicts.difference() else { return (changes, verdicts, None) };
    let alone = changes.iter().find_map(|change| {
        let one = std::slice::from_ref(change);
        let verdicts = Verdicts::of(&subject.changed(one), scratch);
        (verdicts.difference() == Some(difference)).then_some((one, verdicts))
    });
    let (least, shown) = match &alone {
        Some((one, verdicts)) => (*one, verdicts),
        None => (changes.as_slice(), &verdicts),
    };
    let names: Vec<&str> = least.iter().map(|change| change.name.as_str()).collect();
    let said: Vec<String> = least.iter().map(ToString::to_string).collect();
    let line = format!(
        "{difference:?}: {}, {}: {shown}\n    xtask damage --bases {} --seed {seed} --only {trial}",
        subject.base.name,
        said.join(" and "),
        subject.base.name,
    );
    let (code, key) = (shown.code(), names.join(" and "));
    let found = Found { difference, code, key, line };
    (changes, verdicts, Some(found))
}

/// Mends what e2fsck finds damaged, if a program is named for that.
fn mend(
    subject: &Subject,
    changes: &[Change],
    verdicts: &Verdicts,
    scratch: &Scratch,
) -> Option<Mended> {
    let extant = chosen("EXTANT_DAMAGE_REPAIR").filter(|_| verdicts.is_damaged())?;
    let image = subject.changed(changes);
    Some(Mended::of(&image, &subject.files, &extant, scratch))
}

fn run(subjects: &[Subject], trials: std::ops::Range<u64>, seed: u64) -> Tally {
    let tally = Mutex::new(Tally::default());
    let next = AtomicU64::new(trials.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let scratch = Scratch::new("mutations");
                loop {
                    let trial = next.fetch_add(1, Ordering::Relaxed);
                    if trial >= trials.end {
                        return;
                    }
                    // By a number of its own: a volume named alone draws what it draws among all.
                    let Some(subject) = subjects.get(trial as usize % subjects.len()) else {
                        return;
                    };
                    let number = trial / subjects.len() as u64;
                    let (changes, verdicts, found) = try_one(subject, (seed, number), &scratch);
                    if let Some(path) = chosen("EXTANT_DAMAGE_KEEP") {
                        let image = subject.changed(&changes);
                        std::fs::write(path, image.bytes).expect("a file");
                    }
                    let mended = mend(subject, &changes, &verdicts, &scratch);
                    let mut tally = tally.lock().expect("no trial panics");
                    tally.trials += 1;
                    if (tally.trials as u64).is_multiple_of(TOLD_EACH) {
                        eprintln!("{} trials of {}", tally.trials, trials.end - trials.start);
                    }
                    tally.damaged += usize::from(verdicts.is_damaged());
                    if let Some(mended) = mended {
                        tally.take(mended, trial, subject, (seed, number));
                    }
                    for change in &changes {
                        *tally.hits.entry(change.name.clone()).or_default() += 1;
                    }
                    if let Some(found) = found {
                        tally.found.insert(trial, found);
                    }
                }
            });
        }
    });
    tally.into_inner().expect("no trial panics")
}

/// Whether it is e2fsck that is wrong.
fn is_argued(found: &Found) -> bool {
    let is_known = ARGUED.iter().any(|(code, _)| *code == found.code);
    found.difference == Difference::False && is_known
}

impl Tally {
    /// Notes what came of one that was mended.
    fn take(&mut self, mended: Mended, trial: u64, subject: &Subject, (seed, number): (u64, u64)) {
        self.mended += 1;
        self.better += usize::from(mended.is_better);
        let again = format!("--bases {} --seed {seed} --only {number}", subject.base.name);
        for exits in mended.exits.into_iter().filter(|exits| exits.ours != exits.theirs) {
            let (count, first) = self.exits.entry(exits).or_default();
            *count += 1;
            if first.is_empty() || again < *first {
                first.clone_from(&again);
            }
        }
        if let Some(fault) = mended.fault {
            let line = format!(
                "{fault:?}: {}, {}\n    xtask damage {again} --repair PROGRAM",
                subject.base.name, mended.line,
            );
            self.faults.insert((fault, trial), line);
        }
    }

    fn print_mended(&self) {
        self.faults.values().for_each(|line| println!("{line}"));
        for (Exits { option, ours, theirs }, (count, first)) in &self.exits {
            println!(
                "{count:>5} end with {ours} where e2fsck {option} ends with {theirs}: {first}"
            );
        }
        let count = |fault| self.faults.keys().filter(|(found, _)| *found == fault).count();
        println!(
            "{} mended, by e2fsck worse {}; refused {}, not clean {}, not undone {}, fewer files \
             {}, fewer names {}",
            self.mended,
            self.better,
            count(Fault::Refused),
            count(Fault::NotClean),
            count(Fault::NotUndone),
            count(Fault::FewerFiles),
            count(Fault::FewerNames),
        );
    }

    fn count(&self, difference: Difference) -> usize {
        let counts = |found: &&Found| found.difference == difference && !is_argued(found);
        self.found.values().filter(counts).count()
    }

    fn print(&self) {
        for found in self.found.values() {
            println!("{}", found.line);
        }
        let mut kinds: BTreeMap<(Difference, &str), usize> = BTreeMap::new();
        for found in self.found.values() {
            *kinds.entry((found.difference, &found.key)).or_default() += 1;
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for ((difference, key), count) in kinds {
            println!("{count:>5} {difference:?} {key}");
        }
        if chosen("EXTANT_DAMAGE_HITS").is_some() {
            for (name, count) in &self.hits {
                println!("{count:>6} hits of {name}");
            }
        }
        println!("{} fields were hit", self.hits.len());
        println!(
            "{} trials, {} damaged to e2fsck; missed {}, false {}, other code {}, e2fsck ended {}",
            self.trials,
            self.damaged,
            self.count(Difference::Missed),
            self.count(Difference::False),
            self.count(Difference::Code),
            self.count(Difference::Ended),
        );
    }
}

#[test]
fn changed_fields_are_judged_as_e2fsck_judges_them() {
    if !require("mke2fs") || !require("debugfs") || !require("e2fsck") {
        return;
    }
    let trials = number("EXTANT_DAMAGE");
    let seed = seed("EXTANT_DAMAGE_SEED", 1);
    let subjects = subjects(trials);
    let range = match chosen("EXTANT_DAMAGE_ONLY") {
        Some(only) => {
            let only: u64 = only.parse().expect("a number of a trial");
            assert_eq!(subjects.len(), 1, "one trial is one of a volume that is named");
            only..only + 1
        }
        None => 0..trials,
    };
    let tally = run(&subjects, range, seed);
    tally.print();
    if tally.mended > 0 {
        tally.print_mended();
    }
    for (code, why) in ARGUED {
        let argued = |found: &&Found| is_argued(found) && found.code == *code;
        let count = tally.found.values().filter(argued).count();
        println!("{count:>5} of them argued, {code}: {why}");
    }
    for difference in [Difference::Missed, Difference::False] {
        let count = tally.count(difference);
        assert!(
            count * 1000 <= tally.trials.max(200) * WRONG_PER_THOUSAND,
            "{difference:?}: {count}"
        );
    }
}

/// What is called damage although e2fsck is content: the kernel reads no such file.
#[test]
fn the_kernel_refuses_what_is_argued() {
    const MAP: usize = 40;
    const ENTRIES: usize = 2;
    const DEPTH: usize = 6;
    if !require("mke2fs") || !require("debugfs") || !can_mount() {
        return;
    }
    let mut empty = Image::branched();
    let map = empty.inode_of("/d/file") + MAP;
    empty.put16(map + ENTRIES, 0);
    empty.put16(map + DEPTH, 1);
    let mut other_depth = Image::branched();
    let root = other_depth.inode_of("/tree") + MAP;
    let node = other_depth.get32(root + 12 + 4) as usize * other_depth.block_size();
    other_depth.put16(node + DEPTH, 3);
    let scratch = Scratch::new("argued");
    let path = scratch.join("image");
    let mut descriptors = Image::meta();
    let at = descriptors.descriptor(0);
    descriptors.put32(at, 0);
    let cases = [("d/file", empty), ("tree", other_depth), ("d/file", descriptors)];
    for ((code, _), (name, image)) in ARGUED.iter().zip(cases) {
        assert!(image.check(1).counts.contains_key(code), "{code}");
        std::fs::write(&path, &image.bytes).expect("a file");
        let Ok(mounted) = mount_loop(&path, Access::ReadOnly, "") else { continue };
        let read = std::fs::read(mounted.path().join(name));
        assert!(read.is_err(), "{code}: the kernel read {:?} bytes", read.map(|bytes| bytes.len()));
        mounted.unmount().expect("it is not in use");
    }
}

/// A wrong checksum would hide the change it goes with: both judges would see only that.
#[test]
fn checksums_stored_anew_are_those_that_were_there() {
    if !require("mke2fs") || !require("debugfs") || !require("e2fsck") {
        return;
    }
    for base in BASES.iter().filter(|base| ["sealed", "growing", "orphans"].contains(&base.name)) {
        let subject = Subject::of(base);
        let superblock = subject.image.superblock();
        let mut image = subject.image.clone();
        for place in &subject.places.places {
            place.seal.store(&mut image, &subject.image, &superblock);
        }
        let pairs = image.bytes.iter().zip(&subject.image.bytes);
        let wrong = pairs.enumerate().find(|(_, (now, before))| now != before);
        assert!(wrong.is_none(), "{}: byte {:?}", base.name, wrong.map(|(at, _)| at));
    }
}

/// Of the bytes that are drawn from, each is the field's: a table that names the wrong byte would
/// hit something else in silence.
#[test]
fn no_two_fields_of_a_structure_share_a_byte() {
    for structure in fields::ALL {
        let mut end = 0;
        for field in structure.fields {
            assert!(field.at >= end, "{}.{}", structure.name, field.name);
            end = field.at + field.width;
        }
    }
}
