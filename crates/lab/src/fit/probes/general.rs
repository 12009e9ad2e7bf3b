//! Probes for every kind of drive.
use super::{Plan, Prober};
use crate::fit::target::ProbeRequest;
use std::io;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Sizes of random reads, with how many there are.
const SIZES: [(u64, usize); 6] =
    [(16 * KIB, 150), (64 * KIB, 150), (256 * KIB, 150), (MIB, 100), (4 * MIB, 60), (16 * MIB, 30)];
/// Depths, sizes, and how many reads.
const DEPTHS: [(u32, u64, usize); 12] = [
    (2, 4 * KIB, 400),
    (4, 4 * KIB, 600),
    (8, 4 * KIB, 800),
    (16, 4 * KIB, 1000),
    (32, 4 * KIB, 1500),
    (64, 4 * KIB, 2000),
    (128, 4 * KIB, 3000),
    (256, 4 * KIB, 4000),
    (4, 64 * KIB, 300),
    (32, 64 * KIB, 600),
    (8, 256 * KIB, 300),
    (8, MIB, 200),
];

/// Depths, sizes and numbers of reads that tell the work for bytes from that for commands.
const CROWDED: [(u32, u64, usize); 3] =
    [(4, 16 * KIB, 400), (16, 16 * KIB, 800), (8, 32 * KIB, 400)];
/// Sizes of reads at any place.
const ACROSS: [u64; 3] = [2 * MIB, 8 * MIB, 32 * MIB];

/// Single small reads anywhere: what most others are held against.
///
/// # Errors
/// Those of the target.
pub fn first(prober: &mut Prober<'_>) -> io::Result<()> {
    let requests = prober.random_reads(1200, 4 * KIB);
    prober.run(Plan::new("random-4k", requests).for_permille(30))?;
    Ok(())
}

/// Reads of every other kind.
///
/// # Errors
/// Those of the target.
pub fn reads(prober: &mut Prober<'_>) -> io::Result<()> {
    for (bytes, count) in SIZES {
        let requests = prober.random_reads(count, bytes);
        prober.run(Plan::new(format!("random-{}k", bytes / KIB), requests).for_permille(30))?;
    }
    let pairs = near_pairs(prober, 150);
    prober.run(Plan::new("near-4k", pairs).every(2))?;
    let bytes = prober.unit();
    let place = prober.place(bytes);
    prober.run(Plan::new("again-4k", vec![ProbeRequest::read(place, bytes); 61]).preparing(1))?;
    for (depth, bytes, count) in DEPTHS {
        let requests = prober.random_reads(count, bytes);
        let name = format!("depth-{depth}-{}k", bytes / KIB);
        prober.run(Plan::new(name, requests).at_depth(depth))?;
    }
    for bytes in [64 * KIB, MIB] {
        let start = prober.place(64 * MIB);
        let requests = (0..120).map(|number| ProbeRequest::read(start + number * bytes, bytes));
        let name = format!("sequential-{}k", bytes / KIB);
        prober.run(Plan::new(name, requests.collect()).preparing(2))?;
    }
    Ok(())
}

/// Reads that go on until they empty token buckets, which nothing that turns has.
///
/// # Errors
/// Those of the target.
pub fn long(prober: &mut Prober<'_>) -> io::Result<()> {
    let requests = prober.random_reads(12_000, 4 * KIB);
    prober.run(Plan::new("long-4k", requests).at_depth(64).for_permille(50))?;
    let requests = prober.random_reads(1500, MIB);
    prober.run(Plan::new("long-1024k", requests).at_depth(16).for_permille(60))?;
    Ok(())
}

/// Pairs of reads of which the second is a little before the first.
fn near_pairs(prober: &mut Prober<'_>, count: usize) -> Vec<ProbeRequest> {
    let unit = prober.unit();
    let mut requests = Vec::with_capacity(2 * count);
    for _ in 0..count {
        let place = prober.place(unit);
        let back = unit * (1 + prober.random.below(MIB / unit));
        requests.push(ProbeRequest::read(place, unit));
        requests.push(ProbeRequest::read(place.saturating_sub(back), unit));
    }
    requests
}

/// Reads of some size of which several are under way, of what is fast: where the host does much of
/// the work, small ones show the commands' and large ones the limits of the drive.
///
/// # Errors
/// Those of the target.
pub fn crowded(prober: &mut Prober<'_>) -> io::Result<()> {
    for (depth, bytes, count) in CROWDED {
        let requests = prober.random_reads(count, bytes);
        let name = format!("depth-{depth}-{}k", bytes / KIB);
        prober.run(Plan::new(name, requests).at_depth(depth).for_permille(8))?;
    }
    Ok(())
}

/// Large reads at any place, of what is slow and does not turn: other probes begin at multiples of
/// their size, so that one that is cut into objects has few that span two of them.
///
/// # Errors
/// Those of the target.
pub fn across(prober: &mut Prober<'_>) -> io::Result<()> {
    let unit = prober.unit();
    for bytes in ACROSS {
        let bytes = prober.whole(bytes);
        let mut read = || {
            let place = prober.place(unit);
            ProbeRequest::read(place, bytes)
        };
        let requests = (0..60).map(|_| read()).collect();
        let name = format!("across-{}k", bytes / KIB);
        prober.run(Plan::new(name, requests).for_permille(8))?;
    }
    Ok(())
}

/// Writes and flushes, where writing is possible.
///
/// # Errors
/// Those of the target.
pub fn writes(prober: &mut Prober<'_>) -> io::Result<()> {
    if prober.facts.write_bytes == 0 {
        return Ok(());
    }
    let sizes = [(4 * KIB, 500), (64 * KIB, 120), (MIB, 60)];
    for (bytes, count) in sizes {
        let requests = random_writes(prober, count, bytes);
        prober.run(Plan::new(format!("write-{}k", bytes / KIB), requests))?;
    }
    for (depth, bytes, count) in [(8, 4 * KIB, 600), (64, 4 * KIB, 1500), (8, MIB, 150)] {
        let requests = random_writes(prober, count, bytes);
        let name = format!("write-depth-{depth}-{}k", bytes / KIB);
        prober.run(Plan::new(name, requests).at_depth(depth))?;
    }
    let single = random_writes(prober, 120, 4 * KIB);
    let flushed = single.iter().flat_map(|write| [*write, ProbeRequest::flush()]).collect();
    prober.run(Plan::new("flush-4k", flushed).every(2))?;
    let rested = single.iter().map(|write| write.after(30_000_000)).collect();
    prober.run(Plan::new("write-rested-4k", rested))?;
    let writes = random_writes(prober, 150, 256 * KIB);
    let reads = prober.random_reads(150, 256 * KIB);
    let mixed = writes.iter().zip(&reads).flat_map(|(write, read)| [*write, *read]).collect();
    prober.run(Plan::new("mixed-256k", mixed).at_depth(8))?;
    Ok(())
}

fn random_writes(prober: &mut Prober<'_>, count: usize, bytes: u64) -> Vec<ProbeRequest> {
    let bytes = prober.whole(bytes);
    (0..count).map(|_| ProbeRequest::write(prober.write_place(bytes), bytes)).collect()
}
