//! The search for free runs in one bitmap: pure functions of the bits.
//!
//! Every function takes a bitmap and the number of blocks it describes (`limit`), and returns a run
//! that is free and below the limit, or `None`. The word-wise loops are in `extant_format::bitmap`.
use extant_format::bitmap::{next_clear, next_clear_byte, next_set, test};

/// A free run of a group: its first bit and its length in bits, at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FreeRun {
    pub(super) first: u32,
    pub(super) length: u32,
}

/// The free run that begins at `first`, cut at `max` bits and at the limit.
fn run_at(bitmap: &[u8], limit: u32, first: u32, max: u32) -> FreeRun {
    let end = first.saturating_add(max).min(limit);
    let end = next_set(bitmap, first, end).unwrap_or(end);
    FreeRun { first, length: end - first }
}

/// How far ext2 steps back from a free byte to the start of its free run.
const STEP_BACK_BITS: u32 = 7;

/// The first byte of free bits after the byte of `from`, stepped back into the free bits before it.
fn free_byte(bitmap: &[u8], limit: u32, from: u32) -> Option<u32> {
    let mut first = next_clear_byte(bitmap, from, limit)?;
    let lowest = first.saturating_sub(STEP_BACK_BITS);
    while first > lowest && !test(bitmap, first - 1) {
        first -= 1;
    }
    Some(first)
}

/// What ext2 of Linux 2.4 does in the goal's group: the goal itself; a free bit before the next
/// 64-bit boundary; the first free byte, stepped back; any free bit after the goal.
pub(super) fn goal_then_byte(bitmap: &[u8], limit: u32, goal: u32, max: u32) -> Option<FreeRun> {
    if goal >= limit {
        return None;
    }
    if !test(bitmap, goal) {
        return Some(run_at(bitmap, limit, goal, max));
    }
    let boundary = goal.next_multiple_of(64).min(limit);
    let first = next_clear(bitmap, goal, boundary)
        .or_else(|| free_byte(bitmap, limit, goal))
        .or_else(|| next_clear(bitmap, goal, limit))?;
    Some(run_at(bitmap, limit, first, max))
}

/// What ext2 does in the other groups: the first free byte, stepped back; else the first free bit.
pub(super) fn byte_then_bit(bitmap: &[u8], limit: u32, max: u32) -> Option<FreeRun> {
    let first = free_byte(bitmap, limit, 0).or_else(|| next_clear(bitmap, 0, limit))?;
    Some(run_at(bitmap, limit, first, max))
}

/// The next free bit at or after `from`, and the free ones that follow it.
pub(super) fn sequential(bitmap: &[u8], limit: u32, from: u32, max: u32) -> Option<FreeRun> {
    let first = next_clear(bitmap, from, limit)?;
    Some(run_at(bitmap, limit, first, max))
}

/// What FreeBSD's ext2fs of 2010 does in each group: the goal itself; the first free byte from that
/// of the goal on, then from the start; the first free bit in the same order. It does not step
/// back, so free bits before the byte stay free.
pub(super) fn goal_then_byte_start(
    bitmap: &[u8],
    limit: u32,
    goal: u32,
    max: u32,
) -> Option<FreeRun> {
    let goal = if goal < limit { goal } else { 0 };
    if !test(bitmap, goal) {
        return Some(run_at(bitmap, limit, goal, max));
    }
    let byte = goal / 8 * 8;
    let first = next_clear_byte(bitmap, byte, limit)
        .or_else(|| next_clear_byte(bitmap, 0, byte))
        .or_else(|| next_clear(bitmap, byte, limit))
        .or_else(|| next_clear(bitmap, 0, byte))?;
    Some(run_at(bitmap, limit, first, max))
}

/// As `goal_then_byte_start`, with a run of `wanted` free bits (at least 1), at any bit, instead of
/// a byte.
pub(super) fn goal_then_run(
    bitmap: &[u8],
    limit: u32,
    goal: u32,
    wanted: u32,
    max: u32,
) -> Option<FreeRun> {
    let goal = if goal < limit { goal } else { 0 };
    if !test(bitmap, goal) {
        return Some(run_at(bitmap, limit, goal, max));
    }
    let first = run_of(bitmap, limit, goal, wanted)
        .or_else(|| run_of(bitmap, limit, 0, wanted))
        .or_else(|| next_clear(bitmap, goal, limit))
        .or_else(|| next_clear(bitmap, 0, limit))?;
    Some(run_at(bitmap, limit, first, max))
}

/// The first run of `wanted` free bits from `from` on.
fn run_of(bitmap: &[u8], limit: u32, from: u32, wanted: u32) -> Option<u32> {
    let mut at = from;
    while let Some(first) = next_clear(bitmap, at, limit) {
        let found = run_at(bitmap, limit, first, wanted.max(1));
        if found.length >= wanted {
            return Some(first);
        }
        at = first + found.length;
    }
    None
}

/// The run at `goal`, if it has `enough` bits; else the first run with `look_for` bits, from the
/// goal on and then from the start of the group; else the longest run of the group, the first of
/// equals in that order. Only in this last case is the returned length below `look_for`, and then
/// it is exact. A longer run is cut at `look_for`.
pub(super) fn roomy(
    bitmap: &[u8],
    limit: u32,
    goal: u32,
    enough: u32,
    look_for: u32,
) -> Option<FreeRun> {
    let goal = if goal < limit { goal } else { 0 };
    if !test(bitmap, goal) {
        let found = run_at(bitmap, limit, goal, look_for);
        if found.length >= enough {
            return Some(found);
        }
    }
    let mut longest: Option<FreeRun> = None;
    for (from, until) in [(goal, limit), (0, goal)] {
        let mut at = from;
        while let Some(first) = next_clear(bitmap, at, until) {
            let found = run_at(bitmap, limit, first, look_for);
            if found.length >= look_for {
                return Some(found);
            }
            if longest.is_none_or(|longest| longest.length < found.length) {
                longest = Some(found);
            }
            at = first + found.length;
        }
    }
    longest
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
