//! Inputs, made of others by a seed: the same in every run.
use extant_testkit::numbers::Numbers;

/// Numbers at which fields break.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    3,
    7,
    8,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    u64::MAX,
];

/// No input is longer than this, in bytes.
const BYTES_MAX: usize = 1 << 18;

/// The input of this seed: one of those to begin with, changed in a few places; now and then
/// unchanged, or made of two.
pub fn input(begun: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut random = Numbers::new(seed);
    let Some(first) = pick(begun, &mut random) else {
        let length = random.below(2000) as usize;
        return random.bytes(length);
    };
    let mut bytes = first.clone();
    // The first few inputs of a target are those to begin with, as they are.
    if let Some(plain) = begun.get(seed as usize) {
        return plain.clone();
    }
    if random.below(8) == 0
        && let Some(other) = pick(begun, &mut random)
    {
        let (at, from) = (place(&bytes, &mut random), place(other, &mut random));
        bytes.truncate(at);
        bytes.extend(&other[from..]);
    }
    let most = 1 << random.below(6);
    for _ in 0..=random.below(most) {
        change(&mut bytes, &mut random);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn pick<'b>(begun: &'b [Vec<u8>], random: &mut Numbers) -> Option<&'b Vec<u8>> {
    begun.get(random.below(begun.len() as u64) as usize)
}

/// A place up to the end.
fn place(bytes: &[u8], random: &mut Numbers) -> usize {
    random.below(bytes.len() as u64 + 1) as usize
}

/// One change.
fn change(bytes: &mut Vec<u8>, random: &mut Numbers) {
    let at = place(bytes, random);
    match random.below(12) {
        0..=2 => flip(bytes, at, random),
        3 => set(bytes, at, random.draw(), 1),
        4..=6 => {
            let edge = EDGES[random.below(EDGES.len() as u64) as usize];
            set(bytes, at & !1, edge, 1 << random.below(4));
        }
        7 => add(bytes, at & !1, random),
        8 => {
            let length = random.below(16) as usize;
            let drawn = random.bytes(length);
            bytes.splice(at..at, drawn);
        }
        9 => {
            let end = (at + random.below(32) as usize).min(bytes.len());
            bytes.drain(at..end);
        }
        10 => copy(bytes, at, random),
        _ if random.below(8) == 0 => bytes.truncate(at),
        _ => fill(bytes, at, random),
    }
}

fn flip(bytes: &mut [u8], at: usize, random: &mut Numbers) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

/// Puts a number of so many bytes, in either order.
fn set(bytes: &mut [u8], at: usize, value: u64, width: usize) {
    let little = value.to_le_bytes();
    let width = width.min(little.len());
    for (to, from) in bytes.iter_mut().skip(at).zip(&little[..width]) {
        *to = *from;
    }
}

/// Makes a number of two bytes a little larger or smaller.
fn add(bytes: &mut [u8], at: usize, random: &mut Numbers) {
    if let Some(word) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) {
        let by = random.below(33) as u16;
        *word = u16::from_le_bytes(*word).wrapping_add(by).wrapping_sub(16).to_le_bytes();
    }
}

/// A part that is somewhere in it is there a second time, in the place of what was there.
fn copy(bytes: &mut [u8], to: usize, random: &mut Numbers) {
    let from = place(bytes, random);
    let length = random.below(64) as usize;
    let length = length.min(bytes.len() - from).min(bytes.len() - to);
    bytes.copy_within(from..from + length, to);
}

fn fill(bytes: &mut [u8], at: usize, random: &mut Numbers) {
    let value = [0, 0xff, random.draw() as u8][random.below(3) as usize];
    let length = random.below(24) as usize;
    bytes.iter_mut().skip(at).take(length).for_each(|byte| *byte = value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_gives_one_input_and_seeds_give_many() {
        let begun = [b"something to begin with".to_vec(), vec![0; 300]];
        let all: BTreeSet<Vec<u8>> = (0..500).map(|seed| input(&begun, seed)).collect();
        assert!(all.len() > 450, "{} of 500", all.len());
        assert!((0..500).all(|seed| all.contains(&input(&begun, seed))));
        assert_eq!([input(&begun, 0), input(&begun, 1)], begun);
        assert!(!input(&[], 3).is_empty());
    }
}
