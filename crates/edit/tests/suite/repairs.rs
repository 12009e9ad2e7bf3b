//! Repairs of volumes with random damage, and other sizes, cut at every write: what the next
//! program ends is the volume before, which is changed to the same bytes again, or the one after.
use crate::devices::Recorded;
use crate::quick_folder;
use crate::undo::{Job, ended};
use crate::volumes::{self, bytes_of};
use extant_block::{BlockDevice, MemoryDevice};
use extant_edit::ahead::{Ahead, Moved};
use extant_edit::redo;
use extant_edit::undo::{self, Keep};
use extant_repair::{LostFound, Optimize, RepairOptions, Repaired, ResizeOptions, Resized, Scope};
use extant_testkit::damaged::{KINDS, damage, tree, volume};
use extant_testkit::oracle;
use extant_testkit::variables::number;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

/// A time that tests give: 2026-01-01.
pub const NOW_SECONDS: u64 = 1_767_225_600;

fn repaired(device: Arc<dyn BlockDevice>) -> Result<Repaired, extant_repair::Error> {
    let options = RepairOptions {
        scope: Scope::All,
        superblock: None,
        lost_found: LostFound::WhereNeeded,
        optimize: Optimize::Nothing,
        threads: NonZeroU32::MIN,
        spool: None,
        now_seconds: NOW_SECONDS,
        progress: None,
    };
    extant_repair::repair(device, options)
}

/// What a repair makes of a volume, written by a redo log; `false` if nothing is to be done.
fn mend(device: Arc<dyn BlockDevice>, log: &Path) -> bool {
    let Ok(repaired) = repaired(device.clone()) else { return false };
    if repaired.overlay.written().is_empty() {
        return false;
    }
    let identity = volumes::identity(&*device);
    let applied =
        undo::apply(&repaired.overlay, repaired.block_size, (log, &identity), Keep::Nothing);
    applied.expect("it is applied").blocks > 0
}

#[test]
fn a_cut_of_any_repair_leaves_what_the_next_run_ends() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = quick_folder("repair-cuts");
    let source = folder.join("tree");
    std::fs::create_dir(&source).expect("scratch has room");
    tree(&source);
    let (path, made) = (redo::path_of(&folder.join("disk")).expect("a name"), folder.join("made"));
    let (mut seen, mut cut, mut seed) = ([0, 0], 0, 0);
    while cut < number("EXTANT_CUT_REPAIRS") {
        let kind = cut as usize % KINDS.len();
        let mut bytes = volume(KINDS[kind], &source, &made);
        damage(&mut bytes, seed);
        seed += 1;
        let base = MemoryDevice::from_bytes(volumes::clock(), &bytes);
        // What is not mended at all is the matter of others.
        if !mend(Arc::new(base.snapshot()), &path) {
            continue;
        }
        cut += 1;
        let job = Job::new(base, &path, |device: Arc<Recorded>| {
            mend(device, &path);
        });
        job.each(|medium, log, at| {
            let (_, device) = ended(medium, (log, &[]), &folder);
            let is_after = bytes_of(&*device) == job.ends[1];
            let is_before = bytes_of(&*device) == job.ends[0];
            assert!(is_after || is_before, "seed {}, {at}: neither before nor after", seed - 1);
            seen[usize::from(is_after)] += 1;
        });
        let again = Arc::new(MemoryDevice::from_bytes(volumes::clock(), &job.ends[0]));
        mend(again.clone(), &path);
        assert!(bytes_of(&*again) == job.ends[1], "seed {}: another result", seed - 1);
        let left = repaired(again).expect("a second run");
        assert!(left.is_clean() && left.found.counts.is_empty(), "seed {}", seed - 1);
    }
    println!("{cut} repairs: {} cuts as before, {} as after", seen[0], seen[1]);
    assert!(seen[0] > 3 && seen[1] > 20, "{seen:?}");
}

/// Gives a volume another size, by a redo log.
fn resize(device: Arc<dyn BlockDevice>, blocks: u64, log: &Path) {
    let options = ResizeOptions {
        threads: NonZeroU32::MIN,
        spool: None,
        now_seconds: NOW_SECONDS,
        progress: None,
    };
    let resized = extant_repair::resize(device.clone(), blocks, options).expect("it fits");
    self::resized(&device, &resized, log);
}

/// Writes a volume that was changed in memory, by a redo log.
pub fn resized(device: &Arc<dyn BlockDevice>, resized: &Resized, log: &Path) {
    let moves =
        resized.moves.iter().map(|it| Moved { from: it.from.0, to: it.to.0, blocks: it.blocks });
    let ahead = Ahead { moves: moves.collect(), zeros: resized.zeros.clone() };
    let (overlay, identity) = (resized.overlay.over(device.clone()), volumes::identity(&**device));
    let place = (log, &identity);
    let size = resized.after.block_size();
    undo::apply_after(&ahead, &overlay, size, place, Keep::Nothing).expect("it is applied");
}

/// How many blocks a volume has, and all of its files; what is wrong with it otherwise.
fn held(device: Arc<dyn BlockDevice>) -> Result<(u64, volumes::Tree), String> {
    let superblock = extant_engine::read_superblock(&*device).map_err(|error| error.to_string())?;
    let left = repaired(device.clone()).map_err(|error| error.to_string())?;
    if !left.found.counts.is_empty() {
        return Err(format!("{:?}", left.found.counts));
    }
    Ok((superblock.blocks_count, volumes::tree_of(device)?))
}

#[test]
fn a_cut_of_another_size_leaves_the_one_or_the_other() {
    if !oracle::require("mke2fs") || !oracle::require("debugfs") {
        return;
    }
    let folder = quick_folder("resize-cuts");
    let source = folder.join("tree");
    std::fs::create_dir(&source).expect("scratch has room");
    tree(&source);
    let (path, made) = (redo::path_of(&folder.join("disk")).expect("a name"), folder.join("made"));
    let mut seen = [0, 0];
    let cases = KINDS.iter().zip([[6144, 20_000], [6144, 3000], [6144, 2800]]);
    for (words, sizes) in cases.take(number("EXTANT_CUT_REPAIRS").div_ceil(2) as usize) {
        let mut bytes = volume(words, &source, &made);
        bytes.resize((sizes[0].max(sizes[1]) as usize) << 10, 0);
        let base = MemoryDevice::from_bytes(volumes::clock(), &bytes);
        let before = held(Arc::new(base.snapshot())).expect("it is clean");
        let job = Job::new(base, &path, |device: Arc<Recorded>| resize(device, sizes[1], &path));
        let after = Arc::new(MemoryDevice::from_bytes(volumes::clock(), &job.ends[1]));
        let after = held(after).expect("it is clean");
        assert!(before.1 == after.1 && after.0 != before.0, "{words:?}: {} blocks", after.0);
        job.each_medium(&mut |medium, log, at| {
            let (_, device) = ended(medium, (log, &[]), &folder);
            let found = held(device).unwrap_or_else(|error| panic!("{words:?}, {at}: {error}"));
            assert!(found == before || found == after, "{words:?}, {at}: {} blocks", found.0);
            seen[usize::from(found == after)] += 1;
        });
    }
    println!("{} cuts as before, {} as after", seen[0], seen[1]);
    assert!(seen[0] > 3 && seen[1] > 20, "{seen:?}");
}
