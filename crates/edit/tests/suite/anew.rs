//! Volumes that are built anew where they are, and those that are trimmed, cut at every write. What
//! is built anew is as it was or as it is to be, byte for byte, when the next program has ended it.
//! What is trimmed is emptied without a log, where nothing reads: each file is as it was, e2fsck is
//! silent, and the next run ends with the same bytes as one that nothing cut.
use crate::devices::{Recorded, Skipped};
use crate::quick_folder;
use crate::undo::{Job, ended};
use crate::volumes::{self, Kind, bytes_of, tree_of};
use extant_block::{BlockDevice, MemoryDevice, Overlay};
use extant_edit::emptied::{self, Doing, Emptying};
use extant_edit::undo::{self, Keep};
use extant_edit::{anew, redo};
use extant_engine::mkfs::Contents;
use extant_engine::{Access, DataKeeping, Filesystem, Options};
use extant_image::assemble::{Facts, InMemory, Place, Remake};
use extant_repair::{Scrub, TrimOptions, trim};
use extant_testkit::oracle;
use extant_testkit::variables::number;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

const KINDS: [Kind; 4] = [Kind::EXT2_1K, Kind::EXT4_SMALL, Kind::EXT4_CLUSTERS, Kind::EXT4_INLINE];

/// A volume in which much was removed, made and moved.
fn used(kind: Kind) -> MemoryDevice {
    let folder = quick_folder("anew-used");
    let recorded = Arc::new(Recorded::new(kind.make(), Skipped::None, None));
    volumes::change(&recorded, Some(&folder.join("log")));
    recorded.log.device().snapshot()
}

/// Which moments are cut: at every one after all rounds.
fn step() -> usize {
    usize::try_from(number("EXTANT_EDIT_CUTS")).expect("a small number").max(1)
}

/// The blocks that differ when a volume is built anew, with `first` in front.
fn rebuilt(device: &Arc<dyn BlockDevice>, facts: Facts, first: &[&str]) -> (Overlay, u32) {
    let (access, data) = (Access::ReadOnly, DataKeeping::Bytes);
    let policies = "modern".parse().expect("policies");
    let options = Options { access, policies, cache_bytes: 4 << 20, data };
    let filesystem = Filesystem::open(Arc::clone(device), &options).expect("it opens");
    let survey = Arc::new(filesystem.survey().expect("it is read"));
    let mut remake = Remake::of(survey, ("disk", facts), &()).expect("it can be built");
    let found = remake.put_first(first.iter().map(|path| path.as_bytes().to_vec()).collect());
    assert_eq!(found, first.len() as u64);
    let (memory, bytes) = (InMemory::default(), device.info().bytes);
    let place = Place::Part { end_bytes: bytes, contents: Contents::Zeros };
    extant_image::assemble::Medium::set_length(&memory, bytes).expect("memory has room");
    remake.build((&memory, "disk"), (0, place), &()).expect("it is built");
    let block_size = remake.before().block_size();
    let spool = tempfile::tempfile().expect("scratch has room");
    let overlay = anew::changes(device, &*memory.device(), (block_size, bytes), spool);
    (overlay.expect("memory does not fail"), block_size)
}

#[test]
fn a_cut_of_what_is_built_anew_leaves_before_or_after() {
    if !["mke2fs", "e2fsck"].into_iter().all(oracle::require) {
        return;
    }
    let folder = quick_folder("anew-cuts");
    let path = redo::path_of(&folder.join("disk")).expect("a name");
    let mut seen = [0, 0];
    let ways = [(Facts::Canonical, &[][..]), (Facts::All, &["/new/a", "/kept/config"])];
    for (at, kind) in KINDS.into_iter().enumerate() {
        let base = used(kind);
        for (facts, first) in ways.into_iter().skip(at % 2).step_by(if step() > 1 { 2 } else { 1 })
        {
            let recorded =
                Arc::new(Recorded::new(base.snapshot(), Skipped::None, Some(path.clone())));
            let device = Arc::clone(&recorded) as Arc<dyn BlockDevice>;
            let (overlay, size) = rebuilt(&device, facts, first);
            let identity = volumes::identity(&*device);
            undo::apply(&overlay, size, (&path, &identity), Keep::Nothing).expect("applied");
            let job = Job::of(recorded, base.snapshot());
            is_the_same_and_clean(&job.ends, &folder.join("disk"), kind);
            let moments = job.moments(step() * 2 - 1, at);
            assert!(moments.len() > 20, "{kind:?}: {}", moments.len());
            job.each_of(moments, |medium, log, at| {
                let (_, device) = ended(medium, (log, &[]), &folder);
                let bytes = bytes_of(&*device);
                let is_after = bytes == job.ends[1];
                assert!(is_after || bytes == job.ends[0], "{kind:?}, {facts:?}, {at}: neither");
                seen[usize::from(is_after)] += 1;
            });
        }
    }
    println!("{} cuts as before, {} as after", seen[0], seen[1]);
    assert!(seen[0] > 20 && seen[1] > 60, "{seen:?}");
}

/// Both ends have the same files, other bytes, and nothing that e2fsck finds.
fn is_the_same_and_clean(ends: &[Vec<u8>; 2], image: &Path, kind: Kind) {
    assert!(ends[0] != ends[1], "{kind:?}: nothing changed");
    let trees = ends.each_ref().map(|bytes| {
        std::fs::write(image, bytes).expect("scratch has room");
        oracle::e2fsck(image).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        let mut tree =
            tree_of(Arc::new(MemoryDevice::from_bytes(volumes::clock(), bytes))).expect("a tree");
        // Folders become as short as their names allow.
        tree.iter_mut().filter(|it| it.6.is_empty()).for_each(|it| it.4 = 0);
        tree
    });
    let other = trees[0].iter().zip(&trees[1]).find(|(one, other)| one != other);
    assert!(trees[0] == trees[1], "{kind:?}: other files: {other:?}");
}

/// Trims a volume as the command does.
fn trimmed(device: &Arc<dyn BlockDevice>, scrub: Scrub, emptying: Emptying, log: &Path) {
    let options = TrimOptions { scrub, threads: NonZeroU32::MIN, spool: None, progress: None };
    let trimmed = trim(Arc::clone(device), options).expect("it is clean");
    let (size, identity) = (trimmed.superblock.block_size(), volumes::identity(&**device));
    if !trimmed.overlay.written().is_empty() {
        undo::apply(&trimmed.overlay, size, (log, &identity), Keep::Nothing).expect("applied");
    }
    emptied::empty(&**device, &trimmed.bytes_to_empty(), (emptying, Doing::All)).expect("emptied");
}

#[test]
fn a_cut_of_a_trim_leaves_every_file_and_the_next_run_goes_on() {
    if !["mke2fs", "e2fsck"].into_iter().all(oracle::require) {
        return;
    }
    let folder = quick_folder("trim-cuts");
    let path = redo::path_of(&folder.join("disk")).expect("a name");
    let (mut count, mut under_way) = (0, 0);
    for (at, kind) in KINDS.into_iter().enumerate() {
        let base = used(kind);
        let tree = tree_of(Arc::new(base.snapshot())).expect("a tree");
        for scrub in [Scrub::Nothing, Scrub::Stale] {
            let recorded =
                Arc::new(Recorded::new(base.snapshot(), Skipped::None, Some(path.clone())));
            let device = Arc::clone(&recorded) as Arc<dyn BlockDevice>;
            trimmed(&device, scrub, Emptying::Holes, &path);
            let has_log = recorded.whole_log().is_some();
            assert_eq!(has_log, scrub == Scrub::Stale, "{kind:?}");
            let job = Job::of(recorded, base.snapshot());
            is_the_same_and_clean(&job.ends, &folder.join("disk"), kind);
            job.each_medium_of(job.moments(step(), at), &mut |medium, log, at| {
                let at = format!("{kind:?}, {scrub:?}, {at}");
                let (_, device) = ended(medium, (log, &[]), &folder);
                assert!(tree_of(Arc::clone(&device)) == Ok(tree.clone()), "{at}: other files");
                count += 1;
                if count % 4 == 0 {
                    let image = folder.join("disk");
                    oracle::e2fsck(&image).unwrap_or_else(|error| panic!("{at}: {error}"));
                }
                under_way += usize::from(!job.ends.contains(&bytes_of(&*device)));
                trimmed(&device, scrub, Emptying::Zeros, &path);
                assert!(bytes_of(&*device) == job.ends[1], "{at}: another end");
            });
        }
    }
    println!("{count} cuts, {under_way} between both ends");
    assert!(count > 100 && under_way > 20, "{count}, {under_way}");
}
