//! Little-endian words of bytes from the disk. What lies past the end is 0.

/// The 16 bits at a byte offset.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>());
    word.map_or(0, |word| u16::from_le_bytes(*word))
}

/// The 32 bits at a byte offset.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    word.map_or(0, |word| u32::from_le_bytes(*word))
}
