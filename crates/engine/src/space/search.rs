//! The search for free runs in one bitmap: pure functions of the bits.
//!
//! Every function takes a bitmap, the number of blocks that it speaks of (`limit`), and gives a run
//! that is free and lies below the limit, or nothing. The word-wise loops are those of
//! `extant_format::bitmap`.
use extant_format::bitmap::{next_clear, next_clear_byte, next_set, test};

/// A free run of a group: its first bit, and how many bits; never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) first: u32,
    pub(super) length: u32,
}

/// The free run that begins at `first`, cut at `max` bits and at the limit.
fn run_at(bitmap: &[u8], limit: u32, first: u32, max: u32) -> Found {
    let end = first.saturating_add(max).min(limit);
    let end = next_set(bitmap, first, end).unwrap_or(end);
    Found { first, length: end - first }
}

/// How far ext2 steps back from a free byte to the start of its free run.
const STEP_BACK_BITS: u32 = 7;

/// The first byte that is all free, from the byte behind `from` on, stepped back.
fn free_byte(bitmap: &[u8], limit: u32, from: u32) -> Option<u32> {
    let mut first = next_clear_byte(bitmap, from, limit)?;
    let lowest = first.saturating_sub(STEP_BACK_BITS);
    while first > lowest && !test(bitmap, first - 1) {
        first -= 1;
    }
    Some(first)
}

/// What ext2 of Linux 2.4 does in the group of the goal: the goal; a free bit before the next
/// 64-bit boundary; the first free byte, stepped back; any free bit behind the goal.
pub(super) fn goal_then_byte(bitmap: &[u8], limit: u32, goal: u32, max: u32) -> Option<Found> {
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
pub(super) fn byte_then_bit(bitmap: &[u8], limit: u32, max: u32) -> Option<Found> {
    let first = free_byte(bitmap, limit, 0).or_else(|| next_clear(bitmap, 0, limit))?;
    Some(run_at(bitmap, limit, first, max))
}

/// The next free bit at or after `from`, and those behind it.
pub(super) fn sequential(bitmap: &[u8], limit: u32, from: u32, max: u32) -> Option<Found> {
    let first = next_clear(bitmap, from, limit)?;
    Some(run_at(bitmap, limit, first, max))
}

/// What FreeBSD's ext2fs of 2010 does in each group: the goal; the first free byte from that of the
/// goal on, then from the start; the first free bit in that order. It does not step back: the bits
/// before the byte stay free.
pub(super) fn goal_then_byte_start(
    bitmap: &[u8],
    limit: u32,
    goal: u32,
    max: u32,
) -> Option<Found> {
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

/// The same, with a run of `wanted` free bits (at least 1), wherever it begins, in place of a byte.
pub(super) fn goal_then_run(
    bitmap: &[u8],
    limit: u32,
    goal: u32,
    wanted: u32,
    max: u32,
) -> Option<Found> {
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

/// The run that begins at `goal`, if it has `enough` bits; else the first run from there on, and
/// then from the start of the group, that has `look_for`; else the longest run of the group (the
/// first of equals in that order): then, and only then, the length that is given is below
/// `look_for` and exact. A run that is long enough is cut at `look_for`.
pub(super) fn roomy(
    bitmap: &[u8],
    limit: u32,
    goal: u32,
    enough: u32,
    look_for: u32,
) -> Option<Found> {
    let goal = if goal < limit { goal } else { 0 };
    if !test(bitmap, goal) {
        let found = run_at(bitmap, limit, goal, look_for);
        if found.length >= enough {
            return Some(found);
        }
    }
    let mut longest: Option<Found> = None;
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
