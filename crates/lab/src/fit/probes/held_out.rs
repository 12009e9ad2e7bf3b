//! The phase that no fitting sees: other sizes, other places, other depths, all mixed.
use super::{Plan, Prober};
use crate::fit::target::ProbeRequest;
use std::io;

/// How the names of its phases begin.
pub const NAME: &str = "held-out";

/// Its depths, and how many requests.
const DEPTHS: [(u32, usize); 3] = [(1, 700), (3, 700), (12, 900)];
/// Its sizes in units of 4 KiB.
const SIZES: [u64; 5] = [2, 3, 6, 12, 40];
/// A near request is at most this many bytes away.
const NEAR: u64 = 48 << 20;

/// Runs it.
///
/// # Errors
/// Those of the target.
pub fn run(prober: &mut Prober<'_>) -> io::Result<()> {
    for (depth, count) in DEPTHS {
        let requests = mixed(prober, count);
        let name = format!("{NAME}-depth-{depth}");
        prober.run(Plan::new(name, requests).at_depth(depth).for_permille(50))?;
    }
    Ok(())
}

/// Of ten requests six are anywhere, two near the one before, and two right after it; a fourth of
/// all are writes, where writing is possible.
fn mixed(prober: &mut Prober<'_>, count: usize) -> Vec<ProbeRequest> {
    let mut requests: Vec<ProbeRequest> = Vec::with_capacity(count);
    let mut next = 0;
    for _ in 0..count {
        let size = SIZES[prober.random.below(SIZES.len() as u64) as usize];
        let bytes = prober.whole(size * 4096);
        if prober.facts.write_bytes > 0 && prober.random.chance(1, 4) {
            requests.push(ProbeRequest::write(prober.write_place(bytes), bytes));
            continue;
        }
        let last = prober.facts.bytes - bytes;
        let offset = match prober.random.below(10) {
            0..6 => prober.place(bytes),
            6..8 => {
                let moved = prober.random.below(2 * NEAR / prober.unit()) * prober.unit();
                (next + moved).saturating_sub(NEAR)
            }
            _ => next,
        };
        let offset = offset.min(last) / prober.unit() * prober.unit();
        next = offset + bytes;
        requests.push(ProbeRequest::read(offset, bytes));
    }
    requests
}
