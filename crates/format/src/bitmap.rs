//! Bitmaps of blocks and inodes: bit n of byte n/8 counts from the low end.
//!
//! A bitmap is a byte slice; bits past its end count as set, so that nothing is ever found or taken
//! there. Searches go a word of 64 bits at a time.

/// The word that holds bit `index`; bits past the end of the slice are set.
fn word(bitmap: &[u8], index: u32) -> u64 {
    let start = (index / 64).saturating_mul(8) as usize;
    let rest = bitmap.get(start..).unwrap_or_default();
    if let Some(whole) = rest.first_chunk::<8>() {
        return u64::from_le_bytes(*whole);
    }
    let mut padded = [0xff; 8];
    for (to, from) in padded.iter_mut().zip(rest) {
        *to = *from;
    }
    u64::from_le_bytes(padded)
}

/// Bits of the slice, as far as `u32` counts.
fn bits(bitmap: &[u8]) -> u32 {
    u32::try_from(bitmap.len().saturating_mul(8)).unwrap_or(u32::MAX)
}

/// Whether bit `index` is set. Out of range counts as set.
pub fn test(bitmap: &[u8], index: u32) -> bool {
    bitmap.get((index / 8) as usize).is_none_or(|byte| byte >> (index % 8) & 1 == 1)
}

/// The bytes that hold bits of `start..start + length`, each with the mask of those bits.
fn masked(bitmap: &mut [u8], start: u32, length: u32) -> impl Iterator<Item = (&mut u8, u8)> {
    let end = start.saturating_add(length).min(bits(bitmap));
    let start = start.min(end);
    let (first, last) = ((start / 8) as usize, end.div_ceil(8) as usize);
    let base = (start / 8).saturating_mul(8);
    let (lead, tail) = (start.saturating_sub(base), end % 8);
    let bytes = bitmap.get_mut(first..last).unwrap_or_default();
    let final_index = bytes.len().saturating_sub(1);
    bytes.iter_mut().enumerate().map(move |(index, byte)| {
        let from = if index == 0 { 0xffu8 << lead } else { 0xff };
        let to = if index == final_index && tail != 0 { !(0xffu8 << tail) } else { 0xff };
        (byte, from & to)
    })
}

/// Whether `start..start + length` is within the bitmap.
fn within(bitmap: &[u8], start: u32, length: u32) -> bool {
    start.checked_add(length).is_some_and(|end| end <= bits(bitmap))
}

/// Sets bits `start..start + length`; true if all were clear before (and in range).
#[must_use]
pub fn set_run(bitmap: &mut [u8], start: u32, length: u32) -> bool {
    let mut clear = within(bitmap, start, length);
    for (byte, mask) in masked(bitmap, start, length) {
        clear &= *byte & mask == 0;
        *byte |= mask;
    }
    clear
}

/// Clears bits `start..start + length`; true if all were set before (and in range).
#[must_use]
pub fn clear_run(bitmap: &mut [u8], start: u32, length: u32) -> bool {
    let mut set = within(bitmap, start, length);
    for (byte, mask) in masked(bitmap, start, length) {
        set &= *byte & mask == mask;
        *byte &= !mask;
    }
    set
}

/// The first bit in `from..limit` that is set after the words went through `flip`.
fn next(bitmap: &[u8], from: u32, limit: u32, flip: u64) -> Option<u32> {
    let limit = limit.min(bits(bitmap));
    let mut at = from;
    while at < limit {
        let shifted = (word(bitmap, at) ^ flip) >> (at % 64);
        if shifted != 0 {
            let found = at.saturating_add(shifted.trailing_zeros());
            return (found < limit).then_some(found);
        }
        at = (at / 64).saturating_add(1).saturating_mul(64);
    }
    None
}

/// The first clear bit in `from..limit`. Word at a time.
pub fn next_clear(bitmap: &[u8], from: u32, limit: u32) -> Option<u32> {
    next(bitmap, from, limit, u64::MAX)
}

/// The first set bit in `from..limit` (bits past the end of the slice are not searched).
pub fn next_set(bitmap: &[u8], from: u32, limit: u32) -> Option<u32> {
    next(bitmap, from, limit, 0)
}

/// The first byte that is all zero, whose bits are all in `from..limit` (from rounded up); gives
/// its first bit.
pub fn next_clear_byte(bitmap: &[u8], from: u32, limit: u32) -> Option<u32> {
    let first = from.div_ceil(8);
    let end = limit.min(bits(bitmap)) / 8;
    let bytes = bitmap.get(first as usize..end as usize)?;
    let found = bytes.iter().position(|byte| *byte == 0)?;
    u32::try_from(found).ok()?.checked_add(first)?.checked_mul(8)
}

/// Number of clear bits in `0..limit`.
pub fn count_clear(bitmap: &[u8], limit: u32) -> u32 {
    let limit = limit.min(bits(bitmap));
    let mut count = 0u32;
    for at in (0..limit).step_by(64) {
        let left = limit.saturating_sub(at);
        let mask = if left >= 64 { u64::MAX } else { !(u64::MAX << left) };
        count = count.saturating_add((!word(bitmap, at) & mask).count_ones());
    }
    count
}

/// The runs of clear bits in `0..limit`, as (first, length).
pub fn clear_runs(bitmap: &[u8], limit: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
    let limit = limit.min(bits(bitmap));
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = next_clear(bitmap, at, limit)?;
        at = next_set(bitmap, first, limit).unwrap_or(limit);
        Some((first, at.saturating_sub(first)))
    })
}
