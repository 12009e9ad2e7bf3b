//! Repairs of volumes with random damage, cut at every write: what the next program ends is the
//! damaged volume, which is repaired to the same bytes again, or the repaired one.
use crate::devices::Recorded;
use crate::quick_folder;
use crate::undo::{Job, ended};
use crate::volumes::{self, bytes_of};
use extant_block::{BlockDevice, MemoryDevice};
use extant_edit::redo;
use extant_edit::undo::{self, Keep};
use extant_repair::{LostFound, Optimize, RepairOptions, Repaired, Scope};
use extant_testkit::damaged::{KINDS, damage, tree, volume};
use extant_testkit::oracle;
use extant_testkit::variables::number;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

/// A time that tests give: 2026-01-01.
const NOW_SECONDS: u64 = 1_767_225_600;

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
