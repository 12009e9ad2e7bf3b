//! Random operations on the engine and on a model in memory: errors, answers and trees are equal,
//! and e2fsck is silent whenever the volume was closed. A failure prints its seed and a shrunken
//! list of operations.
//!
//! `EXTANT_MODEL_SEEDS=n` runs n rounds over the matrix instead of one; `EXTANT_MODEL_SEED=s`
//! begins at seed s; `EXTANT_MODEL_OPERATIONS=n` makes runs of n operations;
//! `EXTANT_MODEL_ONLY=text` takes matching rows only.

mod compare;
mod generator;
mod kernel;
mod operation;
mod ranges;
mod round;
mod rules;
mod tree;
use crate::volume;

use extant_engine::mkfs::Profile;
use extant_testkit::variables::{chosen, number, seed};
use round::{Failure, replay, run};
use volume::{KIB, MIB, Random, Specification};

/// Kind, block size, inode size, features.
type Row = (Profile, u32, u16, &'static str);

const ROWS: &[Row] = &[
    (Profile::Ext4, 1024, 256, ""),
    (Profile::Ext2, 1024, 128, ""),
    (Profile::Ext4, 4096, 256, ""),
    (Profile::Ext3, 2048, 256, ""),
    (Profile::Ext4, 1024, 128, "^dir_index"),
    (Profile::Ext4, 65536, 256, ""),
    (Profile::Ext2, 4096, 256, "^dir_index"),
    (Profile::Ext4, 2048, 512, "^metadata_csum,uninit_bg"),
    (Profile::Ext4, 1024, 1024, "^metadata_csum"),
    (Profile::Ext4, 1024, 256, "^extent,^64bit"),
    (Profile::Ext2, 65536, 128, ""),
    (Profile::Ext4, 1024, 256, "^flex_bg"),
    (Profile::Ext3, 1024, 128, ""),
    (Profile::Ext4, 1024, 256, "^64bit,^huge_file,^dir_nlink"),
    (Profile::Ext2, 1024, 256, "^filetype"),
    (Profile::Ext4, 1024, 256, "^resize_inode,metadata_csum_seed,^large_file"),
    (Profile::Ext4, 8192, 256, "^extra_isize"),
    (Profile::Ext2, 2048, 1024, "^resize_inode,^sparse_super,^large_file"),
    (Profile::Ext4, 1024, 256, "ea_inode,inline_data"),
    (Profile::Ext4, 4096, 256, "ea_inode,quota,project,large_dir"),
    (Profile::Ext4, 1024, 256, "quota,project,encrypt,verity,stable_inodes"),
];

const POLICIES: &[&str] = &[
    "modern",
    "linux-2.4",
    "linux-2.6",
    "packed",
    "modern,allocation=packed",
    "freebsd-5.2",
    "linux-2.4-akpm",
    "freebsd-2010",
    "modern,mount=sync",
    "modern,atime=strict",
    "linux-2.4-akpm,mount=sync,throttle=write-behind",
    "linux-2.4,atime=relatime",
    "freebsd-2010,growth=contiguous-8",
    "linux-2.6,growth=reservation",
    "freebsd-5.2,allocation=freebsd-fixed,mount=async",
    "modern,growth=reservation",
];

/// What is run for a seed: rows and policies in turn; sizes small enough to fill up now and then.
fn specification(seed: u64) -> Specification {
    let mut random = Random::new(seed ^ 0x5eed);
    let (profile, block_size, inode_size, features) = ROWS[seed as usize % ROWS.len()];
    let bytes = match block_size {
        1024 => *random.pick(&[MIB, 2 * MIB, 6 * MIB, 20 * MIB]),
        2048 | 4096 => *random.pick(&[2 * MIB, 4 * MIB, 16 * MIB]),
        8192 => 16 * MIB,
        _ => *random.pick(&[16 * MIB, 64 * MIB]),
    };
    Specification {
        profile,
        block_size,
        inode_size,
        features,
        bytes,
        // At most a quarter of the volume for their table.
        inodes: (*random.pick(&[64, 512, 3000])).min((bytes / 4 / u64::from(inode_size)) as u32),
        policies: POLICIES[(seed as usize / ROWS.len() + seed as usize) % POLICIES.len()],
        cache_bytes: (*random.pick(&[64 * KIB, 256 * KIB, 4 * MIB])) as usize,
    }
}

fn report(seed: u64, specification: &Specification, failure: Failure) -> String {
    let (shrunken, message) = round::shrink(specification, failure);
    let mut text = format!("seed {seed}: {specification}\n{message}\noperations that do it:\n");
    for operation in &shrunken {
        text += &format!("    {operation:?}\n");
    }
    text
}

#[test]
fn the_engine_does_what_the_model_does() {
    if !extant_testkit::oracle::require("e2fsck") {
        return;
    }
    let rounds = number("EXTANT_MODEL_SEEDS");
    let first = seed("EXTANT_MODEL_SEED", 1);
    let operations = number("EXTANT_MODEL_OPERATIONS") as usize;
    let only = chosen("EXTANT_MODEL_ONLY").unwrap_or_default();
    let mut failures = Vec::new();
    let mut total = round::Tally::new();
    for seed in first..first + rounds * ROWS.len() as u64 {
        let specification = specification(seed);
        if !specification.to_string().contains(&only) {
            continue;
        }
        match run(&specification, seed, operations) {
            Ok(tally) => {
                tally.into_iter().for_each(|(key, count)| *total.entry(key).or_default() += count)
            }
            Err(failure) => failures.push(report(seed, &specification, failure)),
        }
        if failures.len() >= number("EXTANT_MODEL_FAILURES") as usize {
            break;
        }
    }
    // What the runs met, with `--nocapture`: operations that never fail, or never succeed, prove
    // little.
    println!("{total:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_kernel_sees_what_the_model_has() {
    if !extant_testkit::oracle::require("e2fsck") || !extant_testkit::oracle::can_mount() {
        return;
    }
    let rounds = number("EXTANT_MODEL_KERNEL_SEEDS");
    let first = seed("EXTANT_MODEL_SEED", 1);
    let mut wrong = Vec::new();
    for seed in first..first + rounds * ROWS.len() as u64 {
        let specification = specification(seed);
        if specification.block_size > 4096 {
            continue;
        }
        if let Err(sentences) = kernel::compare(&specification, seed, 300) {
            wrong.push(format!("seed {seed}: {specification}\n{sentences}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The judge has to be able to say no: a model that errs is found, and what is left of the list is
/// short.
#[test]
fn a_difference_is_found_and_shrunken() {
    let specification = Specification::new(Profile::Ext4, 1024, 2 * MIB);
    let mut operations = round::record(&specification, 7, 120);
    operations.push(operation::Operation::Stat(operation::Path(round::FAULT.to_vec())));
    let failure = replay(&specification, &operations).expect_err("the fault is found");
    let (shrunken, _) = round::shrink(&specification, failure);
    assert_eq!(shrunken.len(), 1, "{shrunken:?}");
}
