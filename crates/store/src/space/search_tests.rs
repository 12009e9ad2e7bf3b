//! The searches, compared with naive ones that look at one bit at a time, and with cases worked out
//! by hand.
#![allow(clippy::single_range_in_vec_init)] // lists of ranges, some of one

use super::*;
use proptest::prelude::*;

/// The bits as a bitmap of whole blocks, with the bits after them set.
fn pack(bits: &[bool]) -> Vec<u8> {
    let mut bytes = vec![0xff; 128];
    for (index, _) in bits.iter().enumerate().filter(|(_, set)| !**set) {
        bytes[index / 8] &= !(1 << (index % 8));
    }
    bytes
}

fn naive_run(bits: &[bool], first: usize, max: u32) -> FreeRun {
    let length = bits[first..].iter().take(max as usize).take_while(|set| !**set).count();
    FreeRun { first: first as u32, length: length as u32 }
}

fn naive_byte(bits: &[bool], from: usize) -> Option<usize> {
    let starts = (0..bits.len() / 8).map(|byte| byte * 8);
    let mut first = starts
        .filter(|start| *start >= from)
        .find(|start| bits[*start..*start + 8].iter().all(|set| !set))?;
    for _ in 0..7 {
        if first > 0 && !bits[first - 1] {
            first -= 1;
        }
    }
    Some(first)
}

fn naive_goal_then_byte(bits: &[bool], goal: usize, max: u32) -> Option<FreeRun> {
    if goal >= bits.len() {
        return None;
    }
    let mut boundary = goal;
    while !boundary.is_multiple_of(64) {
        boundary += 1;
    }
    let near = (goal..boundary.max(goal + 1).min(bits.len())).find(|index| !bits[*index]);
    let any = (goal..bits.len()).find(|index| !bits[*index]);
    near.or_else(|| naive_byte(bits, goal)).or(any).map(|first| naive_run(bits, first, max))
}

fn naive_byte_then_bit(bits: &[bool], max: u32) -> Option<FreeRun> {
    let first = naive_byte(bits, 0).or_else(|| bits.iter().position(|set| !set))?;
    Some(naive_run(bits, first, max))
}

fn naive_roomy(bits: &[bool], goal: usize, enough: u32, look_for: u32) -> Option<FreeRun> {
    let goal = if goal < bits.len() { goal } else { 0 };
    let is_start = |index: usize| !bits[index] && (index == 0 || index == goal || bits[index - 1]);
    if !bits[goal] && naive_run(bits, goal, look_for).length >= enough {
        return Some(naive_run(bits, goal, look_for));
    }
    // A run may begin at the goal, but the search from the front stops before it.
    let after = (goal..bits.len()).filter(|index| is_start(*index));
    let before = (0..goal).filter(|index| is_start(*index));
    let runs: Vec<FreeRun> =
        after.chain(before).map(|first| naive_run(bits, first, look_for)).collect();
    let longest = runs.iter().map(|run| run.length).max()?;
    runs.into_iter().find(|run| run.length >= look_for.min(longest))
}

fn naive_goal_then(
    bits: &[bool],
    goal: usize,
    wanted: usize,
    step: usize,
    max: u32,
) -> Option<FreeRun> {
    let goal = if goal < bits.len() { goal } else { 0 };
    if !bits[goal] {
        return Some(naive_run(bits, goal, max));
    }
    let from = goal / step * step;
    let starts = |range: std::ops::Range<usize>| range.filter(|at| at.is_multiple_of(step));
    let is_run =
        |at: &usize| at + wanted <= bits.len() && bits[*at..at + wanted].iter().all(|set| !set);
    let in_turn = || (from..bits.len()).chain(0..from);
    starts(from..bits.len())
        .chain(starts(0..from))
        .find(is_run)
        .or_else(|| in_turn().find(|at| !bits[*at]))
        .map(|first| naive_run(bits, first, max))
}

/// Bits in runs, so that long runs and whole bytes occur.
fn bits() -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec((any::<bool>(), prop_oneof![1usize..4, 1usize..12, 1usize..90]), 1..30)
        .prop_map(|stretches| {
            let mut bits: Vec<bool> =
                stretches.into_iter().flat_map(|(set, count)| vec![set; count]).collect();
            bits.truncate(1000);
            bits
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn as_bit_by_bit(bits in bits(), goal in 0u32..1010, max in 1u32..40, look_for in 1u32..100) {
        let (bytes, limit) = (pack(&bits), bits.len() as u32);
        let goal = goal % (limit + 10);
        let at = goal as usize;
        let found = goal_then_byte(&bytes, limit, goal, max);
        prop_assert_eq!(found, naive_goal_then_byte(&bits, at, max));
        prop_assert_eq!(byte_then_bit(&bytes, limit, max), naive_byte_then_bit(&bits, max));
        let found = goal_then_byte_start(&bytes, limit, goal, max);
        prop_assert_eq!(found, naive_goal_then(&bits, at, 8, 8, max));
        let found = goal_then_run(&bytes, limit, goal, look_for, max);
        prop_assert_eq!(found, naive_goal_then(&bits, at, look_for as usize, 1, max));
        let next = (at.min(bits.len())..bits.len()).find(|index| !bits[*index]);
        let found = sequential(&bytes, limit, goal, max);
        prop_assert_eq!(found, next.map(|first| naive_run(&bits, first, max)));
        let found = roomy(&bytes, limit, goal, max, look_for);
        prop_assert_eq!(found, naive_roomy(&bits, at, max, look_for));
    }

    #[test]
    fn what_is_found_is_free_and_inside(bits in bits(), goal in 0u32..1010, max in 1u32..40) {
        let (bytes, limit) = (pack(&bits), bits.len() as u32);
        let found = [
            goal_then_byte(&bytes, limit, goal, max),
            byte_then_bit(&bytes, limit, max),
            sequential(&bytes, limit, goal, max),
            roomy(&bytes, limit, goal, max, max),
        ];
        for found in found.into_iter().flatten() {
            prop_assert!((1..=max).contains(&found.length) && found.first + found.length <= limit);
            let mut indices = found.first..found.first + found.length;
            prop_assert!(indices.all(|index| !bits[index as usize]));
        }
    }
}

/// A bitmap of 256 bits with these set.
fn with_set(ranges: &[std::ops::Range<usize>]) -> Vec<u8> {
    let mut bits = vec![false; 256];
    ranges.iter().for_each(|range| bits[range.clone()].fill(true));
    pack(&bits)
}

#[test]
fn the_steps_of_ext2_in_turn() {
    let find = |ranges: &[std::ops::Range<usize>], goal| {
        goal_then_byte(&with_set(ranges), 256, goal, 8).map(|found| (found.first, found.length))
    };
    assert_eq!(find(&[], 10), Some((10, 8)), "1: the goal");
    assert_eq!(
        find(&[0..20, 22..30], 10),
        Some((20, 2)),
        "2: the next free bit below 64, and the free ones after it"
    );
    assert_eq!(
        find(&[10..64], 10),
        Some((64, 8)),
        "3: a free byte, though bits before the goal are free"
    );
    assert_eq!(
        find(&[10..67, 75..80], 10),
        Some((80, 8)),
        "3: not the 8 bits from 67 on, which fill no byte"
    );
    assert_eq!(find(&[10..67], 10), Some((67, 8)), "3: five bits back");
    assert_eq!(find(&[0..64, 65..72, 80..256], 10), Some((72, 8)), "3: no bit back");
    assert_eq!(find(&[0..70, 75..256], 10), Some((70, 5)), "4: any bit");
    assert_eq!(find(&[10..256], 10), None, "bits before the goal are for another round");
    assert_eq!(
        find(&[64..68, 70..72], 64),
        Some((72, 8)),
        "a goal on the boundary has no near bits: 68 is passed over"
    );
}
