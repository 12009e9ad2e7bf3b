//! Logs that others wrote.
use crate::journals::{apply, faults_of, keep, options, recovered, same};
use crate::volume::reading;
use extant_block::{Clock, FileDevice, RealClock, WallTime, file};
use extant_engine::{Access, Filesystem, Options};
use extant_testkit::command::{output, program};
use extant_testkit::journals::{self, VARIANTS, Variant};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables;
use extant_testkit::walk::Entry;
use std::path::Path;
use std::sync::Arc;

/// The volume of one failure once more, which `EXTANT_KEEP` has kept:
/// `EXTANT_KERNEL_JOURNAL=FOLDER/ext4-4k-fast-3.img`.
#[test]
fn a_log_that_was_kept_is_replayed() {
    let Some(kept) = variables::chosen("EXTANT_KERNEL_JOURNAL") else {
        return;
    };
    let kept = Path::new(&kept);
    let name = kept.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_of = |variant: &&Variant| {
        let seed = name.strip_prefix(variant.name).and_then(|rest| rest.strip_prefix('-'));
        seed.is_some_and(|seed| seed.trim_end_matches(".img").parse::<u64>().is_ok())
    };
    let variant = VARIANTS.iter().find(is_of).expect("a name as the test gives it");
    let folder = Scratch::new("kept");
    let image = folder.join(&name);
    std::fs::copy(kept, &image).expect("copied");
    judge_copies(variant, &image).unwrap_or_else(|fault| panic!("{fault}"));
}

/// Each variant once or twice in turn; `EXTANT_KERNEL_JOURNALS=500` makes more, and
/// `EXTANT_KERNEL_JOURNALS_SEED` others.
#[test]
fn logs_of_others_are_replayed_as_they_replay_them() {
    if !journals::is_possible() {
        return;
    }
    let count = variables::number("EXTANT_KERNEL_JOURNALS");
    let first = variables::seed("EXTANT_KERNEL_JOURNALS_SEED", 1);
    let faults = faults_of(count, |number| {
        let variant = &VARIANTS[(number % VARIANTS.len() as u64) as usize];
        let seed = first.wrapping_add(number);
        judge(variant, seed).map_err(|fault| format!("{} with seed {seed}: {fault}", variant.name))
    });
    assert!(faults.is_empty(), "{} of {count} logs: {faults:#?}", faults.len());
}

/// Makes a volume and lets all of us replay it.
fn judge(variant: &Variant, seed: u64) -> Result<(), String> {
    let folder = Scratch::on_disk("theirs");
    let image = variant.make(seed, folder.path())?;
    judge_copies(variant, &image).inspect_err(|_| keep(&image))
}

fn judge_copies(variant: &Variant, image: &Path) -> Result<(), String> {
    let kernels = journals::copy(image, "kernel")?;
    let replayed_at = RealClock::new().wall();
    let expected = match journals::after_kernel(&kernels) {
        // Linux 6.18 cannot always replay its own: then nothing is known but that the volume is
        // sound after ours.
        Err(said) if variant.has_fast_commits() => {
            eprintln!("{}: the kernel refuses its fast commits: {said}", image.display());
            return recovered(&journals::copy(image, "ours")?).map(drop);
        }
        expected => expected.map_err(|said| format!("kernel: {said}"))?,
    };
    // What e2fsck 1.47 makes of fast commits is not what the kernel makes of them; and Linux 6.18
    // sometimes leaves an inode with a wrong count of blocks, or of links.
    let expected = match variant.has_fast_commits() {
        true => match oracle::e2fsck(&kernels) {
            Ok(()) => expected,
            Err(said) => with_counted_links(expected, &said),
        },
        false => {
            journals::clean(&kernels).map_err(|said| format!("kernel: {said}"))?;
            full_commits(variant, image, &expected, replayed_at)?;
            expected
        }
    };
    let ours = journals::copy(image, "ours")?;
    let seen = seen(&ours)?;
    output(program("cmp").arg(image).arg(&ours)).map_err(|_| "reading wrote to it")?;
    let expected = with_old_times(expected, &seen, replayed_at);
    same("read only, against the kernel", &seen, &expected)?;
    same("recovered, against the kernel", &recovered(&ours)?, &expected)
}

/// The kernel's tree with the links that e2fsck counts, where the kernel's replay of fast commits
/// has left others.
pub(crate) fn with_counted_links(mut tree: Vec<Entry>, said: &str) -> Vec<Entry> {
    for line in said.lines() {
        let counts = line.strip_prefix("Inode ").and_then(|rest| {
            let (ino, rest) = rest.split_once(" ref count is ")?;
            let (_, counted) = rest.split_once(", should be ")?;
            let (counted, _) = counted.split_once('.')?;
            Some((ino.parse::<u64>().ok()?, counted.parse::<u32>().ok()?))
        });
        let Some((ino, links)) = counts else { continue };
        tree.iter_mut().filter(|entry| entry.ino == ino).for_each(|entry| entry.links = links);
    }
    tree
}

/// The kernel's tree with our times where its replay has set the time at which it replayed, as it
/// does for a directory of which a fast commit says that a name went, and nothing later, and for an
/// orphan that it cuts.
pub(crate) fn with_old_times(
    mut tree: Vec<Entry>,
    ours: &[Entry],
    replayed_at: WallTime,
) -> Vec<Entry> {
    // The kernel's times are those of its last tick, which was up to 10 ms before.
    let tick = 20_000_000;
    let since = match replayed_at.nanoseconds.checked_sub(tick) {
        Some(nanoseconds) => (replayed_at.seconds, nanoseconds),
        None => (replayed_at.seconds - 1, replayed_at.nanoseconds + 1_000_000_000 - tick),
    };
    let is_new = |entry: &&mut Entry| entry.ctime >= since || entry.mtime >= since;
    for entry in tree.iter_mut().filter(is_new) {
        if let Some(own) = ours.iter().find(|own| own.path == entry.path) {
            (entry.mtime, entry.ctime) = (own.mtime, own.ctime);
        }
    }
    tree
}

/// The full commits alone: the same blocks as after the replay of e2fsprogs, and the kernel's tree.
fn full_commits(
    variant: &Variant,
    image: &Path,
    expected: &[Entry],
    replayed_at: WallTime,
) -> Result<(), String> {
    let (ours, theirs) = (journals::copy(image, "applied")?, journals::copy(image, "tune2fs")?);
    journals::after_tune2fs(&theirs)?;
    apply(&ours)?;
    let start = journals::log_start(&theirs)?;
    let found = journals::differing_blocks(&ours, &theirs, variant.block_size, start)?;
    if found != journals::Differing::default() {
        return Err(format!("other bytes than after tune2fs: {found:?}"));
    }
    // What has no name is freed by e2fsck here.
    let tree = journals::after_preen(&ours).map_err(|said| format!("after our replay: {said}"))?;
    let expected = with_old_times(expected.to_vec(), &tree, replayed_at);
    same("full commits replayed, against the kernel", &tree, &expected)
}

/// The tree of a volume that is opened for reading only.
fn seen(image: &Path) -> Result<Vec<Entry>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("read only: {error}");
    let device = FileDevice::open(RealClock::new(), image, file::Access::ReadOnly, 0)
        .map_err(|error| failed(&error))?;
    let options = Options { access: Access::ReadOnly, ..options("modern") };
    let volume = Filesystem::open(Arc::new(device), &options).map_err(|error| failed(&error))?;
    reading::entries(&volume).map_err(|error| failed(&error))
}
