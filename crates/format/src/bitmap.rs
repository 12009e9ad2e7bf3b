//! Bitmaps of blocks and inodes: bit n of byte n/8 counts from the low end.

/// Whether bit `index` is set. Out of range counts as set.
pub fn test(_bitmap: &[u8], _index: u32) -> bool {
    todo!()
}
/// Sets bits `start..start + length`; true if all were clear before.
#[must_use]
pub fn set_run(_bitmap: &mut [u8], _start: u32, _length: u32) -> bool {
    todo!()
}
/// Clears bits `start..start + length`; true if all were set before.
#[must_use]
pub fn clear_run(_bitmap: &mut [u8], _start: u32, _length: u32) -> bool {
    todo!()
}
/// The first clear bit in `from..limit`. Word at a time.
pub fn next_clear(_bitmap: &[u8], _from: u32, _limit: u32) -> Option<u32> {
    todo!()
}
/// The first set bit in `from..limit`.
pub fn next_set(_bitmap: &[u8], _from: u32, _limit: u32) -> Option<u32> {
    todo!()
}
/// The first byte that is all zero, whose bits all lie in `from..limit` (from rounded up); gives its first bit.
pub fn next_clear_byte(_bitmap: &[u8], _from: u32, _limit: u32) -> Option<u32> {
    todo!()
}
/// Number of clear bits in `0..limit`.
pub fn count_clear(_bitmap: &[u8], _limit: u32) -> u32 {
    todo!()
}
/// The runs of clear bits in `0..limit`, as (first, length).
pub fn clear_runs(_bitmap: &[u8], _limit: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
    std::iter::empty()
}
