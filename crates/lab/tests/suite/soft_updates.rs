//! Soft updates: cut at every command, a volume has nothing worse than blocks and inodes that
//! nothing uses; and what they cost beside synchronous and asynchronous mounts.
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use extant_engine::{Access, DataKeeping, Filesystem, Options, Rename};
use extant_format::superblock::Feature;
use extant_inspect::{CheckOptions, CheckReport, check};
use extant_lab::scenario::{self, RunOptions};
use extant_sim::CrashLog;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const BLOCK: u64 = 1024;

/// What may be found after a cut. Blocks and inodes that are marked in use and are not, inodes that
/// no name leads to, and counts that are computed from others: those of groups and of the volume,
/// and the sectors of an inode, which is written after its map.
const HARMLESS: &[&str] = &[
    "blocks-marked-used",
    "inodes-marked-used",
    "inode-unattached",
    "directory-unreachable",
    "group-free-blocks",
    "group-free-inodes",
    "group-directories",
    "free-blocks",
    "free-inodes",
    "sector-count",
];

/// A fresh volume of 1 KiB blocks without a hash index.
fn fresh(policies: &str) -> MemoryDevice {
    let device = MemoryDevice::new(RealClock::new(), 4 << 20);
    let device = Arc::new(device);
    let mut wishes = default_wishes(Profile::Ext2, 4 << 20, Some(BLOCK as u32), Identity::NONE);
    wishes.blocks = (4 << 20) / BLOCK;
    wishes.features.clear(Feature::DIR_INDEX);
    let policies = policies.parse().unwrap();
    format(device.clone(), &FormatOptions::new(wishes), &policies).expect("formats");
    device.snapshot()
}

fn open(device: Arc<dyn BlockDevice>, policies: &str) -> Filesystem {
    let options = Options {
        access: Access::ReadWrite,
        policies: policies.parse().unwrap(),
        cache_bytes: 2 << 20,
        data: DataKeeping::Bytes,
    };
    Filesystem::open(device, &options).expect("opens")
}

/// Numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Files and directories come and go: names of one inode in several directories, files that move
/// and that replace others, directories that are removed with all they hold.
fn live(volume: &Filesystem, seed: u64, steps: u32) {
    let mut draw = Draw(seed);
    for directory in 0..4 {
        volume.create_dir(format!("/d{directory}"), 0o755).expect("makes it");
    }
    volume.sync().expect("syncs");
    for step in 0..steps {
        let path = |draw: &mut Draw| format!("/d{}/file-{}", draw.below(4), draw.below(12));
        let (one, other) = (path(&mut draw), path(&mut draw));
        // What is not there, or is there already, is refused: that is as good as anything.
        let _ = match draw.below(12) {
            0..=3 => volume.write(&one, &vec![step as u8; draw.below(20_000) as usize]),
            4 | 5 => volume.remove_file(&one),
            6 => volume.hard_link(&one, &other),
            7 | 8 => volume.rename(&one, &other, Rename::Replace),
            9 => volume
                .create_dir(format!("{one}-d"), 0o755)
                .and_then(|()| volume.write(format!("{one}-d/inside"), b"inside")),
            10 => volume
                .remove_file(format!("{one}-d/inside"))
                .and_then(|()| volume.remove_dir(format!("{one}-d"))),
            _ => volume.open_file(&one).and_then(|file| file.set_len(draw.below(9_000))),
        };
        if draw.below(9) == 0 {
            volume.sync().expect("syncs");
        }
    }
}

fn checked(medium: MemoryDevice) -> CheckReport {
    check(Arc::new(medium), &CheckOptions::default()).expect("can be checked")
}

/// What is worse than a leak, by its name.
fn harm(report: &CheckReport, into: &mut BTreeMap<String, u32>) {
    let of = |name| report.counts.get(name).copied().unwrap_or(0);
    // A new directory that has no name yet names its parent, which may not count it yet: both are
    // in tables, and its name follows.
    let nameless = of("directory-unreachable");
    for problem in &report.problems {
        let name = problem.rule().name;
        let is_leak = match (name, problem.found, problem.expected) {
            // More links than names: too high is a leak.
            ("link-count", Some(found), Some(expected)) => found + nameless >= expected,
            _ => HARMLESS.contains(&name),
        };
        if !is_leak {
            *into.entry(problem.to_string()).or_default() += 1;
        }
    }
}

/// What cuts after each event of a life leave that is worse than a leak. A drive writes blocks
/// whole, those that were not flushed or none of them, and in any order.
fn harm_of_cuts(policies: &str, seed: u64, steps: u32) -> (BTreeMap<String, u32>, u64) {
    let base = fresh(policies);
    let log = Arc::new(CrashLog::new(Arc::new(base.snapshot()) as Arc<dyn BlockDevice>));
    let volume = open(Arc::clone(&log) as Arc<dyn BlockDevice>, policies);
    live(&volume, seed, steps);
    volume.sync().expect("syncs");
    let mut harmful = BTreeMap::new();
    let mut leaks = 0;
    for moment in 0..=log.moments() {
        let cut = log.cut(moment);
        let drawn = |write: usize, sector: u64| {
            let block = sector * 512 / BLOCK;
            let mut draw = Draw(seed ^ (write as u64) << 32 ^ block ^ (moment as u64) << 48);
            draw.below(7);
            draw.below(2) == 0
        };
        let media = [
            cut.durable(&base).expect("a medium"),
            cut.prefix(&base).expect("a medium"),
            cut.image(&base, 512, drawn).expect("a medium"),
        ];
        for medium in media {
            let report = checked(medium);
            leaks += report.problems.len() as u64;
            harm(&report, &mut harmful);
        }
    }
    (harmful, leaks)
}

#[test]
fn cut_at_any_command_soft_updates_leave_nothing_but_leaks() {
    for policies in ["freebsd-5.2,mount=soft-updates", "linux-2.4,mount=soft-updates"] {
        for seed in 1..4 {
            let (harmful, leaks) = harm_of_cuts(policies, seed, 120);
            assert_eq!(harmful, BTreeMap::new(), "{policies}, seed {seed}");
            assert!(leaks > 0, "cuts in the middle of anything leave something");
        }
    }
}

#[test]
fn the_same_cuts_without_an_order_or_without_roll_back_do_harm() {
    let (asynchronous, _) = harm_of_cuts("freebsd-5.2,mount=async", 1, 120);
    assert!(asynchronous.len() > 10, "{asynchronous:?}");
    let (in_stages, _) = harm_of_cuts("freebsd-5.2,mount=async,data-order=data-first", 1, 120);
    assert!(!in_stages.is_empty(), "stages alone name inodes that are freed");
}

/// A tree is made and removed again. All of it may be dirty: memory has 65,536 buffers.
const TREES: &str = r#"
name = "trees"
seed = 1
memory = "1G"
[[drive]]
name = "disk"
model = "ide-2001-5400"
[[tree]]
name = "srcs"
rule = "source"
files = 1500
directories = 120
bytes = 20000000
[[filesystem]]
name = "volume"
size = "2G"
block_size = 4096
profile = "ext2"
features = ["none", "filetype", "sparse_super"]
preset = "freebsd-5.2"
[[process]]
name = "tester"
steps = [
    { step = "untar", at = "/srcs", tree = "srcs", measure = "untar" },
    { step = "sync", measure = "sync" },
    { step = "remove", at = "/srcs", measure = "remove" },
    { step = "sync", measure = "sync after" },
]
"#;

#[test]
fn soft_updates_make_and_remove_trees_as_fast_as_memory() {
    let scenario = scenario::parse("trees.toml", TREES, Path::new("")).unwrap();
    let times = |mount: &str| {
        let options = RunOptions {
            policies: Some(format!("freebsd-5.2,mount={mount}")),
            ..RunOptions::default()
        };
        let outcome = scenario::run(&scenario, &options).unwrap_or_else(|error| panic!("{error}"));
        let scratch = tempfile::tempdir().unwrap();
        let found = outcome.filesystems[0].check(&scratch.path().join("image")).unwrap();
        assert_eq!(found, "", "{mount}");
        let of =
            |label: &str| outcome.report.measure(label).expect("a measure").elapsed_ns as f64 / 1e9;
        let times = ["untar", "sync", "remove", "sync after"].map(of);
        println!(
            "{mount:>12}: untar {:.2} s, sync {:.2} s, remove {:.2} s, sync {:.2} s",
            times[0], times[1], times[2], times[3]
        );
        times
    };
    let [sync, soft, asynchronous] = ["sync", "soft-updates", "async"].map(times);
    // A synchronous mount waits for each name; the others wait for memory alone.
    assert!(soft[0] * 3.0 < sync[0], "untar: {soft:?} {sync:?}");
    assert!(soft[2] * 10.0 < sync[2], "remove: {soft:?} {sync:?}");
    assert!(soft[2] < asynchronous[2] * 2.0 + 1.0, "remove: {soft:?} {asynchronous:?}");
}
