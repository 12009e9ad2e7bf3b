//! Random system calls on two volumes, the kernel's and ours: the same answers after each call, the
//! same trees in the end, and an image that e2fsck and the kernel take.

use extant_testkit::twins::{DIFFERENCES, Life, Users, live_beside_kernel};

use super::{Proofs, Sharing};

/// All of them together, unless it is said otherwise.
const OPERATIONS: u64 = 200_000;
/// Of one life: a tree gets old, and a failure is found again in less time.
const LIFE: u64 = 12_500;

/// Words of mke2fs.
const VOLUMES: &[&str] = &[
    "-t ext4 -b 4096",
    "-t ext3 -b 4096",
    "-t ext4 -b 1024",
    "-t ext3 -b 1024",
    "-t ext4 -b 4096 -O ea_inode",
];

/// Lives on each kind of volume in both ways, from one seed after the other.
///
/// # Errors
/// The lives that were not alike.
pub fn prove(proofs: &Proofs) -> Result<(), String> {
    let operations = proofs.operations.unwrap_or(OPERATIONS);
    let mut failures = Vec::new();
    let kinds = VOLUMES.iter().flat_map(|words| Sharing::ALL.map(|sharing| (*words, sharing)));
    let kinds: Vec<(&str, Sharing)> = kinds.collect();
    let lives = operations.div_ceil(LIFE).max(1);
    let mut excused = vec![0; DIFFERENCES.len()];
    for number in 0..lives {
        let seed = proofs.seed + number;
        // By the seed, so that a life that failed is found again alone.
        let (words, sharing) = kinds[seed as usize % kinds.len()];
        let users = match sharing {
            Sharing::OneUser => Users::One,
            Sharing::AllUsers => Users::Many,
        };
        let operations = LIFE.min(operations - number * LIFE);
        let life = Life { seed, operations, users };
        let name = format!("  seed {} {words}, {}", life.seed, sharing.name());
        match live_beside_kernel(&proofs.subject(sharing, "noatime"), words, life) {
            Ok(lived) => {
                let (succeeded, reordered) = (lived.succeeded, lived.reordered.len());
                println!(
                    "{name}: {operations} calls, {succeeded} succeeded, {reordered} times of \
                     change in another order"
                );
                excused.iter_mut().zip(&lived.excused).for_each(|(sum, more)| *sum += more);
            }
            Err(error) => {
                println!("{name}: {error}");
                failures.push(name);
            }
        }
    }
    for (difference, count) in DIFFERENCES.iter().zip(&excused) {
        println!("  {count} times otherwise: {}", difference.reason);
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}
