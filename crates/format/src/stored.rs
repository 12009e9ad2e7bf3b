//! Numbers at byte offsets of stored bytes, for the views that check nothing: what is past the end
//! is 0. Offsets come from `offset_of!` of the structures, and so are constants.

/// The byte at an offset.
#[inline]
pub(crate) fn byte_at(bytes: &[u8], offset: usize) -> u8 {
    bytes.get(offset).copied().unwrap_or(0)
}

/// The 16 bits at a byte offset.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    let word = bytes.get(offset..).and_then(|rest| rest.first_chunk::<2>());
    word.map_or(0, |word| u16::from_le_bytes(*word))
}

/// The 32 bits at a byte offset.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let word = bytes.get(offset..).and_then(|rest| rest.first_chunk::<4>());
    word.map_or(0, |word| u32::from_le_bytes(*word))
}

/// The 64 bits at a byte offset.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let word = bytes.get(offset..).and_then(|rest| rest.first_chunk::<8>());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}
